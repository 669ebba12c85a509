import asyncio
import logging
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Context
from tests.executors.running import Record, Turn, context
from tests.product.executors import (
    CUT_MARK,
    MAX_LINE_BYTES,
    MAX_LINES,
    PythonExecutor,
    PythonHandler,
    RunLog,
)
from tests.waiting import wait_for


@asynccontextmanager
async def executor(*functions: Callable[..., Any]) -> AsyncIterator[tuple[PythonExecutor, Record]]:
    record = Record()
    handlers = {each.__name__: PythonHandler(each.__name__, each) for each in functions}
    running = PythonExecutor(handlers, record.services())
    try:
        yield running, record
    finally:
        await running.close(5)


async def lines_of(function: Callable[..., Any]) -> list[tuple[str, str]]:
    async with executor(function) as (running, record):
        run = context(1, f"py:{function.__name__}")
        running.start([run])
        assert record.outcome(run) is SUCCEEDED
        return [(stream, line) for _, stream, line in record.lines]


async def test_what_an_async_handler_prints_and_logs_becomes_lines_of_its_run() -> None:
    async def talks(ctx: Context) -> None:
        print("one\ntwo")
        print("to", "stderr", file=sys.stderr)
        sys.stdout.writelines(["with", "out end"])
        logging.getLogger("shop.jobs").warning("stock is %s", "low")
        ctx.log("three\nfour")

    assert await lines_of(talks) == [
        ("stdout", "one"),
        ("stdout", "two"),
        ("stderr", "to stderr"),
        ("log", "WARNING shop.jobs: stock is low"),
        ("log", "three"),
        ("log", "four"),
        ("stdout", "without end"),
    ]


async def test_a_plain_handler_and_threads_it_hands_its_context_to_are_captured() -> None:
    def talks() -> None:
        print("plain")
        logging.getLogger().error("broken")

    async def hands_over() -> None:
        await asyncio.to_thread(print, "from a thread")
        await asyncio.create_task(says("from a task"))

    async def says(line: str) -> None:
        print(line)

    assert await lines_of(talks) == [("stdout", "plain"), ("log", "ERROR root: broken")]
    assert await lines_of(hands_over) == [("stdout", "from a thread"), ("stdout", "from a task")]


async def test_the_output_of_concurrent_runs_does_not_mix() -> None:
    async def talks(ctx: Context) -> None:
        for part in range(20):
            print(ctx.run_id, end=" ")
            await Turn()
            print(part)

    barrier = threading.Barrier(8)

    def talks_plainly(ctx: Context) -> None:
        for part in range(20):
            print(ctx.run_id, end=" ")
            barrier.wait(5)
            print(part)

    async with executor(talks, talks_plainly) as (running, record):
        runs = [context(number, "py:talks") for number in range(50)]
        runs += [context(number, "py:talks_plainly") for number in range(100, 108)]
        running.start(runs)
        for run in runs:
            assert record.outcome(run) is SUCCEEDED
            assert record.lines_of(run) == [f"{run.run_id} {part}" for part in range(20)]


async def test_code_outside_a_run_prints_and_logs_where_it_did(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    before = sys.stdout, sys.stderr, list(logging.getLogger().handlers)
    async with executor() as (_, record):
        print("the engine speaks")
        assert sys.stdout.encoding == before[0].encoding
        logging.getLogger("engine").warning("the engine logs")
    assert capsys.readouterr().out == "the engine speaks\n"
    assert [each.getMessage() for each in caplog.records] == ["the engine logs"]
    assert not record.lines
    assert (sys.stdout, sys.stderr, logging.getLogger().handlers) == before


@pytest.mark.parametrize("in_time", [["in time"], []])
async def test_a_task_left_behind_prints_to_the_process_once_its_run_is_over(
    capsys: pytest.CaptureFixture[str], in_time: list[str]
) -> None:
    go_on = threading.Event()
    left: list[asyncio.Task[None]] = []

    async def later() -> None:
        await asyncio.to_thread(go_on.wait, 5)
        print("late")

    async def leaves_a_task() -> None:
        for line in in_time:
            print(line)
        left.append(asyncio.create_task(later()))

    async with executor(leaves_a_task) as (running, record):
        run = context(1, "py:leaves_a_task")
        running.start([run])
        assert record.outcome(run) is SUCCEEDED
        go_on.set()
        wait_for("the task has ended", lambda: left[0].done())
    assert record.lines_of(run) == in_time
    assert capsys.readouterr().out == "late\n"


async def test_two_executors_share_one_capture_and_the_last_one_removes_it() -> None:
    before = sys.stdout
    async with executor():
        async with executor():
            pass
        assert sys.stdout is not before
    assert sys.stdout is before


async def test_a_flood_is_bounded_and_the_last_line_says_how_much_was_dropped() -> None:
    def floods() -> None:
        for number in range(MAX_LINES + 5):
            print(number)
        print("more\n" * 1000, end="")

    lines = await lines_of(floods)
    assert len(lines) == MAX_LINES + 1
    assert lines[MAX_LINES - 1] == ("stdout", str(MAX_LINES - 1))
    assert lines[-1] == ("log", f"1005 more lines were dropped: a run keeps {MAX_LINES}")


def written(*texts: str) -> list[str]:
    record = Record()
    run = context(1, "py:any")
    log = RunLog(run, record)
    for text in texts:
        log.feed("stdout", text)
    log.finish()
    assert log.feed("stdout", "after the end") is False
    return record.lines_of(run)


def test_a_long_line_is_cut_at_its_bound_in_bytes_and_marked() -> None:
    exact, long, wide = "x" * MAX_LINE_BYTES, "y" * (MAX_LINE_BYTES + 1), "é" * MAX_LINE_BYTES
    lines = written(exact + "\n" + long + "\n" + wide + "\n", *["z" * 100] * 1000)
    assert lines[0] == exact
    assert [len(line.encode()) <= MAX_LINE_BYTES for line in lines] == [True] * 4
    assert [line.endswith(CUT_MARK) for line in lines] == [False, True, True, True]


def test_lines_hold_only_what_postgresql_can_keep() -> None:
    assert written("a\0b\r\n", "\ud800\n", "\n", "rest") == ["a\ufffdb", "?", "", "rest"]
