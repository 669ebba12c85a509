"""Transactions of others that rely on a claim: `assert_token` and `finish_run`."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest

from tests.db.control import (
    Connect,
    Connection,
    Row,
    claim,
    claim_limited,
    claim_overlapping,
    enqueue,
    fail,
    finish,
    history_row,
    join,
    kill,
    put_schedule,
    reap,
    release,
    run_row,
    waits_for_lock,
)

_COMMIT_GATE = 4712
ALL_DIE = "UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'the test'"


async def claimed(connection: Connection, count: int = 1, **columns: Any) -> list[Row]:
    await enqueue(connection, count, **columns)
    return await claim(connection, await join(connection), count)


@pytest.fixture
async def service(another: Connect, connection: Connection) -> Connection:
    """Works in a table of its own. A note that begins with 'slow' is long in committing."""
    await connection.execute(f"""
        CREATE TABLE public.note (text text);
        CREATE FUNCTION public.be_slow() RETURNS trigger LANGUAGE plpgsql AS
          'BEGIN PERFORM pg_advisory_xact_lock_shared({_COMMIT_GATE}); RETURN NULL; END';
        CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON public.note DEFERRABLE INITIALLY DEFERRED
          FOR EACH ROW WHEN (NEW.text LIKE 'slow%') EXECUTE FUNCTION public.be_slow();
    """)
    return await another()


async def work_for(service: Connection, run: Row, text: str = "done") -> None:
    await service.execute("SELECT pgcron.assert_token($1, $2)", run["id"], run["token"])
    await service.execute("INSERT INTO public.note VALUES ($1)", text)


async def notes(connection: Connection) -> list[str]:
    return [row["text"] for row in await connection.fetch("SELECT text FROM public.note")]


async def test_a_transaction_whose_claim_holds_commits(
    service: Connection, connection: Connection
) -> None:
    [run] = await claimed(connection)

    async with service.transaction():
        await work_for(service, run)
        await work_for(service, run, "and again")

    assert await notes(connection) == ["done", "and again"]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.assertion") == 0
    assert await finish(connection, [run]) == [run["id"]]


@pytest.mark.parametrize("taken_by", ["reaper", "release", "failure", "completion"])
async def test_a_claim_that_is_taken_first_refuses_the_commit(
    taken_by: str, service: Connection, connection: Connection
) -> None:
    [run] = await claimed(connection)
    transaction = service.transaction()
    await transaction.start()
    await work_for(service, run)

    # Nobody waits for a transaction that is under way: a zombie delays no takeover.
    if taken_by == "reaper":
        await connection.execute(ALL_DIE)
        assert await reap(connection) == {run["id"]: "retry"}
    elif taken_by == "release":
        assert await release(connection, [run]) == [run["id"]]
        assert len(await claim(connection, await join(connection))) == 1
    elif taken_by == "failure":
        assert await fail(connection, [run]) == {run["id"]: "retry"}
    else:
        assert await finish(connection, [run]) == [run["id"]]

    with pytest.raises(asyncpg.PostgresError) as refused:
        await transaction.commit()
    assert refused.value.sqlstate == "PC012"
    assert f"the claim of run {run['id']} is over" in str(refused.value)
    assert await notes(connection) == []


@pytest.mark.parametrize("taken_by", ["reaper", "release", "failure"])
async def test_who_comes_during_the_commit_comes_after_it(
    taken_by: str, service: Connection, connection: Connection, another: Connect
) -> None:
    [run] = await claimed(connection)
    taker = await another()
    await connection.execute(f"SELECT pg_advisory_lock({_COMMIT_GATE})")
    transaction = service.transaction()
    await transaction.start()
    await work_for(service, run, "slow")
    committing = asyncio.ensure_future(transaction.commit())
    await waits_for_lock(connection, service)

    if taken_by == "reaper":  # it leaves the row to whoever has it, and looks again
        await connection.execute(ALL_DIE)
        assert await reap(taker) == {}
    taking: asyncio.Future[Any] = asyncio.ensure_future(
        fail(taker, [run]) if taken_by == "failure" else release(taker, [run])
    )
    await waits_for_lock(connection, taker)
    await connection.execute(f"SELECT pg_advisory_unlock({_COMMIT_GATE})")
    await committing

    assert await taking == ({run["id"]: "retry"} if taken_by == "failure" else [run["id"]])
    assert await notes(connection) == ["slow"]


async def test_a_token_that_holds_no_run_is_refused_at_once(
    service: Connection, connection: Connection
) -> None:
    first, second = await claimed(connection, 2)
    await release(connection, [first])
    await finish(connection, [second])

    for run, token in (
        (first["id"], first["token"]),
        (second["id"], second["token"]),
        (0, first["token"]),
        (None, None),
    ):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await service.execute("SELECT pgcron.assert_token($1, $2)", run, token)
        assert refused.value.sqlstate == "PC012"
        assert refused.value.hint


async def test_an_assertion_of_a_part_that_was_rolled_back_binds_nobody(
    service: Connection, connection: Connection
) -> None:
    [run] = await claimed(connection)

    async with service.transaction():
        part = service.transaction()
        await part.start()
        await work_for(service, run)
        await part.rollback()
        await service.execute("INSERT INTO public.note VALUES ('own')")
        await release(connection, [run])

    assert await notes(connection) == ["own"]


async def test_assertions_of_several_runs_lock_in_everybodys_order(
    service: Connection, connection: Connection, another: Connect
) -> None:
    runs = await claimed(connection, 2)
    taker = await another()
    await connection.execute(f"SELECT pg_advisory_lock({_COMMIT_GATE})")
    async with taker.transaction():
        await taker.execute(
            "SELECT FROM pgcron.run WHERE id = $1 FOR UPDATE", min(run["id"] for run in runs)
        )
        transaction = service.transaction()
        await transaction.start()
        for run in sorted(runs, key=lambda run: -run["id"]):
            await work_for(service, run)
        committing = asyncio.ensure_future(transaction.commit())
        await waits_for_lock(connection, service)
        # Had it locked the other run first, this would be a deadlock.
        assert await fail(taker, runs) == {run["id"]: "retry" for run in runs}

    with pytest.raises(asyncpg.PostgresError) as refused:
        await committing
    assert refused.value.sqlstate == "PC012"


async def test_the_right_is_nobodys_until_it_is_granted(
    connection: Connection, orphan: Connection
) -> None:
    [run] = await claimed(connection)
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await orphan.execute("SELECT pgcron.assert_token($1, $2)", run["id"], run["token"])
    name = await orphan.fetchval("SELECT current_user")
    await connection.execute(
        f"GRANT EXECUTE ON FUNCTION pgcron.assert_token, pgcron.finish_run TO {name}"
    )

    await orphan.execute("SELECT pgcron.assert_token($1, $2)", run["id"], run["token"])
    await orphan.execute("SELECT pgcron.finish_run($1, $2)", run["id"], run["token"])
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await orphan.execute("SELECT FROM pgcron.run")


async def test_a_run_and_its_effects_are_finished_together_or_not_at_all(
    service: Connection, connection: Connection
) -> None:
    first, second = await claimed(connection, 2)
    call = (
        "SELECT pgcron.finish_run($1, $2, elapsed => 2, result => '{\"fine\": true}', node => 'n')"
    )

    async with service.transaction():
        await work_for(service, first)
        await service.execute(call, first["id"], first["token"])
    undone = service.transaction()
    await undone.start()
    await work_for(service, second, "undone")
    await service.execute(call, second["id"], second["token"])
    await undone.rollback()

    assert await notes(connection) == ["done"]
    assert await run_row(connection, first["id"]) is None
    ended = await history_row(connection, first["id"])
    assert ended is not None
    assert (ended["outcome"], ended["result"], ended["node"]) == (
        "succeeded",
        '{"fine": true}',
        "n",
    )
    assert (ended["finished_at"] - ended["started_at"]).total_seconds() >= 2
    assert await finish(connection, [second]) == [second["id"]]


async def test_a_late_finish_fails_its_transaction(
    service: Connection, connection: Connection
) -> None:
    node = await join(connection)
    await enqueue(connection)
    [run] = await claim(connection, node)
    transaction = service.transaction()
    await transaction.start()
    await service.execute("INSERT INTO public.note VALUES ('of a zombie')")
    await kill(connection, node)
    await reap(connection)

    with pytest.raises(asyncpg.PostgresError) as refused:
        await service.execute("SELECT pgcron.finish_run($1, $2)", run["id"], run["token"])
    assert refused.value.sqlstate == "PC012"
    await service.execute("COMMIT")  # what a careless caller does: it rolls back

    assert await notes(connection) == []
    row = await run_row(connection, run["id"])
    assert row is not None
    assert row["state"] == "ready"


async def test_a_run_ends_with_its_transaction_even_without_a_partition(
    service: Connection, connection: Connection
) -> None:
    [run] = await claimed(connection)
    partitions = await connection.fetch(
        "SELECT inhrelid::regclass::text AS name FROM pg_inherits"
        " WHERE inhparent = 'pgcron.history'::regclass"
    )
    for partition in partitions:
        await connection.execute(f"DROP TABLE {partition['name']}")

    await service.execute("SELECT pgcron.finish_run($1, $2)", run["id"], run["token"])

    kept = await connection.fetchrow("SELECT * FROM pgcron.history_overflow")
    assert kept is not None
    assert (kept["id"], kept["outcome"]) == (run["id"], "succeeded")


async def test_a_result_over_the_bound_is_refused(connection: Connection) -> None:
    [run] = await claimed(connection)

    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.execute(
            "SELECT pgcron.finish_run($1, $2, result => to_jsonb(repeat('x', 262144)))",
            run["id"],
            run["token"],
        )
    assert refused.value.sqlstate == "PC004"

    with pytest.raises(asyncpg.PostgresError, match="the result is nested more than 100 levels"):
        await connection.execute(
            "SELECT pgcron.finish_run($1, $2, result => $3)",
            run["id"],
            run["token"],
            "[" * 101 + "]" * 101,
        )
    await connection.execute(
        "SELECT pgcron.finish_run($1, $2, result => $3)",
        run["id"],
        run["token"],
        "[" * 100 + "]" * 100,
    )


async def test_both_completions_keep_the_same_of_a_run(connection: Connection) -> None:
    one, other = await claimed(connection, 2, args='{"day": 1}', max_attempts=3, priority=2)
    await finish(connection, [one])
    await connection.execute("SELECT pgcron.finish_run($1, $2)", other["id"], other["token"])
    rows = [dict(await history_row(connection, run["id"]) or {}) for run in (one, other)]
    reported_apart = {"id", "uuid", "fence", "started_at", "finished_at", "node", "result"}
    same = [{k: v for k, v in row.items() if k not in reported_apart} for row in rows]
    assert same[0] == same[1]


@pytest.mark.parametrize("kind", ["plain", "once", "keyed", "scheduled"])
async def test_the_token_of_one_run_is_good_for_no_other(connection: Connection, kind: str) -> None:
    node = await join(connection)
    if kind == "scheduled":
        for name in ("a", "b", "c"):
            schedule = await put_schedule(connection, name)
            await enqueue(
                connection,
                origin="manual",
                schedule_id=schedule,
                overlap="skip",
                nominal_for=datetime.now(UTC),
            )
        runs, _ = await claim_overlapping(connection, node)
    elif kind == "keyed":
        for concurrency_key in ("a", "b", "c"):
            await enqueue(connection, concurrency_key=concurrency_key)
        runs = [row for row in await claim_limited(connection, node) if row["verdict"] == "claim"]
    else:
        once = {"delivery": "at_most_once"} if kind == "once" else {}
        await enqueue(connection, 3, **once)
        runs = await claim(connection, node)
    assert len({run["token"] for run in runs}) == 3
    mine, other = runs[0], runs[1]

    for command in (
        "SELECT pgcron.finish_run($1, $2)",
        "SELECT pgcron.assert_token($1, $2)",
        "SELECT pgcron.previous_of($1, $2)",
    ):
        with pytest.raises(asyncpg.PostgresError, match=r"the claim of run \d+ is over"):
            await connection.execute(command, other["id"], mine["token"])
    assert sorted(await finish(connection, runs)) == sorted(run["id"] for run in runs)
