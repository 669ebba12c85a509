"""What can be done to a schedule: POST only, as the same functions that SQL and the CLI call."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from starlette.responses import Response

from pgcron_ha.db.commands import functions
from pgcron_ha.db.queries import overview
from pgcron_ha.spec.zones import load_zone
from pgcron_ha.web.pages.written_times import written_end, written_instant
from pgcron_ha.web.visit import Visit


async def run_now(visit: Visit) -> Response:
    """Makes one extra run of the schedule as it is defined; then shows it.

    ``for`` is the instant that it is for: ISO 8601, without an offset by the schedule's clock.
    """
    name = visit.segment("name")
    wanted = (await visit.form("for")).get("for")

    async def make(connection: Any) -> int:
        fire_time = None
        if wanted is not None:
            fire_time = written_instant(wanted, await _zone(connection, visit, name))
        return await functions.run_now(
            connection,
            name,
            fire_time=fire_time,
            actor=visit.actor,
            schema=visit.schema,
        )

    made = await visit.make_run("run_now", name, make)
    return visit.redirect("run", {"done": "run" if made.is_new else "repeated"}, id=made.run)


async def pause(visit: Visit) -> Response:
    """No fires from now on; ``note`` says why, ``until`` (2h, an instant) when it resumes itself.

    An instant without an offset is told by the schedule's clock.
    """
    name = visit.segment("name")
    given = await visit.form("note", "until")

    async def verb(connection: Any) -> None:
        until: datetime | timedelta | None = None
        if "until" in given:
            until = written_end(given["until"], await _zone(connection, visit, name))
        await functions.pause_schedule(
            connection,
            name,
            given.get("note"),
            until=until,
            actor=visit.actor,
            door=visit.door,
            schema=visit.schema,
        )

    await visit.act(verb)
    return visit.redirect("schedule", {"done": "paused"}, name=name)


async def rename(visit: Visit) -> Response:
    """The same schedule under another name: ``name``."""
    name = visit.segment("name")
    new_name = (await visit.form("name")).get("name", "")
    await visit.act(
        lambda connection: functions.rename_schedule(
            connection, name, new_name, actor=visit.actor, door=visit.door, schema=visit.schema
        )
    )
    return visit.redirect("schedule", {"done": "renamed"}, name=new_name)


async def resume(visit: Visit) -> Response:
    """Fires again from now on."""
    name = visit.segment("name")
    await visit.form()
    await visit.act(
        lambda connection: functions.resume_schedule(
            connection, name, actor=visit.actor, door=visit.door, schema=visit.schema
        )
    )
    return visit.redirect("schedule", {"done": "resumed"}, name=name)


async def _zone(connection: Any, visit: Visit, name: str) -> ZoneInfo:
    found = await overview.schedule(connection, name, schema=visit.schema)
    return load_zone(found["timezone"])
