from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.product.model import tables_of
from tests.product.spec import in_bytes

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
DAY_SECONDS = 86400.0


def part(relation: str, name: str, size: int, **more: Any) -> dict[str, Any]:
    row: dict[str, Any] = {"relation": relation, "partition": name, "keep": None, "recent": None}
    row |= {"rows": 1, "dead": 0, "vacuumed_at": None}
    row |= {"heap": size, "indexes": 0, "toast": 0, "total": size}
    return row | more


def partition(name: str, size: int, **more: Any) -> dict[str, Any]:
    return part("log", name, size, keep=30 * DAY_SECONDS, **more)


def test_partitions_are_summed_and_the_largest_table_comes_first() -> None:
    run = part("run", "run", 5, indexes=3, toast=2, total=10, dead=200_000)
    before, earlier = partition("log_before", 1), partition("log_1", 10)
    later = partition("log_2", 20, vacuumed_at=NOW)

    log, plain = tables_of([before, earlier, later, run])

    assert (log["table"], log["total"], log["partitions"]) == ("log", 31, 3)
    assert (log["kept"], log["vacuumed_at"]) == (timedelta(days=30), NOW)
    assert [one["partition"] for one in log["parts"]] == ["log_before", "log_1", "log_2"]
    assert (plain["total"], plain["partitions"], plain["kept"]) == (10, None, None)
    assert (plain["dead"], plain["has_dead_rows"], log["has_dead_rows"]) == (200_000, True, False)


def test_growth_is_that_of_the_last_days_with_the_part_of_today() -> None:
    days = [partition(f"d{ago}", 100, recent=DAY_SECONDS) for ago in range(1, 7)]
    today = partition("today", 50, recent=DAY_SECONDS / 2)
    ahead, old = partition("ahead", 8), partition("old", 100_000)

    (log,) = tables_of([old, *days, today, ahead])

    assert (log["a_day"], log["comes_to"]) == (100, pytest.approx(3000))


def test_of_minutes_no_growth_is_told() -> None:
    (log,) = tables_of([partition("d", 100, recent=300.0)])

    assert (log["a_day"], log["comes_to"]) == (None, None)
    assert tables_of([]) == []


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
