"""How values are worded: instants, durations, numbers, states. The only place that words them.

All are pure functions; templates use them as filters, instants by the macro ``when``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from pgcron_ha.harmless import left_out
from pgcron_ha.spec.text import in_bytes, in_number

DAY_SECONDS: Final = 86_400.0
# Between the digits of a number and before a unit; people's eyes, not their line breaks.
_THIN: Final = "\N{NARROW NO-BREAK SPACE}"
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))


def state_words(state: str) -> str:
    """A state, an outcome or a decision as people read it: ``upstream failed``."""
    return state.replace("_", " ")


class Mark(NamedTuple):
    """How a word is shown: `glyph`, the `word` itself, and a `tone` of the colour scheme."""

    glyph: str
    word: str
    tone: str


# Of each look the states and outcomes of runs, attempts, nodes and backfills, decisions of the
# ledger, and the health of schedules.
_LOOKS: Final = {
    ("◷", "idle"): "scheduled snoozed not_yet",
    ("⊘", "late"): "blocked cordoned",
    ("…", "idle"): "ready",
    ("▶", "run"): "running open",
    ("↻", "retry"): "retrying",
    ("✓", "ok"): "succeeded ok done",
    ("✕", "fail"): "dead lost failed timed_out died invalid failing",
    ("✕", "late"): "lease_lost",
    ("–", "idle"): "cancelled stopped",
    ("∅", "idle"): "skipped superseded expired upstream_failed no_fire",
    ("∅", "late"): "missed",
    ("→", "idle"): "run",
    ("●", "ok"): "alive",
    ("◐", "late"): "draining stopping",
    ("◌", "late"): "silent",
    ("○", "idle"): "gone new waiting",
    ("▲", "fail"): "stuck",
    ("▲", "late"): "late stale",
    ("◆", "late"): "slow",
    ("◆", "retry"): "flaky",
    ("‖", "idle"): "paused",
}
MARKS: Final = {
    word: Mark(glyph, state_words(word), tone)
    for (glyph, tone), words in _LOOKS.items()
    for word in words.split()
}


def mark_of(word: str) -> Mark:
    """How a state, an outcome, a decision or a health word is shown."""
    return MARKS.get(word) or Mark("?", word, "idle")


def duration(seconds: float | None) -> str:
    """``230 ms``, ``4.2 s``, ``1 m 04 s``, ``1 h 04 m``, ``3 d 04 h``; a dash for None."""
    if seconds is None:
        return "–"
    seconds = abs(seconds)
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f}{_THIN}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}{_THIN}s"
    left = round(seconds)
    for (unit, size), (smaller, smaller_size) in pairwise(_UNITS):
        if left >= size:
            rest = left % size // smaller_size
            more = f" {rest:02d}{_THIN}{smaller}" if rest else ""
            return f"{left // size}{_THIN}{unit}{more}"
    return f"{left}{_THIN}s"


def relative(instant: datetime, now: datetime, zone: ZoneInfo) -> str:
    """``6 m ago``, ``in 4 m 10 s``; from a day on its date and time in the zone."""
    seconds = (instant - now).total_seconds()
    if abs(seconds) >= DAY_SECONDS:
        shown = instant.astimezone(zone)
        return f"{shown:%Y-%m-%d %H:%M} {_zone_of(shown)}"
    if abs(seconds) < 1:
        return "now"
    if seconds > 0:
        return f"in {duration(round(seconds))}"
    # What was needs no seconds once it is minutes ago.
    passed = -seconds if -seconds >= 3600 else -seconds - -seconds % 60
    return f"{duration(round(passed if -seconds >= 60 else -seconds))} ago"


def exact(instant: datetime, zone: ZoneInfo) -> str:
    """Local time with its zone, and UTC: what the title of a time says."""
    local = instant.astimezone(zone)
    utc = f"{instant.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    if zone.key == "UTC":
        return utc
    return f"{local:%Y-%m-%d %H:%M:%S} {zone.key} (UTC{offset(local)}) · {utc}"


def local(instant: datetime, zone: ZoneInfo) -> str:
    """``2026-11-21 06:30:00 UTC+1`` in a zone."""
    return f"{wall(instant, zone)} {_zone_of(instant.astimezone(zone))}"


def wall(instant: datetime, zone: ZoneInfo) -> str:
    """``2026-11-21 06:30:00`` in a zone that stands beside it."""
    return f"{instant.astimezone(zone):%Y-%m-%d %H:%M:%S}"


def _zone_of(local_time: datetime) -> str:
    shift = offset(local_time)
    return "UTC" if shift == "+0" else f"UTC{shift}"


def clock(instant: datetime, zone: ZoneInfo) -> str:
    """``06:30:00`` in a zone."""
    return f"{instant.astimezone(zone):%H:%M:%S}"


def offset(local_time: datetime) -> str:
    """``+1``, ``-3:30``, ``+0``: how far an aware instant's zone is from UTC then."""
    shift = local_time.utcoffset()
    minutes = 0 if shift is None else round(shift.total_seconds() / 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"{'-' if minutes < 0 else '+'}{hours}" + (f":{rest:02d}" if rest else "")


def rfc(instant: datetime) -> str:
    """RFC 3339 in UTC: for programs, and for the script."""
    return instant.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def number(value: float) -> str:
    """A whole number with thin spaces between thousands."""
    return f"{value:,.0f}".replace(",", _THIN)


def size(count: float | None) -> str:
    """``8.0 KiB``, ``1.2 GiB``; a dash for None."""
    return "–" if count is None else in_bytes(count, _THIN)


def plural(count: int, word: str, words: str | None = None) -> str:
    """``1 run``, ``12 431 runs``."""
    return f"{number(count)} {in_number(count, word, words)}"


def expected_about(seconds: float | None) -> str | None:
    """Of a run that overruns: ``expected about 1 m 30 s``."""
    return None if seconds is None else f"expected about {duration(seconds)}"


def plain(text: str) -> str:
    """Text from outside without what could reorder, hide or colour it: one line, no controls."""
    return " ".join(left_out(text).split())


def short(text: str, most: int = 120) -> str:
    """The first line of a text, plain and bounded."""
    first = plain(text.strip().partition("\n")[0])
    return first if len(first) <= most else first[: most - 1] + "…"


def stored(value: object) -> str:
    """A column of a schedule: JSON unless it is a text; a dash for none."""
    if value is None or isinstance(value, str):
        return value or "–"
    return json.dumps(value, ensure_ascii=False)


def who_and_why(who: str | None, note: str | None) -> str:
    """Who did something, and why: ``ann: too many errors``; empty if neither is known."""
    return ": ".join(filter(None, [who, note]))


def some_of(names: Sequence[str], most: int) -> str:
    """The first names, and how many more there are: ``a, b and 3 more``."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def capital(text: str) -> str:
    """The beginning of a sentence."""
    return text[:1].upper() + text[1:]
