"""``pgcron-ha breakers``: list, set, reset and delete circuit breakers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import (
    Column,
    echo,
    json_option,
    limit_option,
    plural,
    print_json,
    print_rows,
)
from pgcron_ha.cli.session import on_database
from pgcron_ha.config.values import format_duration
from pgcron_ha.db.commands import breakers

COLUMNS: Final = (
    Column("BREAKER", "name", 32),
    Column("STATE", "state"),
    Column("UNTIL", "open_until"),
    Column("WAITING", "waiting"),
    Column("WHY", "reason", 60),
    Column("LAST ERROR", "last_error", 60),
    Column("OPENS AFTER", "opens_after"),
    Column("FALLBACK", "fallback", 32),
    Column("SET BY", "set_by", 16),
)


@click.group("breakers")
def breakers_group() -> None:
    """Circuit breakers: stop running handlers that keep failing."""


@breakers_group.command("list")
@limit_option()
@json_option
def list_command(limit: int, as_json: bool) -> None:
    """List circuit breakers, those that are open first."""
    rows = on_database(lambda s: breakers.breakers(s.connection, limit=limit, schema=s.schema))
    if not as_json:
        rows = [{**row, **_words(row)} for row in rows]
    print_rows(rows, COLUMNS, as_json, "no breakers")


@breakers_group.command("set")
@click.argument("handler")
@click.option("--failures", type=click.IntRange(1, 100), default=5, show_default=True)
@click.option("--within", default="1m", show_default=True, help="How long a failure counts.")
@click.option(
    "--open-for", default="30s", show_default=True, help="How long the breaker stays open."
)
@click.option("--at-most", help="Each failed probe doubles that time, up to this. Default: 10m.")
@click.option("--fallback-handler", metavar="HANDLER", help="Runs them while the breaker is open.")
@click.option("--fallback-queue", metavar="QUEUE", help="Queue for them while the breaker is open.")
@click.option("--share", "shares", multiple=True, metavar="HANDLER", help="One that shares it.")
@json_option
def set_command(handler: str, as_json: bool, **given: Any) -> None:
    """Leave HANDLER alone after so many failures within a time, then probe it run by run.

    What is set here counts before what nodes declare.
    """
    within, open_for, at_most = (
        arguments.duration(option, given[key])
        for option, key in (
            ("--within", "within"),
            ("--open-for", "open_for"),
            ("--at-most", "at_most"),
        )
    )
    on_database(
        lambda s: breakers.set_breaker(
            s.connection,
            handler,
            given["failures"],
            within or timedelta(minutes=1),
            open_for or timedelta(seconds=30),
            open_for_at_most=at_most,
            fallback_handler=given["fallback_handler"],
            fallback_queue=given["fallback_queue"],
            handlers=given["shares"],
            actor=s.actor,
            schema=s.schema,
        )
    )
    if as_json:
        print_json({"breaker": handler, "failures": given["failures"]})
    else:
        failures = plural(given["failures"], "failure")
        echo(f"breaker '{handler}' opens after {failures} in {given['within']}")


@breakers_group.command("reset")
@click.argument("breaker")
@json_option
def reset_command(breaker: str, as_json: bool) -> None:
    """Close BREAKER now: the runs that wait for it go."""
    was_open = on_database(
        lambda s: breakers.reset_breaker(s.connection, breaker, actor=s.actor, schema=s.schema)
    )
    if as_json:
        print_json({"breaker": breaker, "state": "closed", "was_open": was_open})
    else:
        echo(f"breaker '{breaker}' {'is closed' if was_open else 'was closed already'}")


@breakers_group.command("delete")
@click.argument("breaker")
@json_option
def delete_command(breaker: str, as_json: bool) -> None:
    """Delete BREAKER; a node that declares it makes it again when it starts."""
    on_database(lambda s: breakers.delete_breaker(s.connection, breaker, schema=s.schema))
    if as_json:
        print_json({"breaker": breaker, "is_set": False})
    else:
        echo(f"there is no breaker '{breaker}' any more")


def _words(row: dict[str, Any]) -> dict[str, Any]:
    within = format_duration(row["within"])
    return {
        "opens_after": f"{row['failures']} in {within}",
        "fallback": row["fallback_handler"] or row["fallback_queue"],
        "set_by": row["set_by"] or "nodes",
    }
