"""The independent look: what each schedule owed, by its spec alone, and what became of each fire.

It shares nothing with the materializer but the definition of a fire time. Every fire in the window
must stand exactly once in the database: as an occurrence or in one missed range. The run of an
occurrence must be alive or have ended, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from pgcron_ha.db import demo
from pgcron_ha.db.clients import Connection
from pgcron_ha.db.overview import Row
from pgcron_ha.errors import PgcronError
from pgcron_ha.model.schedule_spec import spec_of

LONGEST_WINDOW: Final = timedelta(hours=6)
"""A demo that ran for days is judged by its last hours."""

MOST_FIRES: Final = 30_000
_MOST_SCHEDULES: Final = 1000


class Entry(NamedTuple):
    """A fire in the ledger: the decision, the live state of its run, and how its run ended."""

    decision: str
    run_id: int | None
    state: str | None
    outcomes: Sequence[str]
    attempts: int


@dataclass(frozen=True)
class Account:
    """What became of the fires of one schedule.

    `outcomes` counts what ended, `waiting` what is alive; `retried` succeeded after a retry;
    `problems` are sentences about fires that are not accounted for.
    """

    schedule: str
    owed: int
    missed: int
    waiting: int
    retried: int
    outcomes: Mapping[str, int]
    problems: tuple[str, ...]


async def read_accounts(
    connection: Connection, schema: str, since: datetime, until: datetime
) -> list[Account]:
    """The account of each schedule for the fires in (since, until], from the last edit on.

    A paused or invalid schedule owes nothing.
    """
    accounts = []
    for schedule in await demo.definitions(connection, limit=_MOST_SCHEDULES, schema=schema):
        window = max(since, schedule["since"], until - LONGEST_WINDOW), until
        found = await demo.ledger(connection, schedule["id"], *window, schema=schema)
        missed = await demo.missed(connection, schedule["id"], *window, schema=schema)
        accounts.append(
            judge(
                schedule["name"],
                _owed(schedule, *window),
                {row["fire_at"]: _entry(row) for row in found},
                [(row["first_at"], row["last_at"]) for row in missed],
            )
        )
    return accounts


def judge(
    schedule: str,
    owed: Iterable[datetime],
    ledger: Mapping[datetime, Entry],
    missed: Sequence[tuple[datetime, datetime]],
) -> Account:
    """The account of one schedule: `owed` fires against the ledger and ranges of the same time."""
    fires = list(owed)
    outcomes: Counter[str] = Counter()
    waiting = retried = in_ranges = 0
    problems = [
        f"{fire.isoformat()} was decided, but the spec does not name it"
        for fire in sorted(set(ledger) - set(fires))
    ]
    for fire in fires:
        ranges = sum(first <= fire <= last for first, last in missed)
        entry = ledger.get(fire)
        in_ranges += bool(ranges)
        if entry is not None:
            outcomes.update(entry.outcomes or ([entry.decision] if entry.run_id is None else []))
            waiting += entry.state is not None
            retried += "succeeded" in entry.outcomes and entry.attempts > 1
        if problem := _problem(entry, ranges):
            problems.append(f"{fire.isoformat()} {problem}")
    return Account(schedule, len(fires), in_ranges, waiting, retried, outcomes, tuple(problems))


def _problem(entry: Entry | None, ranges: int) -> str | None:
    if entry is None:
        if ranges == 1:
            return None
        return f"lies in {ranges} missed ranges" if ranges else "was not decided"
    if ranges:
        return "stands in the ledger and in a missed range"
    if entry.run_id is None:
        return None
    endings = len(entry.outcomes) + (entry.state is not None)
    if endings == 1:
        return None
    if not endings:
        fate = "is nowhere"
    elif entry.state is not None:
        fate = "is alive and has ended"
    else:
        fate = f"ended {endings} times"
    return f"has the run {entry.run_id}, which {fate}"


def _owed(schedule: Row, since: datetime, until: datetime) -> list[datetime]:
    if not schedule["enabled"]:
        return []
    try:
        spec = spec_of(schedule)
    except PgcronError:
        return []
    return spec.between(since, until, MOST_FIRES)


def _entry(row: Row) -> Entry:
    return Entry(
        row["decision"], row["run_id"], row["state"], row["outcomes"], row["attempts"] or 0
    )
