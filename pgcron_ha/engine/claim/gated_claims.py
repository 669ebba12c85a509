"""Claims of runs with a capacity gate (a concurrency key, a limited queue, labels, a weight), and
of probes of circuit breakers.

The database decides whether one of them may run; this decides how far to look, and when to look
again. They are claimed for free slots, and a little ahead where runs are short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic
from typing import Final

from pgcron_ha.db.driver.link import Row
from pgcron_ha.engine.batches import isolate
from pgcron_ha.engine.claim.isolated_claims import IsolatedClaims
from pgcron_ha.engine.claim.prefetch import Prefetch
from pgcron_ha.engine.claim.search_order import AGEING_EVERY
from pgcron_ha.errors import PgcronError

_LOOK_BEYOND: Final = 16
"""Keys looked at beyond the free slots: some are being decided by other nodes."""

_SHORTEST_REST: Final = 0.005
"""Seconds to rest before a run that is known to be due soon."""

_AT_ONCE: Final = float("-inf")
_NEVER: Final = float("inf")


class GatedClaims:
    """The statement, how far its walk over the keys has come, and when to look again."""

    def __init__(
        self, claims: IsolatedClaims, queues: Sequence[str], interval: float, prefetch: int
    ) -> None:
        """`interval`: seconds for which a slot that became free elsewhere may go unnoticed;
        `prefetch` bounds what is claimed ahead.
        """
        self._claims = claims
        self._queues = list(queues)
        self._interval = interval
        self._beyond = dict.fromkeys(queues, "")
        self._lap_found = False
        self._is_long = False  # a walk over the keys takes several claims
        self._since: datetime | None = None  # keys are new that came after it
        self._favoured_new = False  # new keys were found, and the last claim took all free slots
        self._claimed: set[int] = set()
        self._prefetching = Prefetch(prefetch)
        self._yields = False
        self.probes: list[int] = []
        """Runs that may begin although the breakers of their handlers are not closed."""
        self.awaits = 0
        """How many slots a run needs that waits for this node to have them; 0: none does."""
        self._rounds = 0
        self.look_at = _AT_ONCE
        """When another look is worth it (`time.monotonic`)."""

    def wake(self) -> None:
        """There may be something new: look at once."""
        self.look_at = _AT_ONCE
        self._lap_found = True

    def is_due(self) -> bool:
        """Whether it is worth another look."""
        return self.look_at <= monotonic()

    def has_turn(self) -> bool:
        """As `is_due`, but a turn that took all free slots is followed by one of the others."""
        yields, self._yields = self._yields, False
        return self.is_due() and not yields

    @property
    def ahead(self) -> int:
        """How many to claim ahead of the slots."""
        return self._prefetching.ahead_of_gates

    def ended(self, runs: Sequence[int], now: float) -> None:
        """These runs ended here, of which some were claimed here."""
        self._prefetching.count(len(self._claimed.intersection(runs)), now)

    def settled(self, holds: Callable[[int], bool]) -> None:
        """The database knows of ends; `holds` says whether a run is still held here. One that is
        not may have left a slot of its key, or room in its queue.
        """
        if over := {run for run in self._claimed if not holds(run)}:
            self._claimed -= over
            self.wake()

    async def claim(self, free: int) -> tuple[list[Row], int, bool]:
        """One round for the free slots, and some ahead where no rate counts them. Now and then the
        longest overdue goes first. While a walk over the keys takes several claims, new keys go
        first; but not in the claim after one that they may have filled, or the others could wait
        for ever. The claimed, how many were set aside since no node may take them, and whether
        other nodes took some of the runs or their slots at the same moment.
        """
        self._rounds += 1
        ahead = self.ahead
        verdicts: list[Row] = []
        has_ended_some = False
        aside = self._claims.aside
        for_new = self._is_long and not self._favoured_new

        async def send(queues: Sequence[str]) -> None:
            taken = sum(row["weight"] for row in verdicts if row["verdict"] == "claim")
            gated = max(0, free - taken)
            most = {"gated": gated, "ahead": ahead, "look": gated + ahead + _LOOK_BEYOND}
            where = {"queues": list(queues), "beyond": [self._beyond[queue] for queue in queues]}
            answer = await self._claims.send(
                "claim_gated",
                **most,
                **where,
                since=self._since if for_new else None,
                aged=self._rounds % AGEING_EVERY == 0,
                probes=self.probes,
            )
            verdicts.extend(answer)
            aside.forget(*map(_named, queues))

        async def refuse(queue: str, error: PgcronError) -> None:
            nonlocal has_ended_some
            if await self._claims.end_refused([queue]):
                has_ended_some = True
            else:
                delay(queue, error)

        def delay(queue: str, error: PgcronError) -> None:
            aside.put(_named(queue), f"limits of {_named(queue)}", error)

        queues = [queue for queue in self._queues if not aside.waits(_named(queue))]
        await isolate(queues, send, refuse, delay)
        claimed = [row for row in verdicts if row["verdict"] == "claim"]
        blocked = sum(row["verdict"] == "blocked" for row in verdicts)
        is_contested = any(row["verdict"] == "again" for row in verdicts)
        awaited = [row["weight"] for row in verdicts if row["verdict"] == "await"]
        self.awaits = max(awaited, default=0)
        self._claimed.update(row["id"] for row in claimed)
        self._yields = free <= sum(row["weight"] for row in claimed)
        if self._favoured_new:
            self._favoured_new = False
        else:
            walked = [row["fire_time"] for row in verdicts if row["verdict"] == "walked"]
            since = min(filter(None, walked), default=self._since)
            found_new = for_new and since == self._since  # the next claim looks at them again
            self._since = since
            self._favoured_new = found_new and self._yields
        self._lap_found |= bool(claimed)
        self._plan(verdicts, is_full=self._yields or has_ended_some)
        if is_contested:
            self.look_at = min(self.look_at, monotonic() + _SHORTEST_REST)
        return claimed, blocked, is_contested

    def _plan(self, verdicts: Sequence[Row], is_full: bool) -> None:
        """Where the next walk begins, and when."""
        began_anywhere = any(self._beyond.values())
        walked = [row for row in verdicts if row["verdict"] == "walked"]
        self._beyond = dict.fromkeys(self._queues, "")
        self._beyond |= {row["queue"]: row["concurrency_key"] or "" for row in walked}
        self._queues = [*self._queues[1:], *self._queues[:1]]
        self._is_long = began_anywhere or any(self._beyond.values())
        if is_full or any(self._beyond.values()):
            self.look_at = _AT_ONCE
        elif began_anywhere and self._lap_found:  # the keys before its beginning were not seen
            self._lap_found = False
            self.look_at = _AT_ONCE
        else:
            self._lap_found = False
            due = min((row["due"] for row in walked if row["due"] is not None), default=_NEVER)
            self.look_at = monotonic() + min(self._interval, max(_SHORTEST_REST, due))


def _named(queue: str) -> str:
    return f"queue {queue!r}"
