"""A run that executes for longer than expected is marked wherever it is listed."""

from __future__ import annotations

from tests.db.control import call
from tests.db.test_overruns import started
from tests.sessions import own_session
from tests.web.conftest import Site


async def test_a_run_that_overruns_is_marked_in_the_lists(site: Site, database: str) -> None:
    connection = await own_session(database)
    try:
        _, run = await started(connection, 40)
        name = await connection.fetchval("SELECT name FROM pgcron.schedule")
        for page in ("/runs", "/runs?state=running", f"/runs?schedule={name}", "/schedules"):
            assert "overruns" not in (await site.get(page)).text, page
        await call(connection, "notice_overruns", at_most=10)
    finally:
        await connection.close()

    for page in ("/runs?", "/runs?state=running&", f"/runs?schedule={name}&", "/schedules?"):
        assert "overruns: expected about 30" in (await site.get(f"{page}queue=default")).text, page
    listed = (await site.get("/schedules?queue=default")).text
    assert "</span>slow</span>" in listed
    assert f"Run {run} overruns: expected about 30" in listed
