from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic

import httpx
import pytest

from pgcron_ha.errors import Conflict, Refused
from tests.product.db import migrate
from tests.product.web import LIFE_SECONDS, LIVE_HEADER, MOST_SNAPSHOTS, Reader, WebMetrics
from tests.servers import ThrowAwayServer
from tests.waiting import until
from tests.web.conftest import Serve, Site
from tests.web.seed import seed


async def test_fifty_open_overviews_cost_what_one_costs(full_site: Site) -> None:
    pages = await asyncio.gather(*(full_site.get("/") for _ in range(50)))

    assert {page.status_code for page in pages} == {200}
    # A second may pass while fifty pages are drawn, hardly more.
    assert await _overviews_read(full_site) <= 5


async def test_open_pages_that_ask_again_share_a_read_until_the_first_asks_anew(
    full_site: Site,
) -> None:
    opened = monotonic()
    await full_site.get("/")

    async def is_older_than_a_new_visitor_takes() -> bool:
        page = await full_site.get("/", **{LIVE_HEADER: "1"})
        return page.status_code == 200 and monotonic() > opened + LIFE_SECONDS * 1.5

    await until("half of the refresh is over", is_older_than_a_new_visitor_takes)
    shared = await _overviews_read(full_site)
    await full_site.get("/")
    anew = await _overviews_read(full_site)

    assert (shared, anew) == (1, 2)


async def _overviews_read(site: Site) -> float:
    metrics = (await site.get("/metrics")).text
    (count,) = (
        float(line.rpartition(" ")[2])
        for line in metrics.splitlines()
        if line.startswith('pgcron_db_query_duration_seconds_count{query="overview"}')
    )
    return count


async def test_who_asks_while_it_is_read_waits_for_that_read(database: str) -> None:
    reader = Reader(database, WebMetrics("0"))
    reads = 0
    go = asyncio.Event()

    async def read(_: object) -> int:
        nonlocal reads
        reads += 1
        await go.wait()
        return reads

    askers = [asyncio.create_task(reader.snapshot(("page",), read)) for _ in range(20)]
    await until("it is being read", lambda: reads)
    askers[0].cancel()
    go.set()
    answers = await asyncio.gather(*askers, return_exceptions=True)
    await reader.close()

    assert isinstance(answers[0], asyncio.CancelledError)
    assert [answer.value for answer in answers[1:] if not isinstance(answer, BaseException)] == (
        [1] * 19
    )


@pytest.fixture
def unconnected(monkeypatch: pytest.MonkeyPatch) -> Reader:
    """A reader without a database, whose reads say when they end."""
    reader = Reader("", WebMetrics("0"))

    async def at(connection: object, schema: str) -> datetime:
        return datetime.now(UTC)

    @asynccontextmanager
    async def no_transaction() -> AsyncIterator[None]:
        yield

    monkeypatch.setattr(sys.modules[Reader.__module__], "database_time", at)
    monkeypatch.setattr(reader.pool, "transaction", no_transaction)
    return reader


