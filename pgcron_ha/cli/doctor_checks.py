"""The checks of `pgcron-ha doctor`: what was read from the server, judged; pure functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple

from pgcron_ha.cli.output import plural, shown
from pgcron_ha.client.verifying import Proof
from pgcron_ha.config.settings import Settings
from pgcron_ha.db.driver.revision import NEWEST
from pgcron_ha.spec.zones import TZDATA

# When the project's last minor release of a major version is due.
END_OF_LIFE: Final = {
    14: date(2026, 11, 12),
    15: date(2027, 11, 11),
    16: date(2028, 11, 9),
    17: date(2029, 11, 8),
    18: date(2030, 11, 14),
}
NOTICE_OF_END: Final = timedelta(days=180)
SHORTEST_ADVISED_LEASE: Final = 5.0
MOST_CLOCK_DIFFERENCE: Final = 1.0
FREE_CONNECTIONS: Final = 10
PARTITIONS_AHEAD: Final = timedelta(days=1)
MOST_BREAKS: Final = 20

Level = Literal["ok", "advice", "problem"]


class Finding(NamedTuple):
    """One line of the report."""

    check: str
    level: Level
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class Diagnosis:
    """What was read; rows as `pgcron_ha.db.queries.health` and `overview` give them."""

    settings: Settings
    server: dict[str, Any]
    revision: str
    clock_difference: float
    snapshot_holders: list[dict[str, Any]]
    idle_slots: list[dict[str, Any]]
    without_autovacuum: list[dict[str, Any]]
    risks: dict[str, Any]
    zones: dict[str, Any]
    parked: list[dict[str, Any]]
    invalid: list[dict[str, Any]]
    unaccounted: list[dict[str, Any]]
    ledger: Proof
    broken_indexes: list[dict[str, Any]]
    dead_rows: list[dict[str, Any]]
    swollen_indexes: list[dict[str, Any]]
    spent_days: list[dict[str, Any]]
    is_pooled: bool
    wraparound: dict[str, Any]
    never_vacuumed: list[dict[str, Any]]
    partition_gaps: list[dict[str, Any]]
    stray_partitions: list[dict[str, Any]]
    excess_privileges: list[dict[str, Any]]
    role: dict[str, Any]
    lock_holders: list[dict[str, Any]]
    blocking: list[dict[str, Any]]
    notification_queue: dict[str, Any]
    nodes: list[dict[str, Any]]
    heard: float | str | None
    """By listen_dsn: see `listen_past`."""


def check_server(found: Diagnosis) -> Iterator[Finding]:
    """Version, role in replication, durability."""
    server = found.server
    yield _judged_version(server)
    if server["is_read_only"]:
        yield Finding(
            "server",
            "problem",
            "default_transaction_read_only is on",
            "No node joins and nothing can be enqueued. If that is not meant: SET "
            "default_transaction_read_only = off; or no ALTER is taken either; then ALTER DATABASE "
            "… RESET, ALTER ROLE … RESET, or ALTER SYSTEM RESET (\\drds of psql shows where).",
        )
    if server["is_standby"]:
        yield Finding(
            "server",
            "problem",
            "the server is a standby",
            "Add target_session_attrs=read-write to the DSN, with all hosts.",
        )
    if server["careless"]:
        off = " and ".join(server["careless"])
        yield Finding(
            "durability",
            "advice",
            f"{off} {'are' if len(server['careless']) > 1 else 'is'} off",
            "A crash of the machine can lose or double runs, or spoil the database: "
            + " ".join(f"ALTER SYSTEM SET {name} = on;" for name in server["careless"])
            + " SELECT pg_reload_conf();",
        )
    if server["synchronous_commit"] == "off":
        yield Finding(
            "durability",
            "advice",
            "synchronous_commit is off where sessions begin",
            "Nodes set it for themselves, but a crash may lose what a client saw "
            "committed: ALTER DATABASE … RESET, ALTER ROLE … RESET (\\drds of psql shows where it "
            "is), or ALTER SYSTEM RESET synchronous_commit; SELECT pg_reload_conf();",
        )
    if server["wal_level"] == "minimal":
        yield Finding(
            "durability",
            "advice",
            "wal_level is minimal: no standby and no archive is possible",
            "With the machine's disk all runs are gone: ALTER SYSTEM SET wal_level = replica; and "
            "ALTER SYSTEM RESET max_wal_senders; restart the server, then add a standby.",
        )


def _judged_version(server: dict[str, Any]) -> Finding:
    version, today = f"PostgreSQL {server['version']}", server["now"].date()
    until = END_OF_LIFE.get(server["major"])
    if until is None or today < until - NOTICE_OF_END:
        return Finding("server", "ok", version)
    ends = "has had no corrections since" if today > until else "gets its last corrections on"
    return Finding(
        "server",
        "advice",
        f"{version} {ends} {until}",
        "Upgrade: pg_upgrade, or dump and restore; nodes may stay up, they wait for it.",
    )


def check_schema(found: Diagnosis) -> Iterator[Finding]:
    """The revision (judged before) and partitions made ahead."""
    ends, now = found.risks["partitions_end"], found.server["now"]
    yield _judged_revision(found.settings.schema, found.revision)
    if ends is None or ends < now + PARTITIONS_AHEAD:
        yield Finding(
            "partitions",
            "problem",
            f"partitions are made up to {shown(ends)} only",
            f"Nodes make them; now: SELECT {found.settings.schema}.ensure_partitions();",
        )
    if found.risks["overflow"]:
        yield Finding(
            "partitions",
            "problem",
            f"history_overflow has {found.risks['overflow']} rows: they found no partition",
            "A node's janitor moves them; look at the logs of the nodes if they stay.",
        )


def _judged_revision(schema: str, revision: str) -> Finding:
    if revision == NEWEST:
        return Finding("schema", "ok", f"'{schema}' is as this version brings it")
    reported = f"'{schema}' is at revision {revision}; this version brings {NEWEST}"
    if revision > NEWEST:
        return Finding("schema", "ok", f"{reported}, and works with it")
    return Finding(
        "schema",
        "advice",
        f"{reported} and works with it, but for what is new",
        "`pgcron-ha migrate` brings it, while nodes of this version and the one before go on.",
    )


def check_storage(found: Diagnosis) -> Iterator[Finding]:
    """Indexes that are broken or swollen, and tables of dead rows."""
    for index in found.broken_indexes:
        yield Finding(
            "indexes",
            "problem",
            f"{index['name']} of {index['relation']} is not valid: no statement uses it",
            _mended(index),
        )
    for index in found.swollen_indexes:
        size = index["bytes"] // 2**20
        yield Finding(
            "indexes",
            "advice",
            f"{index['name']} has {size:,} MiB for {plural(index['entries'], 'entry')}",
            f"REINDEX INDEX CONCURRENTLY {index['name']}; nodes may go on meanwhile.",
        )
    for table in found.dead_rows:
        when = table["vacuumed_at"]
        yield Finding(
            "dead rows",
            "advice",
            f"{table['name']} has {table['dead']:,} dead rows and {table['living']:,} living; "
            + ("it was never vacuumed" if when is None else f"vacuumed {shown(when)}"),
            "See who holds an old snapshot above; if nobody does, VACUUM it, and give autovacuum"
            " more workers.",
        )
    for day in found.spent_days:
        yield Finding(
            "retention",
            "advice",
            f"{day['name']} has {day['bytes'] // 2**20:,} MiB for"
            f" {plural(day['remaining'], 'run')} that its rules have left",
            f"It is dropped {shown(day['dropped_at'])}; VACUUM FULL {day['name']} gives the room"
            " back now, and keeps who reads runs of that day waiting meanwhile.",
        )
    if not (found.broken_indexes or found.swollen_indexes or found.dead_rows):
        yield Finding("storage", "ok", "indexes are valid and dead rows few")


def _mended(index: dict[str, Any]) -> str:
    if index["has_partitions"]:  # REINDEX would make those of the partitions anew, and not it
        return (
            f"It lacks some of a partition. DROP INDEX {index['name']}; and make it without ONLY."
        )
    name = index["name"]
    if "_ccnew" in name or "_ccold" in name:
        return f"A REINDEX left it: DROP INDEX CONCURRENTLY {name};"
    return f"REINDEX INDEX CONCURRENTLY {name}; or DROP INDEX CONCURRENTLY {name}; if it is yours."


def check_connections(found: Diagnosis) -> Iterator[Finding]:
    """Room for more nodes."""
    used, most = found.server["connections"], found.server["most_connections"]
    level: Level = "advice" if most - used < FREE_CONNECTIONS else "ok"
    hint = "Raise max_connections, or put a pooler between." if level == "advice" else None
    yield Finding("connections", level, f"{used} of {most} used", hint)


def check_clock(found: Diagnosis) -> Iterator[Finding]:
    """Nodes use the database's clock alone; a difference confuses only people."""
    difference = found.clock_difference
    level: Level = "advice" if abs(difference) > MOST_CLOCK_DIFFERENCE else "ok"
    hint = "Fires follow the server's clock; let NTP set both." if level == "advice" else None
    way = "ahead of" if difference >= 0 else "behind"
    yield Finding(
        "clock", level, f"the server's is {abs(difference):.3f} s {way} this machine's", hint
    )


