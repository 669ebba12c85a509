"""Groups of dead letters, and running many of them again."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connect, Connection, call, claim, enqueue, fail, join, waits_for_lock
from tests.product.db import functions


async def die(connection: Connection, count: int, fingerprint: str, **columns: Any) -> list[int]:
    """So many letters of one group."""
    ids = await enqueue(connection, count, max_attempts=1, **columns)
    handler = columns.get("handler", "py:work")
    runs = await claim(connection, await join(connection, handlers=[handler]), count)
    await fail(connection, runs, fingerprint=fingerprint)
    return ids


def letters(rows: list[dict[str, Any]]) -> list[int]:
    return [row["dead_letter"] for row in rows]


async def redrives(connection: Connection) -> list[int]:
    rows = await connection.fetch(
        "SELECT parent_run FROM pgcron.run WHERE origin = 'redrive' ORDER BY id"
    )
    return [row["parent_run"] for row in rows]


async def test_a_group_says_what_its_letters_have_in_common(connection: Connection) -> None:
    first = await die(connection, 2, "aa")
    last = await die(connection, 1, "aa", handler="py:other", queue="default")
    await die(connection, 1, "bb")
    await connection.execute("SELECT pgcron.redrive($1)", first[0])

    group = await connection.fetchrow("SELECT * FROM pgcron.error_groups WHERE fingerprint = 'aa'")

    assert group is not None
    assert (group["letters"], group["open"], group["lost"]) == (3, 2, 0)
    assert (group["handlers"], group["queues"], group["outcomes"]) == (
        ["py:other", "py:work"],
        ["default"],
        ["dead"],
    )
    assert (group["error_class"], group["message"]) == ("ValueError", "it went wrong")
    assert group["first_at"] < group["last_at"]
    assert group["last_run"] == last[0]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.error_groups") == 2


async def test_failures_of_a_handler_without_a_fingerprint_are_a_group(
    connection: Connection,
) -> None:
    ids = await enqueue(connection, 2, max_attempts=1)
    runs = await claim(connection, await join(connection))
    await fail(connection, runs)

    (row,) = await connection.fetch("SELECT fingerprint, letters FROM pgcron.error_groups")

    assert row["letters"] == len(ids)
    kept = await connection.fetch("SELECT DISTINCT fingerprint FROM pgcron.attempt")
    assert [each["fingerprint"] for each in kept] == [row["fingerprint"]]


async def test_a_group_runs_again_at_a_rate(connection: Connection) -> None:
    ids = await die(connection, 5, "aa")
    await die(connection, 1, "bb")
    options: dict[str, Any] = {"fingerprint": "aa", "rate": 2, "per": timedelta(seconds=10)}

    first = await functions.redrive_many(connection, at_most=3, **options)
    starting = first[-1]["due_at"] + timedelta(seconds=5)
    second = await functions.redrive_many(connection, starting=starting, **options)

    assert (letters(first), letters(second)) == (ids[:3], ids[3:])
    rows = await connection.fetch(
        "SELECT parent_run, due_at - min(due_at) OVER () AS later FROM pgcron.run ORDER BY id"
    )
    assert [row["parent_run"] for row in rows] == ids
    assert [row["later"].total_seconds() for row in rows] == [0, 5, 10, 15, 20]
    letter = await connection.fetchrow("SELECT * FROM pgcron.dead_letter WHERE run_id = $1", ids[4])
    assert letter is not None
    assert letter["redriven_as"] == second[-1]["run_id"]


async def test_batches_of_a_group_are_due_one_after_the_other(
    connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await die(connection, 5, "aa")
    monkeypatch.setattr(functions, "MOST_AT_ONCE", 2)
    options = {"fingerprint": "aa", "rate": 2, "per": timedelta(seconds=10)}

    async def act(command: Any, **options: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await command(connection, **options)
        return found

    batches = [
        batch async for batch in functions.in_batches(act, functions.redrive_many, 4, **options)
    ]

    assert [letters(batch) for batch in batches] == [ids[:2], ids[2:4]]
    due = [row["due_at"] for batch in batches for row in batch]
    assert [(each - due[0]).total_seconds() for each in due] == [0, 5, 10, 15]


@pytest.mark.parametrize(
    ("filters", "wanted"),
    [
        ({"handler": "py:other"}, [1]),
        ({"queue": "default", "fingerprint": "bb"}, [1]),
        ({"error_class": "ValueError"}, [0, 1]),
        ({"error_class": "KeyError"}, []),
        ({"schedule": "nightly"}, []),
    ],
)
async def test_filters_choose_letters(
    connection: Connection, filters: dict[str, str], wanted: list[int]
) -> None:
    ids = await die(connection, 1, "aa") + await die(connection, 1, "bb", handler="py:other")

    answer = await functions.redrive_many(connection, **filters)

    assert letters(answer) == [ids[place] for place in wanted]


async def test_letters_of_a_time_run_again(connection: Connection) -> None:
    ids = await die(connection, 3, "aa")
    await connection.execute(
        "UPDATE pgcron.dead_letter SET died_at = now() - run_id * interval '1 hour'"
    )
    at = "SELECT now() - ($1::int + 0.5) * interval '1 hour'"
    since = await connection.fetchval(at, ids[1])
    until = await connection.fetchval(at, ids[0])

    answer = await functions.redrive_many(connection, since=since, until=until)

    assert letters(answer) == [ids[1]]


async def test_lost_letters_run_again_only_when_they_are_asked_for(connection: Connection) -> None:
    ids = await die(connection, 2, "aa")
    await connection.execute(
        "UPDATE pgcron.dead_letter SET outcome = 'lost' WHERE run_id = $1", ids[0]
    )

    without = await functions.redrive_many(connection, fingerprint="aa")
    with_them = await functions.redrive_many(connection, fingerprint="aa", also_lost=True)

    assert (letters(without), letters(with_them)) == ([ids[1]], [ids[0]])


async def test_a_letter_may_run_again_with_other_args(connection: Connection) -> None:
    ids = await die(connection, 2, "aa", args='{"day": 0}')

    await functions.redrive(connection, ids[0], '{"day": 1}')
    await functions.redrive_many(connection, fingerprint="aa", args='{"day": 2}')

    rows = await connection.fetch("SELECT args FROM pgcron.run ORDER BY id")
    assert [row["args"] for row in rows] == ['{"day": 1}', '{"day": 2}']
    kept = await connection.fetch("SELECT DISTINCT args FROM pgcron.dead_letter")
    assert [row["args"] for row in kept] == ['{"day": 0}']


async def test_however_often_it_is_asked_each_letter_runs_again_once(
    connection: Connection, another: Connect
) -> None:
    ids = await die(connection, 60, "aa")
    askers = [await another() for _ in range(4)]

    answers = []
    for _ in range(4):
        asked = (functions.redrive_many(asker, fingerprint="aa", at_most=25) for asker in askers)
        answers += await asyncio.gather(*asked)

    assert sorted(letter for answer in answers for letter in letters(answer)) == ids
    assert sorted(await redrives(connection)) == ids


async def test_a_letter_that_somebody_redrives_at_the_moment_is_theirs(
    connection: Connection, another: Connect
) -> None:
    ids = await die(connection, 2, "aa")
    first, second = await another(), await another()
    async with first.transaction():
        await functions.redrive(first, ids[0])
        answer = await functions.redrive_many(second, fingerprint="aa")
        waiting = asyncio.create_task(functions.redrive(second, ids[0]))
        await waits_for_lock(connection, second)

    assert letters(answer) == [ids[1]]
    with pytest.raises(Exception, match="already redriven"):
        await waiting
    assert sorted(await redrives(connection)) == ids


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "fingerprint => 'aa', rate => 0",
        "fingerprint => 'aa', rate => 1, per => '0'",
        "fingerprint => 'aa', rate => 1, per => NULL",
        "fingerprint => 'aa', rate => 1, per => '2 days'",
        "fingerprint => 'aa', at_most => 0",
        "fingerprint => 'aa', at_most => 1001",
        "fingerprint => 'aa', at_most => NULL",
        "fingerprint => 'aa', args => '[]'",
    ],
)
async def test_what_can_not_be_meant_is_refused_and_nothing_runs(
    connection: Connection, arguments: str
) -> None:
    await die(connection, 2, "aa")

    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.execute(f"SELECT pgcron.redrive_many({arguments})")

    error: Any = refused.value
    assert error.sqlstate == "PC001"
    assert all(len(words or "") > 8 for words in (str(error), error.detail, error.hint))
    assert await redrives(connection) == []


async def test_archived_letters_are_closed_without_another_run(connection: Connection) -> None:
    ids = await die(connection, 3, "aa") + await die(connection, 1, "bb")
    await functions.redrive(connection, ids[0])

    by_id = await connection.fetchval(
        "SELECT pgcron.archive_dead_letters($1, 'paid by hand', 'ops')", [ids[0], ids[1], 404]
    )
    by_filter = await functions.archive_dead_letters(connection, fingerprint="aa", note="old")

    assert (by_id, letters(by_filter)) == ([ids[1]], [ids[2]])
    rows = await connection.fetch(
        "SELECT closed_by, note, redriven_as IS NULL AS has_no_run FROM pgcron.dead_letters"
        " WHERE closed_at IS NOT NULL ORDER BY run_id"
    )
    assert [(row["note"], row["has_no_run"]) for row in rows] == [
        (None, False),
        ("paid by hand", True),
        ("old", True),
    ]
    assert rows[1]["closed_by"] == "ops"
    assert await redrives(connection) == [ids[0]]
    group = "SELECT fingerprint FROM pgcron.error_groups WHERE open > 0"
    assert await connection.fetchval(group) == "bb"


async def test_what_was_archived_runs_again_only_when_it_is_named(connection: Connection) -> None:
    ids = await die(connection, 2, "aa")
    await functions.archive_dead_letters(connection, run_ids=[ids[0]], note="not needed")

    assert letters(await functions.redrive_many(connection, fingerprint="aa")) == [ids[1]]
    new_run = await functions.redrive(connection, ids[0])

    letter = await connection.fetchrow("SELECT * FROM pgcron.dead_letter WHERE run_id = $1", ids[0])
    assert letter is not None
    assert (letter["redriven_as"], letter["note"]) == (new_run, "not needed")


async def test_a_letter_that_somebody_holds_keeps_no_other_from_being_archived(
    connection: Connection, another: Connect
) -> None:
    ids = await die(connection, 3, "aa")
    holder = await another()
    async with holder.transaction():
        await holder.execute("SELECT pgcron.redrive($1)", ids[0])
        await connection.execute("SET lock_timeout = '10s'")
        archive = "SELECT pgcron.archive_dead_letters($1)"
        assert await connection.fetchval(archive, ids[:2]) == [ids[1]]
        left = await functions.archive_dead_letters(connection, fingerprint="aa", at_most=1)
        assert letters(left) == [ids[2]]


async def test_more_letters_than_one_call_archives_are_refused(connection: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError, match="1001 dead letters are too many"):
        await connection.execute("SELECT pgcron.archive_dead_letters($1)", list(range(1001)))


async def test_a_closed_letter_is_forgotten_when_ended_runs_are(
    connection: Connection, another: Connect
) -> None:
    ids = await die(connection, 5, "aa")
    await connection.execute("SELECT pgcron.redrive($1)", ids[0])
    await functions.archive_dead_letters(connection, run_ids=ids[1:4])
    await connection.execute(
        "UPDATE pgcron.dead_letter SET died_at = died_at - interval '40 days',"
        " closed_at = closed_at - CASE run_id WHEN $1 THEN interval '29 days'"
        " ELSE interval '31 days' END",
        ids[1],
    )
    other = await another()
    async with other.transaction():
        await other.execute("SELECT FROM pgcron.dead_letter WHERE run_id = $1 FOR UPDATE", ids[2])
        assert len(await call(connection, "forget_letters", at_most=100)) == 2

    left = await connection.fetch("SELECT run_id FROM pgcron.dead_letter ORDER BY 1")
    assert [row["run_id"] for row in left] == [ids[1], ids[2], ids[4]]


async def test_letters_that_cannot_run_again_do_not_hold_up_the_others(
    connection: Connection,
) -> None:
    await die(connection, 1, "aa", handler="workflow:ad_hoc")
    ids = await die(connection, 2, "aa")
    await connection.execute(
        "UPDATE pgcron.dead_letter SET args = pgcron.erased_args() WHERE run_id = $1", ids[0]
    )

    assert letters(await functions.redrive_many(connection, fingerprint="aa")) == [ids[1]]
    with_args = await functions.redrive_many(connection, fingerprint="aa", args='{"day": 1}')
    assert letters(with_args) == [ids[0]]
