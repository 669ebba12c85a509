"""Commands about the program itself: its settings (``config``), its documents (``docs``), and what
a shell needs to complete its commands (``completion``).
"""

from __future__ import annotations

import json
import sys

import click
from click.shell_completion import get_completion_class

from pgcron_ha.cli.arguments import JsonCommand, flag
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo, echo_file, print_result
from pgcron_ha.config.loading import load_settings, shown
from pgcron_ha.config.setting import Setting
from pgcron_ha.config.settings import SETTINGS
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.documents import SECTIONS, documents
from pgcron_ha.errors import InvalidInput


@click.command("config", cls=JsonCommand)
@flag("--explain", "Also the default, the variable and the meaning.")
@flag("--print-dsn", "Only the DSN with its password, for psql.")
def config_command(explain: bool, print_dsn: bool) -> None:
    """Show the settings and where each comes from."""
    sources = command_context().read()
    if print_dsn:
        dsn = load_settings(sources).required_dsn()
        print_result({"dsn": dsn}, dsn)
        return
    for setting in SETTINGS:
        given = sources.values[setting.key]
        described = {
            "key": setting.key,
            "value": _visible(setting, given.raw),
            "origin": given.origin,
            "default": _visible(setting, setting.raw_default()),
            "variable": setting.variable,
            "help": setting.help,
        }
        line = f"{setting.key} = {_toml(described['value'])}  # {given.origin}"
        default = f"default {_toml(described['default'])}, variable {setting.variable}"
        more = f"\n    {setting.help}\n    {default}\n" if explain else ""
        print_result(described, line + more)
    # Shown first and checked last, so that the origin of a wrong value is printed, too.
    settings = load_settings(sources)
    for kind, tables in (*sources.tables.items(), *settings.plugins.items()):
        for name in tables:
            echo(f"[{kind}.{name}]  # {sources.file}")


def _toml(visible: object) -> str:
    return "(none)" if visible is None else json.dumps(visible, ensure_ascii=False)


def _visible(setting: Setting, raw: object) -> object:
    """The value itself where JSON and TOML have it, its text otherwise, never a password."""
    if not raw or (not setting.is_secret and isinstance(raw, bool | int | float | list | dict)):
        return raw
    return shown(setting, str(raw))


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


@click.command("docs")
@click.argument("page", required=False)
def docs_command(page: str | None) -> None:
    """List the documents, or read PAGE.

    `pgcron-ha web` serves them, too, at /docs.
    """
    pages = documents()
    if page is None:
        width = max(map(len, pages))
        for section, heading in SECTIONS.items():
            echo(f"{heading}:")
            for each in pages.values():
                if each.section == section:
                    echo(f"  {each.name:<{width}}  {each.title}")
        return
    if page not in pages:
        raise InvalidInput(
            f"there is no document '{page[:100]}'{did_you_mean(page, pages)}",
            "A document is named as its file is, without the ending.",
            "List them: pgcron-ha docs.",
        )
    text = pages[page].text
    if sys.stdout.isatty():
        click.echo_via_pager(text)
    else:
        echo(text, nl=False)
