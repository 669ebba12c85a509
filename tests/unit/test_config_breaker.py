"""Which circuit breakers a node may declare."""

from __future__ import annotations

import pytest

from pgcron_ha import Breaker
from pgcron_ha.errors import ConfigError
from tests.product.config import declare


def test_handlers_that_fail_together_share_one_breaker() -> None:
    (reported,) = declare({"http:pay": Breaker(failures=3), "http:refund": "http:pay"})
    assert (reported["name"], reported["handlers"]) == ("http:pay", ["http:pay", "http:refund"])
    assert reported["failures"] == 3


def test_a_breaker_is_shared_only_where_there_is_one() -> None:
    with pytest.raises(ConfigError, match="'http:refund' shares the breaker of 'http:pay'"):
        declare({"http:refund": "http:pay"})


@pytest.mark.parametrize("fallback", ["http:pay", "http:refund"])
def test_a_fallback_has_another_breaker(fallback: str) -> None:
    breaker = Breaker(fallback={"handler": fallback})
    with pytest.raises(ConfigError, match=f"the fallback of 'http:pay' is '{fallback}'") as refused:
        declare({"http:pay": breaker, "http:refund": "http:pay"})
    assert refused.value.hint


def test_a_handler_with_a_long_name_may_be_the_fallback() -> None:
    longest = "py:" + 200 * "x"
    (reported,) = declare({"http:pay": Breaker(fallback={"handler": longest})})
    assert reported["fallback_handler"] == longest
    for long in (longest + "x", 20 * "k" + ":" + 186 * "x"):
        with pytest.raises(ConfigError, match="breaker: fallback is"):
            Breaker(fallback={"handler": long})


def test_another_handler_may_be_the_fallback() -> None:
    (reported,) = declare({"http:pay": Breaker(fallback={"handler": "py:later"})})
    assert reported["fallback_handler"] == "py:later"
