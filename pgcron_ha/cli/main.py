"""``pgcron-ha``: the group, its global options, and how every error is printed.

Exit codes: 0 done, 1 refused or failed (error, detail, hint on stderr), 2 wrong usage, 130 stopped
by Ctrl-C.
"""

from __future__ import annotations

import errno
import pkgutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pgcron_ha.cli.context import CommandContext, refuse_password
from pgcron_ha.cli.output import echo, output_failed, print_json
from pgcron_ha.errors import PgcronError

FAILED = 1
INTERRUPTED = 130
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


# Where each command is and what it does, so that ``--help`` imports none of them.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo:demo_command", "Watch two nodes work on an embedded PostgreSQL."),
    "dev": ("node:dev_command", "Run one node on an embedded PostgreSQL, for developing."),
    "node": ("node:node_command", "Run a node until it is stopped."),
    "web": ("web:web_command", "Serve the pages, the probes and the metrics."),
    "migrate": ("migrate:migrate_command", "Bring the schema up to this version."),
    "schedules": ("schedules:schedules_group", "List, define, pause, explain schedules."),
    "backfills": ("backfills:backfills_group", "Show, pause, resume and stop backfills."),
    "calendars": ("calendars:calendars_group", "Holidays and other days that schedules share."),
    "assets": ("assets:assets_group", "Assets whose updates run schedules."),
    "next": ("next:next_command", "Print the fire times of a spec."),
    "enqueue": ("enqueue:enqueue_command", "Enqueue a run of a handler, or a file of runs."),
    "runs": ("runs:runs_group", "List, show, cancel, kill, retry runs; read their logs."),
    "workflows": ("workflows:workflows_group", "List, show, start workflows; decide about steps."),
    "dead": ("dead:dead_group", "List dead letters and send them again."),
    "cluster": ("queues:cluster_group", "Pause and resume everything."),
    "queues": ("queues:queues_group", "List, limit, pause and resume queues."),
    "concurrency": ("queues:concurrency_group", "Concurrency keys: limit the runs that share one."),
    "breakers": ("breakers:breakers_group", "Circuit breakers of handlers that keep failing."),
    "retention": ("storage:retention_group", "Show and set how long records are kept."),
    "audit": ("audit:audit_group", "Who did what: list and export it."),
    "nodes": ("nodes:nodes_group", "List the nodes and their leases; drain them."),
    "users": ("users:users_group", "Users of the pages, and their sessions."),
    "tokens": ("users:tokens_group", "Tokens with which programs use the pages' addresses."),
    "status": ("status:status_command", "Show what the cluster does and what waits."),
    "storage": ("storage:storage_command", "Show how large the tables are."),
    "doctor": ("doctor:doctor_command", "Check the database, the schema, the settings."),
    "secrets": ("secrets:secrets_group", "Encrypt, rotate and show secret args."),
    "erase": ("secrets:erase_command", "Erase what runs have of a person."),
    "roles": ("users:roles_group", "Roles of users on the pages; what teams own."),
    "grants": ("grants:grants_command", "Print the SQL that gives a role its rights."),
    "docs": ("program:docs_command", "Read the documents."),
    "config": ("program:config_command", "Show the settings and where each comes from."),
    "completion": ("program:completion_command", "Print the completion script of a shell."),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; only a bug raises."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        result = cli.main(args=given, prog_name="pgcron-ha", standalone_mode=False)
    except PgcronError as error:
        print_error(error, as_json=_wants_json(given))
        return FAILED
    except OSError as error:  # of --help and --version, which click writes itself
        if error.errno not in _NO_ROOM:
            raise
        print_error(output_failed(error), as_json=_wants_json(given))
        return FAILED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except click.Abort:
        echo("stopped", err=True)
        return INTERRUPTED
    # A command may return its exit code; click itself does so for --help and ctx.exit().
    return result if isinstance(result, int) else 0


class LazyGroup(click.Group):
    """A group that imports a command's module when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now; None when there is none."""
        if cmd_name not in COMMANDS:
            return None
        place, _ = COMMANDS[cmd_name]
        return _with_global_options(pkgutil.resolve_name(f"pgcron_ha.cli.{place}"))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The table of commands, from their summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _take_global(context: click.Context, option: click.Parameter, value: Any) -> None:
    """Notes a global option, wherever in the command it was given."""
    if value is None:
        return
    given = context.find_object(CommandContext) or CommandContext()
    if option.name == "config":
        context.obj = replace(given, config_file=value)
        return
    if option.name == "dsn":
        others = "~/.pgpass, a service file or password_from"
        refuse_password("--dsn", value, f"Set PGCRON_HA_DSN instead, or leave it to {others}.")
    context.obj = replace(given, flags={**given.flags, str(option.name): value})


def _global_options(**shown: Any) -> list[click.Parameter]:
    def option(name: str, metavar: str, words: str, kind: Any = str) -> click.Option:
        more = {"expose_value": False, "callback": _take_global, **shown}
        return click.Option([name], type=kind, metavar=metavar, help=words, **more)

    path = click.Path(path_type=Path, dir_okay=False)
    file = "The configuration file; without it ./pgcron-ha.toml, if that exists."
    return [
        option("--config", "FILE", file, path),
        option("--dsn", "URL", "The database: postgresql://user@host/name."),
        option("--schema", "NAME", "The schema of the tables."),
    ]


def _with_global_options(command: click.Command) -> click.Command:
    """The command, which takes global options, too, as do its own."""
    if not any(each.name == "dsn" for each in command.params):
        command.params += _global_options(hidden=True)
        for each in command.commands.values() if isinstance(command, click.Group) else ():
            _with_global_options(each)
    return command


@click.group(
    cls=LazyGroup,
    commands=[click.Command(name) for name in COMMANDS],  # click suggests one for a misspelled name
    context_settings={"help_option_names": ["-h", "--help"]},
    params=_global_options(),
)
@click.version_option(
    package_name="pgcron-ha", message="%(prog)s %(version)s", help="Print the version and end."
)
def cli() -> None:
    """Cron and background jobs on PostgreSQL alone: equal nodes, no leader.

    The options may also stand after the command.
    """


def _wants_json(arguments: Sequence[str]) -> bool:
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def print_error(error: PgcronError, as_json: bool = False) -> None:
    """Its sentences on stderr, or one JSON document there."""
    if as_json:
        print_json({"error": error.as_json()}, err=True)
        return
    page = error.page and f"pgcron-ha docs {error.page}"
    said = {"error": error.message, "detail": error.detail, "hint": error.hint, "read": page}
    for label, sentence in said.items():
        if sentence is not None:
            echo(f"{label}: {sentence}", err=True)
