"""Workflows in files: read with their lines, written, and read back in the published form."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from pgcron_ha.errors import InvalidInput
from tests.product.schedule_files import (
    as_yaml,
    json_schema,
    read_definitions,
    read_yaml,
    workflow_of,
)

VALIDATOR = jsonschema.Draft202012Validator(json_schema())
ETL = """
workflows:
  etl:
    description: Nightly
    timeout: 8 hours
    parallelism: 4
    steps:
      - name: load
        handler: shell:load
        args_from: {rows: $.extract.rows}
        when: $.extract.rows > 0
      - name: extract
        handler: py:extract
        timeout: 30 minutes
        retry: {backoff: linear}
      - {name: ok, wait_for: approval, deadline: 24 h, after: load, optional: false}
      - {name: each, handler: py:each, for_each: $.load.files, tolerate: 2, args: {a: 1}}
      - {name: poll, handler: py:poll, repeat: {while: "$.x == 1", at_most: 3, every: 30 s}}
"""


def read(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    return dict(read_definitions([path]).workflows)


def test_a_file_of_workflows_is_read_in_order_and_completed(tmp_path: Path) -> None:
    (name, definition) = next(iter(read(tmp_path, ETL).items()))
    assert (name, definition["timeout"]) == ("etl", "8h")
    steps = {step.pop("name"): step for step in definition["steps"]}
    assert list(steps) == ["extract", "poll", "load", "ok", "each"]
    assert steps["extract"]["timeout"] == "30m"
    assert steps["load"]["after"] == ["extract"]
    assert steps["ok"] == {"wait_for": "approval", "deadline": "24h", "after": ["load"]}
    assert steps["poll"]["repeat"] == {"while": "$.x == 1", "at_most": 3, "every": "30s"}


def test_what_is_written_is_read_back_and_has_the_published_form(tmp_path: Path) -> None:
    VALIDATOR.validate(
        read_yaml(
            ETL.replace(" hours", "h")
            .replace(" minutes", "m")
            .replace("24 h", "24h")
            .replace("30 s", "30s"),
            "x",
        )[0].value
    )
    workflows = read(tmp_path, ETL)
    text = as_yaml({}, None, {name: workflow_of(each) for name, each in workflows.items()})
    VALIDATOR.validate(read_yaml(text, "x.yaml")[0].value)
    assert read(tmp_path, text) == workflows
    assert text.index("name: extract") < text.index("handler: py:extract")
    foreign = {"steps": [{"handler": "py:a", "timeout": "01:30:00", "name": "a"}]}
    assert list(workflow_of(foreign)["steps"][0]) == ["name", "handler", "timeout"]


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "workflows:\n  etl:\n    on_failure: maybe\n    more: 1\n    steps:\n"
            "      - {name: a, handler: 'x'}\n\n      - name: b\n        handler: py:b\n"
            "        afer: a\n",
            [
                "line 2: workflow 'etl': a workflow has no key 'more'",
                "line 2: workflow 'etl': on_failure 'maybe' is not known",
                "line 2: workflow 'etl': step 1 ('a') in line 6: handler 'x' is not a handler name",
                "line 2: workflow 'etl': step 2 ('b') in line 8: a step has no key 'afer'",
            ],
        ),
        (
            "workflows:\n  etl:\n    steps:\n    - {name: a, handler: py:a, after: b}\n"
            "    - name: b\n      handler: py:b\n      after: [a]\n",
            ["line 2: workflow 'etl': step 1 ('a') in line 4: it comes after itself: a → b → a"],
        ),
        (
            "workflows:\n  'a b': {steps: [{name: a, handler: py:a}]}\n  b: 7\n  c: {steps: [7]}\n",
            [
                "line 2: workflow 'a b': a workflow can't have the name 'a b'",
                "line 3: workflow 'b': it is a number",
                "line 4: workflow 'c': step 1 in line 4: it is a number",
            ],
        ),
        ("workflows: [1]\n", ["line 1: 'workflows' is no mapping"]),
    ],
)
def test_mistakes_are_named_with_their_lines(
    tmp_path: Path, text: str, messages: list[str]
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read(tmp_path, text)
    found = [part.message.partition("jobs.yaml, ")[2] for part in refusal.value.parts]
    assert [each.partition("; did you mean")[0] for each in found] == messages


@pytest.mark.parametrize(
    "step",
    [
        {"name": "args", "handler": "py:a"},
        {"name": "a", "handler": "py:a", "rule": "always"},
        {"name": "a", "handler": "py:a", "max_parallel": 0},
        {"name": "a", "handler": "py:a", "repeat": {"while": "$.x"}},
        {"name": "a", "handler": "py:a", "spec": "@daily"},
    ],
)
def test_the_published_form_refuses_what_is_refused(tmp_path: Path, step: dict[str, Any]) -> None:
    workflows = {"w": {"steps": [step]}}
    assert list(VALIDATOR.iter_errors({"workflows": workflows}))
    with pytest.raises(InvalidInput):
        read(tmp_path, as_yaml({}, None, workflows))


def test_a_number_is_no_name_of_a_workflow(tmp_path: Path) -> None:
    for name in ("2024", "7"):
        workflows = {name: {"steps": [{"name": "a", "handler": "py:a"}]}}
        assert list(VALIDATOR.iter_errors({"workflows": workflows}))
        with pytest.raises(InvalidInput, match="can't have the name") as refused:
            read(tmp_path, as_yaml({}, None, workflows))
        assert "is no number" in (refused.value.detail or "")
    assert read(tmp_path, ETL.replace("etl:", "2024-q1:"))


@pytest.mark.parametrize("keys", [{}, {"handler": "py:a", "wait_for": "timer"}])
def test_the_published_form_refuses_what_the_database_does(keys: dict[str, Any]) -> None:
    workflows = {"w": {"steps": [{"name": "a", **keys}]}}
    assert list(VALIDATOR.iter_errors({"workflows": workflows}))
