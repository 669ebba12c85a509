from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.product.model import MARKS, judge

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def schedule(**changes: Any) -> dict[str, Any]:
    """A healthy schedule that fires each hour and ran 30 times; `outcomes` sets its runs."""
    outcomes = changes.pop("outcomes", ["succeeded"] * 30)
    seconds = changes.pop("seconds", [10.0] * len(outcomes))
    last = changes.pop("last", NOW - 20 * MINUTE)
    row = {
        "name": "hourly",
        "status": "valid",
        "error": None,
        "enabled": True,
        "spec": "0 * * * *",
        "timezone": "UTC",
        "dst": "vixie",
        "calendars": None,
        "is_completed": False,
        "max_runs": None,
        "jitter": 0.0,
        "paused_by": None,
        "paused_note": None,
        "paused_until": None,
        "created_at": NOW - timedelta(days=30),
        "updated_at": NOW - timedelta(days=30),
        "since": NOW - timedelta(days=30),
        "oldest_late": None,
        "late_fires": 1,
        "running_id": None,
        "running_since": None,
        "running_timeout": None,
        "running_runs": 0,
        "running_has_lease": None,
        "outcomes": outcomes or None,
        "finished": [last - timedelta(hours=age) for age in range(len(outcomes))],
        "durations": seconds,
        "errors": ["boom" if outcome in ("dead", "lost") else None for outcome in outcomes],
    }
    return row | changes


WORKDAYS = {"spec": "0 9 * * *\nnot in weekend", "calendars": '{"weekend": "sat,sun"}'}
RUNNING = {"running_id": 7, "running_runs": 1, "running_timeout": 600.0}


@pytest.mark.parametrize(
    ("word", "row"),
    [
        ("ok", schedule()),
        ("stale", schedule(last=NOW - timedelta(hours=9))),
        ("ok", schedule(last=NOW - timedelta(hours=9), jitter=86_400.0)),
        ("ok", schedule(last=NOW - timedelta(hours=9), is_completed=True, max_runs=30)),
        ("ok", schedule(outcomes=["skipped", "succeeded"])),
        ("failing", schedule(outcomes=["dead", "dead", "succeeded"])),
        ("failing", schedule(outcomes=["skipped", "lost"])),
        ("failing", schedule(outcomes=["dead"], enabled=False)),
        ("ok", schedule(outcomes=["succeeded", "dead"])),
        ("invalid", schedule(status="invalid", error="no such zone", outcomes=["dead"])),
        ("stuck", schedule(**RUNNING, running_since=NOW - 11 * MINUTE, running_has_lease=True)),
        ("stuck", schedule(**RUNNING, running_since=NOW - MINUTE, running_has_lease=False)),
        ("ok", schedule(**RUNNING, running_since=NOW - 9 * MINUTE, running_has_lease=True)),
        ("late", schedule(oldest_late=NOW - 6 * MINUTE)),
        ("ok", schedule(oldest_late=NOW - 4 * MINUTE)),
        ("late", schedule(spec="every 1m", oldest_late=NOW - timedelta(seconds=11), last=NOW)),
        ("ok", schedule(spec="every 1m", oldest_late=NOW - timedelta(seconds=9), last=NOW)),
        ("stale", schedule(last=NOW - timedelta(hours=3))),
        ("stale", schedule(outcomes=[], since=NOW - timedelta(hours=3))),
        ("ok", schedule(last=NOW - timedelta(hours=2))),
        ("stale", schedule(**WORKDAYS, last=NOW - timedelta(days=7))),
        ("ok", schedule(**WORKDAYS, last=NOW - timedelta(days=4))),
        ("slow", schedule(seconds=[200.0, *[10.0] * 29])),
        ("ok", schedule(seconds=[60.0, *[10.0] * 29])),
        ("flaky", schedule(outcomes=["succeeded"] * 26 + ["dead"] * 4)),
        ("paused", schedule(enabled=False)),
        ("new", schedule(outcomes=[], since=NOW - MINUTE, created_at=NOW - MINUTE)),
    ],
)
def test_health_is_the_gravest_word_that_holds(word: str, row: dict[str, Any]) -> None:
    found = judge(row, NOW)

    assert found.word == word, found
    assert found.word in MARKS
    assert found.reason


def test_failures_are_counted_without_what_was_skipped_and_name_the_newest_error() -> None:
    found = judge(schedule(outcomes=["dead", "skipped", "lost", "succeeded", "dead"]), NOW)

    assert found.reason == "2 failures in a row: boom"
    assert found.since == NOW - 20 * MINUTE - timedelta(hours=2)


@pytest.mark.parametrize(
    ("outcomes", "many"),
    [
        (["dead"] * 3, "3"),
        (["dead"] * 29 + ["skipped"], "29+"),
        (["dead"] * 30, "30+"),
        (["dead"] * 29 + ["succeeded"], "29"),
    ],
)
def test_more_failures_are_supposed_only_where_older_runs_were_not_read(
    outcomes: list[str], many: str
) -> None:
    assert judge(schedule(outcomes=outcomes), NOW).reason == f"{many} failures in a row: boom"


def test_a_spec_that_nobody_can_read_does_not_stop_the_judgement() -> None:
    assert judge(schedule(spec="nonsense"), NOW).word == "ok"


@pytest.mark.parametrize(
    ("fires", "running", "said"),
    [
        (1, False, "A fire waits for 6 m."),
        (2, False, "2 fires wait, the first for 6 m."),
        (1, True, "A fire waits for 6 m while run 7 runs."),
        (12, True, "12 fires wait, the first for 6 m while run 7 runs."),
        (1000, True, "1 000 fires or more wait, the first for 6 m while run 7 runs."),
    ],
)
def test_how_many_fires_wait_is_said(fires: int, running: bool, said: str) -> None:
    executed = RUNNING | {"running_since": NOW - MINUTE, "running_has_lease": True}
    late = schedule(oldest_late=NOW - 6 * MINUTE, late_fires=fires, **(executed if running else {}))

    assert judge(late, NOW).reason.replace("\N{NARROW NO-BREAK SPACE}", " ") == said


@pytest.mark.parametrize(
    "calendars", ["5", "[1]", '{"weekend": 5}', '{"weekend":' * 3000 + "1" + "}" * 3000]
)
def test_calendars_that_nobody_can_read_do_not_stop_the_judgement(calendars: str) -> None:
    assert judge(schedule(**WORKDAYS | {"calendars": calendars}), NOW).word == "ok"
