"""More checks of `pgcron-ha doctor`: who may what, gaps, and locks that are held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any, Final

from pgcron_ha.cli.doctor_checks import Diagnosis, Finding, Level
from pgcron_ha.cli.output import shown

_MUCH_USAGE: Final = 0.25

# Kind of `health.excess_privileges`: how bad, what is said, what to do.
_EXCESS: Final[dict[str, tuple[Level, str, str]]] = {
    "creates": (
        "problem",
        "{who} may create objects in schema {name}",
        "As the owner: REVOKE CREATE ON SCHEMA {name} FROM {who}; only nodes make anything there.",
    ),
    "public reads": (
        "advice",
        "everybody may read {name}",
        "As the owner: REVOKE ALL ON {name} FROM PUBLIC; `pgcron-ha grants viewer` lets one look.",
    ),
    "public writes": (
        "problem",
        "everybody has {who} on {name}",
        "As the owner: REVOKE ALL ON {name} FROM PUBLIC; `pgcron-ha grants` has what parts need.",
    ),
    "public executes": (
        "problem",
        "everybody may execute {name} with its owner's rights",
        "As the owner: REVOKE ALL ON FUNCTION {name} FROM PUBLIC;",
    ),
    "loose path": (
        "problem",
        "{name} has its owner's rights ({who}) and looks where its caller says",
        "As the owner: ALTER FUNCTION {name} SET search_path = pg_catalog, pg_temp;",
    ),
    "other owner": (
        "problem",
        "{name} is of {who}, not of the owner of the other objects",
        "As a superuser: {remedy}",
    ),
    "default rights": (
        "advice",
        "new {name} of the schema's owner are for {who}, too: so is each new partition",
        "As the owner: {remedy} Those that are made already keep them: see \\dp of psql.",
    ),
}


def check_role(found: Diagnosis) -> Iterator[Finding]:
    """Whether the DSN's role could run a node here, with no more than it takes."""
    role = found.role
    name, owner = role["name"], role["owner"]
    if role["is_superuser"] or role["passes_policies"]:
        yield Finding(
            "role",
            "advice",
            f"{name} is a superuser or passes row security",
            "A node needs neither: give it a role that owns the schema and nothing else.",
        )
    elif not role["is_owner"]:
        yield Finding("role", "ok", f"{name} can read; nodes connect as {owner} or a member of it")
    elif not role["makes_partitions"]:
        yield Finding(
            "role",
            "problem",
            f"{name} may not make partitions: it lacks CREATE on the schema",
            f"As its owner: GRANT CREATE ON SCHEMA {found.settings.schema} TO {owner};",
        )
    else:
        yield Finding("role", "ok", f"{name} has the rights of the owner and is no superuser")


def check_privileges(found: Diagnosis) -> Iterator[Finding]:
    """Rights in the schema that somebody added, and objects of other owners."""
    for row in found.excess_privileges:
        level, message, hint = _EXCESS[row["kind"]]
        yield Finding("privileges", level, message.format(**row), hint.format(**row))
    if not found.excess_privileges:
        yield Finding("privileges", "ok", "no excess privileges")


def check_partition_gaps(found: Diagnosis) -> Iterator[Finding]:
    """Partitions that somebody dropped out of the row."""
    for gap in found.partition_gaps:
        schema, relation = found.settings.schema, gap["relation"]
        since, until = gap["since"], gap["until"]
        detached = [
            stray
            for stray in found.stray_partitions
            if stray["relation"] == relation and stray["low"] < until and stray["high"] > since
        ]
        yield Finding(
            "partitions",
            "problem",
            f"{relation} has none from {shown(since)} to {shown(until)}",
            f"{detached[0]['partition']} was detached: {_attaching(schema, detached[0])}"
            if detached
            else f"This makes one: SELECT {schema}.add_partition('{relation}',"
            f" '{since.isoformat()}', '{until.isoformat()}')",
        )


def check_stray_partitions(found: Diagnosis) -> Iterator[Finding]:
    """Partitions that are detached, or half so, and still there."""
    schema = found.settings.schema
    for stray in found.stray_partitions:
        table = f"{schema}.{stray['partition']}"
        level: Level = "advice"
        if stray["is_pending"]:
            message = "is half detached: nobody sees its rows"
            hint = f"A node ends it within the hour; now: {_finalizing(schema, stray)}"
        elif not stray["is_outlived"]:
            level = "problem"
            message = "is detached: nobody sees its rows"
            hint = f"This brings them back: {_attaching(schema, stray)}"
        elif stray["was_own"]:
            message = "is detached and not dropped yet"
            hint = f"A node does it within the hour, once nobody reads it; now: DROP TABLE {table};"
        else:
            message = "is detached, and older than what is kept"
            hint = f"No node drops it; nobody but you knows what it is for: DROP TABLE {table};"
        yield Finding("partitions", level, f"{stray['partition']} {message}", hint)


def _finalizing(schema: str, stray: dict[str, Any]) -> str:
    relation, partition = stray["relation"], stray["partition"]
    return f"ALTER TABLE {schema}.{relation} DETACH PARTITION {schema}.{partition} FINALIZE;"


def _attaching(schema: str, stray: dict[str, Any]) -> str:
    bounds = f"FROM ('{stray['low'].isoformat()}') TO ('{stray['high'].isoformat()}')"
    relation, partition = stray["relation"], stray["partition"]
    attach = f"ALTER TABLE {schema}.{relation} ATTACH PARTITION {schema}.{partition}"
    begin = f"{_finalizing(schema, stray)} " if stray["is_pending"] else ""
    return f"{begin}{attach} FOR VALUES {bounds};"


def check_locks(found: Diagnosis) -> Iterator[Finding]:
    """Sessions that sit on locks for which there are no privileges."""
    for holder in found.lock_holders:
        lasting = timedelta(seconds=int(holder["seconds"]))
        yield Finding(
            "locks",
            "problem",
            f"session {holder['name']} holds an advisory lock of the engine's for {lasting}",
            "Lanes, limited queues or new partitions wait for it: "
            f"SELECT pg_terminate_backend({holder['process_id']});",
        )


def check_notifications(found: Diagnosis) -> Iterator[Finding]:
    """The server's queue of notifications, of which a listener that is idle keeps the end."""
    usage, open_ones = found.notification_queue["usage"], found.notification_queue["open"]
    if usage < _MUCH_USAGE:
        return
    yield Finding(
        "notifications",
        "problem",
        f"the server's queue of notifications is {usage:.0%} full; from half of it on nodes are"
        " not woken, and look at each poll interval",
        "A session that listens keeps it and has a transaction open: the oldest are "
        f"{'; '.join(open_ones) or 'not shown to this role'}. End it: SELECT"
        " pg_terminate_backend(PID);",
    )


RIGHTS: Final[tuple[Callable[[Diagnosis], Iterator[Finding]], ...]] = (
    check_role,
    check_privileges,
    check_partition_gaps,
    check_stray_partitions,
    check_locks,
    check_notifications,
)
