"""The plug-in of pytest, in the tests of an application that stands elsewhere."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import psycopg
import pytest

from tests.house.checkout import ROOT
from tests.waiting import COMMAND_SECONDS

# Where the package is installed pytest finds the plug-in by itself.
IS_INSTALLED = any(found.name == "pgcron_ha" for found in entry_points(group="pytest11"))
LOADED = () if IS_INSTALLED else ("-p", "pgcron_ha.testing.plugin")

JOBS = """
import threading
from pgcron_ha import App, Retry

app = App()
pause = threading.Event()
calls = []

@app.schedule("30 2 * * *", timezone="Europe/Berlin", args={"kind": "daily"})
@app.handler("report")
async def report(context, kind: str = "none"):
    calls.append(kind)
    return {"kind": kind, "for": context.fire_time and context.fire_time.isoformat()}

@app.schedule("* * * * * *")
@app.handler("each_second")
def each_second(context):
    calls.append("second")

@app.handler("fails_twice")
def fails_twice(context):
    calls.append("attempt")
    if context.attempt < 3:
        raise Retry(after=3600)
    return context.attempt

@app.handler("fails")
def fails(context):
    raise ValueError("no such order")

@app.handler("asks_for_more")
async def asks_for_more(context):
    await app.enqueue("report", {"kind": "more"})

@app.handler("endless")
def endless(context):
    while True:
        context.check()
        pause.wait(0.02)
"""
TESTS = """
import asyncio
from datetime import UTC, datetime
import psycopg
import pytest
import jobs
from pgcron_ha.errors import InvalidInput, NotFound, WaitTimedOut

@pytest.fixture(autouse=True)
def fresh():
    jobs.calls.clear()

async def test_a_run_gives_its_result(pgcron):
    status = await pgcron.run("report", {"kind": "x"})
    assert (status.outcome, status.result) == ("succeeded", {"kind": "x", "for": None})

async def test_retries_are_not_waited_for(pgcron):
    status = await pgcron.run(jobs.fails_twice)
    assert (status.outcome, status.result, status.attempt) == ("succeeded", 3, 3)

async def test_a_failure_is_told(pgcron):
    status = await pgcron.run("fails", max_attempts=1)
    assert status.outcome == "dead"
    assert "no such order" in status.error

async def test_a_schedule_fires_for_an_instant(pgcron):
    first, second = await pgcron.fires("report", datetime(2026, 3, 28, 12, tzinfo=UTC), 2)
    assert (first.isoformat(), second.isoformat()) == (
        "2026-03-29T01:00:00+00:00", "2026-03-30T00:30:00+00:00")  # the clock goes forward
    status = await pgcron.fire("report", at=first)
    assert status.result == {"kind": "daily", "for": first.isoformat()}
    assert jobs.calls == ["daily"], "the clock starts nothing"
    assert (await pgcron.fire("report", args={"kind": "x"})).result["kind"] == "x"
    assert (await pgcron.fire("report", args='{"kind": "y"}')).result["kind"] == "y"
    with pytest.raises(InvalidInput, match="args is a JSON array"):
        await pgcron.fire("report", args="[]")

def test_without_an_event_loop_too(pgcron):
    with psycopg.connect(pgcron.dsn) as connection:
        connection.execute(*jobs.app.enqueue_statement("report", {"kind": "mine"}))
    [status] = asyncio.run(pgcron.drain())
    assert status.result["kind"] == "mine"
    assert asyncio.run(pgcron.drain()) == []

