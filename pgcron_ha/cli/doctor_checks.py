"""Checks of `pgcron-ha doctor`: of the server, the schema and who works with it; pure functions of
what was read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from types import SimpleNamespace
from typing import Final, Literal, NamedTuple

from pgcron_ha.cli.output import plural, shown
from pgcron_ha.db.driver.dsn import unprotected_hosts
from pgcron_ha.db.driver.revision import NEWEST
from pgcron_ha.db.queries.blocking import holding_words, session_words
from pgcron_ha.db.queries.overview import Row

FREE_CONNECTIONS: Final = 10
SHORTEST_ADVISED_LEASE: Final = 5.0
PARTITIONS_AHEAD: Final = timedelta(days=1)
MOST_BREAKS: Final = 20
_IMPOSSIBLE: Final = "This must not happen: keep the database's log and report it to the project."
_LOOKING: Final = (
    "Nodes work through it but get no notifications: they look every node.poll_interval. Give them "
    "a listen_dsn that leads to the server itself. If it gives each client a session of its own, "
    'set pooler = "session".'
)

_LISTENING: Final = (
    "The page of each node and its log say whether notifications arrive by it. Until they do, "
    "nodes look every node.poll_interval."
)

Level = Literal["ok", "advice", "problem"]


class Finding(NamedTuple):
    """What a check found."""

    level: Level
    message: str
    hint: str | None = None


# A check that found nothing wrong; what may cost or lose runs; what does not work, or loses them.
ok = partial(Finding, "ok")
advice = partial(Finding, "advice")
problem = partial(Finding, "problem")


class Diagnosis(SimpleNamespace):
    """What was read: what `health.readings` has, by its names, and what `doctor.examine` adds."""


# Kind of a row of `list_privileges_excess`: how bad, and what is said.
_EXCESS: Final[dict[str, tuple[Level, str]]] = {
    "creates": ("problem", "{who} may create objects in schema {name}"),
    "public reads": ("advice", "everybody may read {name}"),
    "public writes": ("problem", "everybody has {who} on {name}"),
    "public executes": ("problem", "everybody may execute {name} with its owner's rights"),
    "other owner": ("problem", "{name} is of {who}, not of the owner of the other objects"),
}


def check_server(found: Diagnosis) -> Iterator[Finding]:
    """Version, role in replication."""
    server = found.server
    yield ok(f"PostgreSQL {server['version']}")
    if server["is_read_only"]:
        yield problem(
            "default_transaction_read_only is on",
            "No node joins and nothing can be enqueued. If that is not meant: SET "
            "default_transaction_read_only = off; or no ALTER is taken either; then ALTER DATABASE "
            "… RESET, ALTER ROLE … RESET, or ALTER SYSTEM RESET (\\drds of psql shows where).",
        )
    if server["is_standby"]:
        yield problem(
            "the server is a standby",
            "Add target_session_attrs=read-write to the DSN, with all hosts.",
        )


def check_encryption(found: Diagnosis) -> Iterator[Finding]:
    """Whether settings ask for TLS to the servers of other machines."""
    for setting, dsn in found.settings.dsns().items():
        for host in unprotected_hosts(dsn):
            yield advice(
                f"{setting} does not ask for TLS to {host}",
                "Who is on the way can switch it off and read everything: add sslmode=verify-full"
                " (and sslrootcert) to the DSN; sslmode=disable on a network of your own.",
            )


def check_durability(found: Diagnosis) -> Iterator[Finding]:
    """Settings with which a crash loses or doubles runs."""
    server = found.server
    if server["careless"]:
        off = " and ".join(server["careless"])
        yield advice(
            f"{off} {'are' if len(server['careless']) > 1 else 'is'} off",
            "A crash of the machine can lose or double runs, or spoil the database: "
            + " ".join(f"ALTER SYSTEM SET {name} = on;" for name in server["careless"])
            + " SELECT pg_reload_conf();",
        )
    if server["synchronous_commit"] == "off":
        yield advice(
            "synchronous_commit is off where sessions begin",
            "Nodes set it for themselves, but a crash may lose what a client saw "
            "committed: ALTER DATABASE … RESET, ALTER ROLE … RESET (\\drds of psql shows where it "
            "is), or ALTER SYSTEM RESET synchronous_commit; SELECT pg_reload_conf();",
        )


def check_autovacuum(found: Diagnosis) -> Iterator[Finding]:
    """Whether autovacuum is on."""
    for setting in found.server["without"]:
        yield problem(
            f"{setting} is off for the whole server: dead rows stay, and tables grow",
            f"ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf();",
        )
    if not found.server["without"]:
        yield ok("on")


def check_connections(found: Diagnosis) -> Iterator[Finding]:
    """Room for more nodes."""
    used, most = found.server["connections"], found.server["most_connections"]
    level: Level = "advice" if most - used < FREE_CONNECTIONS else "ok"
    hint = "Raise max_connections, or put a pooler between." if level == "advice" else None
    yield Finding(level, f"{used} of {most} used", hint)


def check_pooler(found: Diagnosis) -> Iterator[Finding]:
    """A pooler in transaction mode loses notifications; with a listen_dsn they arrive."""
    if not found.is_pooled:
        return
    through = "the DSN leads through a pooler that hands sessions around"
    if found.settings.listen_dsn is None:
        yield advice(through, _LOOKING)
    else:
        yield advice(f"{through}; listen_dsn is not tried here", _LISTENING)
    if found.server["default_isolation"] != "read committed":
        yield problem(
            f"default_transaction_isolation is '{found.server['default_isolation']}'",
            "Through a pooler no session can change it, and edits need another: ALTER ROLE "
            f"{found.role['name']} SET default_transaction_isolation = 'read committed'; then "
            "RECONNECT in the pooler's console. Or use a DSN that leads to the server itself.",
        )


def check_schema(found: Diagnosis) -> Iterator[Finding]:
    """The revision, with which this version works."""
    schema, revision = found.settings.schema, found.revision
    reported = f"'{schema}' is at revision {revision}; this version brings {NEWEST}"
    if revision == NEWEST:
        yield ok(f"'{schema}' is as this version brings it")
    elif revision > NEWEST:
        yield ok(f"{reported}, and works with it")
    else:
        yield advice(
            f"{reported} and works with it, but for what is new",
            "`pgcron-ha migrate` brings it, while nodes of this version and the one before go on.",
        )


def check_partitions(found: Diagnosis) -> Iterator[Finding]:
    """Partitions made ahead, and rows that found none."""
    ends, now = found.risks["partitions_end"], found.server["now"]
    if ends is None or ends < now + PARTITIONS_AHEAD:
        yield problem(
            f"partitions are made up to {shown(ends)} only",
            f"Nodes make them; now: SELECT {found.settings.schema}.ensure_partitions();",
        )
    if found.risks["overflow"]:
        yield problem(
            f"history_overflow has {found.risks['overflow']} rows: they found no partition",
            "A node's janitor moves them; look at the logs of the nodes if they stay.",
        )


def check_role(found: Diagnosis) -> Iterator[Finding]:
    """Whether the DSN's role could run a node here, with no more than it takes."""
    role = found.role
    name, owner = role["name"], role["owner"]
    if role["is_superuser"] or role["passes_policies"]:
        yield advice(
            f"{name} is a superuser or passes row security",
            "A node needs neither: give it a role that owns the schema and nothing else.",
        )
    elif not role["is_owner"]:
        works = "has the rights of a node and owns nothing"
        yield ok(f"{name} {works if role['is_node'] else f'can read; nodes connect as {owner}'}")
    elif not role["makes_partitions"]:
        yield problem(
            f"{name} may not make partitions: it lacks CREATE on the schema",
            f"As its owner: GRANT CREATE ON SCHEMA {found.settings.schema} TO {owner};",
        )
    else:
        yield ok(f"{name} has the rights of the owner and is no superuser")
    if not role["sees_all"]:
        yield advice(
            f"{name} may not see what sessions of other roles hold",
            f"As a superuser: GRANT pg_read_all_stats TO {name};",
        )


