"""Fifty open overviews cost the database what one costs.

Counted is what the server itself counts: calls in ``pg_stat_statements`` of every statement that
was sent to the database of the pages, begin and end of transactions among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from time import monotonic

import pytest

from tests.product.db import migrate
from tests.product.web import LIFE_SECONDS, LIVE_HEADER
from tests.servers import ThrowAwayServer
from tests.sessions import own_session
from tests.web.conftest import Serve
from tests.web.seed import seed

VIEWERS = 50


@pytest.fixture
def counting() -> Iterator[ThrowAwayServer]:
    settings = {
        "shared_preload_libraries": "pg_stat_statements",
        "pg_stat_statements.track_utility": "on",
    }
    with ThrowAwayServer(settings=settings) as server:
        yield server


async def test_fifty_open_overviews_send_the_statements_of_one(
    counting: ThrowAwayServer, serve: Serve
) -> None:
    dsn = counting.create_database("pages")
    await migrate(dsn)
    await seed(dsn)
    counts = await own_session(counting.dsn())
    await counts.execute("CREATE EXTENSION pg_stat_statements")
    costs: dict[int, tuple[int, float]] = {}
    for viewers in (1, VIEWERS):
        async with serve(dsn) as site:
            # Connections are opened and statements prepared; both cost once, whoever looks.
            assert (await site.get("/queues")).status_code == 200
            await counts.execute("SELECT pg_stat_statements_reset()")
            began = monotonic()
            pages = await asyncio.gather(*(site.get("/") for _ in range(viewers)))
            again = await asyncio.gather(
                *(site.get("/", **{LIVE_HEADER: "1"}) for _ in range(viewers))
            )
            took = monotonic() - began
            assert {page.status_code for page in (*pages, *again)} == {200}
            calls = await counts.fetchval(
                """SELECT sum(calls) FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
                   WHERE d.datname = 'pages'"""
            )
            costs[viewers] = (int(calls), took)
    await counts.close()

    (one, _), (fifty, took) = costs[1], costs[VIEWERS]
    print(f"statements: {one} for one viewer, {fifty} for {VIEWERS} within {took:.2f} s")
    assert one > 10
    # What was read lives a second; a slow machine may need some of them to draw so many pages.
    assert fifty <= one * (1 + took // LIFE_SECONDS)
