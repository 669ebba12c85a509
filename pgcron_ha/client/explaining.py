"""Why an instant did or did not run, with what rows alone can't tell: whether the schedule, as it
stands, names it at all, and the fires about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pgcron_ha.db.queries.reasons import Reason
from pgcron_ha.errors import PgcronError
from pgcron_ha.spec.exclusion_reason import why_not
from pgcron_ha.spec.schedule_spec import spec_of

_INSTANT_EARLIER: Final = timedelta(microseconds=1)
_UNDECIDED: Final = frozenset({"not_yet", "is_paused", "is_invalid"})
_NOT_NAMED: Final = "The schedule does not name this instant."
_NOT_THEN: Final = (
    "As it stood then, the schedule did not name this instant; as it stands now, it does."
)


@dataclass(frozen=True)
class Explained:
    """An instant's answer; ``before`` and ``after`` are the nearest fires of the schedule as it
    stands, when it does not name the instant.
    """

    instant: datetime
    reported: Reason
    is_named: bool | None
    """Whether the schedule, as it stands, fires then; None: nobody here can read its spec."""
    before: datetime | None = None
    after: datetime | None = None


def explain(row: Mapping[str, Any], instant: datetime, reported: Reason) -> Explained:
    """The answer for an instant (aware) of a schedule; `row` has what `spec_of` reads."""
    try:
        spec = spec_of(row)
        after = spec.next(instant - _INSTANT_EARLIER)
        before = None if after == instant else spec.previous(instant)
    except PgcronError:  # another version wrote it, or this tzdata lacks its zone
        return Explained(instant, reported, None)
    if after == instant:
        if reported.code == "not_an_instant":
            reported = reported._replace(meaning=_NOT_THEN)
        return Explained(instant, reported, True)
    left_out = why_not(spec, instant)
    if reported.code in _UNDECIDED:
        # What somebody wanted with a fire that it would have been.
        gone = (
            f" any more: {reported.reason} ({reported.actor})" if reported.code == "not_yet" else ""
        )
        gone = gone if reported.actor else ""
        reported = reported._replace(
            decision="not an instant",
            code="not_an_instant",
            reason=f"{left_out or 'the schedule does not name this instant'}{gone}",
            meaning=_NOT_NAMED,
            actor=None,
            note=None,
            until=None,
        )
    elif reported.code == "not_an_instant" and left_out:
        reported = reported._replace(reason=left_out)
    return Explained(instant, reported, False, before, after)