def check_privileges(found: Diagnosis) -> Iterator[Finding]:
    """Rights in the schema that somebody added, and objects of other owners."""
    for row in found.excess_privileges:
        level, message = _EXCESS[row["kind"]]
        hint = f"{row['remedy']} `pgcron-ha grants` prints what each part needs."
        yield Finding(level, message.format(**row), hint)
    if not found.excess_privileges:
        yield ok("no excess privileges")


def check_locks(found: Diagnosis) -> Iterator[Finding]:
    """Sessions that keep nodes waiting, and those that hold nodes' advisory locks for long; taking
    these needs no privilege.
    """
    yield from locking(found.blocking)
    for holder in found.lock_holders:
        lasting = timedelta(seconds=int(holder["seconds"]))
        yield problem(
            f"session {holder['name']} holds an advisory lock of the engine's for {lasting}",
            "New partitions, calendars or files of schedules and workflows wait for it: "
            f"SELECT pg_terminate_backend({holder['process_id']});",
        )


def locking(rows: Sequence[Row]) -> Iterator[Finding]:
    """A finding for each session of `blocking_sessions`."""
    for row in rows:
        doing = f"; its statement: {shown(row['statement'])}" if row["statement"] else ""
        ending = f"SELECT pg_terminate_backend({row['process_id']});"
        yield Finding(
            "problem" if row["waiting"] else "advice",
            f"{session_words(row)} {holding_words(row)}{doing}",
            "What waits goes on when its transaction ends: "
            + (ending if row["process_id"] else "COMMIT PREPARED or ROLLBACK PREPARED."),
        )


