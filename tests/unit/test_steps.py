"""What computing a spec costs is bounded by steps, whatever somebody wrote."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from pgcron_ha.errors import InvalidSpec
from tests.product.engine import compute
from tests.product.model import MOST_STEPS_OF_PLAN, plan
from tests.product.spec import (
    FEW_STEPS,
    LATEST,
    MOST_STEPS,
    FireRule,
    Spec,
    TakesLong,
    parse_spec,
    preview,
    quickly,
    spent,
)

NOW = datetime(2026, 11, 22, 20, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("*/33 */58 */44 28 6,10 5,3\nonly in c, move next", "yearly easter+1"),
        ("*/33 */58 */44 28 6,10 5,3\nonly in c, move previous", "yearly 02-29"),
        ("0 0 29 2 *\nonly in c, move next", "yearly 02-28"),
        ("0 * * * *\nnot * 0-7 * * *\nonly in c, move next", "yearly 12-25"),
        ("rrule FREQ=WEEKLY;BYMONTH=2;BYSETPOS=366", "sun"),
        ("rrule FREQ=YEARLY;BYDAY=53MO;BYMONTHDAY=1", "sun"),
        ("rrule FREQ=DAILY;BYHOUR=5;BYDAY=MO;BYSETPOS=2", "sun"),
        ("* * * * *\nnot 0-58 * * * *\nnot 59 0-22 * * *\nnot 59 23 1-30 * *", "sun"),
        ("every 1s\nonly in c\nnot * * 2-31 * *", "\n".join(["yearly 02-29"] * 4000)),
    ],
)
def test_what_fires_never_or_hardly_ever_costs_few_steps(text: str, days: str) -> None:
    begin = spent()
    calendars = (("c", days),)
    with suppress(InvalidSpec):
        parse_spec(text, "Europe/Berlin", calendars=calendars).next(NOW)
    assert spent() - begin <= MOST_STEPS


@pytest.mark.parametrize("rule", ["0 * * * *", "every 1h"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Africa/Casablanca"])
def test_all_fires_of_months_may_move_to_one_day(rule: str, zone: str) -> None:
    spec = parse_spec(f"{rule}\nonly in c, move next", zone, calendars=(("c", "yearly 12-25"),))
    local = parse_spec("0 0 25 12 *", zone).next(NOW)
    assert local is not None
    begin = spent()
    fires = spec.between(NOW, local + timedelta(days=2), 2000)
    assert fires == [local + timedelta(hours=hour) for hour in range(24)]
    assert spent() - begin < 12 * len(fires) + 2 * MOST_STEPS


def test_a_rule_that_fires_once_in_centuries_costs_the_others_little() -> None:
    text = "0 4,5,20 * 6,7,11 *\nrrule FREQ=YEARLY;INTERVAL=999;BYDAY=-34MO,52MO;BYHOUR=12"
    now = datetime(2044, 7, 4, 16, 54, 19, tzinfo=UTC)
    days = (("c", "yearly 06-10..07-03"),)
    spec = parse_spec(f"{text}\nonly in c, move previous", "Europe/Berlin", calendars=days)
    begin = spent()
    made = plan(
        *(spec, now - timedelta(days=100), now, now, "latest"),
        *(timedelta(days=40), timedelta(seconds=10), 1000),
    )
    assert made.fires == [spec.previous(now)]
    assert spent() - begin < 4 * MOST_STEPS
    plain = parse_spec(text, "Europe/Berlin")
    begin = spent()
    assert plain.next(now) == datetime(2044, 7, 4, 18, tzinfo=UTC)
    assert spent() - begin < 10


def test_a_high_nth_of_a_rare_line_is_found_year_by_year() -> None:
    begin = spent()
    found = parse_spec("every 9999th of 58 11 25 * *").next(NOW)
    assert found == datetime(2803, 4, 25, 11, 58, tzinfo=UTC)
    assert spent() - begin < MOST_STEPS


@pytest.mark.parametrize(
    "text",
    [
        "rrule FREQ=MONTHLY;BYDAY=10MO",
        "rrule FREQ=MONTHLY;BYDAY=-6FR",
        "rrule FREQ=YEARLY;BYDAY=53SU;BYMONTH=12",
        "rrule FREQ=MONTHLY;BYDAY=1MO,20FR",
    ],
)
def test_more_weekdays_than_a_month_has_are_refused(text: str) -> None:
    with pytest.raises(InvalidSpec, match='"BYDAY" is not valid') as refusal:
        parse_spec(text)
    assert refusal.value.detail == "no month has more than five of a weekday: -5 to 5"
    assert parse_spec("rrule FREQ=YEARLY;BYDAY=53SU").next(NOW) is not None


@dataclass(frozen=True)
class _Broken(FireRule):
    """A rule whose evaluation fails, as a library's did."""

    def next(self, after: datetime, until: datetime) -> datetime | None:
        raise IndexError("list index out of range")

    def count(self, after: datetime, until: datetime, most: int) -> int:
        raise IndexError("list index out of range")


