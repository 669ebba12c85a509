"""`pgcron-ha doctor` and `status` on what keeps vacuum from its work; each remedy is typed, and
helps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Answer, Cli, Execute, dsn_of
from tests.product.db import health
from tests.servers import ThrowAwayServer
from tests.waiting import wait_for


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(health.snapshot_holders.defaults, "seconds", 0.0)


@pytest.fixture
def typed(database: str) -> Iterator[psycopg.Connection]:
    """Where somebody types what the doctor says."""
    with psycopg.connect(database, autocommit=True) as connection:
        yield connection


def lines(answer: Answer, check: str) -> list[str]:
    return [row["message"] for row in answer.rows if row["check"] == check]


def hints(answer: Answer, check: str) -> list[str]:
    return [row["hint"] for row in answer.rows if row["check"] == check and row["hint"]]


def snapshots(cli: Cli) -> list[dict[str, Any]]:
    (status,) = cli("status", "--json").rows
    return [cause for cause in status["attention"] if cause["state"] == "snapshot"]


def type_in(connection: psycopg.Connection, hint: str) -> None:
    for statement in hint.rpartition(": ")[2].split(";"):
        if statement.strip():
            connection.execute(statement.encode())


def test_who_has_written_and_does_not_end_is_named_and_others_are_not(
    cli: Cli, database: str, server: ThrowAwayServer, typed: psycopg.Connection, impatient: None
) -> None:
    with closing(psycopg.connect(database, application_name="billing")) as writer:
        writer.execute("INSERT INTO pgcron.idempotency VALUES ('key', 1, now())")
        with psycopg.connect(server.dsn()) as elsewhere:
            elsewhere.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            elsewhere.execute("SELECT count(*) FROM pg_class")
            (cause,) = snapshots(cli)
        pid = writer.info.backend_pid
        assert cause["what"] == f"Transaction {pid} postgres billing (idle in transaction)"
        hint = cause["hint"]
        assert hint.endswith(f": SELECT pg_terminate_backend({pid});")
        type_in(typed, hint)
        gone = "SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = %s"
        wait_for("it is gone", lambda: typed.execute(gone, [pid]).fetchone() == (True,))
    assert snapshots(cli) == []


def test_a_role_that_sees_a_part_is_told_what_it_does_not_see(
    cli: Cli, execute: Execute, database: str, role: str, typed: psycopg.Connection
) -> None:
    own = dsn_of(role, database)
    execute(f'GRANT USAGE ON SCHEMA pgcron TO "{role}"')
    execute(f'GRANT SELECT ON pgcron.alembic_version TO "{role}"')

    refused = cli("--dsn", own, "doctor", "--json")

    (finding,) = refused.rows
    assert (refused.code, finding["check"], finding["level"]) == (1, "role", "problem")
    assert finding["message"].startswith("permission denied for ")
    assert "pgcron-ha grants viewer" in finding["hint"]
    execute(f'GRANT SELECT ON ALL TABLES IN SCHEMA pgcron TO "{role}"')
    execute(f'GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pgcron TO "{role}"')
    allowed = cli("--dsn", own, "doctor", "--json")
    assert allowed.code == 0
    assert hints(allowed, "role") == [f'As a superuser: GRANT pg_read_all_stats TO "{role}";']
    not_shown = "snapshots of other roles are not shown: that needs pg_read_all_stats"
    assert not_shown in cli("--dsn", own, "storage").out
    typed.execute(f'GRANT pg_read_all_stats TO "{role}"'.encode())
    assert not_shown not in cli("--dsn", own, "storage").out
    assert hints(cli("--dsn", own, "doctor", "--json"), "role") == []
