"""Plots as coordinates: what was and what will be, ready for a template that draws SVG.

Pure, and bounded whatever it is given: marks that would overlap are merged and say how many they
are. A template draws them (``overview.html``, ``_macros.html``), so the script-free page, the live
page and a mail look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from math import ceil, floor, log10
from types import SimpleNamespace
from typing import Any, Final
from zoneinfo import ZoneInfo

from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import clock, duration, local, mark_of

WIDTH: Final = 1000
TRACK_HEIGHT: Final = 26
_AXIS_HEIGHT: Final = 22
# Marks closer than this are one mark; a track has at most WIDTH / GAP of them.
_GAP: Final = 5.0
_THINNEST: Final = 3.0
_STEPS: Final = tuple(
    timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1440)
)
_MOST_TICKS: Final = 9
# What is drawn above what, when marks are merged.
_GRAVITY: Final = ("dead", "lost", "running", "cancelled", "expired", "skipped", "superseded")
# Bars of a trend: as many runs as health is judged from.
_BARS: Final = 30
SPARK_WIDTH: Final = 120
SPARK_HEIGHT: Final = 22
_NICE: Final = (1, 2, 5, 10)
_GANTT_TICKS: Final = 6


def timeline(
    tracks: Sequence[Row], since: datetime, now: datetime, until: datetime, zone: ZoneInfo
) -> SimpleNamespace:
    """Tracks of ``{"name", "health", "runs", "fires"}`` over one axis of time.

    A run is a row with id, outcome (or "running"), started_at and finished_at (None: now); fires
    are ascending instants after `now`.
    """
    scale = WIDTH / (until - since).total_seconds()

    def place(instant: datetime) -> float:
        return round(min(max((instant - since).total_seconds() * scale, 0), WIDTH), 1)

    drawn = tuple(
        SimpleNamespace(
            y=_AXIS_HEIGHT + position * TRACK_HEIGHT,
            name=track["name"],
            mark=mark_of(track["health"]),
            marks=tuple(_marks(track["runs"], place, since, now, zone)),
            # Where they are, and their titles.
            fires=tuple((place(at), f"fires {local(at, zone)}") for at in track["fires"]),
        )
        for position, track in enumerate(tracks)
    )
    return SimpleNamespace(
        **_sizes(len(drawn)),
        now_x=place(now),  # where the past ends
        # Where the lines of the axis are, and their labels.
        ticks=tuple(_ticks(since, until, place, zone, place(now))),
        tracks=drawn,
        since=since,
        until=until,
    )


def gantt(steps: Sequence[Row], since: datetime, until: datetime) -> SimpleNamespace:
    """A bar for each of the steps of a workflow, the first to start above: rows with name, state,
    started_at, ended_at (None: `until`) and is_critical, over an axis of the time since it began.
    """
    whole = max((until - since).total_seconds(), 0.001)
    scale = WIDTH / whole
    step = _nice(whole / _GANTT_TICKS)
    bars = []
    for position, row in enumerate(sorted(steps, key=lambda row: row["started_at"])):
        end = row["ended_at"] or until
        took = (end - row["started_at"]).total_seconds()
        # What a redrive kept was over before it began.
        x = min(max((row["started_at"] - since).total_seconds() * scale, 0), WIDTH - _THINNEST)
        width = (end - since).total_seconds() * scale - x
        on_path = ", on the critical path" if row["is_critical"] else ""
        bars.append(
            SimpleNamespace(
                **row,
                y=_AXIS_HEIGHT + position * TRACK_HEIGHT,
                x=round(x, 1),
                width=round(min(max(width, _THINNEST), WIDTH - x), 1),
                mark=mark_of(row["state"]),
                title=f"{row['name']}: {mark_of(row['state']).word}, {duration(took)}{on_path}",
            )
        )
    return SimpleNamespace(
        **_sizes(len(bars)),
        ticks=[
            (round(step * tick * scale, 1), duration(step * tick))
            for tick in range(1, ceil(whole / step))
        ],
        bars=bars,
    )


def _sizes(tracks: int) -> dict[str, int]:
    sizes = {"width": WIDTH, "track_height": TRACK_HEIGHT, "axis_height": _AXIS_HEIGHT}
    return {**sizes, "height": _AXIS_HEIGHT + tracks * TRACK_HEIGHT}


def distance(since: datetime, until: datetime) -> timedelta:
    """Fires that are nearer to each other than this would be drawn over each other."""
    return (until - since) * (_GAP / WIDTH)


def spark(facts: Row, zone: ZoneInfo) -> list[SimpleNamespace]:
    """A small bar for each of the newest runs of a schedule, oldest at the left.

    `facts` has ids, outcomes, durations and finished of its runs, newest first; or None of each.
    """
    columns = (facts[name] or () for name in ("ids", "outcomes", "durations", "finished"))
    runs = list(zip(*columns, strict=True))[:_BARS]
    top = max((seconds for _, _, seconds, _ in runs if seconds is not None), default=0.0)
    step = SPARK_WIDTH / _BARS
    bars = []
    for position, (run, outcome, seconds, end) in enumerate(reversed(runs), _BARS - len(runs)):
        share = min((seconds or 0.0) / top, 1.0) if top > 0 else 0.0
        # A failure has its own height, too, for people who can't see its colour.
        is_failure = outcome in ("dead", "lost")
        tall = SPARK_HEIGHT if is_failure else max(3.0, round(share * SPARK_HEIGHT, 1))
        took = f" in {duration(seconds)}" if seconds is not None else ""
        bar = SimpleNamespace(
            x=round(position * step, 1),
            y=round(SPARK_HEIGHT - tall, 1),
            width=round(step * 0.75, 1),
            height=tall,
            state=outcome,
            tone=mark_of(outcome).tone,
            title=f"run {run} {outcome}{took} · {local(end, zone)}",
        )
        bars.append(bar)
    return bars


def _nice(value: float) -> float:
    """The next of 1, 2, 5, 10, … at or above a positive value."""
    power = 10.0 ** floor(log10(value))
    return float(next(step for step in _NICE if step * power >= value * 0.9999) * power)


def _marks(
    runs: Iterable[Row], place: Any, since: datetime, now: datetime, zone: ZoneInfo
) -> Iterable[SimpleNamespace]:
    """Left to right; runs that begin within a gap become one, in the gravest state among them."""
    ordered = sorted(runs, key=lambda run: run["started_at"] or run["finished_at"])
    group: list[tuple[Row, float, float]] = []
    for run in ordered:
        begin = run["started_at"] or run["finished_at"]
        left, right = place(max(begin, since)), place(run["finished_at"] or now)
        if group and left - group[0][1] >= _GAP:
            yield _mark(group, zone)
            group = []
        group.append((run, left, max(right, left + _THINNEST)))
    if group:
        yield _mark(group, zone)


def _mark(group: list[tuple[Row, float, float]], zone: ZoneInfo) -> SimpleNamespace:
    """A run in a track, or several that are too close to be drawn apart."""
    states = [run["outcome"] for run, _, _ in group]
    state = next((word for word in _GRAVITY if word in states), states[0])
    first, left, _ = group[0]
    right = max(end for _, _, end in group)
    if len(group) == 1:
        begin, end = first["started_at"], first["finished_at"]
        took = f", {duration((end - begin).total_seconds())}" if begin and end else ""
        title = f"run {first['id']} {mark_of(state).word}{took} · {local(begin or end, zone)}"
    else:
        words = [mark_of(word).word for word in states]
        counts = ", ".join(f"{words.count(word)} {word}" for word in dict.fromkeys(words))
        title = f"{counts} · from {clock(first['started_at'] or first['finished_at'], zone)}"
    return SimpleNamespace(
        x=left,
        # Many in one place are a column: their durations could not be seen anyway.
        width=round(right - left if len(group) == 1 else _GAP - 1, 1),
        state=state,
        tone=mark_of(state).tone,
        title=title,
        run=first["id"] if len(group) == 1 else None,
        count=len(group),
    )


def _ticks(
    since: datetime, until: datetime, place: Any, zone: ZoneInfo, now_x: float
) -> Iterable[tuple[float, str]]:
    step = next((s for s in _STEPS if (until - since) / s <= _MOST_TICKS), _STEPS[-1])
    start = since.astimezone(zone)
    midnight = start.replace(hour=0, minute=0, second=0, microsecond=0)
    instant = midnight + ((start - midnight) // step + 1) * step
    while instant < until:
        x = place(instant)
        is_day = (instant.hour, instant.minute) == (0, 0)
        label = f"{instant:%b %d}" if is_day else f"{instant:%H:%M}"
        # A label that collides with "now" or the edge is left out; its line stays.
        is_free = abs(x - now_x) > 34 and 16 < x < WIDTH - 16
        yield x, label if is_free else ""
        instant += step
