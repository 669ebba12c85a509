"""What two versions do together while somebody upgrades, and how it is judged from outside."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Sequence

from tests.e2e.ledger import Connection, ended, enqueue, unaccounted
from tests.e2e.nodes import Cluster
from tests.sessions import own_session
from tests.waiting import until

PAUSE_SECONDS = 0.03
SOON = '{"base": 0.1}'
SCHEDULES = ("each", "paused", "edited")
ROWS = "SELECT rule, detail FROM pgcron.check_ledger()"


class Workload:
    """Schedules that fire each second, and runs that are enqueued all the time: some fail first."""

    def __init__(self, cluster: Cluster, connection: Connection) -> None:
        self.accepted: list[int] = []
        self._cluster = cluster
        self._connection = connection
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    async def begin(self) -> None:
        for name in SCHEDULES:
            await self._connection.execute(
                "INSERT INTO pgcron.schedule (name, spec, handler, overlap)"
                " VALUES ($1, '* * * * * *', 'py:job', 'allow')",
                name,
            )
        self._task = asyncio.create_task(self._produce())

    async def _produce(self) -> None:
        producer = await own_session(self._cluster.dsn)
        for number in itertools.count():
            if self._is_over:
                break
            fails = int(number % 10 == 0)
            self.accepted += await enqueue(producer, "py:job", args={"fails": fails}, retry=SOON)
            await asyncio.sleep(PAUSE_SECONDS)
        await producer.close(timeout=5)

    async def everybody_works(self, *processes: int, more: int = 10) -> None:
        """Returns when each of them has begun so many runs from now on."""
        before = Counter(event.pid for event in self._cluster.evidence.events("start"))

        def do_they() -> bool:
            now = Counter(event.pid for event in self._cluster.evidence.events("start"))
            return all(now[process] - before[process] >= more for process in processes)

        await until(f"{processes} work", do_they)

    async def all_end(self) -> None:
        """Returns when all has ended that is accepted by now."""
        await ended(self._connection, *self.accepted)

    async def steer(self) -> None:
        """A pause, an edit, a cancel: of what the nodes do at this moment."""
        never = str(self._cluster.folder / "never")
        [lasting] = await enqueue(self._connection, "py:lasts", args={"path": never})
        executes = self._cluster.evidence.events
        await until("it runs", lambda: executes("start", lasting))
        await self._connection.execute("SELECT pgcron.pause_schedule('paused', 'for a while')")
        await self._connection.execute(
            "UPDATE pgcron.schedule SET spec = '*/2 * * * * *' WHERE name = 'edited'"
        )
        await self._connection.execute("SELECT pgcron.cancel_run($1)", lasting)
        [row] = await ended(self._connection, lasting)
        assert row["outcome"] == "cancelled"
        await self._connection.execute("SELECT pgcron.resume_schedule('paused')")

    async def end(self) -> None:
        """Nothing new, and an end of what there is."""
        assert self._task is not None
        self._is_over = True
        await self._task
        await self._connection.execute("UPDATE pgcron.schedule SET enabled = false")
        await self.all_end()
        left = "SELECT count(*) = 0 FROM pgcron.run"
        await until("no run is left", lambda: self._connection.fetchval(left))

    async def judge(self) -> None:
        """Nothing is lost and nothing happened twice, by the database's books and by ours."""
        evidence, deaths = self._cluster.evidence, self._cluster.deaths()
        rows = await self._connection.fetch(
            "SELECT id, outcome, attempt FROM pgcron.history WHERE id = ANY($1)", self.accepted
        )
        assert sorted(row["id"] for row in rows) == sorted(self.accepted)
        assert {row["outcome"] for row in rows} == {"succeeded"}
        assert await self._connection.fetch(ROWS) == []
        assert await unaccounted(self._connection) == 0
        assert evidence.overlaps(deaths) == []
        begun = Counter((event.run, event.attempt) for event in evidence.events("start"))
        assert set(begun.values()) == {1}
        # A run completes once, but where its node was killed before it could tell.
        killed = {event.run for event in evidence.events() if event.pid in deaths}
        done = Counter(event.run for event in evidence.events("end"))
        assert {run for run, count in done.items() if count > 1} <= killed
        assert set(self.accepted) <= set(done)

    def longest_gaps(self, moves: Sequence[tuple[float, float]]) -> tuple[float, float]:
        """Seconds without a beginning of any run: while the schema moved (from one boottime instant
        to another), and otherwise.
        """
        starts = sorted(event.at for event in self._cluster.evidence.events("start"))
        gaps: dict[bool, list[float]] = {True: [0.0], False: [0.0]}
        for before, after in itertools.pairwise(starts):
            is_moving = any(before < end and after > begin for begin, end in moves)
            gaps[is_moving].append(after - before)
        return max(gaps[True]), max(gaps[False])
