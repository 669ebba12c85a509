"""Times that people write into forms: instants, and how long something lasts. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from pgcron_ha.config.values import parse_duration
from pgcron_ha.errors import InvalidInput


def written_instant(text: str, zone: ZoneInfo) -> datetime:
    """ISO 8601 in UTC; without an offset it is wall time in `zone`. InvalidInput."""
    try:
        found = datetime.fromisoformat(text.strip())
        aware = found if found.tzinfo is not None else found.replace(tzinfo=zone)
        return aware.astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput(
            f"'{text[:60]}' is not a date and time",
            f"An instant is wall time in {zone.key}, or has its offset.",
            "Write for example 2026-12-24 18:00, or 2026-12-24T18:00:00Z.",
        ) from None


def written_end(text: str, zone: ZoneInfo) -> datetime | timedelta:
    """A duration such as ``2h``, else what `written_instant` reads. InvalidInput."""
    try:
        return timedelta(seconds=parse_duration(text.strip()))
    except (ValueError, OverflowError):
        return written_instant(text, zone)
