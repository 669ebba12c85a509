"""Runs of schedules that must not overlap: which of them may begin, and which wait for a slot.

The node that decides a schedule's due runs puts those aside that must wait for a slot of it. A node
that notices the end of a run lets them go: the node that executed it at once, the others within a
poll interval. A run may be claimed ahead as any other: the slot of its schedule is held from then
on, here or elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Final

from pgcron_ha.engine.claim.isolated_claims import WAITING, Decided, IsolatedClaims, have_ended
from pgcron_ha.engine.claim.search_order import Path, SearchOrder

BATCH: Final = 1000
"""Schedules looked at in one round: their advisory locks share the server's lock table."""

_LOOK_BEYOND: Final = 16
"""Schedules looked at beyond the room there is: some are held, or being decided by other nodes."""

_LOOK_WIDER: Final = 4
"""Factor by which the next search is wider if one found too little, up to `BATCH`."""

_WALK: Final = 200
"""Schedules whose waiting runs one statement looks at; a longer walk takes several."""

_AT_ONCE: Final = float("-inf")


class OverlapClaims:
    """Both statements, how far to look, how far the walk over the schedules has come, and when to
    walk again.
    """

    def __init__(self, claims: IsolatedClaims, order: SearchOrder, interval: float) -> None:
        """`interval` in seconds: how long an end elsewhere may go unnoticed."""
        self._claims = claims
        self._order = order
        self._interval = interval
        self._look = 0
        self._keep_waiting: set[int] = set()
        self._beyond = 0
        self._has_news = False
        self.look_at = _AT_ONCE
        """When another walk is worth it while runs wait (`time.monotonic`)."""

    async def decide(self, free: int, ahead: int, first: Sequence[Path] = ()) -> Decided:
        """Claims for the free slots and a number of runs beyond them, those of `first` first.

        It also runs without room: a held schedule skips its next fire now, not when a slot is free.
        """
        look = min(BATCH, max(self._look, free + ahead + _LOOK_BEYOND))
        decided = Decided(
            await self._claims.rows(
                "runs of schedules that must not overlap",
                "claim_overlapping",
                free=free,
                ahead=ahead,
                look=look,
                **self._order.all(first),
            )
        )
        # Schedules that another node decides, or that can't be claimed here, may come first.
        is_short = len(decided.claimed) < max(1, free + ahead) and not decided.moved
        self._look = min(BATCH, look * _LOOK_WIDER) if is_short else 0
        return decided

    def expect(self, runs: Iterable[int]) -> None:
        """The ends of these, which execute here, may let others go."""
        self._keep_waiting.update(runs)

    def settled(self, holds: Callable[[int], bool]) -> bool:
        """The database knows of ends; `holds` says whether a run is still held here. Whether one of
        those is over that may have kept others waiting.
        """
        has_let_go = have_ended(self._keep_waiting, holds)
        self._has_news |= has_let_go
        return has_let_go

    def are_due(self, do_wait: bool) -> bool:
        """Whether to walk; `do_wait`: as far as is known, runs wait."""
        return self._has_news or (do_wait and self.look_at <= monotonic())

    async def let_go(self) -> int:
        """How many runs may be claimed now, or ended since a newer one takes their place."""
        self._has_news = False
        self.look_at = monotonic() + self._interval
        rows = await self._claims.rows(WAITING, "let_waiting_go", beyond=self._beyond, most=_WALK)
        if not rows:
            return 0
        row = rows[0]
        self._beyond = row["ended_at"] or 0
        if self._beyond:
            self.look_at = _AT_ONCE
        let_go: int = row["let_go"]
        if row["refused"]:
            let_go += await self._claims.end_refused_in_line(row["refused"], row["error"])
        return let_go
