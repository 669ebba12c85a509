"""Claims due runs in batches, as slots get free and a little ahead of them.

How far ahead follows from how fast runs end here (`prefetch`); what waits here while nothing ends
is given back. Runs that may start only once are claimed for free slots only.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from operator import itemgetter
from time import monotonic
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.batches import SetAside
from pgcron_ha.engine.claim.acceptance import Acceptance, Preparation
from pgcron_ha.engine.claim.gated_claims import GatedClaims
from pgcron_ha.engine.claim.isolated_claims import LONGEST_PAUSE_SECONDS, IsolatedClaims
from pgcron_ha.engine.claim.prefetch import Prefetch
from pgcron_ha.engine.claim.search_order import AGEING_EVERY, DueIndex, SearchOrder
from pgcron_ha.engine.lease.session import Session
from pgcron_ha.engine.run.runner import Ended, Runner
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import DatabaseUnavailable
from pgcron_ha.executors.contract.base import Succeeded
from pgcron_ha.telemetry.counters import COUNTERS
from pgcron_ha.telemetry.events import RunsBlocked
from pgcron_ha.telemetry.log import emit

CLAIM_BATCH: Final = 500
"""Rows of one claim: beyond this a statement's own time outweighs what is saved."""

STALL_SECONDS: Final = 1.0
"""How long runs wait here while none ends, before they are given back for others to claim."""

_LOOK_SECONDS: Final = 0.25
"""How long a busy node does not look for what is due beside what it claims."""

_SHORTEST_SLEEP: Final = 0.001

_BREATH_SECONDS: Final = 0.002
"""Before an idle node looks for more: handlers that have just been given to their thread begin
first, without a contest for the interpreter.
"""

IDLE_LOOKS: Final = 3
"""Factor of the poll interval for an idle node that is known to receive notifications."""

FULL_CLAIMS_OF_A_BUSY_NODE: Final = 3
"""After this many full claims in a row a node polls by itself, and enqueuers need not notify it."""

_URGENCY: Final = itemgetter("priority", "due", "id")
_PLAIN: Final = "plain runs"
_BROKEN: Final = "the breaker of their handler is open"


