from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import TooLarge
from tests.product.model import MOST_INSTANTS, count, following
from tests.product.spec import Spec, parse_spec

SINCE = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 6, 1, tzinfo=UTC)
HOURLY = parse_spec("0 * * * *")
SPECS = (
    "0 * * * *",
    "every 7m",
    "0 9 * * mon-fri\nat 2026-01-03T09:00\nnot 2026-01-05",
    "*/10 * * * *\n*/15 * * * *",
)


def all_of(spec: Spec, until: datetime, direction: str, most: int) -> list[datetime]:
    found: list[datetime] = []
    is_last = False
    while not is_last:
        reached = found[-1] if found else None
        step, is_last = following(spec, reached, SINCE, until, direction, most)
        assert len(step) <= most
        found += step
    return found


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SPECS), st.integers(1, 6 * 86_400), st.integers(1, 50), st.booleans())
def test_both_directions_give_the_instants_of_the_range_each_once(
    text: str, seconds: int, most: int, is_backward: bool
) -> None:
    spec, until = parse_spec(text), SINCE + timedelta(seconds=seconds)
    expected = [f for f in spec.between(SINCE - timedelta(seconds=1), until, 10_000) if f < until]

    found = all_of(spec, until, "backward" if is_backward else "forward", most)

    assert found == (expected[::-1] if is_backward else expected)
    assert sum(count(spec, SINCE, until)) == len(expected)


def test_a_range_begins_with_since_and_ends_before_until() -> None:
    until = SINCE + timedelta(hours=3)

    assert sum(count(HOURLY, SINCE, until)) == 3
    assert following(HOURLY, None, SINCE, until, "forward", 1) == ([SINCE], False)
    assert following(HOURLY, None, SINCE, until, "backward", 1)[0] == [SINCE + timedelta(hours=2)]


def test_a_range_without_an_instant_has_none() -> None:
    moment = SINCE + timedelta(minutes=1)

    assert sum(count(HOURLY, moment, moment + timedelta(minutes=9))) == 0


@pytest.mark.long
@pytest.mark.parametrize("text", ["every 1s", "* * * * * *\nnot 2026-01-05", "every 2s\nevery 3s"])
def test_more_than_a_million_instants_are_refused_with_the_count(text: str) -> None:
    with pytest.raises(TooLarge, match=f"more than {MOST_INSTANTS} instants"):
        sum(count(parse_spec(text), SINCE, NOW))
