"""Fires of a schedule that somebody names: instants of the schedule as it stands."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.spec.schedule_spec import spec_of

_INSTANT_EARLIER: Final = timedelta(microseconds=1)

NO_FIRE: Final = "; the schedule does not fire then any more"


def require_fire(row: Mapping[str, Any], instant: datetime) -> None:
    """Raises InvalidInput, with the nearest fires, for an instant that the schedule doesn't name.

    `row` has name, spec, timezone, dst and uuid. Raises as `spec_of` for a spec of another version.
    """
    spec = spec_of(row)
    after = spec.next(instant - _INSTANT_EARLIER)
    if after == instant:
        return
    fires = (("before", spec.previous(instant)), ("after", after))
    near = [f"{word} at {_shown(fire)}" for word, fire in fires if fire]
    raise InvalidInput(
        f"schedule '{row['name']}' does not fire at {_shown(instant)}",
        f"It fires {' and '.join(near)}." if near else "It never fires.",
        "Name one of its fires.",
    )


def is_fire(row: Mapping[str, Any], instant: datetime) -> bool:
    """Whether the schedule as it stands fires then; yes if nobody here can read its spec."""
    try:
        return spec_of(row).next(instant - _INSTANT_EARLIER) == instant
    except PgcronError:
        return True


def changed_words(changed: Mapping[str, Any]) -> str:
    """What somebody did to a fire: a row of `changed_occurrences` in a few words."""
    moved = [f"moved to {_shown(changed['due_at'])}"] if changed["due_at"] else []
    args = ["other args"] if changed["args"] is not None else []
    done = ", ".join(["skipped"] if changed["action"] == "skip" else moved + args)
    return f"{done} by {changed['actor']}" + (f": {changed['note']}" if changed["note"] else "")


def was_edited(changed: Mapping[str, Any] | None) -> bool:
    """Whether a fire has other args: a row of `changed_occurrences`, or None."""
    return changed is not None and changed["args"] is not None


def _shown(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
