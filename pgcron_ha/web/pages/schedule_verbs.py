"""What can be done to a schedule: POST only, as the same functions that SQL and the CLI call."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from pgcron_ha.db.commands import functions
from pgcron_ha.db.queries import overview
from pgcron_ha.spec.zones import load_zone
from pgcron_ha.web.page_request import INTERFACE, PageRequest, verb
from pgcron_ha.web.times import written_end, written_instant


async def run_now(page_request: PageRequest) -> Response:
    """Makes one extra run of the schedule as it is defined; then shows it.

    ``for`` is its fire time: ISO 8601, without an offset in the schedule's zone.
    """
    name, wanted = page_request.segment("name"), (await page_request.form("for")).get("for")

    async def make(connection: Any) -> int:
        fire_time = None
        if wanted is not None:
            fire_time = written_instant(wanted, await _zone(connection, page_request, name))
        return await functions.run_now(connection, name, fire_time=fire_time, **page_request.who)

    return await page_request.make_run("run_now", name, make, "run")


async def pause(page_request: PageRequest) -> Response:
    """No fires from now on; ``note`` says why, ``until`` (2h, an instant) when it resumes itself.

    An instant without an offset is in the schedule's zone.
    """
    name, given = page_request.segment("name"), await page_request.form("note", "until")

    async def work(connection: Any) -> None:
        until: datetime | timedelta | None = None
        if "until" in given:
            until = written_end(given["until"], await _zone(connection, page_request, name))
        who = {**page_request.who, "interface": INTERFACE}
        await functions.pause_schedule(connection, name, given.get("note"), until=until, **who)

    await page_request.act(work)
    return page_request.redirect("schedule", {"done": "paused"}, name=name)


async def rename(page_request: PageRequest) -> Response:
    """The same schedule under another name: ``name``."""
    name, new_name = page_request.segment("name"), (await page_request.form("name")).get("name", "")
    await page_request.do(functions.rename_schedule, name, new_name, interface=INTERFACE)
    return page_request.redirect("schedule", {"done": "renamed"}, name=new_name)


resume = verb(functions.resume_schedule, "schedule", "resumed", interface=INTERFACE)


async def _zone(connection: Any, page_request: PageRequest, name: str) -> ZoneInfo:
    found = await overview.schedule(connection, name, schema=page_request.schema)
    return load_zone(found["timezone"])
