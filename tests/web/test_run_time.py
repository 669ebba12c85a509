"""Pure parts of the pages of runs: the time bar, times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidInput
from tests.product.web import PLOTS_WIDTH as WIDTH
from tests.product.web import where_time_went, written_instant

START = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def run(**facts: Any) -> dict[str, Any]:
    known = {"scheduled_for": START, "created_at": at(-60), "due_at": START, "attempt": 0}
    times = dict.fromkeys(("claimed_at", "started_at", "finished_at"))
    return {"state": "ready", **known, **times, **facts}


def attempt(number: int, claimed: float, started: float | None, ended: float) -> dict[str, Any]:
    return {
        "attempt": number,
        "outcome": "failed",
        "claimed_at": at(claimed),
        "started_at": None if started is None else at(started),
        "ended_at": at(ended),
    }


def shares(facts: dict[str, Any], attempts: list[dict[str, Any]], now: float) -> dict[str, float]:
    bar = where_time_went(facts, attempts, at(now))
    assert bar is not None
    return {share.kind: share.seconds for share in bar.shares}


def test_the_time_of_a_run_is_divided_without_a_rest() -> None:
    succeeded = run(
        state="succeeded",
        attempt=2,
        due_at=at(19),
        claimed_at=at(20),
        started_at=at(21),
        finished_at=at(30),
    )
    failed = [attempt(1, 4, 5, 10)]

    assert shares(succeeded, failed, 99) == {
        "waiting": 4,
        "claimed": 2,
        "executing": 14,
        "backing off": 10,
    }


def test_what_is_alive_is_counted_until_now() -> None:
    running = run(state="running", attempt=1, claimed_at=at(1), started_at=at(3))
    retrying = run(attempt=1, due_at=at(20))

    assert shares(running, [], 10) == {"waiting": 1, "claimed": 2, "executing": 7}
    assert shares(run(), [], 10) == {"waiting": 10}
    assert shares(retrying, [attempt(1, 1, 1, 10)], 25) == {
        "waiting": 1 + 5,
        "executing": 9,
        "backing off": 10,
    }


def test_an_attempt_that_never_began_was_only_claimed() -> None:
    dead = run(state="dead", attempt=1, claimed_at=at(2), finished_at=at(12))

    assert shares(dead, [attempt(1, 2, None, 12)], 99) == {"waiting": 2, "claimed": 10}


def test_a_run_that_is_not_due_has_no_bar() -> None:
    assert where_time_went(run(due_at=at(100), scheduled_for=at(100)), [], at(50)) is None


@given(st.lists(st.floats(0, 1e6), min_size=3, max_size=90), st.integers(0, 30))
def test_the_bar_is_as_wide_as_it_is_drawn(gaps: list[float], count: int) -> None:
    times = [sum(gaps[: n + 1]) for n in range(len(gaps))]
    triples = list(zip(times[::3], times[1::3], times[2::3], strict=False))[:count]
    attempts = [attempt(n + 1, *triple) for n, triple in enumerate(triples)]

    bar = where_time_went(run(attempt=len(attempts)), attempts, at(times[-1] + 1))

    assert bar is not None
    assert sum(segment.width for segment in bar.segments) == pytest.approx(WIDTH, abs=10)
    assert sum(share.seconds for share in bar.shares) == pytest.approx(bar.seconds)
    assert abs(sum(share.percent for share in bar.shares) - 100) <= 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90m", at(-90 * 60)),
        ("7 d", at(-7 * 86400)),
        ("2026-11-21 07:00", START),
        ("2026-11-21T06:00:00Z", START),
        ("2026-11-21T07:00+01:00", START),
        ("2026-11-21", START - timedelta(hours=7)),
        ("07:00", START),
        ("yesterday 07:00", START - timedelta(days=1)),
    ],
)
def test_times_are_read_as_people_write_them(text: str, expected: object) -> None:
    assert written_instant(text, ZoneInfo("Europe/Berlin"), START) == expected


@pytest.mark.parametrize(
    "text", ["", "soon", "1y", "-5m", "999999d", "2026-02-30", "0001-01-01", "9999-12-31", "٣h"]
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not a time"):
        written_instant(text, ZoneInfo("Europe/Berlin"), START)
