"""What the list of runs reads: the statements of ``sql/pages_runs.sql``.

Nothing orders all runs by time, and no index knows every filter. So a page walks the runs by
number, the newest first, looks at no more than `LOOK` of each source, and says how far it came.
Those of one schedule are walked by their end, which an index orders.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from pgcron_ha.db.queries.pages.run import runs_of_ids
from pgcron_ha.db.queries.rows import BoundedPage, Query, Row, fetch
from pgcron_ha.model.run import RunOutcome

PAGE_ROWS: Final = 50
# Rows of one source that are looked at for one page: some ten milliseconds of an index's walk. Most
# filters fill a page with far fewer, so a short look comes first.
LOOK: Final = 20_000
SHORT_LOOK: Final = 1_000
# A request to search further reads more rows at once.
FURTHER_LOOK: Final = 50_000
# Numbers are given in the order in which runs are made, but for transactions that were open then.
NUMBERS_MARGIN: Final = 5_000
# Live runs of one schedule that its first page shows above those that have ended.
LIVE_ROWS: Final = 200
CHOICES: Final = 200
HIGHEST_ID: Final = 2**63 - 1
LONG_AGO: Final = datetime(1970, 1, 1, tzinfo=UTC)
FAR_AHEAD: Final = datetime(9000, 1, 1, tzinfo=UTC)

LIVE_WORDS: Final = ("running", "ready", "scheduled", "retrying", "blocked")
# What executed comes first.
ENDED_WORDS: Final = tuple(dict.fromkeys(("succeeded", "dead", "lost", *map(str, RunOutcome))))
STATE_WORDS: Final = (*LIVE_WORDS, *ENDED_WORDS)
"""What a run's state is called, and its outcome."""
# Groups of states that people ask for together; the dead of "attention" are not yet redriven.
STATE_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "attention": ("retrying", "blocked", "dead", "lost"),
    "running": ("running",),
    "waiting": ("ready", "scheduled", "retrying", "blocked"),
    "ended": ENDED_WORDS,
}

# What an index knows whatever waits, and what has a table of its own.
_INDEXED: Final = frozenset({"running", "blocked"})
_LETTERS: Final = frozenset({"dead", "lost"})


@dataclass(frozen=True)
class RunFilter:
    """Which runs: `states` are words of `STATE_WORDS`; None: any."""

    states: tuple[str, ...] = STATE_WORDS
    is_open: bool = False
    """Of the dead and the lost, only those that were not redriven."""
    queue: str | None = None
    handler: str | None = None
    schedule: str | None = None
    node: str | None = None
    error: str | None = None
    """A part of its error, or of why it was cancelled."""
    owner: str | None = None
    """Of its schedule, or else of its queue."""
    tags: tuple[str, ...] | None = None
    """Those that it has at least."""
    since: datetime = LONG_AGO
    until: datetime = FAR_AHEAD
    """Of its end, or of its start while it runs, or of when it is due while it waits."""
    rows: int = PAGE_ROWS
    """Of one page."""


@dataclass(frozen=True)
class Position:
    """Where a page begins: below a number of live and one of ended runs (0: there are none), or,
    of one schedule, before an end.
    """

    live: int = HIGHEST_ID
    ended: int = HIGHEST_ID
    at: datetime | None = None


RunPage: TypeAlias = BoundedPage[Position]
"""Of runs: ``id``, ``word`` (a state or outcome) and ``at``."""


@dataclass(frozen=True)
class _Scan:
    rows: list[Row]
    looked: int
    floor: int = 0
    """The lowest number that was looked at, if more may be below; else 0."""
    floor_at: datetime | None = None


_NOTHING: Final = _Scan([], 0)
_DAY: Final = timedelta(days=1)


