"""Checks of `pgcron-ha doctor`: what nodes say is wrong with their services."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pgcron_ha.cli.doctor_checks import Diagnosis, Finding
from pgcron_ha.cli.output import shown
from pgcron_ha.db.queries.blocking import holding_words, session_words
from pgcron_ha.db.queries.node_health import (
    LONG_SECONDS,
    Failing,
    Without,
    merged,
    read_health,
    without_words,
)
from pgcron_ha.db.queries.overview import Row


def check_services(found: Diagnosis) -> Iterator[Finding]:
    """Services whose passes do not succeed, and what others go on without."""
    health = [(node["name"], read_health(node)) for node in found.nodes]
    for nodes, cause in merged(health):
        where = f"node{'s' if len(nodes) > 1 else ''} {', '.join(nodes)}"
        yield _failing(where, cause) if isinstance(cause, Failing) else _without(where, cause)
    more = sum(each.more for _, each in health)
    if more:
        yield Finding("set aside", "problem", f"{more} more", "The logs of the nodes name them.")


def check_blocking(found: Diagnosis) -> Iterator[Finding]:
    """Sessions that keep nodes waiting for a lock."""
    return blocked(found.blocking)


def blocked(rows: Sequence[Row]) -> Iterator[Finding]:
    """A finding for each session of `blocking_sessions`."""
    for row in rows:
        doing = f"; its statement: {shown(row['statement'])}" if row["statement"] else ""
        ending = f"SELECT pg_terminate_backend({row['process_id']});"
        yield Finding(
            "locks",
            "problem" if row["waiting"] else "advice",
            f"{session_words(row)} {holding_words(row)}{doing}",
            "What waits goes on when its transaction ends: "
            + (ending if row["process_id"] else "COMMIT PREPARED or ROLLBACK PREPARED."),
        )


def _failing(where: str, each: Failing) -> Finding:
    return Finding(
        "services",
        "problem",
        f"{each.service} of {where}: no pass has succeeded for {each.seconds:.0f} s: {each.error}",
        f"{each.consequence} It goes on by itself once the cause is gone.".strip(),
    )


def _without(where: str, each: Without) -> Finding:
    return Finding(
        "set aside",
        "problem" if each.seconds > LONG_SECONDS else "advice",
        f"{each.what}: on {where} {without_words(each)}",
        "It is tried again by itself, after five minutes at most.",
    )


NODES: Final[tuple[Callable[[Diagnosis], Iterator[Finding]], ...]] = (
    check_blocking,
    check_services,
)
