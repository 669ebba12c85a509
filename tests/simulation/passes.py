"""One pass of a service of a node, statement by statement: what happens in between is the test's,
and so is whether an answer arrives.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import asyncpg

from tests.product.db import Unanswered
from tests.product.engine import Backfills, Materializer, Service
from tests.simulation.real import RealStore


class Pass:
    """Takes the place of a node's link: each statement waits until the test lets it go."""

    def __init__(self, real: RealStore, service: Callable[[Any], Service]) -> None:
        self._real = real
        self._asked: tuple[str, dict[str, Any]] | None = None
        self._asks = asyncio.Event()
        self._answer: asyncio.Future[list[asyncpg.Record]]
        self._task = real.task(self._run(service(self)))
        self._settle()

    @property
    def is_over(self) -> bool:
        """It ended, or died."""
        return self._task.done()

    @property
    def asks_for(self) -> str:
        """The statement that it is about to send; empty when it is over."""
        return self._asked[0] if self._asked else ""

    async def rows(self, name: str, /, **parameters: Any) -> list[asyncpg.Record]:
        """As `pgcron_ha.db.driver.link.Link`."""
        self._asked = (name, parameters)
        self._asks.set()
        self._answer = asyncio.get_running_loop().create_future()
        return await self._answer

    def go_on(self) -> None:
        """One statement is sent and answered."""
        if self._asked is not None:
            name, parameters = self._asked
            self._asked = None
            self._answer.set_result(self._real.call(name, **parameters))
            self._settle()

    def finish(self) -> None:
        """All that is left of it."""
        while not self.is_over:
            self.go_on()

    def is_cut(self, *, after_commit: bool) -> None:
        """The connection breaks; the node can't know whether the statement happened."""
        if self._asked is not None:
            name, parameters = self._asked
            self._asked = None
            if after_commit:
                self._real.call(name, **parameters)
            self._answer.set_exception(Unanswered("the connection broke", "", ""))
            self._settle()

    def dies(self) -> None:
        """What it has asked for never happens."""
        self._asked = None
        self._task.cancel()
        self._settle()

    async def _run(self, service: Service) -> None:
        try:
            await service.run_once()
        except (Unanswered, asyncio.CancelledError):
            return

    def _settle(self) -> None:
        """Until it asks for something, or is over."""
        self._asks.clear()
        self._real.wait(self._until_it_asks())
        if self._task.done():
            self._task.result()

    async def _until_it_asks(self) -> None:
        asks = asyncio.ensure_future(self._asks.wait())
        await asyncio.wait({asks, self._task}, return_when=asyncio.FIRST_COMPLETED)
        asks.cancel()


def materializing(horizon: float) -> Callable[[Any], Service]:
    """A pass of the materializer, with the duties of control that it has."""
    return lambda link: Materializer(link, horizon)


def filling_in(link: Any) -> Service:
    """A pass of those who make the runs of backfills."""
    return Backfills(link)


def whole(real: RealStore, service: Callable[[Any], Service]) -> None:
    """A pass that nothing interrupts."""
    Pass(real, service).finish()
