"""The pages as a role that only has what ``pgcron-ha grants`` prints."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from tests.product.cli import granting, statements
from tests.product.web import ROUTES
from tests.sessions import own_session
from tests.web.conftest import Serve, Site

ROLE = "looks_only"
PAGES = (
    "/",
    "/schedules",
    "/schedules/etl%2Forders",
    "/schedules/etl%2Forders/occurrences?at=02:00",
    "/schedules/etl%2Forders/edit",
    "/new-schedule",
    "/backfills",
    "/backfills/1",
    "/calendars",
    "/calendars/closed",
    "/runs",
    "/runs?schedule=etl/orders",
    "/runs/1",
    "/runs/1/log",
    "/dead",
    "/queues",
    "/queues/etl",
    "/nodes",
    "/storage",
    "/workflows",
    "/workflows/nightly",
)


@pytest.fixture
async def seen(full_database: str, serve: Serve) -> AsyncIterator[Site]:
    owner = await own_session(full_database)
    await owner.execute(f"CREATE ROLE {ROLE} LOGIN")
    for statement in statements("viewer", ROLE, "pgcron"):
        await owner.execute(statement)
    key = "SELECT pgcron.enqueue('py:known', idempotency_key => 'order-7')"
    await owner.execute(key)
    await owner.execute("SELECT pgcron.enqueue('py:known', unique_key => 'customer-7')")
    await owner.execute("SELECT pgcron.set_queue('etl', rate => 1, per => '1 h')")
    await owner.execute("SELECT pgcron.set_concurrency('*', rate => 1, per => '1 h')")
    await owner.execute(
        "SELECT pgcron.enqueue('py:etl.orders', queue => 'etl', concurrency_key => 'eu')"
    )
    dsn = urlsplit(full_database)._replace(netloc=f"{ROLE}@").geturl()
    async with serve(dsn) as site:
        yield site
    await owner.execute(f"DROP OWNED BY {ROLE}")
    await owner.execute(f"DROP ROLE {ROLE}")
    await owner.close()


async def test_a_viewer_sees_every_page_and_changes_nothing(seen: Site) -> None:
    for path in PAGES:
        assert (await seen.get(path)).status_code == 200, path
    workflow = (await seen.get("/workflows/nightly")).text
    step = re.search(r"(/runs/\d+)/steps/load", workflow)
    assert step is not None
    for path in (step[0], step[1]):
        assert (await seen.get(path)).status_code == 200, path
        assert "waits for 1 of 1 steps: quality" in (await seen.get(path)).text
    assert (await seen.post(f"{step[0]}/skip")).status_code == 403
    assert (await seen.post("/workflows/nightly/start")).status_code == 403
    found = await seen.get("/runs?find=order-7")
    assert found.status_code == 303
    assert (await seen.get(found.headers["location"])).status_code == 200
    assert (await seen.get("/runs?find=order-8")).status_code == 404
    unique = (await seen.get("/runs?find=customer-7")).headers["location"]
    assert "customer-7 (while it is open)" in (await seen.get(unique)).text

    assert "GRANT pg_read_all_stats" in (await seen.get("/storage")).text
    for verb in ("run", "pause"):
        refused = await seen.post(f"/schedules/etl%2Forders/{verb}")
        assert refused.status_code == 403, verb
        assert "pgcron-ha grants" in refused.text
    assert (await seen.post("/runs/1/cancel")).status_code == 403
    assert (await seen.post("/queues/etl/pause")).status_code == 403


# What the addresses of forms name, where they name nothing of the seed.
NAMED = {"name": "closed", "id": "1", "incarnation": "1", "step": "load", "number": "1"}
FIELDS = {
    *("name", "spec", "handler", "note", "content", "version", "at", "due_at", "args", "payload"),
    *("since", "until", "result", "new_name"),
}


async def test_an_operator_and_scheduler_does_all_that_pages_do(
    full_database: str, serve: Serve
) -> None:
    owner = await own_session(full_database)
    role = "acts_on_pages"
    await owner.execute(f"CREATE ROLE {role} LOGIN")
    await owner.execute(granting("operator", role) + granting("scheduler", role))
    dsn = urlsplit(full_database)._replace(netloc=f"{role}@").geturl()
    forms = [route.path for route in ROUTES if route.method == "POST"]
    async with serve(dsn) as site:
        got = {}
        for path in forms:
            at = re.sub(r"\{(\w+)\}", lambda found: NAMED.get(found[1], "1"), path)
            if path.startswith("/schedules/"):
                at = at.replace("closed", "etl%2Forders")
            answer = await site.post(at, **dict.fromkeys(FIELDS, "1"))
            got[path] = answer.status_code
            assert "permission denied" not in answer.text, path
    await owner.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
    await owner.close()

    assert len(forms) >= 40
    assert {path: code for path, code in got.items() if code in (403, 405) or code >= 500} == {}
