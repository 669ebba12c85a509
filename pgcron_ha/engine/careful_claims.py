"""Claims of runs that are never claimed ahead of a free slot: lanes to decide, runs that may start
only once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from pgcron_ha.db.link import Link, Row
from pgcron_ha.engine.session import Session

LANE_BATCH: Final = 1000
"""Lanes decided in one transaction: their advisory locks share the server's lock table."""

_LOOK_BEYOND: Final = 16
_LOOK_WIDER: Final = 4


class CarefulClaims:
    """Two kinds of claims, each for at most so many free slots."""

    def __init__(
        self,
        link: Link,
        session: Session,
        queues: Sequence[str],
        handlers: Sequence[str],
        paths: dict[str, list[Any]],
    ) -> None:
        """`paths` are the queues and priorities to look at, as the statements take them."""
        self._link = link
        self._session = session
        self._queues = list(queues)
        self._handlers = list(handlers)
        self._paths = paths
        self._look = 0
        self._expects_once = False

    def expect_once(self) -> None:
        """Some run that may start only once is due: the next claims look for such runs."""
        self._expects_once = True

    async def claim(self, free: int) -> tuple[list[Row], int]:
        """(claimed rows, how many runs were claimed or skipped), at most `free` claimed.

        Without a free slot, too: a lane that is held skips its next fire now, not when a slot gets
        free.
        """
        once: list[Row] = []
        if free and self._expects_once:
            once = await self._link.rows(
                "claim_at_most_once",
                limit=free,
                incarnation=self._session.incarnation,
                handlers=self._handlers,
                **self._paths,
            )
            self._expects_once = bool(once)
        rows, decided = await self._claim_lanes(free - len(once))
        return once + rows, decided + len(once)

    async def _claim_lanes(self, limit: int) -> tuple[list[Row], int]:
        """Decides lanes under their locks, each step with a snapshot of its own."""
        look = min(LANE_BATCH, max(self._look, 2 * limit + _LOOK_BEYOND))
        rows: list[Row] = []
        async with self._link.transaction() as send:
            lanes = [
                row[0]
                for row in await send(
                    "lock_lanes", look=look, handlers=self._handlers, **self._paths
                )
            ]
            verdicts = await self._decide(send, lanes, limit) if lanes else []
            chosen = [row["id"] for row in verdicts if row["verdict"] == "claim"]
            skipped = [row["id"] for row in verdicts if row["verdict"] == "skip"]
            if chosen:
                incarnation = self._session.incarnation
                rows = await send("claim_chosen", run_ids=chosen, incarnation=incarnation)
            if skipped:
                reason = "the last run is not over"
                await send("end_waiting_runs", run_ids=skipped, outcome="skipped", reason=reason)
        # Lanes that somebody else decides, or that can't be claimed here, may stand in front.
        is_short = len(rows) < limit and not skipped
        self._look = min(LANE_BATCH, look * _LOOK_WIDER) if is_short else 0
        return rows, len(verdicts)

    async def _decide(self, send: Any, lanes: list[int], limit: int) -> list[Row]:
        verdicts: list[Row] = await send(
            "decide_lanes",
            lanes=lanes,
            limit=min(limit, LANE_BATCH),
            queues=self._queues,
            handlers=self._handlers,
            incarnation=self._session.incarnation,
        )
        return verdicts
