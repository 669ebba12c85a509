"""The node's session: joins, renews the lease, and watches it, in a thread and on a connection of
its own.

Nothing a handler or the engine's loop does can delay a renewal, and no renewal is sent for an
engine that no longer turns: a node that can't control its work must not keep a lease for it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID, uuid4

from pgcron_ha.db.driver.link import Busy, Link, Unanswered
from pgcron_ha.db.driver.revision import require_revision
from pgcron_ha.engine.batches import known, unforeseen
from pgcron_ha.engine.lease.lease import Lease, LeasePhase
from pgcron_ha.engine.lease.reconcile import Beat
from pgcron_ha.engine.service import MOST_UNKNOWN_FAILURES
from pgcron_ha.errors import DatabaseUnavailable, InvalidSpec, PgcronError, Refused, SchemaError
from pgcron_ha.executors.contract.coroutines import post, wait_at_most
from pgcron_ha.operating_system import boottime
from pgcron_ha.spec.zones import TZDATA, zone_names
from pgcron_ha.telemetry.counters import COUNTERS
from pgcron_ha.telemetry.events import (
    LeaseEndangered,
    NodeCordoned,
    NodeFenced,
    NodeJoined,
    ServiceFailed,
)
from pgcron_ha.telemetry.log import emit

BEATS_PER_LEASE: Final = 6
LATE_AFTER: Final = timedelta(seconds=2)
"""A fire that is older is late, and its schedule's catch-up policy decides."""

_LOOKS_PER_LEASE: Final = 60
_RECONNECT_SECONDS: Final = 0.5
_LATE_BATCH: Final = 1000
_LATE_PARTS: Final = 50
"""Late fires that end in one statement, and how many of these."""
_PASSING: Final = (DatabaseUnavailable, Busy)


@dataclass(frozen=True, slots=True)
class Identity:
    """What a node says of itself when it joins. `home` is None without the lock of its folder."""

    name: str
    version: str
    home: str | None
    slots: int
    queues: tuple[str, ...]
    handlers: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SessionHooks:
    """The session's callbacks into the engine. Each is called from the session's thread and must
    not block.
    """

    beat: Callable[[Beat], object]
    phase: Callable[[LeasePhase], None]
    fenced: Callable[[], object]
    joined: Callable[[], object]
    renewed: Callable[[float], None]
    is_quiet: Callable[[], bool]
    """Whether nothing of the last incarnation runs any more: only then a new one begins."""
    report: Callable[[], Mapping[str, Any]]
    """What a beat records of the node: `slots_used`, `health` (what is wrong with its services, or
    None) and `is_unresponsive` (no notification reaches it).
    """


