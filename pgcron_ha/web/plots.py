"""Plots as coordinates, ready for a template that draws SVG: what was and what will be, and where
the time of a run went.

Pure, and bounded whatever it is given: marks that would overlap are merged and say how many they
are. A template draws them (``overview.html``, ``_macros.html``), so the script-free page, the live
page and a mail look the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from math import ceil, floor, log10
from types import SimpleNamespace
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import clock, duration, local, mark_of, state_words

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


# Where the time of a run went: words, and what they mean.
KINDS: Final[dict[str, str]] = {
    "waiting": "due, and not yet claimed by a node",
    "claimed": "held by a node that had not begun",
    "executing": "the handler at work",
    "backing off": "between an attempt and the next claim",
}
_TONES: Final = {"waiting": "idle", "claimed": "late", "backing off": "retry"}


class _Piece(NamedTuple):
    kind: str
    tone: str
    start: datetime
    end: datetime
    what: str

    @property
    def seconds(self) -> float:
        return (self.end - self.start).total_seconds()


def where_time_went(run: Row, attempts: Sequence[Row], now: datetime) -> SimpleNamespace | None:
    """The bar of a run (a row of `pgcron_ha.db.queries.pages.run`) from when it was due until it
    ended, or until now; None: no time has passed yet.
    """
    tries = sorted(
        ({**one, "ended_at": one["ended_at"] or now} for one in tries_of(run, attempts)),
        key=lambda one: (one["attempt"], one["ended_at"]),
    )
    begin = _begin(run, tries, bool(attempts))
    if begin is None:
        return None
    pieces = [piece for piece in _pieces(run, tries, begin, now) if piece.end > piece.start]
    whole = sum(piece.seconds for piece in pieces)
    if whole <= 0:
        return None
    return SimpleNamespace(
        segments=tuple(_segments(pieces, whole)),
        shares=tuple(_shares(pieces, whole)),
        seconds=whole,
        is_open=run["finished_at"] is None,  # it goes on
    )


def tries_of(run: Row, failed: Sequence[Row]) -> list[Row]:
    """Every attempt, the newest first: those that failed, and the one that runs or succeeded."""
    if run["claimed_at"] is None or any(one["attempt"] == run["attempt"] for one in failed):
        return [*failed]
    last = {
        **run,
        "outcome": run["state"],
        "ended_at": run["finished_at"],
        "error_class": None,
        "error": None if run["finished_at"] is None else run.get("error"),
        "traceback": None,
    }
    return [last, *failed]


def _begin(run: Row, tries: Sequence[Row], has_failed: bool) -> datetime | None:
    # A retry moves due_at, so it is the first one only while nothing has failed.
    due = run["scheduled_for"] if has_failed else run["due_at"]
    known = [instant for instant in (run["created_at"], due) if instant is not None]
    first = [tries[0]["claimed_at"]] if tries else []
    return min([*([max(known)] if known else []), *first], default=None)


def _pieces(run: Row, tries: Sequence[Row], begin: datetime, now: datetime) -> Iterator[_Piece]:
    at = begin
    gap = "waiting"
    for row in tries:
        which = f"attempt {row['attempt']}"
        start = row["started_at"] or row["ended_at"]
        yield _Piece(gap, _TONES[gap], at, row["claimed_at"], f"{gap} before {which}")
        yield _Piece("claimed", _TONES["claimed"], row["claimed_at"], start, f"{which} claimed")
        if row["started_at"] is not None:
            tone = mark_of(row["outcome"]).tone
            what = f"{which} {'executing' if row['outcome'] == 'running' else row['outcome']}"
            yield _Piece("executing", tone, start, row["ended_at"], state_words(what))
        at, gap = max(at, row["ended_at"]), "backing off"
    is_over = run["finished_at"] is not None or run["state"] == "running"
    if gap == "backing off" and not is_over:  # until it is due again, then it waits
        due = max(at, min(run["due_at"], now))
        yield _Piece(gap, _TONES[gap], at, due, gap)
        at, gap = due, "waiting"
    yield _Piece(gap, _TONES[gap], at, (run["finished_at"] or at) if is_over else now, gap)


def _segments(pieces: Sequence[_Piece], whole: float) -> Iterator[SimpleNamespace]:
    room = WIDTH - _THINNEST * len(pieces)
    x = 0.0
    for piece in pieces:
        width = _THINNEST + max(0.0, room) * piece.seconds / whole
        title = f"{piece.what}: {duration(piece.seconds)}"
        place = {"x": round(x, 1), "width": round(width, 1)}
        yield SimpleNamespace(**place, kind=piece.kind, tone=piece.tone, title=title)
        x += width


def _shares(pieces: Sequence[_Piece], whole: float) -> Iterator[SimpleNamespace]:
    """All of one kind; percents of the whole are rounded."""
    for kind, meaning in KINDS.items():
        of_kind = [piece for piece in pieces if piece.kind == kind]
        if of_kind:
            seconds = sum(piece.seconds for piece in of_kind)
            tone = of_kind[-1].tone
            percent = round(100 * seconds / whole)
            yield SimpleNamespace(
                kind=kind, tone=tone, seconds=seconds, percent=percent, meaning=meaning
            )
