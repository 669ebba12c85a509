"""``pgcron-ha breakers``: list, set, reset and delete circuit breakers."""

from __future__ import annotations

from typing import Any, Final

import click

from pgcron_ha.cli.arguments import DURATION, JsonGroup, limit_option, option
from pgcron_ha.cli.output import columns, plural, print_result, print_rows, shown
from pgcron_ha.cli.session import act, call
from pgcron_ha.db.commands import cluster

COLUMNS: Final = columns(
    "BREAKER=name:32 STATE UNTIL=open_until WAITING WHY=reason:60 LAST_ERROR:60 OPENS_AFTER"
    " FALLBACK:32 SET_BY:16",
    OPENS_AFTER=lambda row: f"{row['failures']} in {shown(row['within'])}",
    FALLBACK=lambda row: row["fallback_handler"] or row["fallback_queue"],
    SET_BY=lambda row: row["set_by"] or "nodes",
)


@click.group("breakers", cls=JsonGroup)
def breakers_group() -> None:
    """Circuit breakers: stop running handlers that keep failing."""


@breakers_group.command("list")
@limit_option()
def list_command(limit: int) -> None:
    """List circuit breakers, those that are open first."""
    print_rows(call(cluster.breakers, limit=limit), COLUMNS, "no breakers")


@breakers_group.command("set")
@click.argument("handler")
@option("--failures", "How many failures open it.", click.IntRange(1, 100), default=5)
@option("--within", "How long a failure counts.", DURATION, default="1m")
@option("--open-for", "How long the breaker stays open.", DURATION, default="30s")
@option(
    "--open-for-at-most", "Each failed probe doubles that time, up to this. Default: 10m.", DURATION
)
@option("--fallback-handler HANDLER", "Runs them while the breaker is open.")
@option("--fallback-queue QUEUE", "Queue for them while the breaker is open.")
@option("--share HANDLER", "A handler that shares it.", into="handlers", multiple=True)
def set_command(handler: str, **given: Any) -> None:
    """Stop running HANDLER when too many of its runs fail.

    After so many failures within a time; then it is probed run by run. What is set here counts
    before what nodes declare.
    """
    act(cluster.set_breaker, handler, **given)
    failures = plural(given["failures"], "failure")
    print_result(
        {"breaker": handler, "failures": given["failures"]},
        f"breaker '{handler}' opens after {failures} in {shown(given['within'])}",
    )


@breakers_group.command("reset")
@click.argument("breaker")
def reset_command(breaker: str) -> None:
    """Close BREAKER now: the runs that wait for it become ready."""
    was_open = act(cluster.reset_breaker, breaker)
    print_result(
        {"breaker": breaker, "state": "closed", "was_open": was_open},
        f"breaker '{breaker}' {'is closed' if was_open else 'was closed already'}",
    )


@breakers_group.command("delete")
@click.argument("breaker")
def delete_command(breaker: str) -> None:
    """Delete BREAKER.

    A node that declares it makes it again when it starts.
    """
    act(cluster.delete_breaker, breaker)
    print_result({"breaker": breaker, "is_set": False}, f"there is no breaker '{breaker}' any more")
