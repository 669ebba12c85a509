from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.product.model import tables_of, total_growth
from tests.product.spec import in_bytes

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MIDNIGHT = NOW.replace(hour=0)


def part(relation: str, name: str, low: datetime | None, size: int, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "relation": relation,
        "name": name,
        "low": low,
        "high": None,
        "dropped_at": None,
    }
    row |= {"keep": None, "rows": 1, "dead": 0, "vacuumed_at": None}
    row |= {"heap": size, "indexes": 0, "toast": 0}
    if low is not None:
        row |= {"high": low + DAY, "keep": 30 * 86400.0}
    return row | more


def test_partitions_are_summed_and_the_largest_table_comes_first() -> None:
    run = part("run", "run", None, 5, indexes=3, toast=2, dead=7)
    later = part("log", "log_2", MIDNIGHT, 20, vacuumed_at=NOW)
    earlier = part("log", "log_1", MIDNIGHT - DAY, 10)
    before = part("log", "log_before", None, 1, high=MIDNIGHT - DAY, keep=30 * 86400.0)

    log, plain = tables_of([run, later, before, earlier])

    assert (log.name, log.total, log.is_partitioned, log.keep) == ("log", 31, True, 30 * DAY)
    assert [one.name for one in log.parts] == ["log_before", "log_1", "log_2"]
    assert log.vacuumed_at == NOW
    assert (plain.total, plain.dead, plain.is_partitioned) == (10, 7, False)


def test_growth_is_that_of_the_last_days_with_the_part_of_today() -> None:
    days = [part("log", f"d{ago}", MIDNIGHT - ago * DAY, 100) for ago in range(1, 7)]
    today = part("log", "today", MIDNIGHT, 50)
    ahead = part("log", "ahead", MIDNIGHT + DAY, 8)
    old = part("log", "old", MIDNIGHT - 20 * DAY, 100_000)

    (log,) = tables_of([*days, today, ahead, old])

    assert log.growth(NOW) == pytest.approx(100)
    assert log.expected(NOW) == pytest.approx(3000)
    assert total_growth([log], NOW) == pytest.approx(100)


def test_of_minutes_no_growth_is_told() -> None:
    (log,) = tables_of([part("log", "d", NOW - timedelta(minutes=5), 100)])

    assert (log.growth(NOW), log.expected(NOW), total_growth([log], NOW)) == (None, None, 0)
    assert tables_of([]) == ()


@pytest.mark.parametrize(
    ("count", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (99 * 1024, "99.0 KiB"),
        (340 * 2**20, "340 MiB"),
        (2**30 - 1, "1.0 GiB"),
        (2**63 - 1, "8192 PiB"),
    ],
)
def test_bytes_are_told_in_the_unit_that_fits(count: int, words: str) -> None:
    assert in_bytes(count) == words
