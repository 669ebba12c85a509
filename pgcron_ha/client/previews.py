"""The next fires of a schedule's row, and whether a node would execute them: for the command line
and the pages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from pgcron_ha.client.options import POLICIES
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.model.plan import delay_of
from pgcron_ha.spec.preview import Preview, PreviewFire, preview
from pgcron_ha.spec.spec import spec_of
from pgcron_ha.spec.text import duration_text


def schedule_preview(row: Mapping[str, Any], after: datetime, count: int) -> Preview:
    """The next fires of a row that has spec, timezone, dst, uuid and any of the policies (with
    max_runs also watermark and runs_made), as if it were not paused. Raises as `spec_of`.
    """
    ahead = preview(spec_of(row), after, count, policies_in(row))
    if row.get("max_runs") is not None:
        left = max(0, int(row["max_runs"]) - int(row["runs_made"]))
        within = [fire for fire in ahead.fires if fire.fire_at <= row["watermark"]]
        fires = ahead.fires[: len(within) + left]
        is_over = ahead.is_over or len(fires) < len(ahead.fires) or not (left or within)
        ahead = replace(ahead, fires=fires, is_over=is_over)
    if row.get("jitter"):
        whole = duration_text(delay_of(row) // timedelta(seconds=1))
        fires = tuple(_noted(fire, f"due {whole} later by jitter") for fire in ahead.fires)
        ahead = replace(ahead, fires=fires)
    return ahead


def _noted(fire: PreviewFire, note: str) -> PreviewFire:
    return replace(fire, note="; ".join(filter(None, (fire.note, note))))


def policies_in(row: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the row's values that are policies."""
    return {name: row[name] for name in POLICIES if name in row}


def not_offered(handler: str, queue: str, offered: Mapping[str, Any]) -> str | None:
    """A sentence, with the nearest handler that is offered; None: some node takes its runs.

    `offered` of `pgcron_ha.db.queries.pages.schedules.offered`.
    """
    if offered["is_served"]:
        return None
    said = f"No living node offers {handler[:206]} for queue {queue[:100]}: its runs would wait"
    if handler in offered["handlers"]:
        return f"{said} until a node with that handler serves that queue, and has what it requires."
    if handler.startswith("workflow:"):  # every node takes those that exist
        said = f"Workflow '{handler[9:206]}' does not exist: its runs would wait"
    return f"{said} until one does" + (did_you_mean(handler, offered["handlers"]) or ".")
