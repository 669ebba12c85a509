"""What can be done to a schedule, and to one fire of it that is to come: POST only, as the same
functions that SQL and the CLI call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

from starlette.responses import Response

from pgcron_ha.client.checks import args_text
from pgcron_ha.client.fires import require_fire, was_edited
from pgcron_ha.db.commands import functions
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries import overview
from pgcron_ha.errors import Conflict, InvalidInput, NotFound
from pgcron_ha.spec.zones import load_zone
from pgcron_ha.web.page_request import INTERFACE, Endpoint, PageRequest, verb
from pgcron_ha.web.pages.schedule_form import LONGEST_SENT
from pgcron_ha.web.times import written_end, written_instant


async def run_now(page_request: PageRequest) -> Response:
    """Makes one extra run of the schedule as it is defined; then shows it.

    ``for`` is its fire time: ISO 8601, without an offset in the schedule's zone.
    """
    name, wanted = page_request.segment("name"), (await page_request.form("for")).get("for")

    async def make(session: Session) -> int:
        fire_time = None
        if wanted is not None:
            zone = _zone(await session.call(overview.schedule, name))
            fire_time = written_instant(wanted, zone, datetime.now(UTC))
        return await session.act(functions.run_now, name, fire_time=fire_time)

    return await page_request.make_run("run_now", name, make, "run")


async def pause(page_request: PageRequest) -> Response:
    """No fires from now on; ``note`` says why, ``until`` (2h, an instant) when it resumes itself.

    An instant without an offset is in the schedule's zone.
    """
    name, given = page_request.segment("name"), await page_request.form("note", "until")

    async def work(session: Session) -> None:
        until = None
        if "until" in given:
            zone = _zone(await session.call(overview.schedule, name))
            until = written_end(given["until"], zone, datetime.now(UTC))
        how: dict[str, Any] = {"until": until, "interface": INTERFACE}
        await session.act(functions.pause_schedule, name, given.get("note"), **how)

    await page_request.act(work)
    return page_request.redirect("schedule", "paused", name=name)


async def rename(page_request: PageRequest) -> Response:
    """The same schedule under another name: ``name``."""
    name, new_name = page_request.segment("name"), (await page_request.form("name")).get("name", "")
    await page_request.do(functions.rename_schedule, name, new_name, interface=INTERFACE)
    return page_request.redirect("schedule", "renamed", name=new_name)


async def delete(page_request: PageRequest) -> Response:
    """Ends what waits and removes the schedule, if ``sure`` is yes; then shows the list."""
    if (await page_request.form("sure")).get("sure") != "yes":
        raise InvalidInput(
            "a deletion was not confirmed",
            "It can't be taken back but by restoring a version, which makes another schedule.",
            "Say that you are sure.",
        )
    name = page_request.segment("name")
    await page_request.do(functions.delete_schedule, name, interface=INTERFACE)
    return page_request.redirect("schedules", "schedule_deleted")


resume = verb(functions.resume_schedule, "schedule", "resumed", interface=INTERFACE)


Given: TypeAlias = dict[str, str]
Verb: TypeAlias = Callable[[Session, overview.Row, datetime, Given], Awaitable[None]]
"""It gets a session, the schedule, the fire time and what the form says."""


def _on_a_fire(done: str, *fields: str) -> Callable[[Verb], Endpoint]:
    """For the instant that the form names, by the schedule's clock if it has no offset."""

    def endpoint_of(verb: Verb) -> Endpoint:
        async def endpoint(page_request: PageRequest) -> Response:
            name = page_request.segment("name")
            given = await page_request.form("instant", *fields, longest=LONGEST_SENT)

            async def work(session: Session) -> None:
                if "instant" not in given:
                    rule = "'instant' is the fire time that is meant."
                    raise InvalidInput("no fire is named", rule)
                row = await session.call(overview.schedule, name)
                at = written_instant(given["instant"], _zone(row), datetime.now(UTC), direction=1)
                await verb(session, row, at, given)

            await page_request.act(work)
            return page_request.redirect("schedule", done, name=name)

        return endpoint

    return endpoint_of


@_on_a_fire("fire_skipped", "note")
async def skip_fire(session: Session, row: overview.Row, at: datetime, given: Given) -> None:
    """The fire at ``instant`` does not run; ``note`` says why."""
    require_fire(row, at)
    await session.act(functions.skip_occurrence, row["name"], at, given.get("note"))


@_on_a_fire("fire_moved", "to", "note")
async def move_fire(session: Session, row: overview.Row, at: datetime, given: Given) -> None:
    """The fire at ``instant`` is due at ``to``."""
    require_fire(row, at)
    to = written_instant(given.get("to", ""), _zone(row), datetime.now(UTC), direction=1)
    await session.act(functions.move_occurrence, row["name"], at, to, given.get("note"))


@_on_a_fire("fire_edited", "args", "note")
async def edit_fire(session: Session, row: overview.Row, at: datetime, given: Given) -> None:
    """The fire at ``instant`` gets ``args`` (JSON)."""
    require_fire(row, at)
    args, note = args_text(given.get("args", "")), given.get("note")
    await session.act(functions.edit_occurrence, row["name"], at, args, note)


@_on_a_fire("fire_restored")
async def restore_fire(session: Session, row: overview.Row, at: datetime, given: Given) -> None:
    """The fire at ``instant`` is not skipped or moved any more; other args are refused, as only
    who may run a schedule with args of their own may take them back: `restore_args`.
    """
    if was_edited(await session.call(functions.changed_occurrence, row["id"], at)):
        raise Conflict(
            f"the fire of schedule '{row['name'][:200]}' has other args",
            "What undoes a change needs the right that the change needed.",
            "Restore its args first; then it can be restored.",
        )
    await session.act(functions.restore_occurrence, row["name"], at)


@_on_a_fire("args_restored")
async def restore_args(session: Session, row: overview.Row, at: datetime, given: Given) -> None:
    """The fire at ``instant`` has the schedule's args; if it was moved, it stays so."""
    change = await session.call(functions.changed_occurrence, row["id"], at)
    if change is None or not was_edited(change):
        raise NotFound(
            f"the fire of schedule '{row['name'][:200]}' has no args of its own",
            "Only the args of a fire that was given others are restored.",
            "Load the page again: somebody may have been faster.",
        )
    await session.act(functions.restore_occurrence, row["name"], at)
    if change["due_at"] is not None:
        to, how = change["due_at"], {"note": change["note"], "actor": change["actor"]}
        await session.call(functions.move_occurrence, row["name"], at, to, **how)


def _zone(row: overview.Row) -> ZoneInfo:
    return load_zone(row["timezone"])
