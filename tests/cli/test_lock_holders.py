"""Who holds a lock that nodes wait for is named by `status` and `doctor`, whatever is locked."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.waiting import slowness, wait_for


@contextmanager
def waiting(dsn: str, statement: str) -> Iterator[None]:
    """A session of a node that waits for a lock as long as the context lasts."""
    with psycopg.connect(dsn, autocommit=True) as node:
        node.execute("SET application_name = 'pgcron_ha claims n1'")
        thread = threading.Thread(target=_send, args=(node, statement))
        thread.start()
        try:
            yield
        finally:
            node.cancel()
            thread.join()


def _send(node: psycopg.Connection[tuple[object, ...]], statement: str) -> None:
    with pytest.raises(psycopg.errors.QueryCanceled):
        node.execute(statement.encode())


@pytest.mark.parametrize(
    ("lock", "statement", "what"),
    [
        (
            "LOCK TABLE pgcron.cursor IN SHARE MODE",
            "UPDATE pgcron.cursor SET status = status",
            "a lock on cursor",
        ),
        (
            "UPDATE pgcron.cluster SET paused_note = 'why'",
            "UPDATE pgcron.cluster SET paused_note = 'else'",
            "locks",
        ),
    ],
)
def test_who_holds_a_lock_is_named(
    cli: Cli, database: str, lock: str, statement: str, what: str
) -> None:
    with psycopg.connect(database, application_name="a_colleague") as holder:
        holder.execute(lock.encode())
        pid, user = holder.info.backend_pid, holder.info.user
        with waiting(database, statement):
            named = re.compile(
                rf"blocking   Session {pid} \(user {user}, application a_colleague\):"
                rf" It holds {what} for \d+ s, idle in its transaction; 1 session waits for it"
            )
            wait_for(
                "it is named", lambda: named.search(cli("status").out), deadline=10 * slowness()
            )
            answer = cli("doctor", "--json")
            [row] = [row for row in answer.rows if row["check"] == "locks"]
            assert (answer.code, row["level"]) == (1, "problem")
            assert f"; its statement: {lock[:20]}" in row["message"]
            assert f"pg_terminate_backend({pid})" in row["hint"]

    assert "blocking" not in cli("status").out


@pytest.mark.parametrize("table", ["node", "run", "cluster", "schedule"])
def test_a_lock_that_keeps_readers_away_is_named_all_the_same(
    cli: Cli, database: str, table: str
) -> None:
    with psycopg.connect(database, application_name="a_colleague") as holder:
        holder.execute(f"LOCK TABLE pgcron.{table} IN ACCESS EXCLUSIVE MODE".encode())
        named = re.compile(rf"application a_colleague\) holds a lock on {table} for \d+ s")

        status = cli("status")
        assert status.code != 0
        assert named.search(status.out + status.err)
        doctor = cli("doctor")
        assert doctor.code == 1
        assert named.search(doctor.out)
