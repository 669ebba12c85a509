"""How single runs end, on a node as it is started by an operator."""

from __future__ import annotations

import itertools
from datetime import timedelta
from pathlib import Path

import pytest

from pgcron_ha.operating_system import boottime
from tests.e2e.ledger import Connection, ended, enqueue
from tests.e2e.nodes import Cluster, is_gone
from tests.waiting import slowness, until

LONG_RUNS = {
    "py:work": {"seconds": 60},
    "py:thread_work": {"seconds": 60},
    "shell:program": {"seconds": 60, "manner": "family"},
}


async def test_running_and_waiting_runs_are_cancelled(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    cluster.start("a", lease_ttl="15s")
    runs = {
        handler: (await enqueue(connection, handler, args=args))[0]
        for handler, args in LONG_RUNS.items()
    }
    later = "SELECT pgcron.enqueue('py:work', due_at => now() + interval '1 hour')"
    waiting: int = await connection.fetchval(later)
    await until("all run", lambda: evidence.count("start") == 4)
    await until("both programs tick", lambda: len(evidence.processes("tick")) == 2)

    asked_at = boottime()
    for run in (*runs.values(), waiting):
        await connection.execute("SELECT pgcron.cancel_run($1, 'not needed')", run)
    rows = await ended(connection, *runs.values(), waiting)
    took = boottime() - asked_at

    print(f"all were over {took:.2f} s after they were cancelled")
    assert {row["outcome"] for row in rows} == {"cancelled"}
    assert took < 3 * slowness()  # a program has a second to end, and its grandchild ignores that
    assert {event.run for event in evidence.events("stopped")} == {
        runs["py:work"],
        runs["py:thread_work"],
    }
    assert all(is_gone(pid) for pid in evidence.processes("tick"))


async def test_runs_are_stopped_at_their_time_limit(
    cluster: Cluster, connection: Connection
) -> None:
    cluster.start("a")
    runs = []
    for handler, args in LONG_RUNS.items():
        limits = {"timeout": timedelta(seconds=0.7), "max_attempts": 1}
        runs += await enqueue(connection, handler, args=args, **limits)
    rows = await ended(connection, *runs)

    assert {row["outcome"] for row in rows} == {"dead"}
    for row in rows:
        assert timedelta(seconds=0.6) < row["finished_at"] - row["started_at"]
        assert row["finished_at"] - row["started_at"] < timedelta(seconds=3)
    attempts = await connection.fetch("SELECT * FROM pgcron.attempt WHERE run_id = ANY($1)", runs)
    assert [attempt["outcome"] for attempt in attempts] == ["timed_out"] * 3


async def test_a_failing_run_is_tried_again_with_back_off_until_it_is_a_dead_letter(
    cluster: Cluster, connection: Connection
) -> None:
    cluster.start("a")
    base = 0.4
    policy = {"max_attempts": 4, "retry": f'{{"base": {base}}}'}
    [run] = await enqueue(connection, "py:fails", args={}, **policy)
    [mended] = await enqueue(connection, "py:fails", args={"times": 2}, **policy)
    rows = {row["id"]: row for row in await ended(connection, run, mended)}

    assert (rows[run]["outcome"], rows[run]["attempt"]) == ("dead", 4)
    assert "attempt 4 fails" in rows[run]["error"]
    assert (rows[mended]["outcome"], rows[mended]["attempt"]) == ("succeeded", 3)
    starts = [event.at for event in cluster.evidence.events("start", run)]
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert len(gaps) == 3
    for number, gap in enumerate(gaps):
        assert gap < base * 2**number + 1.5
    attempts = await connection.fetch(
        "SELECT * FROM pgcron.attempt WHERE run_id = $1 ORDER BY attempt", run
    )
    assert [attempt["attempt"] for attempt in attempts] == [1, 2, 3, 4]
    assert {attempt["outcome"] for attempt in attempts} == {"failed"}
    assert "RuntimeError" in attempts[0]["traceback"]
    letters = await connection.fetch("SELECT * FROM pgcron.dead_letter")
    assert [letter["run_id"] for letter in letters] == [run]


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("shell:program", {("stdout", "the program begins"), ("stderr", "a warning")}),
        ("py:talks", {("stdout", "a line on stdout"), ("log", "a line of the log")}),
    ],
)
async def test_what_a_run_prints_can_be_read_while_it_runs(
    cluster: Cluster,
    connection: Connection,
    tmp_path: Path,
    handler: str,
    expected: set[tuple[str, str]],
) -> None:
    cluster.start("a")
    args = {"path": str(tmp_path / "go on")} if handler == "py:talks" else LONG_RUNS[handler]
    [run] = await enqueue(connection, handler, args=args)

    async def lines() -> set[tuple[str, str]]:
        rows = await connection.fetch("SELECT * FROM pgcron.log WHERE run_id = $1", run)
        return {(row["stream"], row["line"]) for row in rows}

    async def all_lines() -> bool:
        return await lines() >= expected

    await until("its lines are there", all_lines)
    state = await connection.fetchval("SELECT state FROM pgcron.runs WHERE id = $1", run)
    assert state == "running"
