"""The link of a simulated node: the real one's methods over a network that the seed plays with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from tests.product.db import NEWEST, Busy, Unanswered
from tests.simulation.store import Store
from tests.simulation.tables import Row
from tests.simulation.world import Process, World

ANSWER_SECONDS: Final = 7.0

_USUAL_SECONDS: Final = 0.002
_CONNECT_SECONDS: Final = 0.004


@dataclass
class Weather:
    """What the network of one process is like; each number is a chance, `slow` in seconds."""

    request_lost: float = 0.0
    answer_lost: float = 0.0
    busy: float = 0.0
    slow: float = 0.0
    is_cut: bool = False

    def clear(self) -> None:
        self.request_lost = self.answer_lost = self.busy = self.slow = 0.0
        self.is_cut = False


@dataclass
class Server:
    """The database's side: whether it answers, and who is connected."""

    world: World
    store: Store
    is_down: bool = False
    wires: set[Wire] = field(default_factory=set)
    statements: int = 0
    lost_answers: int = 0

    def restart(self, seconds: float) -> None:
        """Every connection breaks, and none can be made for a while."""
        self.is_down = True
        self.world.report("server down", seconds)
        for wire in sorted(self.wires, key=lambda each: each.number):
            wire.break_off()
        self.world.call_at(self.world.now + seconds, self._rise)

    def _rise(self) -> None:
        self.is_down = False


class _Exchange:
    """One statement on its way."""

    __slots__ = ("act", "future", "is_answered", "name", "wire")

    def __init__(self, wire: Wire, name: str, act: Callable[[], list[Row]]) -> None:
        self.wire = wire
        self.name = name
        self.act = act
        self.future: asyncio.Future[list[Row]] = wire.loop.create_future()
        self.is_answered = True

    def execute(self, answer_after: float) -> None:
        """The server's part: atomic, whatever became of the one who asked."""
        server = self.wire.server
        if server.is_down and not self.wire.is_open:
            return
        server.statements += 1
        answer: list[Row] | PgcronError
        try:
            answer = self.act()
        except PgcronError as error:
            answer = error
        reported = len(answer) if isinstance(answer, list) else type(answer).__name__
        server.world.report(self.wire.process.name, self.name, reported)
        if self.is_answered:
            self.wire.loop.post(answer_after, self.settle, answer)
        else:
            server.lost_answers += 1

    def settle(self, answer: list[Row] | PgcronError) -> None:
        if self.future.done():
            return
        if isinstance(answer, PgcronError):
            self.future.set_exception(answer)
        else:
            self.future.set_result(answer)


class Wire:
    """What the engine knows as `Link`."""

    made = 0

    def __init__(
        self, process: Process, server: Server, weather: Weather, answer_seconds: float
    ) -> None:
        Wire.made += 1
        self.number = Wire.made
        self.process = process
        self.server = server
        self.opened = 0
        self.is_pooled = False
        self._weather = weather
        self._answer_seconds = answer_seconds
        self._is_open = False
        self._lock = asyncio.Lock()
        self._under_way: _Exchange | None = None
        self._closed: asyncio.Event | None = None
        self._heard: Callable[[str], None] | None = None
        self.loop = process.engine

    @property
    def is_open(self) -> bool:
        return self._is_open

    def use_revision(self, revision: str | None) -> None:
        assert revision in (None, NEWEST), "nobody migrates the stand-in"

    def has(self, name: str) -> bool:
        return True

    async def rows(self, name: str, /, **parameters: Any) -> list[Row]:
        async with self._lock:
            await self._open()
            return await self._send(name, lambda: self.server.store.call(name, **parameters))

    async def value(self, name: str, /, **parameters: Any) -> Any:
        rows = await self.rows(name, **parameters)
        return rows[0][0] if rows else None

    async def check(self, judge: object) -> None:
        async with self._lock:
            await self._open()

    async def execute(self, command: str) -> None:
        raise AssertionError(f"the stand-in has no partitions: {command}")

    async def listen(self, heard: Callable[[str], None], insists: bool = False) -> bool:
        async with self._lock:
            await self._open()
            assert self._heard is None, "each notification would be heard twice"
            self.server.store.listeners.append(self._notified)
            self._heard = heard
        return True

    async def wait_closed(self) -> None:
        if self._is_open:
            self._closed = asyncio.Event()
            await self._closed.wait()

    async def close(self) -> None:
        self.drop()

    def drop(self) -> None:
        self._is_open = False
        self.server.wires.discard(self)
        if self._heard is not None:
            self._heard = None
            self.server.store.listeners.remove(self._notified)
        if self._closed is not None:
            self._closed.set()
        if self._under_way is not None:
            self._under_way.settle(Unanswered("the connection to the database broke"))

    def break_off(self) -> None:
        """From the other side: the process hears of it when it runs."""
        self._is_open = False
        if self._under_way is not None:
            self._under_way.is_answered = False
        self.loop.post(0.0, self.drop)

    def forsake(self) -> None:
        """The process is dead: what is under way happens, and nobody hears of it."""
        self._is_open = False
        self.server.wires.discard(self)
        if self._under_way is not None:
            self._under_way.is_answered = False
        if self._heard is not None:
            self._heard = None
            self.server.store.listeners.remove(self._notified)

    async def _open(self) -> None:
        process = self.process
        current = process.world.current
        assert current is not None
        self.loop = current  # a link is used by one loop, but the session's is made in another
        if self._is_open:
            return
        if process.is_limbo:
            raise DatabaseUnavailable("nobody is there any more")
        if self._weather.is_cut:
            await asyncio.sleep(min(2.0, self._answer_seconds))
            raise DatabaseUnavailable("the database can't be reached")
        await asyncio.sleep(_CONNECT_SECONDS * (0.5 + process.world.chance.random()))
        if self.server.is_down:
            raise DatabaseUnavailable("the database can't be reached")
        self._is_open = True
        self.opened += 1
        self.server.wires.add(self)

    async def _send(self, name: str, act: Callable[[], list[Row]]) -> list[Row]:
        if self.process.is_limbo:
            raise DatabaseUnavailable("nobody is there any more")
        weather, world = self._weather, self.process.world
        chance = world.chance
        exchange = _Exchange(self, name, act)
        there = _USUAL_SECONDS * chance.random()
        back = _USUAL_SECONDS * chance.random()
        if weather.slow:
            there += weather.slow * chance.random() ** 3
            back += weather.slow * chance.random() ** 3
        if weather.busy and chance.random() < weather.busy:
            await asyncio.sleep(there)
            raise Busy("canceling statement due to lock timeout")
        arrives = not (weather.is_cut or chance.random() < weather.request_lost)
        exchange.is_answered = not (weather.is_cut or chance.random() < weather.answer_lost)
        if arrives:
            world.call_at(world.now + there, exchange.execute, back)
        if not arrives or not exchange.is_answered or there + back >= self._answer_seconds:
            silence = Unanswered("the database did not answer in time")
            self.loop.call_later(self._answer_seconds, exchange.settle, silence)
        self._under_way = exchange
        try:
            return await exchange.future
        except Unanswered:
            self._under_way = None
            self.drop()
            raise
        finally:
            self._under_way = None

    def _notified(self, payload: str) -> None:
        if self._weather.is_cut:
            return
        heard = self._heard
        if heard is not None:
            self.loop.post(_USUAL_SECONDS, heard, payload)