def check_zones(found: Diagnosis) -> Iterator[Finding]:
    """The newest tzdata of the nodes decides; who has an older one takes no part in it."""
    tzdata = found.zones["tzdata"]
    reported = (
        "no node has brought any so far" if tzdata is None else f"schedules follow tzdata {tzdata}"
    )
    here = "" if tzdata in (None, TZDATA) else f"; {TZDATA} is installed here"
    yield Finding("time zones", "ok", reported + here)
    for node in found.zones["older"]:
        yield Finding(
            "time zones",
            "advice",
            f"node {node} has an older tzdata: it materializes no schedules",
            "Upgrade the package tzdata there, and start the node anew.",
        )


def check_lease(found: Diagnosis) -> Iterator[Finding]:
    """Leases that a short failover or a busy machine outlasts."""
    leases = [found.settings.node.lease_ttl, found.risks["shortest_lease"]]
    shortest = min(lease for lease in leases if lease is not None)
    if shortest < SHORTEST_ADVISED_LEASE:
        yield Finding(
            "lease",
            "advice",
            f"a lease of {shortest:g} s is short",
            "Use at least 5s, above the failover time of the database, or runs are repeated.",
        )
    else:
        yield Finding("lease", "ok", f"{shortest:g} s")


def check_delivery(found: Diagnosis) -> Iterator[Finding]:
    """At-most-once work on a server whose failover can forget a commit."""
    count = found.risks["at_most_once_schedules"]
    if not found.server["is_synchronous"] and (count or found.risks["has_at_most_once_run"]):
        yield Finding(
            "delivery",
            "advice",
            f"at_most_once is used ({plural(count, 'schedule')}) without a synchronous standby",
            "A failover to an asynchronous standby may forget that a run began, and repeat it.",
        )


