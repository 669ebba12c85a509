"""Everything at once, by a seed: kills, freezes, broken connections, edits, cancels, under load.

``PGCRON_HA_CHAOS="2 3 4"`` chooses other seeds, ``PGCRON_HA_CHAOS_SECONDS`` how long each lasts.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import asyncpg
import pytest

from pgcron_ha.executors.operating_system import boottime
from tests.e2e.evidence import Evidence, Execution, overlapping
from tests.e2e.ledger import Connection, Row, enqueue, history, unaccounted
from tests.e2e.nodes import Cluster, NodeProcess
from tests.waiting import until

TTL = 2.0
SEEDS = [int(seed) for seed in os.environ.get("PGCRON_HA_CHAOS", "1").split()]
SECONDS = float(os.environ.get("PGCRON_HA_CHAOS_SECONDS", "15"))
NAMES = ("a", "b", "c")
EXIT_WITHOUT_LEASE = 71
SETTINGS: dict[str, Any] = {
    "lease_ttl": f"{TTL}s",
    "horizon": "4s",
    "slots": 12,
    "poll_interval": "100ms",
}


@dataclass
class Story:
    """What was done to the cluster, for the judgement."""

    runs: dict[int, str] = field(default_factory=dict)
    cancelled: set[int] = field(default_factory=set)
    freezes: list[tuple[int, float]] = field(default_factory=list)
    deeds: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@pytest.mark.timeout(180)
@pytest.mark.parametrize("seed", SEEDS)
async def test_nothing_is_lost_or_done_twice_whatever_happens(
    cluster: Cluster, connection: Connection, database: str, seed: int
) -> None:
    chance, story = random.Random(seed), Story()
    nodes = {name: cluster.start(name, **SETTINGS) for name in NAMES}
    for number in range(6):
        await connection.execute(
            "INSERT INTO pgcron.schedule (name, spec, handler, overlap, args, retry_base)"
            " VALUES ($1, '* * * * * *', $2, $3, jsonb_build_object('seconds', 0.7), '0.1 s')",
            f"s{number}",
            "py:thread_work" if number % 3 == 2 else "py:work",
            "skip" if number % 2 else "allow",
        )
    nemesis = await asyncpg.connect(database)
    working = asyncio.create_task(keep_enqueueing(connection, story, chance))
    end = boottime() + SECONDS

    async def does_harm() -> bool:
        await do_harm(cluster, nodes, nemesis, connection.get_server_pid(), story, chance)
        return boottime() > end

    await until("the harm is over", does_harm, deadline=120, pause=0.3)
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    await nemesis.execute("UPDATE pgcron.schedule SET enabled = false")
    for name in NAMES:
        if nodes[name].has_ended():
            nodes[name] = cluster.start(name, **SETTINGS)
    await until("nothing lives", lambda: what_lives(nemesis), deadline=60, pause=0.2)

    rows = await history(nemesis, list(story.runs))
    print(f"{len(rows)} runs under {dict(story.deeds)}")
    judge_outcomes(rows, story)
    judge_executions(await lanes_of(nemesis), cluster, story)
    assert await unaccounted(nemesis) == 0
    assert await twice_decided(nemesis) == []
    await nemesis.close()


async def keep_enqueueing(connection: Connection, story: Story, chance: random.Random) -> None:
    """Runs of every kind; those that may start only once, too."""

    async def one_more() -> bool:
        kind = chance.choice(["py:work", "py:work", "py:thread_work", "shell:program", "once"])
        args: dict[str, object] = {"seconds": round(chance.random() * 1.5, 2)}
        # A run that lost many nodes must not wait for longer than this test does.
        columns: dict[str, object] = {"max_attempts": 60, "retry_cap": timedelta(seconds=5)}
        if kind == "shell:program":
            args["manner"] = "once"
        if kind == "once":
            columns = {"delivery": "at_most_once"}
        handler = "py:work" if kind == "once" else kind
        for run in await enqueue(connection, handler, 2, args=args, **columns):
            story.runs[run] = kind
        if chance.random() < 0.05:
            run = chance.choice(list(story.runs))
            story.cancelled.add(run)
            await connection.execute("SELECT pgcron.cancel_run($1)", run)
        return False

    await until("cancelled", one_more, deadline=600, pause=0.08)


async def do_harm(
    cluster: Cluster,
    nodes: dict[str, NodeProcess],
    nemesis: Connection,
    spared: int,
    story: Story,
    chance: random.Random,
) -> None:
    what = chance.choice(["kill", "freeze", "break", "break", "edit", "edit"])
    story.deeds[what] += 1
    name = chance.choice(NAMES)
    node = nodes[name]
    if what == "kill" or node.has_ended():
        if node.has_ended():
            assert node.exit_code() == EXIT_WITHOUT_LEASE, node.output()
            node.killed_at = boottime()
        else:
            node.kill9()
        nodes[name] = cluster.spawn(name, **SETTINGS)
    elif what == "freeze":
        frozen_at = node.pause()
        story.freezes.append((node.pid, frozen_at))
        length = chance.choice([0.3, 0.8, 1.3, 2.0]) * TTL
        await until("the freeze is over", lambda: boottime() - frozen_at > length)
        node.resume()
    elif what == "break":
        await nemesis.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE random() < 0.5"
            " AND datname = current_database() AND pid NOT IN (pg_backend_pid(), $1)",
            spared,
        )
    else:
        await nemesis.execute(
            "UPDATE pgcron.schedule SET spec = $2 WHERE name = $1",
            f"s{chance.randrange(4)}",
            chance.choice(["* * * * * *", "*/2 * * * * *", "every 1s"]),
        )


def judge_outcomes(rows: list[Row], story: Story) -> None:
    assert {row["id"] for row in rows} == set(story.runs)
    assert len(rows) == len(story.runs)
    for row in rows:
        allowed = {"succeeded"}
        if story.runs[row["id"]] == "once":
            # A frozen node's runs are lost as a dead one's are, and so is what it gives up itself.
            allowed |= {"lost"}
        if row["id"] in story.cancelled:
            allowed |= {"cancelled"}
        assert row["outcome"] in allowed, dict(row)


def judge_executions(lanes: dict[int, int], cluster: Cluster, story: Story) -> None:
    """No run, and no lane of a schedule, twice at the same time; what may start once did."""
    by_run: dict[int, list[Execution]] = defaultdict(list)
    by_lane: dict[int, list[Execution]] = defaultdict(list)
    for execution in settled(cluster.evidence, cluster, story):
        by_run[execution.run].append(execution)
        if execution.run in lanes:
            by_lane[lanes[execution.run]].append(execution)
    for executions in (*by_run.values(), *by_lane.values()):
        assert overlapping(executions) == []
    for run, kind in story.runs.items():
        assert kind != "once" or len(by_run[run]) <= 1


def settled(evidence: Evidence, cluster: Cluster, story: Story) -> list[Execution]:
    """Executions with the end that others may rely on: a frozen node executes nothing, and what it
    says after it wakes up is refused.
    """
    own = {node.pid for node in cluster.nodes}
    found = []
    for execution in evidence.executions(cluster.deaths()):
        ended = execution.ended
        if ended is None and execution.pid not in own:
            ended = execution.heard  # a program that was killed before its first tick
        for pid, frozen_at in story.freezes:
            if pid == execution.pid and execution.began <= frozen_at:
                ended = min(ended or frozen_at, frozen_at)
        found.append(replace(execution, ended=ended))
    return found


async def lanes_of(connection: Connection) -> dict[int, int]:
    """The schedule of each run that must not overlap with others."""
    rows = await connection.fetch(
        "SELECT h.id, h.schedule_id FROM pgcron.history h JOIN pgcron.schedule s"
        " ON s.id = h.schedule_id WHERE s.overlap = 'skip'"
    )
    return {row["id"]: row["schedule_id"] for row in rows}


async def twice_decided(connection: Connection) -> list[Row]:
    """Fires that are in the ledger and in a range of missed ones, or in two ranges."""
    return await connection.fetch(
        "SELECT o.schedule_id, o.fire_at FROM pgcron.occurrence o JOIN pgcron.missed m"
        " ON m.schedule_id = o.schedule_id AND o.fire_at BETWEEN m.first_at AND m.last_at"
    )


async def what_lives(connection: Connection) -> bool:
    """Whether nothing does; what does is printed, for the day on which this does not end."""
    alive = await connection.fetch(
        "SELECT id, schedule, handler, state, hold, attempt, due_at - now() AS due, owner"
        " FROM pgcron.run ORDER BY due_at LIMIT 5"
    )
    if alive:
        print(*(dict(row) for row in alive), sep="\n")
    return not alive