def test_any_error_of_an_evaluation_is_one_of_its_spec() -> None:
    spec = replace(parse_spec("@daily"), rules=(_Broken("broken"),))
    for evaluate in (
        lambda: spec.next(NOW),
        lambda: spec.previous(NOW),
        lambda: spec.count(NOW, NOW + timedelta(days=1), 10),
        lambda: spec.between(NOW, NOW + timedelta(days=1), 10),
    ):
        with pytest.raises(InvalidSpec, match="IndexError: list index out of range"):
            evaluate()


# Its fires cost some hundred steps each.
COSTLY = "@hourly\nnot 0 0-11 * * *\nnot 0 13-23 * * *\nnot 0 12 1-14 * *"


def _costly() -> Spec:
    return parse_spec(COSTLY, "Europe/Berlin")


@pytest.mark.parametrize("catchup", ["all", "latest 100", "latest", "none"])
def test_a_plan_leaves_what_takes_long_to_the_next_one(catchup: str) -> None:
    spec, watermark = _costly(), NOW - timedelta(days=300)
    fires: list[datetime] = []
    first = spec.next(watermark)
    for _ in range(20):
        begin = spent()
        made = plan(
            spec, watermark, NOW, NOW, catchup, timedelta(days=400), timedelta(seconds=10), 1000
        )
        assert spent() - begin < 3 * MOST_STEPS_OF_PLAN + 8 * MOST_STEPS
        assert made.fires or made.watermark == NOW
        assert made.next_fire is not None
        assert made.next_fire > made.watermark
        fires += made.fires
        watermark = made.watermark
        if watermark == NOW:
            break
    assert watermark == NOW
    if catchup == "all":
        assert len(fires) > 100
        assert fires[0] == first
        assert all(spec.next(earlier) == later for earlier, later in pairwise(fires))
    elif catchup == "none":
        assert fires == []
    else:
        assert fires[-1] == spec.previous(NOW)


def test_a_plan_that_has_used_up_its_steps_counts_no_more() -> None:
    """Counting what is too old takes them all, so that what is superseded is not counted."""
    days = "\nnot 0 12 1-24 * *"
    spec = parse_spec(f"{COSTLY}\nnot 1-59 * * * *{days}", "Europe/Berlin")
    begin = spent()
    made = plan(
        *(spec, NOW - timedelta(days=300), NOW, NOW, "latest"),
        *(timedelta(days=150), timedelta(seconds=10), 1000),
    )
    assert [one.count for one in made.missed] == [None, None]
    assert spent() - begin < 7 * MOST_STEPS


def test_a_preview_shows_fewer_fires_when_they_take_long() -> None:
    begin = spent()
    shown = preview(_costly(), NOW, 1000)
    assert spent() - begin < 4 * MOST_STEPS
    assert 10 < len(shown.fires) < 1000
    assert not shown.is_over


async def test_what_takes_long_is_computed_beside_the_loop() -> None:
    spec = _costly()
    loop_thread = threading.get_ident()

    def fires() -> tuple[int, int]:
        return len(spec.between(NOW, LATEST, 100)), threading.get_ident()

    number, thread = await compute(fires)
    assert (number, thread != loop_thread) == (100, True)
    begin = spent()
    with pytest.raises(TakesLong), quickly():
        fires()
    assert spent() - begin <= FEW_STEPS + 100
    assert await compute(threading.get_ident) == loop_thread
