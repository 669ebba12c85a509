from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.product.config import choice, directory, duration, integer, parse_duration, text_list
from tests.product.spec import duration_text


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("15s", 15.0),
        ("500ms", 0.5),
        ("30m", 1800.0),
        ("1h30m", 5400.0),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
        ("1w", 604800.0),
        ("1m500ms", 60.5),
        ("0s", 0.0),
    ],
)
def test_a_duration_says_its_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text",
    ["", "15", "s", "-5s", "15 s", "30s1m", "1h1h", "1y", "5S", "1h30", "٣s", "1e3s", "s" * 10_000],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="with its unit"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=10**12))
def test_a_written_duration_is_read_as_itself(milliseconds: int) -> None:
    seconds = milliseconds / 1000

    assert parse_duration(duration_text(seconds)) == pytest.approx(seconds, abs=0.0005)


def test_the_bounds_of_a_duration_are_allowed_and_nothing_beyond() -> None:
    read = duration("1s", "5m")

    assert [read("1s"), read(" 5m ")] == [1.0, 300.0]
    for raw in ("999ms", "301s", 15, None, True):
        with pytest.raises(ValueError, match=r"duration (from 1s to 5m|with its unit)"):
            read(raw)


def test_a_whole_number_comes_as_number_or_text() -> None:
    read = integer(1, 10)

    assert [read(10), read("1"), read(" +7 ")] == [10, 1, 7]
    for raw in (0, 11, "11", "3.5", 3.5, True, None, "", "9" * 30):
        with pytest.raises(ValueError, match="a whole number from 1 to 10"):
            read(raw)


def test_a_list_comes_from_a_file_or_from_one_variable() -> None:
    read = text_list(r"[a-z]+", "a word of letters", may_be_empty=False)

    assert read(["b", "a"]) == ("b", "a")
    assert read("b, a,") == ("b", "a")
    for raw, expected in (
        ([], "at least one"),
        ("", "at least one"),
        (["a", "a"], "twice"),
        (["a", 1], "a word of letters"),
        ({"a": 1}, "a list"),
        (["a"] * 201, "at most 200"),
    ):
        with pytest.raises(ValueError, match=expected):
            read(raw)


def test_a_choice_is_one_of_its_words_in_any_case() -> None:
    assert choice(("text", "json"))("JSON") == "json"
    with pytest.raises(ValueError, match="one of text, json"):
        choice(("text", "json"))("yaml")


def test_a_directory_is_absolute() -> None:
    assert directory("~/state") == Path.home() / "state"
    for raw in ("state", "", 5, None):
        with pytest.raises(ValueError, match="an absolute path"):
            directory(raw)
