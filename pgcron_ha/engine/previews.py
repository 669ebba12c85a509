"""Computes the next fires of schedules for who asks in SQL, which knows neither cron nor zones.

A schedule's preview is written when a new generation of it is first judged, unless many are new at
once; and again when somebody asked for more than there is. Who is not asked about costs nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any, Final

from pgcron_ha.client.previews import schedule_preview
from pgcron_ha.db.link import Link, Row
from pgcron_ha.errors import PgcronError

FIRES: Final = 20
"""Of a schedule; ``pgcron.preview`` names the number."""

AT_ONCE: Final = 25
"""Schedules of one pass, each about a millisecond: a million that are made at once wait until
somebody asks for one of them.
"""


async def write_previews(link: Link, schedule_ids: Sequence[int] = ()) -> int:
    """Of these schedules, and of some of those that were asked for; how many were written."""
    rows = await link.rows("schedules_to_preview", at_most=AT_ONCE, schedule_ids=list(schedule_ids))
    if not rows:
        return 0
    columns: dict[str, list[Any]] = {
        name: [] for name in ("sentences", "fires", "are_over", "errors")
    }
    for row in rows:
        sentence, fires, is_over, error = _preview(row)
        columns["sentences"].append(sentence)
        columns["fires"].append(fires)
        columns["are_over"].append(is_over)
        columns["errors"].append(error)
        await asyncio.sleep(0)  # a cold spec in a far zone costs some milliseconds
    written = await link.rows(
        "put_previews",
        schedule_ids=[row["schedule_id"] for row in rows],
        generations=[row["generation"] for row in rows],
        **columns,
    )
    return len(written)


def _preview(row: Row) -> tuple[str | None, str | None, bool | None, str | None]:
    """Sentence, fires, whether these are all, and what is wrong instead."""
    try:
        ahead = schedule_preview(dict(row), row["now"], FIRES)
    except PgcronError as error:
        return None, None, None, error.as_kept()
    fires = [
        {"at": fire.utc_text, "local": fire.local_text, "note": fire.note} for fire in ahead.fires
    ]
    return ahead.sentence, json.dumps(fires), ahead.is_over, None
