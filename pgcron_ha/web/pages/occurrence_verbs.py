"""What can be done to one fire of a schedule that is to come: POST only, as SQL and the CLI do."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from starlette.responses import Response

from pgcron_ha.client.checks import args_text
from pgcron_ha.client.fires import require_fire, was_edited
from pgcron_ha.db.commands import occurrences
from pgcron_ha.db.queries import overview
from pgcron_ha.errors import Conflict, InvalidInput, NotFound
from pgcron_ha.spec.zones import load_zone
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.schedule_form import LONGEST_SENT
from pgcron_ha.web.pages.written_times import written_instant


async def skip(page_request: PageRequest) -> Response:
    """The fire at ``instant`` does not run; ``note`` says why."""
    name, given = page_request.segment("name"), await page_request.form("instant", "note")

    async def verb(connection: Any) -> None:
        fire, _ = await _fire(connection, page_request, name, given)
        who = {"actor": page_request.actor, "schema": page_request.schema}
        await occurrences.skip_occurrence(connection, name, fire, given.get("note"), **who)

    await page_request.act(verb)
    return page_request.redirect("schedule", {"done": "fire_skipped"}, name=name)


async def move(page_request: PageRequest) -> Response:
    """The fire at ``instant`` is due at ``to``."""
    name, given = page_request.segment("name"), await page_request.form("instant", "to", "note")

    async def verb(connection: Any) -> None:
        fire, row = await _fire(connection, page_request, name, given)
        moved_to = written_instant(given.get("to", ""), load_zone(row["timezone"]))
        who = {"actor": page_request.actor, "schema": page_request.schema}
        note = given.get("note")
        await occurrences.move_occurrence(connection, name, fire, moved_to, note, **who)

    await page_request.act(verb)
    return page_request.redirect("schedule", {"done": "fire_moved"}, name=name)


async def edit(page_request: PageRequest) -> Response:
    """The fire at ``instant`` gets ``args`` (JSON)."""
    name = page_request.segment("name")
    given = await page_request.form("instant", "args", "note", longest=LONGEST_SENT)

    async def verb(connection: Any) -> None:
        fire, _ = await _fire(connection, page_request, name, given)
        args = args_text(given.get("args", ""))
        who = {"actor": page_request.actor, "schema": page_request.schema}
        await occurrences.edit_occurrence(connection, name, fire, args, given.get("note"), **who)

    await page_request.act(verb)
    return page_request.redirect("schedule", {"done": "fire_edited"}, name=name)


async def restore(page_request: PageRequest) -> Response:
    """The fire at ``instant`` is not skipped or moved any more; other args are refused, as only
    who may run a schedule with args of their own may take them back: `restore_args`.
    """
    name, given = page_request.segment("name"), await page_request.form("instant")

    async def verb(connection: Any) -> None:
        fire, row = await _fire(connection, page_request, name, given, must_be=False)
        change = await occurrences.changed_occurrence(
            connection, row["id"], fire, schema=page_request.schema
        )
        if was_edited(change):
            raise Conflict(
                f"the fire of schedule '{name[:200]}' has other args",
                "What undoes a change needs the right that the change needed.",
                "Restore its args first; then it can be restored.",
            )
        who = {"actor": page_request.actor, "schema": page_request.schema}
        await occurrences.restore_occurrence(connection, name, fire, **who)

    await page_request.act(verb)
    return page_request.redirect("schedule", {"done": "fire_restored"}, name=name)


async def restore_args(page_request: PageRequest) -> Response:
    """The fire at ``instant`` has the schedule's args; if it was moved, it stays so."""
    name, given = page_request.segment("name"), await page_request.form("instant")

    async def verb(connection: Any) -> None:
        fire, row = await _fire(connection, page_request, name, given, must_be=False)
        change = await occurrences.changed_occurrence(
            connection, row["id"], fire, schema=page_request.schema
        )
        if change is None or not was_edited(change):
            raise NotFound(
                f"the fire of schedule '{name[:200]}' has no args of its own",
                "Only the args of a fire that was given others are restored.",
                "Load the page again: somebody may have been faster.",
            )
        who = {"actor": page_request.actor, "schema": page_request.schema}
        await occurrences.restore_occurrence(connection, name, fire, **who)
        if change["due_at"] is not None:
            who = {"actor": change["actor"], "schema": page_request.schema}
            moved_to, note = change["due_at"], change["note"]
            await occurrences.move_occurrence(connection, name, fire, moved_to, note, **who)

    await page_request.act(verb)
    return page_request.redirect("schedule", {"done": "args_restored"}, name=name)


async def _fire(
    connection: Any,
    page_request: PageRequest,
    name: str,
    given: dict[str, str],
    must_be: bool = True,
) -> tuple[datetime, overview.Row]:
    """The instant that the form names, by the schedule's clock if it has no offset, and its row."""
    if "instant" not in given:
        raise InvalidInput("no fire is named", "'instant' is the fire time that is meant.")
    row = await overview.schedule(connection, name, schema=page_request.schema)
    fire = written_instant(given["instant"], load_zone(row["timezone"]))
    if must_be:
        require_fire(row, fire)
    return fire, row
