"""What a run requires of its node, as Python says it."""

from __future__ import annotations

from typing import Any

import pytest

from pgcron_ha.client.requirements import requirement_words
from pgcron_ha.client.run_request import request_run
from pgcron_ha.errors import InvalidInput


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, None),
        ({}, None),
        ([], None),
        ({"gpu": "a100", "ssd": True}, ("gpu=a100", "ssd")),
        (["zone=eu", "gpu"], ("gpu", "zone=eu")),
        (("image=ghcr.io/a:1+b",), ("image=ghcr.io/a:1+b",)),
    ],
)
def test_labels_are_said_as_a_mapping_or_a_list(given: Any, words: Any) -> None:
    assert requirement_words(given) == words


@pytest.mark.parametrize(
    "given",
    [
        "gpu=a100",
        7,
        {"gpu": False},
        {"gpu": 1},
        {1: "gpu"},
        ["gpu=a100", "gpu=h100"],
        ["gpu", "gpu=h100"],
        ["gpu="],
        [1],
        ["a b"],
        [f"k{n}" for n in range(17)],
    ],
)
def test_what_is_no_list_of_labels_is_refused_with_the_rule(given: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a list of labels") as refusal:
        requirement_words(given)

    assert "key=value" in (refusal.value.detail or "")
    assert refusal.value.hint


def test_a_request_says_what_it_requires_and_only_then() -> None:
    assert '"requires":["gpu=a100"]' in request_run("py:a", requires={"gpu": "a100"}).as_json()
    assert "requires" not in request_run("py:a").as_json()
