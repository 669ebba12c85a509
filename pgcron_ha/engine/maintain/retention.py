"""Ended runs that a rule of retention keeps no longer are removed, a few pages of one day at a
time; the room of a day of which most is gone is given back.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

from pgcron_ha.db.driver.link import Busy, Link
from pgcron_ha.db.driver.statements import in_schema
from pgcron_ha.telemetry.events import HistoryThinned
from pgcron_ha.telemetry.log import emit

PAGES: Final = 64
"""Of one transaction: half a megabyte, so some 1,500 runs, which is some ten milliseconds."""

PASS_SECONDS: Final = 0.5
"""After this time the janitor's other duties have their turn; the pause is as long."""


class Sweep:
    """Goes on from pass to pass until nothing is due; two nodes take different days."""

    def __init__(self, link: Link, schema: str) -> None:
        self._link = link
        self._schema = schema
        self._is_under_way = False

    def begin(self) -> None:
        """There may be something to remove."""
        self._is_under_way = True

    async def run_once(self) -> float | None:
        """Removes for a while. Returns the seconds to the next pass; None: nothing is to be done.

        Raises DatabaseUnavailable, or what the database refuses.
        """
        if not self._is_under_way:
            return None
        began = monotonic()
        try:
            while (taken := monotonic() - began) < PASS_SECONDS:
                if not await self._sweep_some():
                    self._is_under_way = False
                    await self._give_back()
                    return None
        except Busy:  # another session holds a lock; it goes on within the hour
            self._is_under_way = False
            return None
        return taken

    async def _sweep_some(self) -> bool:
        rows = await self._link.rows("sweep_history", pages=PAGES)
        for row in rows:
            if row["is_over"] and row["removed_in_all"]:
                emit(HistoryThinned(row["partition"], row["removed_in_all"], row["remaining"]))
        return bool(rows)

    async def _give_back(self) -> None:
        """Rewrites partitions that are nearly empty. It waits for no lock, so it blocks nobody."""
        for row in await self._link.rows("spent_partitions"):
            partition = in_schema(f'pgcron."{row["partition"]}"', self._schema)
            await self._link.execute(f"VACUUM (FULL, SKIP_LOCKED) {partition}")
            await self._link.rows("note_given_back", partition=row["partition"])
