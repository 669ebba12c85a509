"""Where a run's time went: waiting, claimed, executing, backing off; as sums, and parts of a bar.

Pure: what was read of the run and its attempts, and the clock, are arguments.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Final

from pgcron_ha.db.queries.rows import Row
from pgcron_ha.web.formats import mark_of

WIDTH: Final = 1000.0
# What took next to no time is drawn all the same.
_THINNEST: Final = 3.0
# Word, and what it means.
KINDS: Final[dict[str, str]] = {
    "waiting": "due, and not yet claimed by a node",
    "claimed": "held by a node that had not begun",
    "executing": "the handler at work",
    "backing off": "between an attempt and the next claim",
}
_TONES: Final = {"waiting": "idle", "claimed": "late", "backing off": "retry"}


def where_time_went(run: Row, attempts: Sequence[Row], now: datetime) -> SimpleNamespace | None:
    """What a run (a row of `pgcron_ha.db.queries.pages.run`) did from when it was due until it
    ended, or until now; None: no time has passed yet.
    """
    tries = sorted(
        ({**one, "ended_at": one["ended_at"] or now} for one in tries_of(run, attempts)),
        key=lambda one: (one["attempt"], one["ended_at"]),
    )
    begin = _begin(run, tries, bool(attempts))
    sums: dict[str, float] = defaultdict(float)
    for kind, start, end in _pieces(run, tries, begin, now) if begin else ():
        if end > start:
            sums[kind] += (end - start).total_seconds()
    if not sums:
        return None
    return SimpleNamespace(
        shares=tuple(_shares(sums, tries)),
        seconds=sum(sums.values()),
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


def _pieces(
    run: Row, tries: Sequence[Row], begin: datetime, now: datetime
) -> Iterator[tuple[str, datetime, datetime]]:
    at, gap = begin, "waiting"
    for row in tries:
        start = row["started_at"] or row["ended_at"]
        yield gap, at, row["claimed_at"]
        yield "claimed", row["claimed_at"], start
        yield "executing", start, row["ended_at"]
        at, gap = max(at, row["ended_at"]), "backing off"
    is_over = run["finished_at"] is not None or run["state"] == "running"
    if gap == "backing off" and not is_over:  # until it is due again, then it waits
        due = max(at, min(run["due_at"], now))
        yield gap, at, due
        at, gap = due, "waiting"
    yield gap, at, (run["finished_at"] or at) if is_over else now


def _shares(sums: dict[str, float], tries: Sequence[Row]) -> Iterator[SimpleNamespace]:
    """All of one kind, and its place in the bar; percents of the whole are rounded."""
    whole, x = sum(sums.values()), 0.0
    for kind in filter(sums.get, KINDS):
        share = sums[kind] / whole
        width = _THINNEST + (WIDTH - _THINNEST * len(sums)) * share
        yield SimpleNamespace(
            kind=kind,
            tone=_TONES.get(kind) or mark_of(tries[-1]["outcome"]).tone,
            seconds=sums[kind],
            percent=round(100 * share),
            meaning=KINDS[kind],
            x=round(x, 1),
            width=round(width, 1),
        )
        x += width
