"""What most runs are costs little: a row without defaults, rules tested by plain expressions, one
look for idle nodes in a transaction.
"""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connection, claim, enqueue, fail, finish, join

_DEEP = '{"a": ' + "[" * 99 + "]" * 99 + "}"
# An instant in the row, so that both judge the same.
_DUE = datetime(2026, 1, 1, tzinfo=UTC)

EDGES: tuple[dict[str, Any], ...] = (
    {"handler": "py:" + "a" * 203},
    {"handler": "py:" + "a" * 204},
    {"handler": "a" * 20 + ":b"},
    {"handler": "a" * 21 + ":b"},
    {"handler": "py:é"},
    {"handler": "py:a\n"},
    {"queue": "q" * 100},
    {"queue": "q" * 101},
    {"queue": ""},
    {"queue": "a b"},
    {"priority": 0},
    {"priority": 9},
    {"priority": 10},
    {"priority": -1},
    {"created_by": "é" * 300},
    {"created_by": "c" * 300},
    {"created_by": "c" * 301},
    {"args": "[]"},
    {"args": "null"},
    {"args": _DEEP},
    {"args": _DEEP.replace("[", "[[", 1).replace("]", "]]", 1)},
    # Few bytes, and as text far more than 256 KiB.
    {"args": '{"a": 1e131071, "b": 1e131071, "c": 1e131071}'},
    {"due_at": datetime(1900, 1, 1, tzinfo=UTC)},
    {"due_at": datetime(1899, 12, 31, tzinfo=UTC)},
    {"due_at": datetime(9998, 12, 31, tzinfo=UTC)},
    {"due_at": datetime(9999, 6, 1, tzinfo=UTC)},
    {"delivery": "transactional", "handler": "shell:a"},
    {"delivery": "never"},
    {"origin": "schedule"},
    {"origin": "nothing"},
    {"state": "succeeded"},
    {"attempt": 1},
    {"state": "blocked", "gate": "overlap"},
    {"key_slot": 1},
    {"cancel_at": _DUE},
    {"started_at": _DUE},
    {"weight": 2},
    {"unique_scope": "open"},
    {"max_attempts": 0},
    {"tags": ["a"]},
    {"tags": ["a b"]},
    {"retry": '"x"'},
)


@pytest.mark.parametrize("columns", EDGES, ids=lambda columns: str(columns)[:60])
async def test_a_row_passes_as_the_function_judges_it(
    connection: Connection, columns: dict[str, Any]
) -> None:
    await connection.execute(
        "CREATE TEMP TABLE unjudged (LIKE pgcron.run INCLUDING DEFAULTS INCLUDING IDENTITY)"
    )
    given = {"handler": "py:work", "due_at": _DUE, **columns}
    row = f"({', '.join(given)}) VALUES ({', '.join(f'${n + 1}' for n in range(len(given)))})"
    await connection.execute(f"INSERT INTO unjudged {row}", *given.values())

    async def answer(asking: Awaitable[Any]) -> tuple[str | None, str] | None:
        try:
            async with connection.transaction():
                await asking
        except asyncpg.PostgresError as error:
            return error.sqlstate, str(error.args[0])
        return None

    judged = await answer(
        connection.execute("SELECT pgcron.judge_run(ROW(u.*)::pgcron.run) FROM unjudged u")
    )
    written = connection.execute(f"INSERT INTO pgcron.run {row}", *given.values())
    assert await answer(written) == judged


async def test_a_plain_run_stores_no_default(connection: Connection) -> None:
    await connection.execute("SELECT pgcron.enqueue('py:work', timeout => '1 hour')")
    await connection.execute('SELECT pgcron.enqueue_many(\'[{"handler": "py:work"}]\')')

    rows = await connection.fetch(
        "SELECT num_nonnulls(uuid, timeout, retry, max_attempts, weight) AS stored FROM pgcron.run"
    )
    assert [row["stored"] for row in rows] == [0, 0]


async def test_a_run_has_one_uuid_from_its_request_to_its_history(connection: Connection) -> None:
    seen = "SELECT uuid FROM pgcron.runs WHERE id = $1"
    done, dead = await enqueue(connection, 2, max_attempts=1)
    first = [await connection.fetchval(seen, each) for each in (done, dead)]
    assert None not in first
    assert first[0] != first[1]

    claimed = {row["id"]: row for row in await claim(connection, await join(connection))}
    assert [claimed[done]["uuid"], claimed[dead]["uuid"]] == first
    await finish(connection, [claimed[done]])
    await fail(connection, [claimed[dead]])
    assert [await connection.fetchval(seen, each) for each in (done, dead)] == first
    letter = "SELECT uuid FROM pgcron.dead_letters WHERE run_id = $1"
    assert await connection.fetchval(letter, dead) == first[1]


async def test_an_id_that_is_given_again_after_a_restore_makes_another_uuid(
    connection: Connection,
) -> None:
    seen = "SELECT uuid FROM pgcron.runs WHERE id = $1"
    [lost] = await enqueue(connection)
    before = await connection.fetchval(seen, lost)
    await connection.execute("DELETE FROM pgcron.run")
    await connection.execute("SELECT setval('pgcron.run_id_seq', $1, false)", lost)

    assert await enqueue(connection) == [lost]
    assert await connection.fetchval(seen, lost) != before


async def test_a_transaction_looks_for_idle_nodes_once(connection: Connection) -> None:
    await connection.execute("SET track_functions = 'pl'")
    looks = "SELECT pg_stat_get_xact_function_calls('pgcron.wake_idle_nodes()'::regprocedure)"
    async with connection.transaction():
        await enqueue(connection, 50)
        with pytest.raises(asyncpg.PostgresError):
            async with connection.transaction():
                await enqueue(connection, 50, priority=12)
        await connection.execute("SELECT pgcron.enqueue('py:work')")
        assert await connection.fetchval(looks) is None
        await connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        assert await connection.fetchval(looks) == 1
