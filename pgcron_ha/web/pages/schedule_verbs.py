"""What can be done to a schedule: POST only, as the same functions that SQL and the CLI call."""

from __future__ import annotations

from starlette.responses import Response

from pgcron_ha.db import doors
from pgcron_ha.web.visit import Visit


async def run_now(visit: Visit) -> Response:
    """Makes one extra run of the schedule as it is defined; then shows it."""
    name = visit.segment("name")
    await visit.form()
    made = await visit.make_run(
        "run_now",
        name,
        lambda connection: doors.run_now(connection, name, actor=visit.actor, schema=visit.schema),
    )
    return visit.redirect("run", {"done": "run" if made.is_new else "repeated"}, id=made.run)


async def pause(visit: Visit) -> Response:
    """No fires from now on; ``note`` says why."""
    name = visit.segment("name")
    note = (await visit.form("note")).get("note")
    await visit.act(
        lambda connection: doors.pause_schedule(
            connection, name, note, actor=visit.actor, door=visit.door, schema=visit.schema
        )
    )
    return visit.redirect("schedule", {"done": "paused"}, name=name)


async def resume(visit: Visit) -> Response:
    """Fires again from now on."""
    name = visit.segment("name")
    await visit.form()
    await visit.act(
        lambda connection: doors.resume_schedule(
            connection, name, actor=visit.actor, door=visit.door, schema=visit.schema
        )
    )
    return visit.redirect("schedule", {"done": "resumed"}, name=name)
