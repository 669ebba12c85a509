"""Declares silent nodes dead and ends what they left, on every node.

A peer is dead when its beat has not moved for its whole lease by this node's own clock, and its
lease is over by the database's. Neither clock alone is believed: one may have been stepped, the
other may be mad.
"""

from __future__ import annotations

from collections import Counter
from typing import ClassVar, Final

from pgcron_ha.db.link import Link
from pgcron_ha.engine.reconcile import Beat, PeerWatch
from pgcron_ha.engine.service import Service
from pgcron_ha.executors.operating_system import boottime
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
        self._peers = PeerWatch(unbroken=lease_ttl / 2)

    def observe(self, beat: Beat) -> None:
        """Takes what a beat says about the peers."""
        self._peers.observe(beat)

    def forget(self) -> None:
        """The database was away: everybody gets a whole lease to come back."""
        self._peers.forget()

    async def run_once(self) -> float | None:
        """Declares who is due, reaps a batch, and waits for the next verdict, not for the next
        tick.
        """
        for incarnation, sequence in self._peers.silent(boottime()):
            rows = await self._link.rows(
                "declare_dead", incarnation=incarnation, beat_sequence=sequence
            )
            if rows:
                self._peers.bury(incarnation)
                emit(PeerDied(str(incarnation)))
        reaped = await self._link.rows("reap_runs", at_most=BATCH)
        if reaped:
            await self._link.rows("wake_idle_nodes")
            emit(RunsReaped(dict(Counter(row["verdict"] for row in reaped))))
        if len(reaped) == BATCH:
            return 0
        verdict = self._peers.next_verdict()
        if verdict is None:
            return None
        return max(0.05, min(self.interval, verdict - boottime() + 0.02))