async def test_who_asks_after_a_write_when_a_read_has_just_ended_gets_another_one(
    unconnected: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = unconnected
    go, began, waits = asyncio.Event(), asyncio.Event(), 0
    reads = iter((1, 2))

    async def read(_: object) -> int:
        began.set()
        await go.wait()
        return next(reads)

    async def write_and_ask() -> int:
        await go.wait()  # and so goes on right after the read, which waited before it
        reader.expire()
        return (await reader.snapshot(("page",), read)).value

    def shield(flight: asyncio.Task[int]) -> asyncio.Future[int]:
        nonlocal waits
        waits += 1
        assert waits < 9, "it waits for what is over, and nothing else goes on"
        return shielded(flight)

    shielded = asyncio.shield
    first = asyncio.create_task(reader.snapshot(("page",), read))
    await began.wait()
    second = asyncio.create_task(write_and_ask())
    await asyncio.sleep(0)
    monkeypatch.setattr(asyncio, "shield", shield)
    go.set()

    assert [(await first).value, await second] == [1, 2]


async def test_a_probe_that_asks_while_the_pages_are_closed_gets_its_answer(
    unconnected: Reader,
) -> None:
    go, gone, began = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def lingering(_: object) -> None:
        try:
            began.set()
            await asyncio.Event().wait()
        finally:
            await gone.wait()

    async def read(_: object) -> int:
        await go.wait()
        return 1

    page = asyncio.create_task(unconnected.snapshot(("page",), lingering))
    await began.wait()
    closing = asyncio.create_task(unconnected.close())
    await asyncio.sleep(0)
    probe = asyncio.create_task(unconnected.snapshot(("probe",), read))
    await asyncio.sleep(0)
    gone.set()
    await closing
    go.set()

    assert (await probe).value == 1
    with pytest.raises(asyncio.CancelledError):
        await page


async def test_a_page_can_not_write(database: str) -> None:
    reader = Reader(database, WebMetrics("0"))

    with pytest.raises(Refused):
        await reader.snapshot(
            ("bad",),
            lambda connection: connection.execute("INSERT INTO pgcron.queue (name) VALUES ('x')"),
        )

    await reader.close()


async def test_a_read_that_takes_too_long_is_stopped_and_the_last_one_shown(database: str) -> None:
    reader = Reader(database, WebMetrics("0"))
    first = await reader.snapshot(("slow",), lambda c: c.fetchval("SELECT 1"))

    second = await reader.snapshot(("slow",), lambda c: c.fetchval("SELECT pg_sleep(60)"), life=0)
    with pytest.raises(Conflict):
        await reader.snapshot(("other",), lambda c: c.fetchval("SELECT pg_sleep(60)"))
    third = await reader.snapshot(("slow",), lambda c: c.fetchval("SELECT 3"), life=0)
    await reader.close()

    assert (first.value, second.value, third.value) == (1, 1, 3)
    assert isinstance(second.problem, Conflict)
    assert second.now - second.read_at >= timedelta(seconds=3)
    assert third.problem is None


async def test_what_is_remembered_is_bounded(database: str) -> None:
    reader = Reader(database, WebMetrics("0"))
    for number in range(MOST_SNAPSHOTS + 10):
        await reader.snapshot(("page", number), lambda c: c.fetchval("SELECT 1"))
    await reader.close()

    assert len(reader._entries) == MOST_SNAPSHOTS


async def test_what_is_too_large_to_keep_is_read_again_and_shared_while_it_is_read(
    database: str,
) -> None:
    reader = Reader(database, WebMetrics("0"))
    reads = 0

    async def read(_: object) -> int:
        nonlocal reads
        reads += 1
        return reads

    async def asked() -> int:
        return (await reader.snapshot(("log", 1), read, life=0)).value

    together = await asyncio.gather(asked(), asked())
    later = await asked()
    await reader.close()

    assert (*together, later) == (1, 1, 2)


async def test_without_the_database_pages_come_from_memory_and_say_so(
    mortal: ThrowAwayServer, serve: Serve
) -> None:
    dsn = mortal.create_database("web")
    await migrate(dsn)
    await seed(dsn)
    async with serve(dsn) as site:
        before = await site.get("/")
        mortal.stop("immediate")

        away = await until("it notices", lambda: _when(site, 503))
        unseen = await site.get("/schedules")
        verb = await site.post("/schedules/weekly-report/run")
        probes = [(await site.get(path)).status_code for path in ("/livez", "/readyz", "/statusz")]
        started = (await site.get("/startupz")).status_code
        status = (await site.get("/statusz")).json()

        mortal.start()
        back = await until("it is back", lambda: _when(site, 200))

    assert before.status_code == 200
    assert away is not None
    assert back is not None
    assert "From memory." in away.text
    assert "billing/reminders" in away.text
    assert away.headers["retry-after"] == "5"
    assert unseen.status_code == verb.status_code == 503
    assert "The database is away" in unseen.text
    for page in (away, unseen, verb):
        assert "ConnectionRefusedError" not in page.text
        assert mortal.folder.name not in page.text
    assert started == 200
    assert probes == [200, 503, 200]
    assert status["database_problem"]["message"]
    assert "From memory." not in back.text


async def _when(site: Site, status: int) -> httpx.Response | None:
    page = await site.get("/")
    return page if page.status_code == status else None
