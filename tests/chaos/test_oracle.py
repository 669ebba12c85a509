from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.chaos.checking.oracle import is_fire
from tests.chaos.schedules import SPECS, ZONES
from tests.product.spec import DstPolicy, parse_spec

BEGIN = datetime(2026, 11, 21, 17, 59, 50, tzinfo=UTC)
SECONDS = 200


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("timezone", ZONES)
def test_the_oracle_and_the_product_agree_where_nothing_is_broken(spec: str, timezone: str) -> None:
    """They share no code; where they differ, one of them is wrong."""
    parsed = parse_spec(spec, timezone, DstPolicy.parse("vixie"))
    end = BEGIN + timedelta(seconds=SECONDS)
    product = {int(fire.timestamp()) for fire in parsed.between(BEGIN, end, SECONDS + 1)}
    first = int(BEGIN.timestamp())

    oracle = {
        second
        for second in range(first + 1, first + SECONDS + 1)
        if is_fire(spec, timezone, second)
    }

    assert oracle == product


def test_fields_are_tested_each() -> None:
    at = int(datetime(2026, 11, 21, 18, 30, 7, tzinfo=UTC).timestamp())  # a Saturday

    assert is_fire("7 30 18 21 11 6", "UTC", at)
    assert not is_fire("7 30 18 21 11 0", "UTC", at)
    assert is_fire("7 0 0 22 11 0", "Asia/Kolkata", at)
    assert is_fire("1-9/2,30 * * * * *", "UTC", at)
    assert not is_fire("1-9/3 * * * * *", "UTC", at + 1)
