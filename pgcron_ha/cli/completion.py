"""``pgcron-ha completion``: what a shell needs to complete commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pgcron_ha.cli.output import echo_file


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the completion script of SHELL, to be kept where it looks for it.

    \b
    bash  pgcron-ha completion bash > /etc/bash_completion.d/pgcron-ha
          or: echo 'eval "$(pgcron-ha completion bash)"' >> ~/.bashrc
    zsh   echo 'eval "$(pgcron-ha completion zsh)"' >> ~/.zshrc
    fish  pgcron-ha completion fish > ~/.config/fish/completions/pgcron-ha.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    program = kind(context.find_root().command, {}, "pgcron-ha", "_PGCRON_HA_COMPLETE")
    echo_file(program.source())
