"""Where an open circuit breaker is seen, and the verb that closes it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.sessions import own_session
from tests.web.conftest import Site

WHY = "5 failures in 1 m, last: no route to &lt;host&gt;"


@pytest.fixture
async def run(database: str) -> AsyncIterator[int]:
    """A run that waits for an open breaker; beside it one that a fallback took."""
    connection = await own_session(database)
    await connection.execute("""
        SELECT pgcron.put_schedule('job', '@daily', 'py:spare');
        SELECT pgcron.set_breaker('http:billing');
        SELECT pgcron.open_breaker('http:billing', 'no route to <host>', '5 failures in 1 m');
        INSERT INTO pgcron.run (handler, queue, due_at)
        VALUES ('http:billing', 'shop', now() - interval '1 minute'),
               ('py:spare', 'shop', now() + interval '1 day');
        UPDATE pgcron.run SET state = 'blocked', gate = 'breaker' WHERE handler = 'http:billing';
        INSERT INTO pgcron.fallback_run (run_id, breaker, handler, queue, reason)
        SELECT id, 'http:billing', 'http:billing', 'shop', '5 failures in 1 m'
          FROM pgcron.run WHERE handler = 'py:spare'
    """)
    yield await connection.fetchval("SELECT id FROM pgcron.run WHERE gate IS NOT NULL")
    await connection.close()


@pytest.mark.parametrize("path", ["/", "/queues/shop", "/runs", "/runs/{run}"])
async def test_an_open_breaker_is_told_with_its_reason(site: Site, run: int, path: str) -> None:
    page = (await site.get(path.format(run=run))).text

    assert "http:billing" in page
    assert "open for another " in page
    assert WHY in page
    assert "<host>" not in page
    assert "no live node offers" not in page.lower()


async def test_a_run_that_a_fallback_took_says_what_it_was_asked_for(site: Site, run: int) -> None:
    page = (await site.get(f"/runs/{run + 1}")).text

    assert "asked for http:billing in queue shop; the circuit of http:billing was open" in page


async def test_reset_closes_it_and_keeps_who_did_it(site: Site, run: int, database: str) -> None:
    answer = await site.post("/breakers/http:billing/reset")
    page = await site.get(answer.headers["location"])
    connection = await own_session(database)
    row = await connection.fetchrow("SELECT state, reset_by FROM pgcron.breaker")
    await connection.close()

    assert (answer.status_code, page.status_code) == (303, 200)
    assert "Reset: the runs that waited for it go now." in page.text
    assert row is not None
    assert row["state"] == "closed"
    assert row["reset_by"]
    assert (await site.post("/breakers/http:nobody/reset")).status_code == 404
