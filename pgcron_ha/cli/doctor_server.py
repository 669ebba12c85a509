"""Checks of `pgcron-ha doctor` that are about the server; pure functions of what was read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Final, Literal, NamedTuple

from pgcron_ha.db.driver.dsn import unprotected_hosts

FREE_CONNECTIONS: Final = 10
_MUCH_USAGE: Final = 0.25
_LOOKING: Final = (
    "Nodes work through it but get no notifications: they look every node.poll_interval. Give them "
    "a listen_dsn that leads to the server itself. If it gives each client a session of its own, "
    'set pooler = "session".'
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
    """Whether autovacuum is on, for the server and for each table."""
    for setting in found.server["without"]:
        yield problem(
            f"{setting} is off for the whole server: dead rows stay, and tables grow",
            f"ALTER SYSTEM SET {setting} = on; SELECT pg_reload_conf();",
        )
    for table in found.tables_without_autovacuum:
        toast = " (values out of line)" if table["option"].startswith("toast.") else ""
        yield problem(
            f"it is off for {table['name']}{toast}",
            f"ALTER TABLE {table['name']} RESET ({table['option']});",
        )
    if not (found.server["without"] or found.tables_without_autovacuum):
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
    if found.notified is None:
        yield advice(through, _LOOKING)
    else:
        yield ok(through)
    if found.server["default_isolation"] != "read committed":
        yield problem(
            f"default_transaction_isolation is '{found.server['default_isolation']}'",
            "Through a pooler no session can change it, and edits need another: ALTER ROLE "
            f"{found.role['name']} SET default_transaction_isolation = 'read committed'; then "
            "RECONNECT in the pooler's console. Or use a DSN that leads to the server itself.",
        )


def check_notifications(found: Diagnosis) -> Iterator[Finding]:
    """Whether they come by listen_dsn; the server's queue of them, which an idle listener's
    transaction keeps.
    """
    if isinstance(found.notified, str):
        yield advice(
            f"they do not arrive by listen_dsn: {found.notified}",
            "It must lead to the same database, to the server itself or through a pooler in "
            "session mode. Until it does, nodes look every node.poll_interval.",
        )
    elif found.notified is not None:
        arrive = f"they arrive by listen_dsn, within {found.notified * 1000:.0f} ms"
        yield ok(arrive)
    usage, open_ones = found.notification_queue["usage"], found.notification_queue["open"]
    if usage < _MUCH_USAGE:
        return
    yield problem(
        f"the server's queue of notifications is {usage:.0%} full; from half of it on nodes are"
        " not woken, and look at each poll interval",
        "A session that listens keeps it and has a transaction open: the oldest are "
        f"{'; '.join(open_ones) or 'not shown to this role'}. End it: SELECT"
        " pg_terminate_backend(PID);",
    )
