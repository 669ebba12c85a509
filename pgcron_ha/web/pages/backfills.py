"""``/backfills``: how far they are, what failed; asking for one, pausing, resuming, stopping."""

from __future__ import annotations

import asyncio
import json
from typing import Final

from starlette.responses import Response

from pgcron_ha.db.commands import backfills as interfaces
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries import overview
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.backfill import count
from pgcron_ha.model.verdicts import run_word
from pgcron_ha.spec.spec import spec_of
from pgcron_ha.spec.zones import load_zone
from pgcron_ha.web.address import choice, label_filters, number_in, written_instant
from pgcron_ha.web.page_request import PageRequest, together
from pgcron_ha.web.verbs import verb

_FILTERS: Final = ("schedule", "state", "tag", "owner")


async def show_backfills(page_request: PageRequest) -> Response:
    """The newest ones; ``?schedule=``, ``state``, ``tag`` and ``owner`` choose."""
    given = page_request.query(*_FILTERS)
    state = choice(given.get("state"), interfaces.STATES, "state")
    wanted = {"state": state, **label_filters(given)}
    name = given.get("schedule")
    snapshot = await page_request.read("backfills", interfaces.backfills_of, name, **wanted)
    return page_request.page(
        "backfills.html",
        snapshot,
        title="Backfills",
        rows=snapshot.value,
        words={"state": interfaces.STATES},
        **page_request.listed("backfills", _FILTERS, given, "after", None),
    )


async def show_backfill(page_request: PageRequest) -> Response:
    """One of them: how far it is, and its runs."""
    id_ = page_request.segments["id"]
    asked = together(interfaces.one_backfill, interfaces.runs_of_backfill)
    snapshot = await page_request.read("backfill", asked, id_)
    row, runs = snapshot.value
    reported = [{**run, "state": run_word(run, snapshot.now)} for run in runs if run["state"]]
    return page_request.page(
        "backfill.html",
        snapshot,
        title=f"Backfill {id_}",
        row=row,
        runs=reported,  # the open ones, then the last that did not succeed
        settings=_settings(row),
    )


async def ask_for(page_request: PageRequest) -> Response:
    """Asks for one: ``since`` and ``until`` (now) without an offset by the schedule's clock."""
    name = page_request.segments["name"]
    given = await page_request.form("since", "until", "direction", "parallelism", "if_ran", "note")
    at_once = number_in("parallelism", given.get("parallelism", "1"), 1000)
    options = {option: given.get(option) for option in ("direction", "if_ran", "note")}

    async def make(session: Session) -> int:
        found = await session.call(overview.schedule, name)
        now = await session.call(overview.database_time)
        zone = load_zone(found["timezone"])
        since = written_instant(given.get("since", ""), zone, now)
        until = written_instant(given["until"], zone, now) if "until" in given else None
        over = min(until or now, now)
        # In a thread: a range of many instants takes a while to count.
        planned = await asyncio.to_thread(sum, count(spec_of(found), since, over))
        more = {**options, "parallelism": at_once, "planned": planned}
        return await session.act(interfaces.backfill, name, since, until, **more)

    return page_request.redirect("backfill", "backfill", id=await page_request.act(make))


# Makes no more runs until it is resumed.
pause = verb(interfaces.pause_backfill, "backfill", "backfill_paused")
resume = verb(interfaces.resume_backfill, "backfill", "backfill_resumed")
# Cancels what waits; ``note`` says why.
stop = verb(interfaces.stop_backfill, "backfill", "backfill_stopped", "note")


def _settings(row: Row) -> list[tuple[str, str | None]]:
    """Word and value; what has none is not shown."""
    rule = {
        "skip": "left alone",
        "failed": "run again if they did not succeed",
        "all": "run again",
    }[row["if_ran"]]
    return [
        ("Direction", row["direction"]),
        ("At once", f"{row['parallelism']} (overlap {row['overlap']})"),
        ("Decided instants", rule),
        ("Spec", f"{row['spec']} ({row['timezone']}), as of version {row['version']}"),
        ("Args", row["args"] and json.dumps(row["args"])[:300]),
        ("Note", row["note"]),
        ("Asked for by", row["created_by"]),
        ("Last changed by", row["changed_by"]),
    ]
