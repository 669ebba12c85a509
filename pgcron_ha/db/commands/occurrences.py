"""Changes of one fire of a schedule: the statements of ``sql/control.sql`` for it.

Instants are aware.
"""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.rows import Rows

MOST_CHANGED: Final = 100

skip_occurrence: Final = Call[None]("skip_occurrence", "name", "instant", note=None)
"""The fire does not run. NotFound; Conflict when it has begun or is over; InvalidInput."""

move_occurrence: Final = Call[None]("move_occurrence", "name", "instant", "moved_to", note=None)
"""The fire is due at another instant to come, before or after. Raises as `skip_occurrence`."""

edit_occurrence: Final = Call[None]("edit_occurrence", "name", "instant", "args", note=None)
"""The fire gets other args (JSON text). Raises as `skip_occurrence`, and TooLarge."""

restore_occurrence: Final = Call[None]("restore_occurrence", "name", "instant")
"""The fire is as the schedule says. Raises as `skip_occurrence`; NotFound if it was so."""

changed_occurrence: Final = Rows("changed_occurrences", "schedule_id", "fire_at", at_most=1).one
"""What somebody did to a fire; None: nothing."""

changed_occurrences: Final = Rows("changed_occurrences", "schedule_id", at_most=MOST_CHANGED)
"""The first `MOST_CHANGED` fires to come that somebody has changed, by their time."""