async def test_each_test_begins_with_nothing(pgcron):
    assert await pgcron.drain() == []
    with psycopg.connect(pgcron.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM pgcron.runs").fetchone() == (0,)
        asked = connection.execute("SELECT name, enabled FROM pgcron.schedules ORDER BY 1")
        names = asked.fetchall()
    assert names == [("each_second", False), ("report", False)]

async def test_what_runs_ask_for_is_drained_and_what_is_later_waits(pgcron):
    with psycopg.connect(pgcron.dsn) as connection:
        for late in ("0", "50 min", "40 min", "2 h"):
            connection.execute(
                "SELECT pgcron.enqueue('py:report', jsonb_build_object('kind', %s::text), "
                "due_at => now() + %s::interval)", (late, late))
        connection.execute("SELECT pgcron.enqueue('py:asks_for_more')")
    ended = await pgcron.drain()
    assert sorted(run.result["kind"] for run in ended if run.result) == ["0", "more"]
    jobs.calls.clear()
    ended = await pgcron.drain(ahead="1h")
    assert jobs.calls == ["40 min", "50 min"], "in their order"
    assert len(ended) == 2

async def test_what_waits_for_the_run_before_it_is_executed_too(pgcron):
    with psycopg.connect(pgcron.dsn) as connection:
        for _ in range(4):
            connection.execute("SELECT pgcron.run_now('report', overlap => 'queue')")
    assert [run.outcome for run in await pgcron.drain()] == ["succeeded"] * 4

async def test_what_can_not_end_is_said(pgcron):
    with pytest.raises(WaitTimedOut, match="shell:nobody did not end: no live node offers"):
        await pgcron.run("shell:nobody")
    with pytest.raises(WaitTimedOut, match="'py:reprot' for .* did you mean 'py:report'") as told:
        await pgcron.run("reprot", concurrency_key="one")
    assert "runs show" not in told.value.hint
    with pytest.raises(WaitTimedOut, match="needs gpu=1: no live node"):
        await pgcron.run("report", requires={"gpu": "1"})
    with pytest.raises(NotFound):
        await pgcron.fire("nothing")
    with pytest.raises(InvalidInput):
        await pgcron.run("report", {"kind": 5, "other": 1})

async def test_what_nobody_offers_is_said_when_it_is_due(pgcron):
    with psycopg.connect(pgcron.dsn) as connection:
        connection.execute("SELECT pgcron.enqueue('py:reprot', due_at => now() + '1 h')")
    assert await pgcron.drain() == []
    with pytest.raises(WaitTimedOut, match="py:reprot did not end.* did you mean 'py:report'"):
        await pgcron.drain(ahead="2h")

async def test_a_handler_without_an_end_is_stopped(pgcron):
    await jobs.app.enqueue("endless")
    with pytest.raises(WaitTimedOut, match="something to execute after 0.5 s: py:endless"):
        await pgcron.drain(timeout=0.5)
    await jobs.app.close()
"""
INI = """
[pytest]
pgcron_app = jobs:app
asyncio_mode = auto
asyncio_default_fixture_loop_scope = function
pythonpath = .
filterwarnings = error
"""
Suite = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def suite(tmp_path: Path, empty_database: str) -> Suite:
    """Runs pytest on these tests of an application, in a process of its own."""

    def run(
        tests: str,
        *,
        dsn: str | None = empty_database,
        ini: str = INI,
        jobs: str = JOBS,
        worker: str = "",
    ) -> subprocess.CompletedProcess[str]:
        (tmp_path / "jobs.py").write_text(jobs)
        (tmp_path / "pytest.ini").write_text(ini)
        (tmp_path / "test_jobs.py").write_text(tests)
        given = {"PYTHONPATH": str(ROOT), "PGCRON_HA_TEST_DSN": dsn or ""}
        given["PYTEST_XDIST_WORKER"] = worker
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-q", *LOADED],
            cwd=tmp_path,
            env={**os.environ, **given},
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )

    return run


def passed(answer: subprocess.CompletedProcess[str], count: int) -> bool:
    assert f"{count} passed" in answer.stdout, answer.stdout + answer.stderr
    return answer.returncode == 0


@pytest.mark.long
def test_handlers_and_schedules_run_without_waiting(suite: Suite, empty_database: str) -> None:
    answer = suite(TESTS)

    assert passed(answer, 11)
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT to_regnamespace('pgcron')").fetchone() == (None,)


@pytest.mark.long
def test_without_a_database_a_server_is_brought_up(suite: Suite) -> None:
    answer = suite(
        """
async def test_it(pgcron):
    assert (await pgcron.run("report")).outcome == "succeeded"
""",
        dsn=None,
    )

    assert passed(answer, 1)


@pytest.mark.long
def test_a_schema_that_the_tests_have_not_made_is_never_touched(
    suite: Suite, database: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("SELECT pgcron.enqueue('py:precious')")
    answer = suite("async def test_it(pgcron): ...", dsn=database)

    assert answer.returncode == 1
    assert "is in the database for tests already" in answer.stdout
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM pgcron.run").fetchone() == (1,)


@pytest.mark.long
def test_what_a_session_left_that_was_killed_is_made_anew(
    suite: Suite, empty_database: str
) -> None:
    killed = suite("import os\nasync def test_it(pgcron): os._exit(9)")
    assert killed.returncode == 9
    with psycopg.connect(empty_database) as connection:
        assert connection.execute("SELECT to_regnamespace('pgcron')").fetchone() == ("pgcron",)

    assert passed(suite("async def test_it(pgcron): ..."), 1)


def test_workers_at_once_have_a_schema_each(suite: Suite, empty_database: str) -> None:
    answer = suite(
        """
import os
async def test_it(pgcron):
    assert (await pgcron.run("report")).outcome == "succeeded"
    os._exit(9)
""",
        worker="gw3",
    )

    assert answer.returncode == 9, answer.stdout
    with psycopg.connect(empty_database) as connection:
        made = "SELECT nspname FROM pg_namespace WHERE nspname ~ '^pgcron'"
        assert connection.execute(made).fetchall() == [("pgcron_gw3",)]


def test_isolated_handlers_have_processes_of_their_own(suite: Suite) -> None:
    answer = suite(
        """
import os
async def test_it(pgcron):
    assert (await pgcron.run("report")).outcome == "succeeded"
    alone = await pgcron.run("alone")
    assert alone.outcome == "succeeded"
    assert alone.result != os.getpid()
""",
        jobs=JOBS
        + """
import os

@app.handler("alone", isolation="process")
def alone(context):
    return os.getpid()
""",
    )

    assert passed(answer, 1)


def test_an_app_with_another_database_is_refused(suite: Suite, empty_database: str) -> None:
    own, test = "postgresql://127.0.0.1:1/precious", "async def test_it(pgcron): ..."
    answer = suite(test, jobs=JOBS.replace("App()", f"App({own!r})"))

    assert answer.returncode == 1
    assert "the App under test has another DSN than the tests" in answer.stdout
    assert passed(suite(test, jobs=JOBS.replace("App()", f"App({empty_database!r})")), 1)


def test_no_server_of_the_project_is_connected_to(suite: Suite, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "pgcron-ha.toml").write_text(
            f'listen_dsn = "postgresql://127.0.0.1:{server.getsockname()[1]}/precious"\n'
            'audit.webhook = "http://log.example"\n'  # refused by a node: not encrypted
        )
        answer = suite(
            """
async def test_it(pgcron):
    assert (await pgcron.run("report")).outcome == "succeeded"
"""
        )
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()

    assert passed(answer, 1)


def test_an_app_that_nobody_named_is_asked_for(suite: Suite) -> None:
    answer = suite("async def test_it(pgcron): ...", ini=INI.replace("pgcron_app = jobs:app", ""))

    assert answer.returncode == 1
    assert "pgcron_app = shop.jobs:app" in answer.stdout


def test_pytest_finds_the_plug_in_of_the_installed_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    (place,) = project["entry-points"]["pytest11"].values()
    assert hasattr(import_module(place), "pytest_addoption")