async def newest_runs(
    connection: Any, wanted: RunFilter, position: Position, **options: Any
) -> RunPage:
    """Runs below a position."""
    most = LOOK if position == Position() else FURTHER_LOOK
    look = min(SHORT_LOOK, most)
    while True:
        live = await _live(connection, wanted, position.live, look, **options)
        ended = await _ended(connection, wanted, position.ended, look, **options)
        page = _merged(live, ended, position, wanted.rows)
        if not page.is_stopped or look == most:
            return page
        # Twice as far as it takes to fill the page, if what is beyond is like what was seen.
        look = min(most, 2 * look * wanted.rows // max(1, len(page.rows)))


def _merged(live: _Scan, ended: _Scan, position: Position, most: int) -> RunPage:
    rows = sorted((*live.rows, *ended.rows), key=lambda row: row["id"], reverse=True)
    shown = rows[:most]
    numbers = {row["id"] for row in shown}
    beyond = Position(
        _beyond(live, numbers, position.live), _beyond(ended, numbers, position.ended)
    )
    has_more = bool(beyond.live or beyond.ended)
    return RunPage(
        shown,
        beyond if has_more else None,
        live.looked + ended.looked,
        ended.floor_at,
        is_stopped=has_more and len(rows) <= most,
    )


def _beyond(scan: _Scan, shown: set[int], before: int) -> int:
    """Where the next page goes on with what was scanned."""
    mine = [row["id"] for row in scan.rows if row["id"] in shown]
    if len(mine) == len(scan.rows):
        return scan.floor
    return min(mine, default=before)


async def runs_of_schedule(
    connection: Any, schedule_id: int, wanted: RunFilter, position: Position, **options: Any
) -> RunPage:
    """Its ended runs by their end; the first page shows its live ones above them."""
    wanted = replace(wanted, schedule=None)  # it may have had another name
    options["schedule_id"] = schedule_id
    first: list[Row] = []
    if position.at is None:
        few = {"look": LIVE_ROWS, "limit": LIVE_ROWS}
        live = await _scan(connection, "page_runs_alive", wanted, indexed=False, **few, **options)
        first = sorted(live.rows, key=lambda row: (row["at"], row["id"]), reverse=True)
    most = LOOK if position.at is None else FURTHER_LOOK
    for look in (min(2 * wanted.rows, SHORT_LOOK), SHORT_LOOK, most):
        place = {"end_at": position.at or FAR_AHEAD, "before": position.ended, "look": look}
        scan = await _scan(connection, "page_runs_ended", wanted, **place, **options)
        if len(scan.rows) > wanted.rows or not scan.floor:
            break
    rows, is_full = scan.rows[: wanted.rows], len(scan.rows) > wanted.rows
    beyond = Position(0, scan.floor, scan.floor_at) if scan.floor else None
    if is_full:
        beyond = Position(0, rows[-1]["id"], rows[-1]["at"])
    is_stopped = bool(scan.floor) and not is_full
    return RunPage([*first, *rows], beyond, scan.looked, scan.floor_at, is_stopped)


async def detailed(connection: Any, page: RunPage, **options: Any) -> list[Row]:
    """The rows of a page with all that `runs_of_ids` knows of them; in the page's transaction."""
    ends = [row["at"] for row in page.rows if row["word"] in ENDED_WORDS]
    since, until = min(ends, default=LONG_AGO), max(ends, default=LONG_AGO)
    ids = [row["id"] for row in page.rows]
    found = await runs_of_ids(connection, ids, since=since, until=until, most=0, **options)
    known = {row["id"]: row for row in found}
    return [{**known[row["id"]], **row} for row in page.rows]


# Not a million schedules are read for it.
choices: Final = Query("page_run_choices", look=5_000, limit=CHOICES).the
"""A row of ``queues``, ``handlers``, ``nodes``, ``schedules`` to suggest."""

schedule_id: Final = Query("page_schedule_id").one
"""The `id` of the schedule called ``name``."""

_history_start: Final = Query("page_history_start").the

run_of_key: Final = Query("page_key_run").one
"""The `run_id` that a living idempotency ``key`` names, or that has the unique key now."""


async def _live(
    connection: Any, wanted: RunFilter, before: int, look: int, **options: Any
) -> _Scan:
    """The live runs that are wanted."""
    words = {word for word in wanted.states if word in LIVE_WORDS}
    if not words or not before:
        return _NOTHING
    indexed = words & _INDEXED if words != set(LIVE_WORDS) else set()
    found = walked = _NOTHING
    values: dict[str, Any] = {"before": before, "look": look, **options}
    if indexed:
        values |= {"states": indexed, "indexed": True}
        found = await _scan(connection, "page_runs_alive", wanted, **values)
        if found.floor:  # too many: the index has no order to page them by
            found, indexed = _NOTHING, set()
    if words - indexed:
        values |= {"states": words - indexed, "indexed": False}
        walked = await _scan(connection, "page_runs_alive", wanted, **values)
    # Below the floor of the walk nobody has looked at all of them.
    rows = [row for row in (*found.rows, *walked.rows) if row["id"] >= (walked.floor or 0)]
    return replace(walked, rows=rows, looked=found.looked + walked.looked)


async def _ended(
    connection: Any, wanted: RunFilter, before: int, look: int, **options: Any
) -> _Scan:
    """The ended runs that are wanted."""
    words = {word for word in wanted.states if word in ENDED_WORDS}
    if not words or not before:
        return _NOTHING
    values: dict[str, Any] = {"states": words, "before": before, "look": look, **options}
    if words <= _LETTERS and wanted.node is None:
        return await _scan(connection, "page_runs_ended", wanted, **values, of_letters=True)
    if wanted.until < FAR_AHEAD and before == HIGHEST_ID:
        start = await _history_start(connection, until=wanted.until, **options)
        values["before"] = start["id"] + NUMBERS_MARGIN
    return await _scan(connection, "page_runs_ended", wanted, **values)


async def _scan(connection: Any, name: str, wanted: RunFilter, **more: Any) -> _Scan:
    values: dict[str, Any] = {"look": LOOK, "limit": wanted.rows + 1, "before": HIGHEST_ID}
    values |= {"schedule_id": None, "end_at": FAR_AHEAD, "of_letters": False}
    # Bounds of the partitions of history, which are days, around the wanted time.
    values |= {"low": _midnight(wanted.since), "high": _midnight(wanted.until) + _DAY}
    values |= vars(wanted) | more
    values["states"] = sorted(values["states"])
    found = await fetch(connection, name, **values)
    rows = [row for row in found if row["id"] is not None]
    looked, floor, floor_at = (found[0][key] for key in ("looked", "floor", "floor_at"))
    if looked < values["look"]:
        return _Scan(rows, looked)
    return _Scan(rows, looked, floor, floor_at)


def _midnight(instant: datetime) -> datetime:
    return instant.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
