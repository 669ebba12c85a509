"""Keeps the tables in order, on every node: partitions ahead, retention, expiry, and sweeps that
should never find anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from math import inf
from time import monotonic
from typing import ClassVar, Final

from pgcron_ha.db.driver.link import Busy, Link, Unanswered
from pgcron_ha.db.driver.statements import in_schema, load
from pgcron_ha.engine.batches import SetAside, isolate, one_by_one
from pgcron_ha.engine.materialize.materializer import judge
from pgcron_ha.engine.materialize.previews import write_previews
from pgcron_ha.engine.run.timeouts import notice_overruns
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.telemetry.counters import COUNTERS
from pgcron_ha.telemetry.events import HistoryThinned, RunsGivenUp
from pgcron_ha.telemetry.log import emit

BATCH: Final = 1000
"""Rows of one pass of one duty."""

INTERVAL_SECONDS: Final = 10.0
SWEEPS_EVERY: Final = 60.0
NETS_EVERY: Final = 30.0
"""For duties that another service usually does sooner: runs held back by a circuit breaker are
released by the node that is notified that it closed.
"""

PARTITIONS_EVERY: Final = 600.0
RETENTION_EVERY: Final = 3600.0
RECHECK_EVERY: Final = 600.0
AGAIN_SECONDS: Final = 15.0
"""The longest pause after a duty failed; the others have their turn meanwhile."""

SOONEST_SECONDS: Final = 1.0
"""Between passes when runs expire one after the other."""

DUTY_SECONDS: Final = 2.0
"""How long one duty goes on in one pass while there is more to do."""

_EXPIRED: Final = "it did not start before its deadline"

_SWEEPS: Final = tuple(name for name in load() if name.startswith("forget_"))

PARTITIONS_AT_ONCE: Final = 50
"""Which the database makes in one call."""

PAGES: Final = 64
"""Of one transaction: half a megabyte, so some 1,500 runs, which is some ten milliseconds."""


class Janitor(Service):
    """Idempotent duties, each bounded; two nodes doing the same are harmless."""

    name: ClassVar[str] = "janitor"

    def __init__(self, link: Link, schema: str) -> None:
        super().__init__(INTERVAL_SECONDS)
        self._link = link
        self._schema = schema
        self._next: dict[str, float] = {}
        self._has_more = False
        self._expires_in = inf
        self._round_at = -inf
        """When the other duties are due again while runs expire (`time.monotonic`)."""
        # ("duty" or "setting", its name), or the duty and the id of a row that it goes on without.
        self.aside: SetAside[tuple[str, str | int]] = SetAside(self.name, longest=AGAIN_SECONDS)

    async def run_once(self) -> float | None:
        """The duties that are due. One that fails is set aside for a while, and keeps no other from
        its turn.
        """
        self._has_more, self._expires_in = False, inf
        await self._in_turn("expiry", 0, self._expire)
        until_round = self._round_at - monotonic()
        if until_round <= 0:
            self._round_at, until_round = -inf, self.interval
            await self._all_other_duties()
        if self._has_more:
            return 0  # the rest of them waits for it
        # What failed is tried again soon after a lock is released.
        retries = [self.aside.until_retry(key) for key in self.aside if key[0] == "duty"]
        left = min([until_round, *retries])
        if self._expires_in < self.interval:
            # Woken for what expires: the other duties wait for the end of the interval.
            self._round_at = monotonic() + left
            return min(self._expires_in, left)
        return left if left < self.interval else None

    async def _all_other_duties(self) -> None:
        await self._in_turn("partitions", PARTITIONS_EVERY, self._make_partitions)
        await self._in_turn("retries", 0, self._give_up)
        await self._in_turn("previews", 0, partial(write_previews, self._link, self.aside))
        await self._in_turn("settings", 0, self._name_broken_settings)
        await self._in_turn("overruns", NETS_EVERY, partial(notice_overruns, self._link))
        for statement in _SWEEPS:
            await self._in_turn(statement, SWEEPS_EVERY, partial(self._sweep, statement))
        await self._in_turn("overflow", SWEEPS_EVERY, self._drain_overflow)
        recheck = partial(self._sweep, "recheck_invalid", judge=judge())
        await self._in_turn("recheck", RECHECK_EVERY, recheck)
        await self._in_turn("retention", RETENTION_EVERY, self._drop_outlived)
        await self._in_turn("sweep of history", RETENTION_EVERY, self._sweep_history)

    async def _make_partitions(self) -> None:
        self._has_more = await self._link.value("ensure_partitions") >= PARTITIONS_AT_ONCE

    async def _name_broken_settings(self) -> None:
        """Report queues, keys and circuit breakers whose rows break their rules. Only they stop;
        `aside` shows them by name.
        """
        rows = await self._link.rows("broken_settings")
        broken = {("setting", f"{row['kind']} {row['name']!r}"): row["error"] for row in rows}
        for key, error in broken.items():
            self.aside.put(key, key[1], error)
        mended = [key for key in self.aside if key[0] == "setting" and key not in broken]
        self.aside.forget(*mended)

    async def _expire(self) -> None:
        """End expired runs at once, since many of them would delay the runs behind them."""

        async def send(runs: Sequence[int]) -> int:
            ended = await self._link.rows("expire_runs", run_ids=list(runs), reason=_EXPIRED)
            COUNTERS.occurrences["expired"] += len(ended)
            return len(ended)

        async def refused(run: int, error: PgcronError) -> None:
            raise error

        def delayed(run: int, error: PgcronError) -> None:
            """Locked: the next pass comes soon."""

        async def expire_some() -> int:
            rows = await self._link.rows("expired_runs", at_most=BATCH)
            soon = [row["seconds"] for row in rows if row["seconds"] > 0]
            self._expires_in = max(SOONEST_SECONDS, min(soon, default=inf))
            expired = [row["id"] for row in rows if row["seconds"] <= 0]
            ended = sum(await isolate(expired, send, refused, delayed))
            return len(expired) if ended else 0  # one that could not expire has ended, too

        await self._repeat(expire_some)

    async def _give_up(self) -> None:
        given_up = await self._link.rows("give_up_runs", at_most=BATCH)
        if given_up:
            emit(RunsGivenUp(len(given_up)))

    async def _sweep(self, statement: str, **parameters: object) -> None:
        async def sweep_some() -> int:
            return len(await self._link.rows(statement, at_most=BATCH, **parameters))

        await self._repeat(sweep_some)

    async def _repeat(self, some: Callable[[], Awaitable[int]]) -> None:
        """While a batch is full, for a bounded time; the next pass goes on with it."""
        began = monotonic()
        while await some() >= BATCH:
            if monotonic() - began > DUTY_SECONDS:
                self._has_more = True
                return

    async def _drain_overflow(self) -> None:
        async def send(runs: Sequence[int]) -> None:
            await self._link.rows("drain_overflow", run_ids=list(runs))
            for run in runs:
                self.aside.forget(("overflow", run))

        def delayed(run: int, error: PgcronError) -> None:
            self.aside.put(("overflow", run), f"history of run {run}", error)

        async def drain_some() -> int:
            aside = self.aside.waiting_of("overflow")
            rows = await self._link.rows("overflowed", aside=aside, at_most=BATCH)
            runs = [row["id"] for row in rows]
            if len(runs) < BATCH:  # these are all; what is gone is forgotten
                self.aside.forget_absent("overflow", set(runs))
            await isolate(runs, send, None, delayed)
            return len(rows)

        await self._repeat(drain_some)

    async def _drop_outlived(self) -> None:
        """One that can't be dropped, as somebody's view reads it, is set aside; the others go."""
        rows = await self._link.rows("outlived_partitions")
        partitions = [row["partition"] for row in rows]
        self.aside.forget_absent("partition", set(partitions))

        async def drop(partition: str) -> None:
            await self._link.rows("drop_outlived", partition=partition)
            self.aside.forget(("partition", partition))

        await one_by_one(partitions, drop, self._leave)

    def _leave(self, partition: str, error: PgcronError) -> None:
        if not isinstance(error, Busy):  # a long reader holds it: the next hour will do
            self.aside.put(("partition", partition), f"partition {partition}", error)

    async def _sweep_history(self) -> None:
        """Remove ended runs that a rule of retention keeps no longer, a few pages of one day at a
        time, and give back the room of a day of which most is gone. Two nodes take different days.
        """

        async def sweep_some() -> int:
            began = monotonic()
            rows = await self._link.rows("sweep_history", pages=PAGES)
            for row in rows:
                if row["is_over"] and row["removed_in_all"]:
                    emit(HistoryThinned(row["partition"], row["removed_in_all"], row["remaining"]))
            await asyncio.sleep(monotonic() - began)  # half of the time is the others'
            return BATCH if rows else 0

        with suppress(Busy):  # another session holds a lock: the next hour will do
            await self._repeat(sweep_some)
            if not self._has_more:
                await self._give_back()

    async def _give_back(self) -> None:
        """Rewrites partitions that are nearly empty. It waits for no lock, so it blocks nobody. One
        where that fails is set aside until the next hour; the others go on.
        """

        async def rewrite(partition: str) -> None:
            table = in_schema(f'pgcron."{partition}"', self._schema)
            await self._link.execute(f"VACUUM (FULL, SKIP_LOCKED) {table}")
            await self._link.rows("note_given_back", partition=partition)

        spent = [partition for (partition,) in await self._link.rows("spent_partitions")]
        await one_by_one(spent, rewrite, self._leave)

    async def _in_turn(
        self, duty: str, every: float, fulfil: Callable[[], Awaitable[object]]
    ) -> None:
        """Fulfils a duty when its time has come; when that fails, soon again, and the others have
        their turn. One that could not do all of it goes on in the next pass.
        """
        began, key = monotonic(), ("duty", duty)
        if self.aside.waits(key):
            return
        if began < self._next.get(duty, -inf) and key not in self.aside:
            return
        had_more, self._has_more = self._has_more, False
        try:
            await fulfil()
        except PgcronError as error:
            if isinstance(error, DatabaseUnavailable) and not isinstance(error, Unanswered):
                raise
            self.aside.put(key, f"upkeep: {duty}", error)
        else:
            self.aside.forget(key)
            self._next[duty] = began if self._has_more else began + every
        self._has_more |= had_more
