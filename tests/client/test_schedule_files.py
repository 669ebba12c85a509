"""Files of schedules: written and read back, as the published form has them."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pgcron_ha.errors import InvalidInput, TooLarge
from tests.product.client import DEFAULTS
from tests.product.schedule_files import (
    KEYS,
    MOST_VALUES,
    POLICIES,
    as_yaml,
    definition_of,
    json_schema,
    judged_schedule,
    read_yaml,
)

VALIDATOR = jsonschema.Draft202012Validator(json_schema())
DEFAULT: dict[str, Any] = {
    **dict.fromkeys(POLICIES),
    **DEFAULTS,
    "retry": None,
    "requires": None,
    "tags": None,
    "links": None,
    "enabled": True,
}

_words = st.text(
    st.characters(codec="utf-8", exclude_characters="\x00", exclude_categories=["Cs"]), max_size=12
)
_tricky = st.sampled_from(
    ["no", "on", "~", "null", "1e3", "0x1F", "1_000", "1:30", "2026-01-01", "<<", "- a", "a: b",
     "#x", "'", '"', " x", "x ", "a\nb", "=", "!x", "&a", "*a", "%", "@x", "`", "\u00a0", "\u2028",
     ".5", "0o7", "TRUE", "007"]
)  # fmt: skip
_text = st.one_of(_words, _tricky)
_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(10**15), 10**15), _text),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_text, inner, max_size=3)),
    max_leaves=6,
)
_seconds = st.integers(1, 86_400_000).map(lambda ms: timedelta(milliseconds=ms))
_rows = st.fixed_dictionaries(
    {
        "spec": st.sampled_from(["0 3 * * *", "every 90m", "@daily\nnot 2026-12-24", "@hourly"]),
        "handler": st.sampled_from(["py:x", "shell:tidy-up"]),
        "overlap": st.sampled_from(["allow", "queue"]),
    },
    optional={
        "args": st.dictionaries(_text, _json, max_size=3).map(json.dumps),
        "timezone": st.sampled_from(["UTC", "Europe/Berlin"]),
        "dst": st.sampled_from(["vixie", "skip"]),
        "priority": st.integers(0, 9),
        "enabled": st.booleans(),
        "catchup": st.sampled_from(["none", "latest 3"]),
        "catchup_window": _seconds,
        "start_deadline": _seconds,
        "timeout": _seconds,
        "max_attempts": st.integers(1, 100),
        "retry": st.just('{"backoff": "linear"}'),
        "concurrency_key": _text.filter(
            lambda concurrency_key: (
                concurrency_key.strip()
                and concurrency_key.isprintable()
                and "*" not in concurrency_key
            )
        ),
        "requires": st.just(["gpu=a100"]),
        "weight": st.integers(1, 1000),
        "owner": _text.filter(lambda owner: owner.strip() != "" and owner.isprintable()),
        "description": st.sampled_from(["Sends what is due.", "Two\nlines: one, two"]),
        "tags": st.just(["nightly", "team:billing"]),
        "links": st.just('{"runbook": "https://wiki.example/x?a=b#c"}'),
    },
)
_names = _text.filter(lambda name: name.strip() != "" and name.isprintable())


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.dictionaries(_names, _rows, max_size=3))
@example({"long": {"spec": "@daily", "handler": "py:x", "args": f'{{"n": [{10**29 + 1}]}}'}})
def test_what_is_written_is_read_back_and_has_the_published_form(
    rows: dict[str, dict[str, Any]],
) -> None:
    said = {name: definition_of({**DEFAULT, **row}, DEFAULT) for name, row in rows.items()}
    (document,) = read_yaml(as_yaml(said), "x.yaml")
    value = document.value
    assert list(value["schedules"]) == list(said)
    VALIDATOR.validate(value)
    for name, row in rows.items():
        judged = judged_schedule(name, value["schedules"][name])
        for key in KEYS:
            wanted = row.get(key, DEFAULT.get(key))
            found = judged.get(key, DEFAULT.get(key))
            if key in ("args", "retry", "links"):
                assert json.loads(found or "{}") == json.loads(wanted or "{}")
            elif key in ("requires", "tags"):
                assert list(found or ()) == list(wanted or ())
            else:
                assert found == wanted


@pytest.mark.parametrize(
    "wrong",
    [
        {"schedules": {"x": {"spec": "@daily"}}},
        {"schedules": {"x": {"spec": "@daily", "handler": "x"}}},
        {"schedules": {"x": {"spec": "@daily", "handler": "py:x", "timezome": "UTC"}}},
        {"schedules": {"x": {"spec": "@daily", "handler": "py:x", "timeout": "5 minutes"}}},
        {"schedules": {"x": {"spec": "@daily", "handler": "py:x", "priority": 12}}},
        {"schedules": [], "more": 1},
        {},
        {"calendars": {"a b": "sat"}},
        {"calendars": {"a": {"days": "sat"}}},
    ],
)
def test_the_published_form_refuses_what_is_refused(wrong: Any) -> None:
    assert list(VALIDATOR.iter_errors(wrong))


def test_every_policy_is_in_the_published_form() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())
    assert tuple(json_schema()["$defs"]["schedule"]["properties"]) == KEYS


@pytest.mark.parametrize(
    "text", ["[" * 30_000, "- " * 30_000, "? " * 30_000, "{a: " * 30_000, "[" * 111 + "]" * 111]
)
def test_yaml_that_is_nested_too_deeply_is_refused_before_it_is_put_together(text: str) -> None:
    with pytest.raises(TooLarge, match=r"f\.yaml, line 1: nested more than 110 levels") as refusal:
        read_yaml(text, "f.yaml")
    assert refusal.value.detail
    assert refusal.value.hint
    assert read_yaml("[" * 110 + "]" * 110, "f.yaml")


def test_yaml_is_read_as_its_version_1_2() -> None:
    text = (
        "a: no\nb: 1:30\nc: 2026-01-01\nd: 0x1F\ne: 12\nf: 1e3\ng: true\nh: ~\ni: !!str 5\nj: 007\n"
    )
    (document,) = read_yaml(text, "x")
    assert list(document.value.values()) == [
        "no", "1:30", "2026-01-01", "0x1F", 12, 1000.0, True, None, "5", "007",
    ]  # fmt: skip


def test_defaults_are_inherited_and_lines_known() -> None:
    text = "base: &base\n  a: 1\n  b: 2\nx:\n  <<: *base\n  b: 3\ny:\n  <<: [*base, {c: 4}]\n"
    (document,) = read_yaml(text, "x.yaml")
    assert document.value["x"] == {"a": 1, "b": 3}
    assert document.value["y"] == {"a": 1, "b": 2, "c": 4}
    assert document.where("x", "b") == "x.yaml, line 6"
    assert document.where("x", "unknown") == "x.yaml, line 4"


@pytest.mark.parametrize("text", ["a: 1\na: 2\n", "{a: 1,\n a: 2}\n", "{b: 1, a: 1,\n a: 2}\n"])
def test_a_key_that_is_given_twice_is_refused_with_both_lines(text: str) -> None:
    with pytest.raises(InvalidInput, match="x, line 2: 'a' is given twice; first in line 1"):
        read_yaml(text, "x")


def test_what_anchors_repeat_is_bounded() -> None:
    levels = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(TooLarge, match=str(MOST_VALUES)):
        read_yaml("\n".join(levels), "x")
