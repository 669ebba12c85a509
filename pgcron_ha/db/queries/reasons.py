"""Why an instant of a schedule did or did not run: ``pgcron.why``."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from pgcron_ha.db.driver.calls import Call

_why: Final = Call[str]("why", "schedule", "instant")


class Reason(NamedTuple):
    """The one answer for an instant; what does not apply is None."""

    decision: str
    """run, skipped, superseded, expired, cancelled, missed, not yet, not an instant, not known."""
    reason: str | None
    """As it was recorded with the decision."""
    run: int | None
    outcome: str | None
    """The live state of its run, or how it ended; None, too, when retention has removed it."""
    code: str
    """A word that stays: `pgcron.reason` lists them."""
    meaning: str
    """The code as a sentence."""
    note: str | None
    actor: str | None
    decided_at: datetime | None
    due_at: datetime | None
    """When its run is due, if it was moved or is delayed by jitter."""
    late_by: timedelta | None
    """From when it was due to its start; to now, while it waits."""
    until: datetime | None
    """When the pause ends by itself."""
    owner: str | None
    description: str | None
    tags: list[str] | None
    links: dict[str, str] | None
    """Of the schedule, as the three before."""


async def why(connection: Any, schedule: str, instant: datetime, **options: Any) -> Reason:
    """What was decided about an instant (aware) of a schedule, from what is stored. NotFound.

    A deleted schedule is found by the last name that it had.
    """
    *found, links = await _why.row(connection, schedule, instant, **options)
    return Reason._make([*found, json.loads(links) if isinstance(links, str) else links])
