"""What a step of a workflow learns of the steps before it, by each kind of handler."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha.executors.contract.base import SUCCEEDED, Context, Succeeded
from tests.executors.http.calls import destination
from tests.executors.isolated_handlers import app
from tests.executors.running import Record, context, no_link, template
from tests.product.client import child_program
from tests.product.config import HttpDestination, read_tables
from tests.product.executors import ChildPool, ShellExecutor, render_request

RESULTS = {"extract": {"rows": 7}, "count": 3}


def step(handler: str, results: str | None = json.dumps(RESULTS), **settings: Any) -> Context:
    run = context(1, handler, origin="enqueued" if results is None else "step", **settings)
    run._results = results
    return run


def test_a_context_has_the_results_and_nobody_changes_them() -> None:
    run = step("py:x")
    assert run.results == RESULTS
    assert run.results is not RESULTS
    results: Any = run.results
    with pytest.raises(TypeError):
        results["x"] = 1
    assert step("py:x", None).results == {}


async def test_a_process_of_its_own_has_them() -> None:
    record = Record()
    program = child_program(["tests.executors.isolated_handlers:app"], "postgresql://x", "pgcron")
    running = ChildPool(app.handlers, program, record.services(1))
    try:
        run = step("py:results")
        running.start([run])
        outcome = await asyncio.to_thread(record.outcome, run)
    finally:
        await running.close(5)
    assert isinstance(outcome, Succeeded)
    assert outcome.result == RESULTS


@pytest.mark.parametrize(
    ("results", "line"),
    [(json.dumps(RESULTS), json.dumps(RESULTS)), ("{}", "{}"), (None, "nothing")],
)
async def test_a_program_has_them_in_a_file(results: str | None, line: str, tmp_path: Path) -> None:
    record = Record()
    reads = template("sh", "-c", 'cat "${PGCRON_RESULTS_FILE:-/dev/null}" | grep . || echo nothing')
    place = record.services(directory=tmp_path)
    running = ShellExecutor({"t": reads}, place, no_link())
    try:
        run = step("shell:t", results)
        running.start([run])
        assert await asyncio.to_thread(record.outcome, run) is SUCCEEDED
        assert record.lines_of(run) == [line]
        assert list(tmp_path.rglob("*.json")) == []
    finally:
        await running.close(5)


def test_a_service_gets_them_where_its_destination_says_so() -> None:
    url = "https://example.com/"
    run = step("http:d", args={"a": 1})

    def content(**table: Any) -> Any:
        return json.loads(render_request(destination(url, **table), run).content or b"null")

    assert content() == {"a": 1}
    assert content(results=True) == {"a": 1, "pgcron_results": RESULTS}
    run._args = {}
    assert content(results=True, body={"r": "{pgcron_results}"}) == {"r": RESULTS}
    run._results = None
    assert content(results=True) == {"pgcron_results": {}}

    asks = {"url": url, "body": {"r": "{pgcron_results}"}}
    found, problems = read_tables("http", {"d": asks}, HttpDestination)
    assert (found, len(problems)) == ({}, 1)