class Dispatcher(Service):
    """Keeps the runner in work."""

    name: ClassVar[str] = "dispatcher"

    def __init__(
        self,
        link: Link,
        session: Session,
        runner: Runner,
        poll_interval: float,
        prefetch: int,
        weights: Mapping[str, int],
        expect: Callable[[Sequence[Row]], None],
    ) -> None:
        """`poll_interval` in seconds; `prefetch` bounds what is claimed ahead of a slot; `weights`
        are those of handlers that take several, by full name; `expect` gets what was claimed.
        """
        super().__init__(poll_interval)
        queues, handlers = session.identity.queues, session.identity.handlers
        self._link = link
        self._session = session
        self._runner = runner
        runner.prepare = Preparation(link, runner)
        self._all_handlers = handlers
        self._handlers = list(handlers)  # without those that a circuit breaker blocks
        self._has_broken = False
        self._order = SearchOrder(queues)
        self._prefetching = Prefetch(prefetch)
        self._acceptance = Acceptance(link, session, runner, self._prefetching, weights, expect)
        self.aside = SetAside(self.name, LONGEST_PAUSE_SECONDS)
        self.claims = IsolatedClaims(link, session, queues, self._handlers, self.aside)
        self._gated = GatedClaims(self.claims, queues, poll_interval, prefetch)
        self._due_index = DueIndex(link, queues, self._order)
        self._idle_interval = poll_interval
        self._is_idle = False
        self._is_woken = False
        self._may_have_retries = False
        self._full_claims = 0
        self._claims_begun = 0

    def ended(self, ended: Sequence[Ended]) -> None:
        """These runs ended here: the prefetch is adjusted, and there may be room for more."""
        now = monotonic()
        self._prefetching.count(len(ended), now)
        self._gated.ended([context.run_id for context, _, _ in ended], now)
        self._acceptance.progress_at = now
        self._may_have_retries |= any(type(outcome) is not Succeeded for _, outcome, _ in ended)
        if self._awaited() and self._unused() >= self._awaited():
            self._gated.wake()
            self.wake()
        elif self._due_index.due_at <= now and self._has_room():
            self.wake()

    def settled(self) -> None:
        """The database knows of ends: a retry may be due soon, and a slot may have become free."""
        self._gated.settled(self._runner.holds)
        is_due = self._due_index.due_at <= monotonic() and self._has_room()
        if self._may_have_retries or is_due or self._gated_are_due():
            self._may_have_retries = False
            self.wake()

    def joined(self) -> None:
        """A new incarnation: the database knows nothing of it yet."""
        self._is_idle = False
        self.wake()

    def trust_notifications(self, are_heard: bool) -> None:
        """Whether notifications are known to arrive: then an idle node need not look as often."""
        self._idle_interval = self.interval * (IDLE_LOOKS if are_heard else 1)

    def wake(self) -> None:
        """There may be work, or room for it: the next pass claims at once."""
        self._is_woken = True
        super().wake()

    def made_ready(self) -> None:
        """Runs have become ready that may have been due before the bounds of the claims."""
        self._order.sweep()
        self.wake()

    def leave_out(self, blocked: Container[str]) -> None:
        """Runs of all handlers but these are claimed. What waits here for others is given back."""
        handlers = [each for each in self._all_handlers if each not in blocked]
        self._has_broken |= not set(handlers).issuperset(self._handlers)
        self._handlers[:] = handlers

    def offer(self, handlers: Sequence[str]) -> None:
        """Runs of these are claimed from now on, too."""
        new = [each for each in handlers if each not in self._all_handlers]
        if new:
            self._all_handlers = (*self._all_handlers, *new)
            self._handlers.extend(new)
            self.made_ready()

    def probe(self, runs: list[int]) -> None:
        """These runs may begin although the breakers of their handlers are not closed."""
        if runs and runs != self._gated.probes:
            self._gated.wake()
        self._gated.probes = runs
        if runs:
            self.wake()

    async def run_once(self) -> float | None:
        """One claim, or a look at what is due next."""
        if not self._session.may_claim():
            if self._session.is_cordoned and self._runner.waiting:
                await self._acceptance.give_back("this node is cordoned")
            return self.interval
        if self._runner.waiting and monotonic() - self._acceptance.progress_at > STALL_SECONDS:
            await self._acceptance.give_back()
        if self._has_broken:
            self._has_broken = False
            await self._acceptance.give_back(_BROKEN, self._handlers)
        pause = await self._pass()
        return min(pause, STALL_SECONDS) if self._runner.waiting else pause

    async def _pass(self) -> float:
        is_woken, self._is_woken = self._is_woken, False
        if is_woken and self._is_idle:
            self._gated.wake()
        if self._is_idle:
            # When only the poll interval is over, one look is enough, and usually finds nothing.
            if not is_woken and self._due_index.due_at > monotonic():
                await self._due_index.look()
                if self._gated_are_due() and await self._claim_gated():
                    return 0
                if self._due_index.due_at > monotonic():
                    return self._until_due()
        elif monotonic() - self._due_index.looked_at > _LOOK_SECONDS:
            await self._due_index.look()
        ahead = 0
        if self._gated_are_due() and self._unused():
            if self._gated.has_turn():
                await self._claim_gated()
            elif self._free():  # after a full turn of theirs the others have one that is as long
                ahead = self._gated.ahead
        limit = min(self._wanted() + ahead, CLAIM_BATCH)
        claimed = await self._claim(limit) if limit else 0
        if claimed and claimed == limit:
            self._due_index.plain_due_at = float("-inf")  # there is probably more
            return 0 if self._wanted() > 0 else self.interval
        if claimed and self._is_idle:
            await self.rest(_BREATH_SECONDS)
            if self._is_woken:
                return 0
        return await self._look_ahead()

    def _unused(self) -> int:
        return max(0, self._runner.free_slots - self._runner.waiting)

    def _awaited(self) -> int:
        """How many slots a waiting run needs for which this node keeps all that get free."""
        return self._gated.awaits if self._due_index.limited_wait else 0

    def _free(self) -> int:
        return 0 if self._awaited() else self._unused()

    def _gated_wait(self) -> bool:
        return self._due_index.limited_wait or bool(self._gated.probes)

    def _once_are_due(self) -> bool:
        """Whether runs that may start only once are to be claimed with the plain ones."""
        return self._due_index.once_due_at <= monotonic()

    def _ahead(self) -> int:
        """Runs to hold beyond the slots. None while others may only have a free slot and have not
        been looked for, so that slots get free for them.
        """
        return 0 if self._gated_are_due() or self._once_are_due() else self._prefetching.ahead

    def _wanted(self) -> int:
        if self._awaited():
            return 0
        return max(0, self._runner.free_slots + self._ahead() - self._runner.waiting)

    def _has_room(self) -> bool:
        """Whether another claim pays."""
        return self._wanted() >= min(CLAIM_BATCH, self._ahead() // 2 + 1)

    async def _claim(self, limit: int) -> int:
        """How many runs were claimed; when it is the limit, there is probably more."""
        self._claims_begun += 1
        if self._claims_begun % AGEING_EVERY == 0:
            self._order.preferred = await self._due_index.due_paths_by_age()
        with_once = self._once_are_due() and self._unused() > 0
        if with_once:
            limit = min(limit, self._unused())
        order = self._order.in_order(monotonic(), with_once)
        incarnation = self._session.incarnation
        # Rows that an unanswered statement claimed all the same are found by the next beats.
        try:
            rows = await self.claims.rows(_PLAIN, "claim", plain=limit, **order)
        except DatabaseUnavailable:
            self._prefetching.stall(monotonic())
            raise
        if _PLAIN in self.aside:  # it may have failed for its size: the next one is smaller
            self._prefetching.stall(monotonic())
        COUNTERS.claimed(len(rows), limit, self.claims.answered_after)
        rows.sort(key=_URGENCY)  # what an UPDATE returns has no order
        await self._acceptance.take(rows, incarnation)
        if with_once and all(row["delivery"] == "at_least_once" for row in rows):
            # Until the next look there are none for this node that may start only once.
            self._due_index.once_due_at = float("inf")
        self._order.claimed(rows, is_full=len(rows) >= limit)
        self._full_claims = self._full_claims + 1 if len(rows) >= limit else 0
        if self._is_idle and self._full_claims >= FULL_CLAIMS_OF_A_BUSY_NODE:
            await self._say_idle(False)
        return len(rows)

    async def _look_ahead(self) -> float:
        is_due = any(row["is_due"] for row in await self._due_index.look())
        if self._gated_are_due() and await self._claim_gated():
            return 0
        if is_due:
            if self._free():
                self._order.sweep()
                if await self._claim(min(max(1, self._wanted()), CLAIM_BATCH)):
                    return 0
                await self._block()
            return self.interval
        if not self._is_idle:
            await self._say_idle(True)
            return 0  # runs enqueued before this was recorded have sent no notification
        return self._until_due()

    def _until_due(self) -> float:
        """Seconds to the next waiting run, as far as the last look knows."""
        until = min(self._idle_interval, self._due_index.due_at - monotonic())
        if self._gated_wait() and self._unused():
            until = min(until, self._gated.look_at - monotonic())
        return max(_SHORTEST_SLEEP, until)

    def _gated_are_due(self) -> bool:
        return self._gated_wait() and self._gated.is_due()

    async def _claim_gated(self) -> int:
        """How many runs were claimed for the free slots."""
        free = min(self._unused(), CLAIM_BATCH)
        if not free:
            return 0
        incarnation = self._session.incarnation
        claimed, blocked, is_contested = await self.claims.settle(self._gated.claim(free))
        COUNTERS.claimed(len(claimed), free, self.claims.answered_after)
        await self._acceptance.take(claimed, incarnation)
        if blocked:
            self._report_blocked(blocked)
        elif len(claimed) < free and not is_contested:
            await self._block()
        return len(claimed)

    async def _block(self) -> None:
        """What is due and could not be claimed may wait for what no node has."""
        if blocked := await self.claims.block():
            self._report_blocked(blocked)

    def _report_blocked(self, runs: int) -> None:
        """So many are out of the way: what was behind them is looked at."""
        emit(RunsBlocked(runs))
        self._gated.wake()
        self.wake()

    async def _say_idle(self, is_idle: bool) -> None:
        self._is_idle = False  # if the answer is lost it is unknown, and this node looks by itself
        await self._link.rows("say_idle", incarnation=self._session.incarnation, is_idle=is_idle)
        self._is_idle = is_idle