def check_work(found: Diagnosis) -> Iterator[Finding]:
    """Nodes, parked runs, invalid schedules, and the invariant of the ledger."""
    nodes = found.risks["nodes"]
    yield Finding(
        "nodes",
        "ok" if nodes else "advice",
        f"{nodes} alive",
        None if nodes else "Nothing fires and nothing runs; start one with `pgcron-ha node`.",
    )
    for parked in found.parked:
        hint = "Start a node that offers it for this queue."
        message = f"{plural(parked['runs'], 'run')}: {parked['reason']}"
        yield Finding("parked", "advice", message, hint)
    for invalid in found.invalid:
        message = f"'{invalid['name']}': {invalid['error'].get('message')}"
        yield Finding("invalid", "problem", message, invalid["error"].get("hint"))
    for fire in found.unaccounted:
        yield Finding(
            "unaccounted",
            "problem",
            f"the fire of schedule {fire['schedule_id']} at {shown(fire['fire_at'])}: "
            f"its run {fire['run_id']} is neither alive nor in history",
            "This must not happen: keep the database's log and report it to the project.",
        )


def check_ledger(found: Diagnosis) -> Iterator[Finding]:
    """Whether the instants of the last hour have one answer each."""
    proof = found.ledger
    for row in proof.breaks[:MOST_BREAKS]:
        at = "" if row["fire_at"] is None else f" at {shown(row['fire_at'])}"
        yield Finding(
            "ledger",
            "problem",
            f"{row['rule']}: schedule '{row['schedule']}'{at}, {row['detail']}",
            "This must not happen: keep the database's log and report it to the project.",
        )
    if not proof.breaks:
        some = " (not all of them: `pgcron-ha schedules verify` looks at more)"
        yield Finding(
            "ledger",
            "ok",
            f"the last hour, schedules: {proof.schedules}, instants: {proof.instants}, each with "
            f"one answer{some if proof.is_cut else ''}",
        )


BASICS: Final[tuple[Callable[[Diagnosis], Iterator[Finding]], ...]] = (
    check_server,
    check_schema,
)

CHECKS: Final[tuple[Callable[[Diagnosis], Iterator[Finding]], ...]] = (
    check_storage,
    check_connections,
    check_clock,
    check_zones,
    check_lease,
    check_delivery,
    check_work,
    check_ledger,
)
