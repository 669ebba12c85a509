"""`pgcron-ha doctor` on a database that somebody has damaged by hand."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest

from tests.cli.conftest import Cli, Execute, dsn_of
from tests.product.db import health


def test_the_doctor_finds_rights_that_somebody_added(
    cli: Cli, execute: Execute, role: str, database: str
) -> None:
    assert "ok       privileges     no excess privileges" in cli("doctor").out
    assert "advice   role           postgres is a superuser" in cli("doctor").out
    execute(f"""
        GRANT CREATE ON SCHEMA pgcron TO "{role}"; GRANT SELECT ON pgcron.log TO PUBLIC;
        GRANT UPDATE (args) ON pgcron.run TO PUBLIC;
        GRANT EXECUTE ON FUNCTION pgcron.put_calendar TO PUBLIC;
        ALTER TABLE pgcron.dead_letter OWNER TO "{role}"
        """)
    answer = cli("doctor", "--json")

    found = [row for row in answer.rows if row["check"] == "privileges"]
    assert answer.code == 1
    said = "\n".join(row["message"] for row in found)
    assert f'"{role}" may create objects in schema pgcron' in said
    assert "everybody may read pgcron.log" in said
    assert "everybody has UPDATE on pgcron.run" in said
    assert "everybody may execute pgcron.put_calendar(" in said
    assert f'pgcron.dead_letter is of "{role}"' in said
    assert len(found) == 5
    for row in found:  # what is typed as it stands helps
        execute(row["hint"].partition(": ")[2].partition(";")[0])
    assert "ok       privileges     no excess privileges" in cli("doctor").out
    assert f'"{role}" can read' not in cli("--dsn", dsn_of(role, database), "doctor").out


def test_the_doctor_names_servers_that_may_be_reached_unencrypted(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "encryption" not in cli("doctor").out
    monkeypatch.setenv("PGCRON_HA_WEB_DSN", "postgresql://ann:hush@db.example,127.0.0.1/shop")

    answer = cli("doctor")

    assert "advice   encryption     web.dsn does not ask for TLS to db.example" in answer.out
    assert "sslmode=verify-full" in answer.out
    assert "hush" not in answer.out + answer.err


@pytest.mark.parametrize(
    "locking", ["begin_apply('me')", "lock_calendars()", "ensure_partitions()"]
)
def test_the_doctor_names_who_holds_a_lock_of_the_engines(
    cli: Cli, database: str, monkeypatch: pytest.MonkeyPatch, locking: str
) -> None:
    monkeypatch.setitem(health.READINGS["lock_holders"].defaults, "seconds", 0.0)
    with psycopg.connect(database, application_name="a_colleague") as holder:
        holder.execute(f"SELECT pgcron.{locking}".encode())
        answer = cli("doctor").out

        assert "a_colleague holds an advisory lock of the engine's" in answer
        assert f"wait for it: SELECT pg_terminate_backend({holder.info.backend_pid})" in answer


def test_the_doctor_names_who_holds_locks_and_snapshots_and_what_is_missing(
    cli: Cli, execute: Execute, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(health.READINGS["lock_holders"].defaults, "seconds", 0.0)
    monkeypatch.setitem(health.snapshot_holders.defaults, "seconds", 0.0)
    execute("ALTER DATABASE " + urlsplit(database).path[1:] + " SET synchronous_commit = off")
    with psycopg.connect(database) as holder:
        key = "('pgcron'::regnamespace::oid::int, 1)"
        holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        holder.execute(f"SELECT pg_advisory_xact_lock{key}".encode())
        holder.execute("SELECT count(*) FROM pgcron.run")
        answer = cli("doctor", "--json")
        reported = {(row["check"], row["message"].split()[0]): row for row in answer.rows}

        locked = reported["locks", "session"]
        assert str(holder.info.backend_pid) in locked["message"]
        assert f"pg_terminate_backend({holder.info.backend_pid})" in locked["hint"]
        (status,) = cli("status", "--json").rows
        (snapshot,) = (cause for cause in status["attention"] if cause["state"] == "snapshot")
        assert f"pg_terminate_backend({holder.info.backend_pid})" in snapshot["hint"]
        assert reported["durability", "synchronous_commit"]["level"] == "advice"
        assert answer.code == 1


def test_the_doctor_names_what_is_not_supported(
    cli: Cli, execute: Execute, database: str, role: str
) -> None:
    execute(f'ALTER ROLE "{role}" SET standard_conforming_strings = off')

    answer = cli("--dsn", dsn_of(role, database), "doctor", "--json")

    reported = "pgcron_ha does not work here: standard_conforming_strings is off"
    assert (answer.code, [row["message"] for row in answer.rows]) == (1, [reported])
    assert "RESET standard_conforming_strings" in answer.rows[0]["hint"]
