"""Keeps the tables in order, on every node: partitions ahead, retention, expiry, and sweeps that
should never find anything.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from time import monotonic
from typing import ClassVar, Final

from pgcron_ha.db.link import Busy, Link
from pgcron_ha.db.statements import in_schema
from pgcron_ha.engine.overruns import notice_overruns
from pgcron_ha.engine.previews import write_previews
from pgcron_ha.engine.retention import Sweep
from pgcron_ha.engine.service import Service
from pgcron_ha.errors import DatabaseUnavailable, PgcronError
from pgcron_ha.telemetry.counters import COUNTERS
from pgcron_ha.telemetry.events import RepairWasNeeded, RunsGivenUp
from pgcron_ha.telemetry.log import emit

BATCH: Final = 1000
"""Rows of one pass of one duty."""

INTERVAL_SECONDS: Final = 10.0
SWEEPS_EVERY: Final = 60.0
NETS_EVERY: Final = 30.0
"""For what is done sooner by others: a node stops its own runs at their time limit, and what a
circuit breaker held back is let go by whoever hears that it closed.
"""

PARTITIONS_EVERY: Final = 600.0
RETENTION_EVERY: Final = 3600.0
RECHECK_EVERY: Final = 600.0
AGAIN_SECONDS: Final = 15.0
"""After a duty failed; the others have their turn meanwhile."""

PARTITIONS_AT_ONCE: Final = 50
"""Which the database makes in one call; it may have made fewer than are missing."""


class Janitor(Service):
    """Idempotent duties, each bounded; two nodes doing the same are harmless."""

    name: ClassVar[str] = "janitor"

    def __init__(self, link: Link, schema: str) -> None:
        super().__init__(INTERVAL_SECONDS)
        self._link = link
        self._schema = schema
        self._sweep_of_history = Sweep(link, schema)
        self._next: dict[str, float] = {}

    async def run_once(self) -> float | None:
        """The duties that are due."""
        await self._in_turn("partitions", PARTITIONS_EVERY, self._make_partitions)
        unparked = await self._link.rows("unpark_served", at_most=BATCH)
        if unparked:
            await self._link.rows("wake_idle_nodes")
        await self._expire()
        await write_previews(self._link)
        await self._in_turn("nets", NETS_EVERY, self._look_after_nets)
        await self._in_turn("sweeps", SWEEPS_EVERY, self._sweep)
        await self._in_turn("recheck", RECHECK_EVERY, self._recheck)
        await self._in_turn("retention", RETENTION_EVERY, self._retain)
        rest = await self._sweep_of_history.run_once()
        return 0 if len(unparked) >= BATCH else rest  # the rest of them waits for it

    async def _make_partitions(self) -> None:
        while (await self._link.value("ensure_partitions") or 0) >= PARTITIONS_AT_ONCE:
            pass

    async def _look_after_nets(self) -> None:
        await self._link.rows("ask_overdue_to_stop", at_most=BATCH)
        await notice_overruns(self._link)
        if await self._link.rows("unpark_mended", at_most=BATCH):
            await self._link.rows("wake_idle_nodes")

    async def _recheck(self) -> None:
        await self._link.rows("recheck_invalid")

    async def _retain(self) -> None:
        await self._drop_outlived()
        self._sweep_of_history.begin()

    async def _expire(self) -> None:
        expired = [row[0] for row in await self._link.rows("expired_runs", at_most=BATCH)]
        if expired:
            ended = await self._link.rows(
                "end_waiting_runs",
                run_ids=expired,
                outcome="expired",
                reason="it did not start before its deadline",
            )
            COUNTERS.occurrences["expired"] += len(ended)
            if len(ended) < len(expired):  # some wait for another attempt
                given_up = await self._link.rows("give_up_runs", at_most=BATCH)
                if given_up:
                    emit(RunsGivenUp(len(given_up)))

    async def _sweep(self) -> None:
        await self._link.rows("forget_keys", at_most=BATCH)
        await self._link.rows("forget_periods", at_most=BATCH)
        await self._link.rows("forget_progress", at_most=BATCH)
        await self._link.rows("forget_overruns", at_most=BATCH)
        await self._link.rows("forget_diversions", at_most=BATCH)
        await self._link.rows("forget_callbacks", at_most=BATCH)
        await self._link.rows("forget_nodes")
        await self._link.rows("forget_missed")
        await self._link.rows("forget_overrides")
        await self._link.rows("forget_fire_failures", at_most=BATCH)
        await self._link.rows("forget_versions", at_most=BATCH)
        try:
            await self._link.rows("drain_overflow", at_most=BATCH)
        except (Busy, DatabaseUnavailable):
            raise
        except PgcronError as error:
            emit(
                RepairWasNeeded(
                    f"history still has no partition for what overflowed ({error.message})", 0
                )
            )
        unaccounted = await self._link.rows("unaccounted", at_most=BATCH)
        if unaccounted:
            emit(
                RepairWasNeeded(
                    "fires whose run is neither alive nor in history (not repaired, only told)",
                    len(unaccounted),
                )
            )

    async def _drop_outlived(self) -> None:
        for row in await self._link.rows("outlived_partitions"):
            parent = in_schema(f'pgcron."{row["relation"]}"', self._schema)
            partition = in_schema(f'pgcron."{row["partition"]}"', self._schema)
            try:
                await self._detach(parent, partition)
                await self._link.execute(f"DROP TABLE IF EXISTS {partition}")
            except Busy:
                break  # a long reader; the next hour will do
        await self._drop_strays()

    async def _drop_strays(self) -> None:
        """Ends what was interrupted: a detach half-way, or before the table was dropped."""
        for row in await self._link.rows("stray_partitions"):
            parent = in_schema(f'pgcron."{row["relation"]}"', self._schema)
            partition = in_schema(f'pgcron."{row["partition"]}"', self._schema)
            try:
                if row["is_pending"]:
                    await self._finish_detach(parent, partition)
                if row["was_ours"] and row["is_outlived"]:
                    await self._link.execute(f"DROP TABLE IF EXISTS {partition}")
            except Busy:
                return

    async def _detach(self, parent: str, partition: str) -> None:
        try:
            await self._link.execute(
                f"ALTER TABLE {parent} DETACH PARTITION {partition} CONCURRENTLY"
            )
        except (Busy, DatabaseUnavailable):
            raise
        except (
            PgcronError
        ):  # an earlier attempt was interrupted half-way: it is finished, not begun again
            await self._finish_detach(parent, partition)

    async def _finish_detach(self, parent: str, partition: str) -> None:
        await self._link.execute(f"ALTER TABLE {parent} DETACH PARTITION {partition} FINALIZE")

    async def _in_turn(
        self, duty: str, every: float, fulfil: Callable[[], Awaitable[None]]
    ) -> None:
        """Fulfils a duty when its time has come; when that fails, soon again."""
        began = monotonic()
        if began < self._next.get(duty, float("-inf")):
            return
        self._next[duty] = began + AGAIN_SECONDS
        await fulfil()
        self._next[duty] = began + every
