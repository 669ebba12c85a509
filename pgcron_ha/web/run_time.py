"""Where a run's time went: waiting, claimed, executing, backing off; as a bar and as sums.

Pure: what was read of the run and its attempts, and the clock, are arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from types import SimpleNamespace
from typing import Final, NamedTuple

from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import duration, mark_of, state_words

WIDTH: Final = 1000.0
# What took no time at all is drawn all the same.
_THINNEST: Final = 3.0
# Word, and what it means.
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
