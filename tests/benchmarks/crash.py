"""How long runs stand still when their node is killed, restarted or stopped.

Each kill takes a node that executes a slot's worth of long runs. *Elsewhere*: another node takes
them over when the lease has ended. *Restart*: the node comes back on its host at once, with the
default lease, which is not waited for. *Graceful stop*: SIGTERM with no time of grace; the runs are
given back and begin on the other node.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from tests.benchmarks import stage
from tests.benchmarks.figures import Result
from tests.benchmarks.node_process import NodeProcess
from tests.benchmarks.place import Ground, Place
from tests.benchmarks.sizes import Sizes
from tests.benchmarks.starts import read_starts

_RUNS: Final = 16
_LAST_SECONDS: Final = 600
# What still runs when the measuring is over is given back, not waited for.
_NO_GRACE: Final = {"NODE_GRACE": "0s"}


async def benchmark(ground: Ground, sizes: Sizes) -> Result:
    """Each kind of end, as often as the sizes say; the worst counts."""
    lease = float(sizes.crash_lease.removesuffix("s"))
    result = Result(
        "crash",
        "the lease's time to live, which nothing beats without proof of death",
        {"kills": sizes.crash_kills, "lease s": lease, "runs": _RUNS},
    )
    chance = random.Random(2)
    elsewhere: list[float] = []
    restarted: list[float] = []
    stopped: list[float] = []
    ended: list[float] = []
    for _ in range(sizes.crash_kills):
        async with ground.place() as place:
            elsewhere.append(await _elsewhere(place, sizes.crash_lease, chance.random()))
        async with ground.place() as place:
            restarted.append(await _restart(place))
        async with ground.place() as place:
            begins, ends = await _graceful_stop(place, sizes.crash_lease)
            stopped.append(begins)
            ended.append(ends)
    for name, seconds, baseline, goal in (
        ("killed: all runs begin elsewhere after", elsewhere, lease, "≤ lease + 1"),
        ("killed and restarted on its host: all begin after", restarted, 15.0, "≤ 1"),
        ("stopped gracefully: all begin elsewhere after", stopped, lease, "≤ 0.3"),
        ("stopped gracefully: process gone after", ended, None, "≤ 0.3"),
    ):
        result.add(f"{name}, worst", max(seconds), "s", baseline, goal)
    result.details["seconds"] = {
        "elsewhere": elsewhere,
        "restart": restarted,
        "graceful stop": stopped,
        "graceful stop, process": ended,
    }
    return result.finished()


async def _elsewhere(place: Place, lease: str, phase: float) -> float:
    settings = {"NODE_LEASE_TTL": lease, **_NO_GRACE}
    with ExitStack() as stack:
        starts = _starts(stack)
        victim = stack.enter_context(NodeProcess(place.dsn, settings, name="victim", starts=starts))
        await _busy(place, victim, starts)
        survivor = stack.enter_context(
            NodeProcess(place.dsn, settings, name="survivor", starts=starts)
        )
        await stage.joined(place.observer, survivor)
        await asyncio.sleep(phase)  # anywhere between two beats
        at = victim.kill()
        return await _all_began(starts, survivor) - at


async def _restart(place: Place) -> float:
    with ExitStack() as stack:
        starts = _starts(stack)
        state = starts.parent / "state"
        state.mkdir()
        first = stack.enter_context(NodeProcess(place.dsn, _NO_GRACE, starts=starts, state=state))
        await _busy(place, first, starts)
        first.kill()
        second = stack.enter_context(NodeProcess(place.dsn, _NO_GRACE, starts=starts, state=state))
        return await _all_began(starts, second) - second.started_at


async def _graceful_stop(place: Place, lease: str) -> tuple[float, float]:
    """Seconds until all runs began elsewhere, and until the process was gone."""
    settings = {"NODE_LEASE_TTL": lease, **_NO_GRACE}
    with ExitStack() as stack:
        starts = _starts(stack)
        leaver = stack.enter_context(NodeProcess(place.dsn, settings, name="leaver", starts=starts))
        await _busy(place, leaver, starts)
        other = stack.enter_context(NodeProcess(place.dsn, settings, name="other", starts=starts))
        await stage.joined(place.observer, other)
        at = leaver.terminate()
        gone = asyncio.create_task(leaver.ended_at())
        return await _all_began(starts, other) - at, await gone - at


def _starts(stack: ExitStack) -> Path:
    folder = tempfile.TemporaryDirectory(prefix="pgcron-benchmark-")
    return Path(stack.enter_context(folder)) / "starts"


async def _busy(place: Place, node: NodeProcess, starts: Path) -> None:
    """Gives the node, the only one, a slot's worth of runs and waits until all of them execute."""
    await stage.joined(place.observer, node)
    await place.observer.execute(
        "INSERT INTO pgcron.run (handler, args)"
        " SELECT 'py:hold', $1::jsonb FROM generate_series(1, $2::int)",
        *(json.dumps({"seconds": _LAST_SECONDS}), _RUNS),
    )
    await _all_began(starts, node)


async def _all_began(starts: Path, node: NodeProcess) -> float:
    """Waits until every run has begun on that node; when the last one did, since 1970."""

    def began() -> dict[int, float]:
        mine = [start for start in read_starts(starts) if start.process_id == node.pid]
        return {start.run: start.at for start in mine}

    async def all_did() -> bool:
        node.check()
        return len(began()) >= _RUNS

    await stage.until("all have begun", all_did)
    return max(began().values())
