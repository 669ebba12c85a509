"""Declares silent nodes dead and ends what they left, on every node.

A peer is dead when its beat has not moved for its whole lease by this node's own clock, and its
lease is over by the database's. Neither clock alone is believed: one may have been stepped, the
other may be mad.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.batches import end_refused_run, isolate
from pgcron_ha.engine.lease.reconcile import PeerWatch
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.operating_system import boottime
from pgcron_ha.telemetry.events import PeerDied, RunsReaped
from pgcron_ha.telemetry.log import emit

BATCH: Final = 500
"""Runs ended in one statement."""

_SWEEP_SECONDS: Final = 5.0


class Reaper(Service):
    """Level-triggered: whatever runs under a session that is not alive is found by the next
    pass.
    """

    name: ClassVar[str] = "reaper"

    def __init__(self, link: Link, lease_ttl: float) -> None:
        """`lease_ttl` in seconds: sweeps come three times a lease, verdicts when they are due."""
        super().__init__(min(_SWEEP_SECONDS, lease_ttl / 3))
        self._link = link
        self.peers = PeerWatch(unbroken=lease_ttl / 2)

    async def run_once(self) -> float | None:
        """Reaps a batch, declares overdue nodes dead, and waits for the next verdict, not for the
        next tick.
        """
        reaped = await self._reap()
        if await self._declare_dead():
            reaped += await self._reap()
        if reaped >= BATCH:
            return 0
        verdict = self.peers.next_verdict()
        if verdict is None:
            return None
        return max(0.05, min(self.interval, verdict - boottime() + 0.02))

    async def _declare_dead(self) -> bool:
        """Whether a node was declared dead."""
        declared = False
        for peer, sequence in self.peers.silent(boottime()):
            rows = await self._link.rows("declare_dead", incarnation=peer, beat_sequence=sequence)
            if rows:
                declared = True
                self.peers.bury(peer)
                emit(PeerDied(str(peer)))
        return declared

    async def _reap(self) -> int:
        """How many attempts were ended. One run that can't be judged does not keep the others from
        being ended.
        """
        waiting = self.aside.waiting()
        orphans = await self._link.rows("orphaned_runs", at_most=BATCH, but=waiting)
        self.aside.keep({*waiting, *(row["id"] for row in orphans)})
        parts = await isolate(orphans, self._reap_these, self._end_refused, self._delay)
        verdicts = Counter(row["verdict"] for part in parts for row in part)
        if verdicts:
            await self._link.rows("wake_idle_nodes")
            emit(RunsReaped(dict(verdicts)))
        return verdicts.total()

    async def _reap_these(self, orphans: Sequence[Row]) -> list[Row]:
        reaped = await self._link.rows("reap_these", run_ids=[row["id"] for row in orphans])
        self.aside.forget(*(row["run_id"] for row in reaped))
        return reaped

    async def _end_refused(self, orphan: Row, error: PgcronError) -> None:
        """A run that can't be judged ends with the reason."""
        try:
            await end_refused_run(self._link, orphan["id"], error.message, orphan["token"])
        except DatabaseUnavailable:
            raise
        except PgcronError as refusal:
            self._delay(orphan, refusal)
        else:
            self.aside.forget(orphan["id"])

    def _delay(self, orphan: Row, error: PgcronError) -> None:
        self.aside.put(orphan["id"], f"run {orphan['id']} of a dead node", error)
