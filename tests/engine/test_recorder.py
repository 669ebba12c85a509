from __future__ import annotations

import asyncio
from functools import partial
from threading import Thread

import pytest

from tests.db.control import Connect, Connection, kill, reap
from tests.engine.conftest import MakeLink
from tests.engine.ending import Ending, begin
from tests.engine.proxy import Proxy
from tests.product.db import Link, Unanswered
from tests.product.engine import BUFFER_LINES, PROGRESS_SECONDS
from tests.product.engine import RECORDER_BATCH as BATCH
from tests.product.executors import Progress
from tests.waiting import slowness, until


@pytest.fixture
async def ending(link: Link, connection: Connection) -> Ending:
    return await begin(link, connection)


async def _is_last(connection: Connection, run: int, text: str) -> bool:
    return (await lines(connection, run))[-1:] == [text]


async def lines(connection: Connection, run: int) -> list[str]:
    rows = await connection.fetch(
        "SELECT line FROM pgcron.log WHERE run_id = $1 ORDER BY attempt, sequence", run
    )
    return [row["line"] for row in rows]


async def test_lines_of_two_runs_are_written_in_the_order_of_each(
    ending: Ending, connection: Connection
) -> None:
    one, two = await ending.claim(2)
    for number in range(5):
        ending.recorder.write(ending.executor.executing[one], "stdout", f"one {number}")
        ending.recorder.write(ending.executor.executing[two], "stderr", f"two {number}")

    await ending.recorder.run_once()

    assert await lines(connection, one) == [f"one {number}" for number in range(5)]
    assert await lines(connection, two) == [f"two {number}" for number in range(5)]
    assert await connection.fetchval("SELECT count(DISTINCT stream) FROM pgcron.log") == 2


async def test_nothing_to_write_costs_no_statement(ending: Ending) -> None:
    assert (await ending.recorder.run_once() or 0) > 1
    assert not ending.link.is_open


