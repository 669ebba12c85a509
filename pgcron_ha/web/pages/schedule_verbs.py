"""What can be done to a schedule, and to one fire of it that is to come: POST only, as the same
functions that SQL and the CLI call.
"""

from __future__ import annotations

from starlette.responses import Response

from pgcron_ha.db.commands import functions
from pgcron_ha.errors import InvalidInput
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.verbs import ARGS, CHANGED_FIRE, DUE_AT, FIRE, FIRE_TIME, UNTIL, run_verb, verb

# One extra run of the schedule as it is defined, for the ``fire_time`` that the form says.
run_now = run_verb(functions.run_now, "run", FIRE_TIME)
# No fires from now on; ``note`` says why.
pause = verb(functions.pause_schedule, "schedule", "paused", "note", UNTIL)
resume = verb(functions.resume_schedule, "schedule", "resumed")
skip_fire = verb(functions.skip_occurrence, "schedule", "fire_skipped", FIRE, "note")
move_fire = verb(functions.move_occurrence, "schedule", "fire_moved", FIRE, DUE_AT, "note")
edit_fire = verb(functions.edit_occurrence, "schedule", "fire_edited", FIRE, ARGS, "note")
restore_fire = verb(functions.restore_occurrence, "schedule", "fire_restored", CHANGED_FIRE)


async def rename(page_request: PageRequest) -> Response:
    """The same schedule under another name: ``name``."""
    name = page_request.segments["name"]
    new_name = (await page_request.form("name")).get("name", "")
    await page_request.do(functions.rename_schedule, name, new_name)
    return page_request.redirect("schedule", "renamed", name=new_name)


async def delete(page_request: PageRequest) -> Response:
    """Ends what waits and removes the schedule, if ``sure`` is yes; then shows the list."""
    if (await page_request.form("sure")).get("sure") != "yes":
        raise InvalidInput(
            "a deletion was not confirmed",
            "It can't be taken back but by restoring a version, which makes another schedule.",
            "Say that you are sure.",
        )
    name = page_request.segments["name"]
    await page_request.do(functions.delete_schedule, name)
    return page_request.redirect("schedules", "schedule_deleted")
