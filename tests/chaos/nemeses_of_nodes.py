"""What happens to processes and to the network between them and the server."""

from __future__ import annotations

import asyncio
import random
import signal

from tests.chaos import record
from tests.chaos.composing import Fault
from tests.chaos.stage import Stage
from tests.e2e.nodes import descendants_of, send


async def kill_node(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N1: kill -9, and a new process after as long as the fault lasts."""
    await _kill_for(stage, _living(stage, chance), fault.seconds)


async def kill_parent(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N2: kill -9 of the node that has most child processes, and of nothing else."""
    names = [name for name in stage.nodes if stage.lives(name)]
    if names:
        name = max(names, key=lambda each: len(descendants_of(stage.nodes[each].pid)))
        await _kill_for(stage, name, fault.seconds)


async def freeze_node(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N3: SIGSTOP, of the node alone or with everything it has started."""
    name = _living(stage, chance)
    if name is None:
        return
    pid = stage.nodes[name].pid
    family = descendants_of(pid) if chance.random() < 0.5 else []
    for each in (pid, *family):
        record.write("freeze", of=each, seconds=fault.seconds)
        send(each, signal.SIGSTOP)
    await asyncio.sleep(fault.seconds)
    for each in (pid, *family):
        record.write("thaw", of=each)
        send(each, signal.SIGCONT)


async def stall(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N5: nothing passes on the connections there are: both ways, or answers only."""
    proxy = stage.proxies[_any(stage, chance)]
    proxy.stall(questions=chance.random() < 0.5)
    await asyncio.sleep(fault.seconds)
    proxy.heal()


async def lose_answers(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N5: the server does what it is asked, and the connection breaks before its answer."""
    name = _any(stage, chance)
    proxy = stage.proxies[name]
    before = proxy.lost_answers
    for _ in range(chance.randint(1, 4)):
        proxy.lose_answers(chance.randint(1, 3))
        await asyncio.sleep(fault.seconds / 4)
    proxy.heal()
    record.write("answers lost", node=name, count=proxy.lost_answers - before)


async def reset(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N5: RST to every connection of a node, again and again; new ones may be refused."""
    proxy = stage.proxies[_any(stage, chance)]
    proxy.is_refusing = chance.random() < 0.3
    for _ in range(3):
        proxy.reset()
        await asyncio.sleep(fault.seconds / 3)
    proxy.heal()


async def delay(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N5: a slow network."""
    proxy = stage.proxies[_any(stage, chance)]
    proxy.delay = chance.choice([0.005, 0.05, 0.2]) * stage.settings.ttl / 2
    await asyncio.sleep(fault.seconds)
    proxy.heal()


async def partition(stage: Stage, fault: Fault, chance: random.Random) -> None:
    """N6: one node, or all of them, can't reach the database; nobody tells them."""
    names = list(stage.proxies) if chance.random() < 0.3 else [_any(stage, chance)]
    for name in names:
        stage.proxies[name].cut()
        record.write("cut", node=name)
    await asyncio.sleep(fault.seconds)
    for name in names:
        stage.proxies[name].heal()
        record.write("healed", node=name)


async def _kill_for(stage: Stage, name: str | None, seconds: float) -> None:
    if name is None:
        return
    await stage.kill(name)
    await asyncio.sleep(seconds / 2)
    if not stage.lives(name):
        stage.spawn(name)


def _any(stage: Stage, chance: random.Random) -> str:
    return chance.choice(sorted(stage.proxies))


def _living(stage: Stage, chance: random.Random) -> str | None:
    living = [name for name in sorted(stage.nodes) if stage.lives(name)]
    return chance.choice(living) if living else None
