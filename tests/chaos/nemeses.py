"""All nemeses by their number. N9, clocks, is no fault of its own: nodes begin with wrong ones."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeAlias

from tests.chaos import nemeses_of_clients as clients
from tests.chaos import nemeses_of_nodes as nodes
from tests.chaos import nemeses_of_the_server as server
from tests.chaos import record
from tests.chaos.clients import Client, enqueue
from tests.chaos.composing import Fault
from tests.chaos.failpoints import ONE_NODE
from tests.chaos.nemeses_of_rows import poison_row
from tests.chaos.schedules import (
    edit_behind_a_lock,
    edit_schedules,
    pause_after_an_edit,
    wake_a_sleeper,
)
from tests.chaos.stage import SLOTS, Stage

Nemesis: TypeAlias = Callable[[Stage, Fault, random.Random], Awaitable[None]]


async def block_loops(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N4: handlers that keep a node's interpreter busy and never give way."""
    client = Client(stage, fault.seed)
    for _ in range(len(stage.nodes)):
        seconds = round(min(2.0, chance.uniform(0.5, 2.0)) * stage.settings.ttl / 2, 2)
        await enqueue(client, "py:spins", {"seconds": seconds})
    await asyncio.sleep(fault.seconds / 2)
    client.forget_connection()


async def cut_off_unresponsive(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N6: a node that is cut off executes what only the end of its process can stop."""
    client, ttl = Client(stage, fault.seed), stage.settings.ttl
    for _ in range(2 * len(stage.nodes)):
        await enqueue(client, "py:unresponsive", {"seconds": round(1.7 * ttl, 2)})
    client.forget_connection()
    await asyncio.sleep(0.4)
    name = chance.choice([ONE_NODE, *sorted(stage.proxies)])
    stage.proxies[name].cut()
    record.write("cut", node=name)
    await asyncio.sleep(2.0 * ttl)
    stage.proxies[name].heal()
    record.write("healed", node=name)


async def pester(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N19: runs are cancelled, retried, redriven, and run beside their schedule, by chance."""
    client = Client(stage, fault.seed)
    loop = asyncio.get_running_loop()
    end = loop.time() + fault.seconds
    while loop.time() < end:
        await _pester_once(client, chance)
        await asyncio.sleep(0.15)
    client.forget_connection()


_TARGETS: Final = (
    "SELECT id FROM pgcron.run ORDER BY random() LIMIT 1",
    "SELECT id FROM pgcron.run WHERE state = 'running' ORDER BY random() LIMIT 1",
    "SELECT id FROM pgcron.run WHERE state = 'running' AND overlap IS NOT NULL"
    " ORDER BY random() LIMIT 1",
    "SELECT id FROM pgcron.history ORDER BY finished_at DESC LIMIT 1",
)


async def _pester_once(client: Client, chance: random.Random) -> None:
    try:
        rows = await client.rows(chance.choice(_TARGETS))
    except Exception:  # a driver has many words for a database that is away
        client.forget_connection()
        return
    if not rows:
        return
    run: int = rows[0][0]
    what = chance.choice(["cancel", "cancel", "retry", "run now", "redrive"])
    if what == "run now":
        name = chance.choice(["a1", "s1", "s2", "o1"])
        query = "SELECT pgcron.run_now($2) FROM (SELECT $1::int) one"
        await client.ask("run now", query, name, name=name)
        return
    function = {"cancel": "cancel_run", "retry": "retry_run", "redrive": "redrive"}[what]
    query = f"SELECT pgcron.{function}($2) FROM (SELECT $1::int) one"
    await client.ask(what, query, run, run=run)


async def crowd_schedules(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N19: people run schedules by hand, urgently and not, while their fires come."""
    client = Client(stage, fault.seed)
    loop = asyncio.get_running_loop()
    end = loop.time() + fault.seconds
    while loop.time() < end:
        name, priority = chance.choice(["s1", "s2"]), chance.randrange(10)
        await client.ask("crowd", _BY_HAND, name, priority, name=name)
        await asyncio.sleep(0.03)
    client.forget_connection()


_BY_HAND: Final = (
    "INSERT INTO pgcron.run (origin, schedule_id, schedule, nominal_for, handler, args, overlap,"
    " priority, max_attempts, retry)"
    " SELECT 'manual', s.id, s.name, now(), s.handler, s.args, s.overlap, $3::int, s.max_attempts,"
    " s.retry FROM pgcron.schedule s WHERE s.name = $2 AND $1::int > 0"
    " RETURNING id"
)


async def break_handlers(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N20: handlers that raise, hang, ignore their end, kill their node, return nonsense."""
    client = Client(stage, fault.seed)
    seconds = round(chance.uniform(0.3, 1.2) * stage.settings.ttl, 2)
    for handler, args in (
        ("py:raises", {}),
        ("py:huge", {}),
        ("py:invalid", {}),
        ("py:stubborn", {"seconds": seconds}),
        ("py:unresponsive", {"seconds": seconds}),
        ("py:poison", {}),
    ):
        if handler != "py:poison" or chance.random() < 0.4:
            await enqueue(client, handler, args, attempts=2)
    await asyncio.sleep(fault.seconds / 4)
    client.forget_connection()


async def burst(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N20: more runs that may start only once than a node has slots, all due at once."""
    client = Client(stage, fault.seed)
    await client.ask("burst", _BURST, 5 * SLOTS)
    await asyncio.sleep(fault.seconds / 4)
    client.forget_connection()


_BURST: Final = (
    "WITH made AS (INSERT INTO pgcron.run (handler, args, delivery)"
    " SELECT 'py:work', '{\"seconds\": 0.8}', 'at_most_once' FROM generate_series(1, $2::int)"
    " WHERE $1::int > 0 RETURNING id) SELECT count(*) FROM made"
)


NEMESES: Final[Mapping[str, Sequence[Nemesis]]] = {
    "N1": (nodes.kill_node,),
    "N2": (nodes.kill_parent,),
    "N3": (nodes.freeze_node,),
    "N4": (block_loops,),
    "N5": (nodes.stall, nodes.lose_answers, nodes.reset, nodes.delay),
    "N6": (nodes.partition, cut_off_unresponsive),
    "N7": (
        server.restart_server,
        server.outlast_the_horizon,
        server.kill_backend,
        server.freeze_server,
    ),
    "N8": (server.terminate_backends,),
    "N13": (server.exhaust_connections, server.lock_rows, server.lock_tables),
    "N14": (server.hold_snapshot, server.leave_prepared),
    "N15": (server.lose_partition, server.make_read_only),
    "N16": (server.kill_listeners,),
    "N17": (edit_schedules, edit_behind_a_lock, pause_after_an_edit, wake_a_sleeper),
    "N19": (pester, crowd_schedules),
    "N20": (break_handlers, burst),
    "N21": (poison_row,),
    "N22": (clients.lock_rows_long, clients.lock_table_long),
    "N23": (clients.fall_silent,),
    "N24": (clients.fill_notifications,),
    "N25": (clients.set_clock,),
}

BY_NAME_ONLY: Final = frozenset({"N25"})
"""Nemeses that need more than the machine has: played when they are asked for."""


def ways_of(nemesis: str) -> Sequence[Nemesis]:
    """What a number stands for, or the one way of it that is named (``N19.crowd_schedules``)."""
    number, _, name = nemesis.partition(".")
    ways = NEMESES.get(number, ())
    return [way for way in ways if name in ("", getattr(way, "__name__", ""))]


async def perform(stage: Stage, fault: Fault) -> None:
    """One fault from its beginning to its end; what it can't do just now is written down."""
    chance = random.Random(fault.seed)
    nemesis = chance.choice(ways_of(fault.nemesis))
    name = getattr(nemesis, "__name__", "")
    facts = {"number": fault.number, "nemesis": fault.nemesis, "name": name}
    record.write("fault", phase="on", seconds=fault.seconds, **facts)
    problem = None
    try:
        await nemesis(stage, fault, chance)
    except Exception as error:  # another fault made this one impossible
        problem = f"{type(error).__name__}: {error}"[:300]
    record.write("fault", phase="off", problem=problem, **facts)