class Session(threading.Thread):
    """One lease at a time; a new incarnation after the last one was declared dead."""

    def __init__(
        self, dsn: str, schema: str, identity: Identity, ttl: float, hooks: SessionHooks
    ) -> None:
        """`ttl` in seconds."""
        super().__init__(name="pgcron-session", daemon=True)
        self.lease = Lease(ttl)
        self.incarnation: UUID | None = None
        self.is_draining = False
        self.is_cordoned = False
        """Whether this node is cordoned, as of the last beat."""
        self.refusal: PgcronError | None = None
        """Why this node can't join at all (wrong schema, no rights); None while it can."""
        self.identity = identity
        self._hooks = hooks
        title = f"pgcron_ha session {identity.name}"
        self._link = Link(dsn, schema, answer_seconds=ttl / 4, title=title)
        self._schema = schema
        self._ticked_at = boottime()
        self._phase = LeasePhase.OVER
        self._loop = asyncio.new_event_loop()
        self._wake = asyncio.Event()
        self._is_stopping = False
        self._has_failed = False
        self._has_joined = False
        self._must_bury = False
        self._leave_because: str | None = None

    def may_claim(self) -> bool:
        """Whether claims and handlers may begin, now."""
        takes_runs = not self.is_draining and not self.is_cordoned
        return self.incarnation is not None and takes_runs and self.lease.is_held(boottime())

    def tick(self) -> None:
        """The engine's loop turns; called by it several times a lease."""
        self._ticked_at = boottime()

    def beat_now(self) -> None:
        """Ask for the next beat at once; thread-safe."""
        post(self._loop, self._wake.set)

    def drain(self) -> None:
        """No more claims from now on; the lease is kept."""
        self.is_draining = True
        self.beat_now()

    def stop(self, reason: str | None) -> None:
        """Leave in order: the row says why, the lease ends; without a reason it is left to run out.
        `join` the thread afterwards.
        """
        self._leave_because = reason
        self._is_stopping = True
        self.beat_now()

    def run(self) -> None:
        """The thread."""
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._live())
        except BaseException as error:
            self.refusal = PgcronError("the session's thread ended", unforeseen(error))
            raise
        finally:
            self._loop.run_until_complete(self._link.close())
            self._loop.close()

    async def _live(self) -> None:
        watching = asyncio.ensure_future(self._watch())
        unknown = 0
        while not self._is_stopping:
            if watching.done():
                watching.result()  # without the watch nobody stops what runs without a lease
            try:
                await (self._renew() if self.incarnation else self._join())
            except Exception as error:
                unknown = 0 if isinstance(error, PgcronError) else unknown + 1
                if unknown >= MOST_UNKNOWN_FAILURES:
                    raise
                await self._wait_for_database(known(error))
            else:
                unknown = 0
        watching.cancel()
        await self._leave()

    async def _join(self) -> None:
        if not self._hooks.is_quiet():
            await self._pause(0.05)
            return
        if not self._link.is_open:
            await self._check_server()
        await self._end_late_fires()
        incarnation, sent = uuid4(), boottime()
        mine = asdict(self.identity) | {"host": socket.gethostname(), "process_id": os.getpid()}
        mine["labels"] = json.dumps(mine["labels"])
        handlers = mine.pop("handlers")
        mine |= {"incarnation": incarnation, "lease_ttl": self.lease.ttl, "tzdata": TZDATA}
        await self._link.rows("join_node", **mine)
        await self._link.rows("offer_handlers", incarnation=incarnation, handlers=handlers)
        self._must_bury = self.identity.home is not None
        buried = await self._bury(incarnation) if self._must_bury else 0
        self.incarnation = incarnation
        self._has_joined = True
        self._acknowledge(sent)
        own = [each for each in handlers if not each.startswith("workflow:")]
        emit(NodeJoined(self.identity.name, str(incarnation), len(own), buried))
        self._hooks.joined()

    async def _end_late_fires(self) -> None:
        """What came due while no node lived is not claimed before its catch-up policy has decided.
        When that can't be done now, it is late and runs.
        """
        try:
            for _ in range(_LATE_PARTS):
                ended = await self._link.value(
                    "end_late_fires", grace=LATE_AFTER.total_seconds(), at_most=_LATE_BATCH
                )
                COUNTERS.occurrences["skipped"] += ended
                if not ended:
                    return
        except DatabaseUnavailable:
            raise
        except PgcronError as error:  # a row that can't be ended keeps no node from joining
            emit(ServiceFailed("session", f"could not end late fires: {error.message}"))

    async def _bury(self, incarnation: UUID) -> int:
        """How many predecessors were declared dead. While somebody has locked the row of one it is
        tried again after each beat: the node works meanwhile.
        """
        try:
            buried = await self._link.rows(
                "bury_predecessors", home=self.identity.home, incarnation=incarnation
            )
        except Busy as error:
            emit(ServiceFailed("session", f"could not bury predecessors: {error.message}"))
            return 0
        self._must_bury = False
        return len(buried)

    async def _check_server(self) -> None:
        # A link opens itself; this looks at the schema first, so that a wrong one is said and not
        # stumbled over.
        self._link.use_revision(
            await self._link.check(lambda connection: require_revision(connection, self._schema))
        )
        self.refusal = None
        await self._link.rows("note_timeline")
        await self._link.rows("learn_timezones", names=sorted(zone_names()))

    async def _renew(self) -> None:
        # Always pause while the engine is stalled: the watch runs on this loop, too.
        if not self._has_failed or self._engine_stands_still():
            await self._pause(self.lease.ttl / BEATS_PER_LEASE * random.uniform(0.9, 1.0))
        if self._is_stopping or self._engine_stands_still():
            return
        if not self.lease.is_held(boottime()):
            await self._end_late_fires()
        sent = boottime()
        report = self._hooks.report()
        rows = await self._link.rows(
            "beat", incarnation=self.incarnation, is_draining=self.is_draining, **report
        )
        if not rows:
            self._lose_incarnation()
            return
        self._acknowledge(sent)
        COUNTERS.renewals["ok"] += 1
        row = rows[0]
        if row["is_cordoned"] != self.is_cordoned:
            self.is_cordoned = row["is_cordoned"]
            if not self.is_draining:
                emit(NodeCordoned(self.identity.name, self.is_cordoned))
        self._link.use_revision(row["revision"])  # the schema may be migrated while the node works
        runs = dict(zip(row["run_ids"], row["tokens"], strict=True))
        cancelled, killed = frozenset(row["cancelled_ids"]), frozenset(row["killed_ids"])
        leases = zip(row["peer_sequences"], row["peer_ttls"], strict=True)
        peers = dict(zip(row["peers"], leases, strict=True))
        rest = tuple(row["breakers"]), killed, row["revision"]
        self._hooks.beat(Beat(sent, boottime(), runs, cancelled, peers, *rest))
        if row["must_note_server"]:
            await self._link.rows("note_timeline")
        if self._must_bury and self.incarnation is not None:
            COUNTERS.takeovers["restarted"] += await self._bury(self.incarnation)

    def _engine_stands_still(self) -> bool:
        return boottime() - self._ticked_at > self.lease.ttl / 2

    def _acknowledge(self, sent: float) -> None:
        self.lease.renew(sent)
        self._has_failed = False
        self._hooks.renewed(self.lease.deadline())
        self._look()

    def _lose_incarnation(self) -> None:
        emit(NodeFenced(str(self.incarnation)))
        self.incarnation = None
        self.lease.end()
        self._look()
        self._hooks.fenced()

    async def _watch(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(self.lease.ttl / _LOOKS_PER_LEASE)

    def _look(self) -> None:
        phase = self.lease.phase(boottime())
        if phase == self._phase:
            return
        if phase > self._phase and self.incarnation is not None:
            emit(LeaseEndangered(self.lease.age(boottime()), phase.name.lower()))
        self._phase = phase
        self._hooks.phase(phase)

    async def _wait_for_database(self, error: PgcronError) -> None:
        if self.incarnation is None and self._is_refusal(error):
            self.refusal = error
        # A broken connection is tried again at once: a restarted server must not cost the lease.
        # So is what waited for a lock, as long as a lock is waited for.
        is_passing = isinstance(error, _PASSING)
        pause = random.uniform(0.05, _RECONNECT_SECONDS if is_passing else 2.0)
        if not isinstance(error, Unanswered):
            emit(ServiceFailed("session", error.message, pause))
        self._has_failed = True
        COUNTERS.renewals["failed"] += 1
        if self.incarnation is None:  # before the next join the schema is looked at again
            self._link.drop()
        # Else the link drops what is broken by itself. A connection that works is kept: there is no
        # new one while others have taken all of the server's.
        await self._pause(pause)

    def _is_refusal(self, error: PgcronError) -> bool:
        """Whether the node can't join at all, as far as anybody can say."""
        if isinstance(error, SchemaError | Refused):
            return True
        # InvalidSpec is what `known` makes of an exception that nobody foresaw.
        return not self._has_joined and not isinstance(error, (*_PASSING, InvalidSpec))

    async def _leave(self) -> None:
        if self.incarnation is not None and self._leave_because is not None:
            try:
                await self._link.rows(
                    "leave", incarnation=self.incarnation, reason=self._leave_because
                )
            except PgcronError as error:
                emit(ServiceFailed("session", f"could not sign off: {error.message}"))
        self.incarnation = None
        self.lease.end()

    async def _pause(self, seconds: float) -> None:
        await wait_at_most(self._wake, seconds)
        self._wake.clear()
