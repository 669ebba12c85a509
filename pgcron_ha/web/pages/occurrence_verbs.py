"""What can be done to one fire of a schedule that is to come: POST only, as SQL and the CLI do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import Response

from pgcron_ha.client.checks import args_text
from pgcron_ha.client.occurrences import require_fire
from pgcron_ha.db import occurrences, overview
from pgcron_ha.errors import InvalidInput
from pgcron_ha.model.zones import load_zone
from pgcron_ha.web.pages.schedule_form import LONGEST_SENT
from pgcron_ha.web.pages.written_times import written_instant
from pgcron_ha.web.visit import Visit


async def skip(visit: Visit) -> Response:
    """The fire at ``instant`` does not run; ``note`` says why."""
    name, given = visit.segment("name"), await visit.form("instant", "note")

    async def verb(connection: Any) -> None:
        fire, _ = await _fire(connection, visit, name, given)
        who = {"actor": visit.actor, "schema": visit.schema}
        await occurrences.skip_occurrence(connection, name, fire, given.get("note"), **who)

    await visit.act(verb)
    return visit.redirect("schedule", {"done": "fire_skipped"}, name=name)


async def move(visit: Visit) -> Response:
    """The fire at ``instant`` is due at ``to``."""
    name, given = visit.segment("name"), await visit.form("instant", "to", "note")

    async def verb(connection: Any) -> None:
        fire, row = await _fire(connection, visit, name, given)
        moved_to = written_instant(given.get("to", ""), load_zone(row["timezone"]))
        who = {"actor": visit.actor, "schema": visit.schema}
        note = given.get("note")
        await occurrences.move_occurrence(connection, name, fire, moved_to, note, **who)

    await visit.act(verb)
    return visit.redirect("schedule", {"done": "fire_moved"}, name=name)


async def edit(visit: Visit) -> Response:
    """The fire at ``instant`` gets ``args`` (JSON)."""
    name = visit.segment("name")
    given = await visit.form("instant", "args", "note", longest=LONGEST_SENT)

    async def verb(connection: Any) -> None:
        fire, _ = await _fire(connection, visit, name, given)
        args = args_text(given.get("args", ""))
        who = {"actor": visit.actor, "schema": visit.schema}
        await occurrences.edit_occurrence(connection, name, fire, args, given.get("note"), **who)

    await visit.act(verb)
    return visit.redirect("schedule", {"done": "fire_edited"}, name=name)


async def restore(visit: Visit) -> Response:
    """The fire at ``instant`` is as the schedule says."""
    name, given = visit.segment("name"), await visit.form("instant")

    async def verb(connection: Any) -> None:
        fire, _ = await _fire(connection, visit, name, given, must_be=False)
        await occurrences.restore_occurrence(connection, name, fire, schema=visit.schema)

    await visit.act(verb)
    return visit.redirect("schedule", {"done": "fire_restored"}, name=name)


async def _fire(
    connection: Any, visit: Visit, name: str, given: dict[str, str], must_be: bool = True
) -> tuple[datetime, overview.Row]:
    """The instant that the form names, by the schedule's clock if it has no offset, and its row."""
    if "instant" not in given:
        raise InvalidInput("no fire is named", "'instant' is the fire time that is meant.")
    row = await overview.schedule(connection, name, schema=visit.schema)
    fire = written_instant(given["instant"], load_zone(row["timezone"]))
    if must_be:
        require_fire(row, fire)
    return fire, row
