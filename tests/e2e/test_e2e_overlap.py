"""Schedules whose runs must not overlap, on several nodes, one of which is killed."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest

from tests.e2e.evidence import Execution, overlapping
from tests.e2e.ledger import Connection, unaccounted
from tests.e2e.nodes import Cluster
from tests.waiting import until

DURATIONS = [2.5, 0.3, 0.9, 1.0, 1.2, 0.0, 2.5, 0.7]


@pytest.mark.long
async def test_runs_of_a_schedule_never_overlap_and_a_held_fire_is_skipped_with_a_reason(
    cluster: Cluster, connection: Connection
) -> None:
    evidence = cluster.evidence
    nodes = [cluster.start(name, horizon="4s") for name in ("a", "b", "c")]
    for number, seconds in enumerate(DURATIONS):
        await connection.execute(
            "INSERT INTO pgcron.schedule (name, spec, handler, args, retry)"
            " VALUES ($1, '* * * * * *', 'py:work', jsonb_build_object('seconds', $2::float8),"
            " '{\"base\": 0.1}')",
            f"s{number}",
            seconds,
        )
    await until("they run", lambda: evidence.count("end") > 30)
    busy = await until("a long run has just begun", lambda: owner_of_a_long_run(connection))
    victim = next(node for node in nodes if node.pid == busy)
    victim.kill9()
    again = evidence.count("end")
    await until("its runs ran again", lambda: any(e.attempt == 2 for e in evidence.events("end")))
    await until("they run on", lambda: evidence.count("end") > again + 40)
    await connection.execute("UPDATE pgcron.schedule SET enabled = false")
    await until("nothing lives", lambda: nothing_lives(connection))

    schedules = {
        row["id"]: row["schedule"]
        for row in await connection.fetch("SELECT id, schedule FROM pgcron.history")
    }
    keys: dict[str, list[Execution]] = defaultdict(list)
    for execution in evidence.executions(cluster.deaths()):
        keys[schedules[execution.run]].append(execution)
    assert len(keys) == len(DURATIONS)
    assert {name: overlapping(executions) for name, executions in keys.items()} == {
        name: [] for name in keys
    }
    skipped = await connection.fetch(
        "SELECT s.name, o.reason FROM pgcron.occurrence o JOIN pgcron.schedule s"
        " ON s.id = o.schedule_id WHERE o.decision = 'skipped'"
    )
    reasons = {re.sub(r" \(run \d+\)$", "", row["reason"]) for row in skipped}
    assert reasons == {"the last run is not over"}
    counts = {name: sum(row["name"] == name for row in skipped) for name in keys}
    print(f"executed { ({name: len(runs) for name, runs in keys.items()}) }, skipped {counts}")
    assert counts["s0"] >= 4
    assert await unaccounted(connection) == 0


async def owner_of_a_long_run(connection: Connection) -> int | None:
    """The process that will execute a run for a while yet."""
    owner: int | None = await connection.fetchval(
        "SELECT n.process_id FROM pgcron.run r JOIN pgcron.node n ON n.incarnation = r.owner"
        " WHERE (r.args ->> 'seconds')::float8 > 2 AND r.claimed_at > now() - interval '1 s'"
        " LIMIT 1"
    )
    return owner


async def nothing_lives(connection: Connection) -> bool:
    return not await connection.fetchval("SELECT count(*) FROM pgcron.run")
