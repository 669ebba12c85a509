"""Lies about a valid history, and whether a checker sees them."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from functools import cache
from typing import TypeAlias

import pytest

from tests.chaos.checking.history import Facts, History
from tests.chaos.checking.verdict import check
from tests.chaos.synthetic import valid_history

Lie: TypeAlias = Callable[[History, random.Random], bool]
"""Changes the history; False when there is nothing in it to lie about."""

CASES = 8
SEEDS = 400


def tell(checker: str, lie: Lie) -> None:
    """In several histories: this checker must see it in each."""
    reported = 0
    for seed in range(SEEDS):
        history = copy_of(seed)
        if not lie(history, random.Random(seed)):
            continue
        changed = History(history.events, history.tables, ttl=history.ttl)
        found = check(changed).broken
        assert any(problem.startswith(f"{checker}:") for problem in found), (seed, found)
        reported += 1
        if reported == CASES:
            return
    pytest.fail(f"only {reported} of {SEEDS} histories let this lie be told")


@cache
def _made(seed: int) -> bytes:
    return pickle.dumps(valid_history(seed))


def copy_of(seed: int) -> History:
    """Read from bytes, which takes an eighth of the time of a deep copy."""
    copy: History = pickle.loads(_made(seed))
    return copy


def some(history: History, table: str, chance: random.Random, **wanted: object) -> Facts | None:
    rows = [
        row
        for row in history.table(table)
        if all(row.get(key) == value for key, value in wanted.items())
    ]
    return chance.choice(rows) if rows else None


def began(history: History, run: int, fence: int, attempt: int, at: float) -> None:
    claim = {
        "run": run,
        "fence": fence,
        "attempt": attempt,
        "pid": 77,
        "node": "n9",
        "concurrency_key": None,
    }
    history.events.append({"kind": "start", "at": at, "key": "", "fire": None, **claim})
    history.events.append({"kind": "stopped", "at": at + 0.1, **claim})


def has_ticks(history: History, fence: int) -> bool:
    """Long enough to be seen beside another, and not frozen."""
    events = [e for e in history.events if e.get("fence") == fence]
    frozen = {event["of"] for event in history.of("freeze")}
    return len(events) > 2 and events[0]["pid"] not in frozen
