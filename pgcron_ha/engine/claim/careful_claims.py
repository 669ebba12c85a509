"""Claims that need care: schedules to decide, and runs that may start only once.

A run that may start only once is claimed for a free slot and never ahead of one: where it waited,
the end of its node would lose it. A run of a schedule may be claimed ahead as any other: its
schedule is held from then on, here or elsewhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.claim.paths import AGEING_EVERY, ClaimPaths, Path
from pgcron_ha.engine.lease.session import Session

SCHEDULE_BATCH: Final = 1000
"""Schedules looked at in one round: their advisory locks share the server's lock table."""

_LOOK_BEYOND: Final = 16
"""Schedules looked at beyond the room there is: some are held, or being decided by other nodes."""

_LOOK_WIDER: Final = 4
"""Factor by which the next search is wider if one found too little, up to `SCHEDULE_BATCH`."""


@dataclass(frozen=True, slots=True)
class Decided:
    """What one round came to: `claimed` rows, how many runs were `skipped`, `superseded`, or `held`
    until their schedule has a slot for them, whether some run that may start only once waits for a
    free slot, and which of the claimed runs may keep others waiting.
    """

    claimed: list[Row]
    skipped: int
    superseded: int
    held: int
    waits_for_slot: bool
    keep_waiting: list[int]


NOTHING_DECIDED: Final = Decided([], 0, 0, 0, False, [])
"""What a round comes to that could not take place."""


class CarefulClaims:
    """The statements of both kinds, and how far to look for schedules."""

    def __init__(
        self,
        link: Link,
        session: Session,
        handlers: Sequence[str],
        paths: ClaimPaths,
    ) -> None:
        self._link = link
        self._session = session
        self._handlers = handlers
        self._paths = paths
        self._look = 0
        self._turns = 0

    def is_turn_of_the_oldest(self) -> bool:
        """Whether the next claims shall begin with what is due longest; asked once a round."""
        self._turns += 1
        return self._turns % AGEING_EVERY == 0

    async def claim_once(self, free: int, first: Sequence[Path] = ()) -> list[Row]:
        """Runs without a schedule that may start only once, at most `free`, those of `first`
        first.
        """
        return await self._link.rows(
            "claim_at_most_once",
            limit=free,
            incarnation=self._session.incarnation,
            handlers=list(self._handlers),
            **self._paths.once(first),
        )

    async def decide_overlapping(
        self, free: int, ahead: int, first: Sequence[Path] = ()
    ) -> Decided:
        """Claims for the free slots and a number of runs beyond them, those of `first` first.

        It also runs without room: a held schedule skips its next fire now, not when a slot is free.
        """
        look = min(SCHEDULE_BATCH, max(self._look, free + ahead + _LOOK_BEYOND))
        verdicts = await self._link.rows(
            "claim_overlapping",
            incarnation=self._session.incarnation,
            handlers=list(self._handlers),
            free=free,
            ahead=ahead,
            look=look,
            **self._paths.all(first),
        )
        claimed = [row for row in verdicts if row["verdict"] == "claim"]
        counts = Counter(row["verdict"] for row in verdicts)
        decided = counts["skip"] + counts["supersede"] + counts["hold"]
        # Schedules that another node decides, or that can't be claimed here, may come first.
        is_short = len(claimed) < max(1, free + ahead) and not decided
        self._look = min(SCHEDULE_BATCH, look * _LOOK_WIDER) if is_short else 0
        mine = [row["id"] for row in verdicts if row["verdict"] == "mine"]
        return Decided(
            claimed, counts["skip"], counts["supersede"], counts["hold"], counts["wait"] > 0, mine
        )
