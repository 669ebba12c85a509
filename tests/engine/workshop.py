"""A node taken apart: a real session in its thread, and services that a test steps by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from tests.engine.by_hand import ByHand
from tests.product.db import Link
from tests.product.engine import (
    Admission,
    Beat,
    Dispatcher,
    Ended,
    Identity,
    LeasePhase,
    Runner,
    Session,
    SessionHooks,
)
from tests.waiting import until

HANDLERS = ("py:work",)


class Workshop:
    """Begin it with `join`, end it with `leave`. What a test that failed leaves behind is ended
    after it: a thread that lives on would use what the next tests do.
    """

    living: ClassVar[list[Workshop]] = []

    def __init__(
        self,
        dsn: str,
        link: Link | None = None,
        *,
        slots: int = 4,
        prefetch: int = 1000,
        ttl: float = 15.0,
        home: str | None = None,
        queues: Sequence[str] = ("default",),
        weights: Mapping[str, int] | None = None,
        poll: float = 1.0,
    ) -> None:
        self.beats: list[Beat] = []
        self.phases: list[LeasePhase] = []
        self.deadlines: list[float] = []
        self.fenced = 0
        self.joined = 0
        self.is_quiet = True
        self.is_unresponsive = False
        self.ended: list[Ended] = []
        self._loop = asyncio.get_running_loop()
        identity = Identity("n1", "0", home, slots, tuple(queues), HANDLERS)
        self.session = Session(dsn, "pgcron", identity, ttl, self._hooks())
        self.runner = Runner(slots, self.session.may_claim, self.ended.extend)
        self.executor = ByHand(self.runner.done, self.runner.feed_for("py"))
        self.runner.use({"py": self.executor})
        self.link = link or Link(dsn)
        self.admission = Admission(self.link, lambda: self.dispatcher.made_ready())
        self.dispatcher = Dispatcher(
            self.link,
            self.session,
            self.runner,
            poll,
            prefetch,
            weights or {},
            self.admission.expect,
        )

    async def join(self) -> None:
        """Start the session and wait for its lease."""
        self.living.append(self)
        self.session.start()
        await until("the node has joined", lambda: self.tick() and self.session.may_claim())

    async def leave(self, reason: str | None = "the test is over") -> None:
        """Stop the session; returns when its thread has ended."""
        if self in self.living:
            self.living.remove(self)
        self.session.stop(reason)
        await asyncio.to_thread(self.session.join, 10)
        await self.link.close()
        assert not self.session.is_alive()

    def tick(self) -> bool:
        """The engine's loop turns."""
        self.session.tick()
        return True

    async def beat(self) -> Beat:
        """Ask for a beat, and wait until it is acknowledged."""
        known = len(self.beats)
        self.tick()
        self.session.beat_now()
        await until("the next beat", lambda: len(self.beats) > known)
        return self.beats[-1]

    async def step(self, most: int = 20) -> None:
        """The dispatcher's passes until it wants to sleep."""
        for _ in range(most):
            if await self.turn() != 0:
                return
        raise AssertionError(f"the dispatcher does not rest after {most} passes")

    async def turn(self) -> float | None:
        """A pass of the service that opens gates, which looks at everything, and one of the
        dispatcher.
        """
        self.admission.look()
        while await self.admission.run_once() == 0:
            pass
        return await self.dispatcher.run_once()

    def _hooks(self) -> SessionHooks:
        return SessionHooks(
            beat=lambda beat: self._post(self.beats.append, beat),
            phase=self.phases.append,
            fenced=lambda: self._post(self._on_fenced),
            joined=lambda: self._post(self._on_joined),
            renewed=self.deadlines.append,
            is_quiet=lambda: self.is_quiet,
            report=lambda: {
                "slots_used": self.runner.executing,
                "health": None,
                "is_unresponsive": self.is_unresponsive,
            },
        )

    def _post(self, callback: Callable[..., None], *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(callback, *arguments)

    def _on_fenced(self) -> None:
        self.fenced += 1

    def _on_joined(self) -> None:
        self.joined += 1
        self.dispatcher.joined()
