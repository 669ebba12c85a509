"""One chaos run: a quiet beginning, faults by a seed, healing, quiet, and nothing left alive."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tests.chaos import nemeses, record, schedules, workflows
from tests.chaos.clients import Client, enqueue, keep_enqueueing
from tests.chaos.composing import compose
from tests.chaos.dumping import dump
from tests.chaos.gates import RUNS, create_gates, enqueue_gated, keep_enqueueing_gated
from tests.chaos.stage import Settings, Stage
from tests.chaos.watching import keep_reviving, keep_watching
from tests.waiting import until

CLIENTS: Final = 2
DRAIN_SECONDS: Final = 60.0
"""More than the longest back-off, the longest handler and a lease together."""

LONE_SECONDS: Final = 15.0
"""For one run that is due in a second, and one of each gate after it: many times what an idle node
sleeps, and more than a circuit breaker stays open.
"""


async def play(settings: Settings, folder: Path) -> None:
    """Leaves ``evidence.jsonl``, ``tables.json``, ``server.log`` and nodes' logs in `folder`."""
    async with Stage(folder, settings) as stage:
        record.write("phase", name="start", ttl=settings.ttl, seed=settings.seed)
        for name in stage.proxies:
            stage.spawn(name)
        for node in list(stage.nodes.values()):
            await until(f"{node.name} has joined", node.has_joined)
        await _create_schedules(stage)
        quiet = settings.quiet * settings.ttl
        async with _company(stage) as enqueueing:
            record.write("phase", name="before")
            await asyncio.sleep(quiet)
            record.write("phase", name="faults")
            stage.allow_failpoints(True)
            await _do_harm(stage)
            stage.allow_failpoints(False)
            await stage.heal()
            record.write("phase", name="recovery")
            await asyncio.sleep(quiet)
            record.write("phase", name="after")
            await asyncio.sleep(quiet)
            enqueueing.set()
            await _drain(stage)
        async with stage.connected() as connection:
            await dump(connection, folder / "tables.json")
        await stage.stop_nodes()
        stage.keep_server_log()


@contextlib.asynccontextmanager
async def _company(stage: Stage) -> AsyncIterator[asyncio.Event]:
    """Clients, the watch and the service manager; yields what stops the clients."""
    settings = stage.settings
    no_more_runs, over = asyncio.Event(), asyncio.Event()
    clients = [Client(stage, settings.seed * 100 + number) for number in range(CLIENTS + 2)]
    *plain, gated, starting = clients
    tasks = [
        asyncio.create_task(keep_enqueueing(client, settings.ttl, no_more_runs)) for client in plain
    ]
    tasks.append(asyncio.create_task(keep_enqueueing_gated(gated, settings.ttl, no_more_runs)))
    tasks.append(asyncio.create_task(workflows.keep_starting(starting, no_more_runs)))
    tasks += [
        asyncio.create_task(keep_watching(stage, over)),
        asyncio.create_task(keep_reviving(stage, over)),
    ]
    try:
        yield no_more_runs
    finally:
        no_more_runs.set()
        over.set()
        await asyncio.gather(*tasks)
        for client in clients:
            client.forget_connection()


async def _create_schedules(stage: Stage) -> None:
    client = Client(stage, stage.settings.seed)
    for definition in schedules.definitions(stage.settings.ttl):
        assert await schedules.create(client, definition) is not None
    await create_gates(client)
    await workflows.create_workflows(client)
    client.forget_connection()


async def _do_harm(stage: Stage) -> None:
    settings = stage.settings
    chosen = settings.only or tuple(
        name for name in nemeses.NEMESES if name not in nemeses.BY_NAME_ONLY
    )
    loop = asyncio.get_running_loop()
    begin = loop.time()
    tasks = []
    for fault in compose(settings.seed, settings.seconds, settings.ttl, chosen):
        await asyncio.sleep(max(0.0, begin + fault.at - loop.time()))
        tasks.append(asyncio.create_task(nemeses.perform(stage, fault)))
    await asyncio.gather(*tasks)


async def _drain(stage: Stage) -> None:
    """Every schedule pauses, and what lives ends; then one run is due when nothing else stirs."""
    client = Client(stage, 0)
    await until("no more fires", lambda: schedules.pause_all(client))
    record.write("phase", name="drain")
    drained = await _nothing_lives(stage, DRAIN_SECONDS)
    if drained:
        # No end of another run and no notification says that it is time.
        await enqueue(client, "py:work", {}, ahead=1.0)
        drained = await _nothing_lives(stage, LONE_SECONDS)
    if drained:
        # Whatever was held and is not given back keeps one of these from its turn.
        for name in RUNS:
            await enqueue_gated(client, name, 0.0)
        drained = await _nothing_lives(stage, LONE_SECONDS)
    if drained:
        # Nothing but its last step's end says that a workflow goes on.
        await workflows.start(client, "joins")
        drained = await _nothing_lives(stage, LONE_SECONDS)
    client.forget_connection()
    record.write("phase", name="over", drained=drained)


async def _nothing_lives(stage: Stage, seconds: float) -> bool:
    """Whether all runs have ended within so many seconds, and everybody was told."""

    async def nothing_lives() -> bool:
        async with stage.connected("chaos-watch") as connection:
            return bool(
                await connection.fetchval(
                    "SELECT NOT EXISTS (SELECT FROM pgcron.run)"
                    " AND NOT EXISTS (SELECT FROM pgcron.step_outbox)"
                )
            )

    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while loop.time() < end:
        with contextlib.suppress(Exception):  # asked again
            if await nothing_lives():
                return True
        await asyncio.sleep(0.1)
    return False
