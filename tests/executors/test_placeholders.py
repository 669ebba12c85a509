from __future__ import annotations

import time

import pytest

from pgcron_ha.errors import InvalidInput
from tests.executors.running import context
from tests.product.executors import MAX_VALUE_CHARACTERS, placeholder_texts

# Each goes back exponentially, or with a high power of the length, under Python's own `re`.
HARD = [
    ("([a-z0-9]+[.-]?)+", "a", "!"),
    ("(a|a)*", "a", "b"),
    ("(a|aa)+", "a", "b"),
    ("(a*)*b", "a", "c"),
    (r"([\w.]+\s?)*", "a", "\n!"),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a", ""),
    ("(.*)(.*)(.*)(.*)(.*)x", "a", "y"),
    (r"\s*\s*\s*\s*x", " ", "y"),
    ("((a{0,30}){0,30})*b", "a", "c"),
    ("(?:[^@]*[^.]*)*@", "ü", "."),
]


def text_of(pattern: str, value: str) -> str:
    return placeholder_texts({"p": pattern}, context(1, "shell:t", {"p": value}), "", False)["p"]


@pytest.mark.parametrize(("pattern", "text", "end"), HARD)
def test_a_value_is_matched_in_linear_time_whatever_the_pattern(
    pattern: str, text: str, end: str
) -> None:
    value = text * (MAX_VALUE_CHARACTERS - len(end)) + end
    began = time.process_time()
    with pytest.raises(InvalidInput, match="has the value"):
        text_of(pattern, value)
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize(
    ("pattern", "value", "fits"),
    [
        ("[a-z_]{1,63}", "orders_2", False),
        ("[a-z_]{1,63}", "orders", True),
        ("[a-z_]+", "orders\n", False),
        ("a|ab", "ab", True),
        (r"(?i)[a-zé]+", "ÉLA", True),
        (r"\d{4}-\d{2}", "2026-11", True),
    ],
)
def test_a_pattern_means_what_it_says_from_end_to_end(pattern: str, value: str, fits: bool) -> None:
    try:
        assert text_of(pattern, value) == value
    except InvalidInput:
        assert not fits
    else:
        assert fits