async def test_a_write_from_a_thread_wakes_the_recorder(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    context = ending.executor.executing[run]
    loop = asyncio.ensure_future(ending.recorder.run())

    for text in ("one", "two"):
        thread = Thread(target=ending.recorder.write, args=(context, "stdout", text))
        thread.start()
        thread.join()
        await until(f"{text} is written", partial(_is_last, connection, run, text))
    ending.recorder.stop()
    await loop


async def test_more_than_a_batch_takes_another_pass(ending: Ending, connection: Connection) -> None:
    (run,) = await ending.claim()
    for number in range(BATCH + 3):
        ending.recorder.write(ending.executor.executing[run], "stdout", str(number))

    assert await ending.recorder.run_once() == 0
    assert len(await lines(connection, run)) == BATCH
    await ending.recorder.run_once()

    assert await lines(connection, run) == [str(number) for number in range(BATCH + 3)]


async def test_what_does_not_fit_the_buffer_is_dropped_and_counted(ending: Ending) -> None:
    (run,) = await ending.claim()
    context = ending.executor.executing[run]
    for _ in range(BUFFER_LINES + 7):
        ending.recorder.write(context, "stdout", "x")

    assert ending.recorder.dropped == 7


async def test_only_the_lines_of_the_runs_that_end_are_waited_for(
    ending: Ending, connection: Connection
) -> None:
    one, two = await ending.claim(2)
    ending.recorder.write(ending.executor.executing[one], "log", "mine")
    silent = [ending.executor.executing[two]]

    await ending.recorder.flush_lines_of(silent)
    assert await lines(connection, one) == []
    await ending.recorder.flush_lines_of([ending.executor.executing[one]])

    assert await lines(connection, one) == ["mine"]


async def reported(connection: Connection, run: int) -> tuple[object, ...] | None:
    row = await connection.fetchrow(
        "SELECT attempt, done, total, note FROM pgcron.progress WHERE run_id = $1", run
    )
    return None if row is None else tuple(row)


async def test_the_latest_progress_of_each_run_is_written_once_a_second(
    ending: Ending, connection: Connection
) -> None:
    one, two = await ending.claim(2)
    contexts = ending.executor.executing
    for step in range(1, 1001):
        ending.recorder.progress(contexts[one], Progress(step, 1000, f"step {step}"))
    ending.recorder.progress(contexts[two], Progress(7, None, None))

    await ending.recorder.run_once()
    assert await reported(connection, one) == (1, 1000, 1000, "step 1000")
    assert await reported(connection, two) == (1, 7, None, None)

    ending.recorder.progress(contexts[two], Progress(8, None, None))
    wait = await ending.recorder.run_once()
    assert wait is not None
    assert 0 < wait < PROGRESS_SECONDS
    assert await reported(connection, two) == (1, 7, None, None)
    loop = asyncio.ensure_future(ending.recorder.run())

    async def is_written() -> bool:
        return await reported(connection, two) == (1, 8, None, None)

    await until("the next one is written", is_written)
    ending.recorder.stop()
    await loop


async def test_progress_of_a_run_that_was_taken_away_is_refused(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    zombie = ending.executor.executing[run]
    await kill(connection, ending.node)
    await reap(connection)

    ending.recorder.progress(zombie, Progress(1, 2, None))
    await ending.recorder.run_once()

    assert await reported(connection, run) is None


async def test_progress_of_a_run_that_has_ended_is_not_written(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    ending.recorder.progress(ending.executor.executing[run], Progress(1, 2, None))

    await ending.recorder.flush_lines_of([ending.executor.executing[run]])
    await ending.recorder.run_once()

    assert await reported(connection, run) is None


async def test_progress_that_got_no_answer_is_written_again(
    connection: Connection, proxy: Proxy, proxied: Link
) -> None:
    ending = await begin(proxied, connection)
    (run,) = await ending.claim()
    ending.recorder.progress(ending.executor.executing[run], Progress(1, 2, None))
    proxy.lose_answer_to("INTO pgcron.progress")

    await ending.recorder.run_once()
    await until("the statement is over", partial(reported, connection, run))
    await connection.execute("TRUNCATE pgcron.progress")
    loop = asyncio.ensure_future(ending.recorder.run())

    async def is_written() -> bool:
        return await reported(connection, run) == (1, 1, 2, None)

    await until("it is written", is_written)
    ending.recorder.stop()
    await loop


async def test_two_writers_at_once_write_each_line_once(
    ending: Ending, connection: Connection
) -> None:
    runs = await ending.claim(5)
    contexts = [ending.executor.executing[run] for run in runs]
    for number in range(50):
        for context in contexts:
            ending.recorder.write(context, "stdout", str(number))

    await asyncio.gather(
        ending.recorder.run_once(),
        *(ending.recorder.flush_lines_of([context]) for context in contexts),
        ending.recorder.run_once(),
    )

    for run in runs:
        assert await lines(connection, run) == [str(number) for number in range(50)]


async def test_the_next_attempt_counts_its_lines_from_one(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    ending.recorder.write(ending.executor.executing[run], "stdout", "first attempt")
    await ending.recorder.run_once()
    await connection.execute("UPDATE pgcron.run SET owner = gen_random_uuid()")
    await reap(connection)
    await ending.claim_due()
    ending.recorder.write(ending.executor.executing[run], "stdout", "second attempt")

    await ending.recorder.run_once()

    rows = await connection.fetch("SELECT attempt, sequence FROM pgcron.log ORDER BY attempt")
    assert [tuple(row) for row in rows] == [(1, 1), (2, 1)]


async def test_lines_of_a_run_that_was_taken_away_are_refused(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    await kill(connection, ending.node)
    await reap(connection)
    ending.recorder.write(ending.executor.executing[run], "stdout", "too late")

    await ending.recorder.run_once()

    assert await lines(connection, run) == []


async def test_lines_the_database_refuses_do_not_stop_the_end(
    ending: Ending, connection: Connection
) -> None:
    (run,) = await ending.claim()
    context = ending.executor.executing[run]
    await connection.execute("ALTER TABLE pgcron.log ADD CONSTRAINT nothing CHECK (false)")
    ending.recorder.write(context, "stdout", "refused")

    async with asyncio.timeout(10 * slowness()):
        await ending.recorder.flush_lines_of([context])

    assert ending.recorder.dropped == 1


async def test_lines_that_are_refused_take_no_lines_of_other_runs_with_them(
    ending: Ending, connection: Connection
) -> None:
    runs = await ending.claim(5)
    await connection.execute("ALTER TABLE pgcron.log ADD CHECK (line <> 'refused')")
    for run in runs:
        text = "refused" if run == runs[2] else "kept"
        ending.recorder.write(ending.executor.executing[run], "stdout", text)

    await ending.recorder.run_once()

    kept = [await lines(connection, run) for run in runs]
    assert kept == [["kept"], ["kept"], [], ["kept"], ["kept"]]
    assert ending.recorder.dropped == 1


async def test_a_locked_row_of_progress_keeps_no_other_from_being_written(
    ending: Ending, connection: Connection, another: Connect
) -> None:
    runs = await ending.claim(5)
    contexts = [ending.executor.executing[run] for run in runs]
    for context in contexts:
        ending.recorder.progress(context, Progress(1, 2, None))
    await ending.recorder.run_once()
    other = await another()
    await other.execute("BEGIN")
    await other.execute("DELETE FROM pgcron.progress WHERE run_id = $1", runs[2])
    for context in contexts:
        ending.recorder.progress(context, Progress(2, 2, None))
    loop = asyncio.ensure_future(ending.recorder.run())

    async def is_written(written: list[int]) -> bool:
        found = [await reported(connection, run) for run in written]
        return found == [(1, 2, 2, None)] * len(written)

    others = [run for run in runs if run != runs[2]]
    await until("the others are written", partial(is_written, others))
    assert [each.what for each in ending.recorder.aside.entries()] == [f"progress of run {runs[2]}"]
    await other.execute("ROLLBACK")
    await until("it is written, too", partial(is_written, runs))
    ending.recorder.stop()
    await loop


async def test_lines_stay_when_the_database_is_away(
    make_link: MakeLink, proxy: Proxy, database: str, connection: Connection
) -> None:
    shaky = await begin(make_link(proxy.dsn(database), answer_seconds=1.0), connection)
    (run,) = await shaky.claim()
    shaky.recorder.write(shaky.executor.executing[run], "stdout", "kept")
    await shaky.link.rows("channel")
    proxy.stall()

    with pytest.raises(Unanswered):
        await shaky.recorder.run_once()
    proxy.reset()
    proxy.resume()
    await shaky.recorder.run_once()

    assert set(await lines(connection, run)) == {"kept"}


async def test_lines_whose_answer_got_lost_are_written_once(
    make_link: MakeLink, proxy: Proxy, database: str, connection: Connection
) -> None:
    shaky = await begin(make_link(proxy.dsn(database), answer_seconds=5.0), connection)
    (run,) = await shaky.claim()
    for text in ("one", "two"):
        shaky.recorder.write(shaky.executor.executing[run], "stdout", text)
    await shaky.link.rows("channel")
    proxy.lose_answer_to("INSERT INTO pgcron.log")

    with pytest.raises(Unanswered):
        await shaky.recorder.run_once()
    await until("the lost statement has happened", partial(_is_last, connection, run, "two"))
    shaky.recorder.write(shaky.executor.executing[run], "stdout", "three")
    await shaky.recorder.run_once()

    assert await lines(connection, run) == ["one", "two", "three"]