def check_lease(found: Diagnosis) -> Iterator[Finding]:
    """Leases that a short failover or a busy machine outlasts."""
    shortest = min([found.settings.node.lease_ttl, *(node["lease_ttl"] for node in found.nodes)])
    if shortest < SHORTEST_ADVISED_LEASE:
        yield advice(
            f"a lease of {shortest:g} s is short",
            "Use at least 5s, and 2.5 times the failover time of the database. With less, a"
            " failover stops handlers, and their runs are repeated.",
        )
    else:
        yield ok(f"{shortest:g} s")


def check_delivery(found: Diagnosis) -> Iterator[Finding]:
    """At-most-once work on a server whose failover can forget a commit."""
    count = found.risks["at_most_once_schedules"]
    if not found.server["is_synchronous"] and (count or found.risks["has_at_most_once_run"]):
        yield advice(
            f"at_most_once is used ({plural(count, 'schedule')}) without a synchronous standby",
            "A failover to an asynchronous standby may forget that a run began, and repeat it.",
        )


def check_handlers(found: Diagnosis) -> Iterator[Finding]:
    """Schedules whose runs no living node would take."""
    for wanted in found.unserved_schedules:
        more = wanted["schedules"] - 1
        others = f" and {plural(more, 'other')}" if more else ""
        yield advice(
            f"schedule '{wanted['name']}'{others}: {wanted['reason']}",
            "Start a node that does, before they fire; `pgcron-ha nodes` lists what nodes offer.",
        )


def check_ledger(found: Diagnosis) -> Iterator[Finding]:
    """Whether the instants of the last hour have one answer each."""
    proof = found.ledger
    for row in proof.breaks[:MOST_BREAKS]:
        at = "" if row["fire_at"] is None else f" at {shown(row['fire_at'])}"
        yield problem(
            f"{row['rule']}: schedule '{row['schedule']}'{at}, {row['detail']}", _IMPOSSIBLE
        )
    if not proof.breaks:
        some = " (not all of them: `pgcron-ha schedules verify` looks at more)"
        yield ok(
            f"the last hour, schedules: {proof.schedules}, instants: {proof.instants}, each with "
            f"one answer{some if proof.is_cut else ''}"
        )


def check_workflows(found: Diagnosis) -> Iterator[Finding]:
    """Whether what the steps of open workflows wait for is still to come."""
    for row in found.broken_workflows:
        step = "" if row["step"] is None else f", step '{row['step']}'"
        yield problem(f"run {row['run_id']}{step}: {row['problem']}", _IMPOSSIBLE)
    if not found.broken_workflows:
        yield ok("the steps of open workflows wait for what is to come")
