"""Nodes of a simulation: the real `Node` with all its services, in a simulated process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import Executor
from tests.product.config import NodeSettings, Settings, load_settings, read_sources
from tests.product.engine import Home, Identity, Node, Session
from tests.simulation.clocks import Replacements
from tests.simulation.handlers import SimulatedExecutor
from tests.simulation.judge import Judge
from tests.simulation.wire import ANSWER_SECONDS, Server, Weather, Wire
from tests.simulation.world import NotYet, Process, VirtualLoop, World

_CHILDREN_DIE_SECONDS = 0.25
_SUPERVISOR_SECONDS = 1.0


@dataclass(frozen=True)
class Size:
    """What all nodes of one simulation have in common."""

    ttl: float
    slots: int
    horizon: float
    prefetch: int


class SimulatedSession(Session):
    """The real session, on a virtual loop instead of a thread."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._loop.close()
        current = _here()
        self._loop: Any = current.session
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._begin)

    def join(self, timeout: float | None = None) -> None:
        if self._task is None or not self._task.done():
            raise NotYet

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._live())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            raise AssertionError("the session's thread ended") from task.exception()


class SimulatedNode(Node):
    """The real node, with executors that take virtual time."""

    def __init__(self, settings: Settings, place: Place, process: Process) -> None:
        super().__init__(settings)
        self._place = place
        self._process = process

    async def _build_executors(self, home: Home) -> Mapping[str, Executor]:
        made = {
            kind: SimulatedExecutor(
                kind,
                self._process,
                self._place.judge,
                self.settings.node.lease_ttl,
                self.runner.done,
                self.runner.feed_for(kind),
                self._recorder,
            )
            for kind in ("py", "shell")
        }
        self._process.on_end += [executor.process_ended for executor in made.values()]
        return dict(made)

    def _identity(self, home: Home, handlers: Sequence[str]) -> Identity:
        node = self.settings.node
        return Identity(
            node.name,
            "here",
            1,
            "0",
            home.identity,
            node.slots,
            node.queues,
            tuple(handlers),
        )


class SimulatedHome:
    """The lock of a node's folder; held by the process and, for a moment longer, its children."""

    def __init__(self, place: Place, name: str) -> None:
        holder = place.homes.get(name)
        if holder is not None and (holder.is_alive or place.dying.get(name, 0) > place.world.now):
            raise NotYet
        self._place, self._name = place, name
        place.homes[name] = _here()
        self.identity = f"here:{name}"
        self.descriptor = 0
        self.directory = Path("/")

    def release(self) -> None:
        self._place.homes.pop(self._name, None)


@dataclass
class Place:
    """Everything around the nodes."""

    world: World
    server: Server
    judge: Judge
    size: Size
    weathers: dict[str, Weather] = field(default_factory=dict)
    homes: dict[str, Process] = field(default_factory=dict)
    dying: dict[str, float] = field(default_factory=dict)
    processes: list[Process] = field(default_factory=list)
    nodes: dict[str, SimulatedNode] = field(default_factory=dict)
    clock_step: float = 0.0
    is_supervised: bool = False
    """Whether a process that has ended is started again, as service managers do."""

    def replacements(self) -> Replacements:
        return Replacements(self.world, self._make_wire, SimulatedSession, self._make_home)

    def start(self, name: str) -> Process:
        """A new process of this name."""
        chance = self.world.chance
        rate = 1.0 + chance.choice((0.0, 0.0, -0.005, 0.005))
        process = Process(self.world, name, rate, chance.uniform(0, 10_000))
        self.processes.append(process)
        self.weathers.setdefault(name, Weather())
        self.world.report("start", name)
        process.on_end.append(lambda: self._ended(process))
        process.engine.spawn(self._live(process))
        return process

    def start_again(self, name: str) -> None:
        if self.living(name) is None:
            self.start(name)

    def living(self, name: str) -> Process | None:
        return next((p for p in reversed(self.processes) if p.name == name and p.is_alive), None)

    def stop(self, name: str) -> None:
        """Tells a node to leave in order."""
        process, node = self.living(name), self.nodes.get(name)
        if process is not None and node is not None:
            process.engine.post(0.0, node.stop)

    async def _live(self, process: Process) -> None:
        # A supervisor would start a node again that can't reach its database at first.
        while process.is_alive:
            node = SimulatedNode(self._settings(process.name), self, process)
            self.nodes[process.name] = node
            try:
                await node.run()
            except PgcronError:
                await asyncio.sleep(1.0)
            else:
                break
        process.end()

    def _ended(self, process: Process) -> None:
        self.dying[process.name] = self.world.now + _CHILDREN_DIE_SECONDS
        for wire in [wire for wire in self.server.wires if wire.process is process]:
            wire.forsake()
        if self.is_supervised:
            again = self.world.now + _SUPERVISOR_SECONDS
            self.world.call_at(again, self.start_again, process.name)

    def _settings(self, name: str) -> Settings:
        size = self.size
        node = NodeSettings(
            name=name,
            queues=("default", "other"),
            labels={},
            slots=size.slots,
            lease_ttl=size.ttl,
            apps=(),
            executors=(),
            prefetch=size.prefetch,
            grace=5.0,
            state_directory=Path("/"),
            horizon=size.horizon,
            poll_interval=1.0,
            transactions=4,
            on_unresponsive_handler="keep",
            unresponsive_after=30.0,
        )
        return replace(load_settings(read_sources(environment={})), dsn="stand-in", node=node)

    def _make_wire(
        self, dsn: str, schema: str = "pgcron", answer_seconds: float = ANSWER_SECONDS, **_: Any
    ) -> Wire:
        process = _here()
        return Wire(process, self.server, self.weathers[process.name], answer_seconds)

    def _make_home(self, state_directory: Path, name: str) -> SimulatedHome:
        return SimulatedHome(self, name)


def _here() -> Process:
    loop: object = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop.process
