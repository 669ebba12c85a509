"""A given instant of a schedule: whether the current definition fires then, the nearest fires, and
why it did or did not run, with what rows alone can't show.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from pgcron_ha.db.queries.reasons import Reason
from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.spec.bounds import AN_INSTANT
from pgcron_ha.spec.preview import why_not
from pgcron_ha.spec.spec import ScheduleRow, spec_of
from pgcron_ha.spec.text import instant_text

_UNDECIDED: Final = frozenset({"not_yet", "is_paused", "is_invalid"})
_NOT_THEN: Final = (
    "The definition of that time did not name this instant; the current definition does."
)


def explain(
    row: Mapping[str, Any], instant: datetime, reported: Reason
) -> tuple[Reason, datetime | None, datetime | None]:
    """The answer for an instant (aware) of a schedule, and the nearest fires before and after it if
    the current definition does not name it; `row` has what `spec_of` reads.
    """
    try:
        spec = spec_of(row)
        after = spec.next(instant - AN_INSTANT)
        before = None if after == instant else spec.previous(instant)
    except PgcronError:  # another version wrote it, or this tzdata lacks its zone
        return reported, None, None
    if after == instant:
        if reported.code == "not_an_instant":
            reported = reported._replace(meaning=_NOT_THEN)
        return reported, None, None
    left_out = why_not(spec, instant)
    if reported.code in _UNDECIDED:
        gone = ""
        if reported.code == "not_yet" and reported.actor:
            # Somebody changed a fire that is no fire any more.
            gone = f" any more: {reported.reason} ({reported.actor})"
        reported = reported._replace(
            decision="not an instant",
            code="not_an_instant",
            reason=f"{left_out or 'the schedule does not name this instant'}{gone}",
            meaning="The schedule does not name this instant.",
            actor=None,
            note=None,
            until=None,
        )
    elif reported.code == "not_an_instant" and left_out:
        reported = reported._replace(reason=left_out)
    return reported, before, after


def last_fire(row: Mapping[str, Any], instant: datetime) -> datetime | None:
    """The last fire at or before an instant by the current definition; None where there is none,
    as of a schedule on assets, or where this version can't read its spec.
    """
    try:
        return spec_of(row).previous(instant + AN_INSTANT)
    except PgcronError:
        return None


def require_fire(row: Mapping[str, Any], instant: datetime) -> None:
    """Raises InvalidInput, with the nearest fires, for an instant that the schedule doesn't name.

    `row` has name, spec, timezone, dst and uuid. Raises as `spec_of` for a spec of another version.
    """
    spec = spec_of(row)
    after = spec.next(instant - AN_INSTANT)
    if after == instant:
        return
    fires = (("before", spec.previous(instant)), ("after", after))
    near = [f"{word} at {instant_text(fire)}" for word, fire in fires if fire]
    raise InvalidInput(
        f"schedule '{row['name']}' does not fire at {instant_text(instant)}",
        f"It fires {' and '.join(near)}." if near else "It never fires.",
        "Name one of its fires.",
    )


def is_fire(row: ScheduleRow, instant: datetime) -> bool:
    """Whether the current definition fires then; yes if this version can't read its spec."""
    try:
        return spec_of(row).next(instant - AN_INSTANT) == instant
    except PgcronError:
        return True


def changed_words(row: ScheduleRow, changed: Mapping[str, Any]) -> str:
    """A person's change to a fire (a row of `changed_occurrences`) in a few words, with a remark if
    the schedule no longer fires then.
    """
    moved = [f"moved to {instant_text(changed['due_at'])}"] if changed["due_at"] else []
    args = ["other args"] if changed["args"] is not None else []
    done = ", ".join(["skipped"] if changed["action"] == "skip" else moved + args)
    words = f"{done} by {changed['actor']}" + (f": {changed['note']}" if changed["note"] else "")
    if not is_fire(row, changed["fire_at"]):
        words += "; the schedule does not fire then any more"
    return words
