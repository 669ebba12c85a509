"""Computes the next fires of schedules for SQL, which can't evaluate cron or zones.

A schedule's preview is written when its new generation is first evaluated, unless many are new at
once, and again when more fires are requested than it has. Other schedules cost nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from pgcron_ha.client.previews import schedule_preview
from pgcron_ha.db.driver.link import Link, Row
from pgcron_ha.engine.batches import SetAside, isolate, known
from pgcron_ha.errors import PgcronError
from pgcron_ha.spec.budget import TakesLong, quickly
from pgcron_ha.spec.zones import TZDATA

FIRES: Final = 20
"""Of a schedule; ``pgcron.preview`` names the number."""

AT_ONCE: Final = 25
"""Schedules of one pass, each about a millisecond: a million that are made at once wait until
one of them is requested.
"""

_Answer = TypeVar("_Answer")

Preview = tuple[Row, dict[str, Any]]
"""A schedule, and its row of previews."""


async def compute(function: Callable[[], _Answer]) -> _Answer:
    """The answer of a pure function. Most are found at once; what takes longer begins anew in a
    thread, so that the lease, and all else on the loop, goes on meanwhile.
    """
    try:
        with quickly():
            return function()
    except TakesLong:
        return await asyncio.to_thread(function)


async def write_previews(link: Link, aside: SetAside[Any], schedule_ids: Sequence[int] = ()) -> int:
    """Of these schedules, and of some of those that were asked for; how many were written."""
    which = {"schedule_ids": list(schedule_ids), "aside": aside.waiting_of("preview")}
    rows = await link.rows("schedules_to_preview", **which, at_most=AT_ONCE, tzdata=TZDATA)
    if not schedule_ids and len(rows) < AT_ONCE:
        aside.forget_absent("preview", {row["schedule_id"] for row in rows})
    previews = []
    for row in rows:
        previews.append((row, await compute(partial(_preview, row))))
        await asyncio.sleep(0)  # a cold spec in a far zone costs some milliseconds

    async def send(part: Sequence[Preview]) -> list[Row]:
        return await link.rows("put_previews", previews=json.dumps([each for _, each in part]))

    def delayed(preview: Preview, error: PgcronError) -> None:
        row = preview[0]
        what = f"the preview of schedule {row['name']!r}"
        aside.put(("preview", row["schedule_id"]), what, error)

    written = [row for rows in await isolate(previews, send, None, delayed) for row in rows]
    for row in written:
        aside.forget(("preview", row["schedule_id"]))
    return len(written)


def _preview(row: Row) -> dict[str, Any]:
    """Sentence, fires, and whether these are all; or what is wrong instead."""
    of = {"schedule_id": row["schedule_id"], "generation": row["generation"]}
    try:
        ahead = schedule_preview(dict(row), row["now"], FIRES)
    except Exception as error:
        return of | {"error": json.loads(known(error).as_kept())}
    fires = [
        {"at": fire.utc_text, "local": fire.local_text, "note": fire.note} for fire in ahead.fires
    ]
    return of | {"sentence": ahead.sentence, "fires": fires, "is_over": ahead.is_over or not fires}
