"""Definitions of workflows that can't work are refused, with the place of what is wrong."""

from __future__ import annotations

import json
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connection
from tests.db.workflows import Stage, stage, step


@pytest.fixture
async def flow(connection: Connection) -> Stage:
    return await stage(connection)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([], "a workflow without steps, or with more than 100000"),
        ([{"handler": "py:a"}], "step 1: it has no name that a step may have"),
        ([step("a"), step("a")], "step 2 ('a'): another step has this name"),
        ([step("a", "b"), step("b")], "step 1 ('a'): after names 'b', which is not above it"),
        ([step("a", "x")], "step 1 ('a'): after names 'x', which is no step"),
        ([step("a", "a")], "step 1 ('a'): after names 'a', which is not above it"),
        ([step("a", rule="any")], "step 1 ('a'): rule 'any' is not known"),
        ([step("a", rule="one_failed")], "step 1 ('a'): rule one_failed can never hold"),
        (
            [step("a"), step("b", after=[], rule="one_succeeded")],
            "step 2 ('b'): rule one_succeeded can never hold",
        ),
        (
            [step("a", optional=True), step("b", "a", rule="one_failed")],
            "step 2 ('b'): rule one_failed can never hold",
        ),
        ([step("a"), step("b", after=[["a"]])], "step 2 ('b'): \"after\" is no list of names"),
        ([step("a"), step("b", after=["a", 1])], "step 2 ('b'): \"after\" is no list of names"),
        ([step("a"), step("b", after={"a": "a"})], "step 2 ('b'): \"after\" is no list of names"),
        ([step("a", when="$.a >")], "step 1 ('a'): when \"$.a >\" can't be read"),
        ([step("a", colour=1)], "step 1 ('a'): 'colour' is no key of a step"),
        ([step("a", priority=12)], "step 1 ('a'): priority 12 is out of range"),
        ([step("a", timeout="soon")], "step 1 ('a'): invalid input syntax for type interval"),
        ([{"name": "a", "handler": "a"}], "step 1 ('a'): handler 'a' is not a handler name"),
        ([{"name": "a", "wait_for": "timer"}], "step 1 ('a'): a timer has no deadline"),
        (
            [{"name": "a", "wait_for": "timer", "handler": "py:a"}],
            "step 1 ('a'): it has neither a handler nor wait_for, or both",
        ),
        (
            [{"name": "a", "wait_for": "signal", "queue": "x"}],
            "step 1 ('a'): a step that waits has args or options of a run",
        ),
        ([step("a", deadline="1 day")], "step 1 ('a'): a deadline without wait_for"),
        (
            [{"name": "a", "wait_for": "signal", "deadline": "soon"}],
            "step 1 ('a'): deadline 'soon' is no duration",
        ),
        (
            [step("a", repeat={"while": "$", "at_most": 2, "every": "soon"})],
            "step 1: every 'soon' is no duration",
        ),
        (
            [{"name": "a", "wait_for": "signal", "handler": None, "for_each": "$.x"}],
            "step 1 ('a'): \"for_each\" without a handler",
        ),
        (
            [step("a"), step("b", "a", compensates="a")],
            'step 2 (\'b\'): a compensation with "after" or "rule"',
        ),
        (
            [step("a"), step("b", compensates="a", **{"finally": True})],
            'step 2 (\'b\'): it has both "finally" and "compensates"',
        ),
        (
            [step("a", for_each="$.x", repeat={"while": "$", "at_most": 2})],
            "step 1 ('a'): \"repeat\" can't be read",
        ),
        ([step("a", args={"x": "y" * 2**20})], "the definition has 1048"),
        ([{"name": "a"}], "step 1 ('a'): it has neither a handler nor wait_for, or both"),
        ([step("a", **{"finally": True})], "the workflow has no step that begins it"),
        (
            [step("a"), step("b", "a", **{"finally": True})],
            "step 2 ('b'): after names 'a', a step of another part",
        ),
        ([step("a", max_parallel=2)], 'step 1 (\'a\'): "max_parallel" or "tolerate"'),
        ([step("a", for_each="$.x", max_parallel=0)], "step 1 ('a'): max_parallel 0 is out"),
    ],
)
async def test_a_definition_that_can_not_work_is_refused_with_its_place(
    flow: Stage, steps: list[dict[str, Any]], message: str
) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await flow.put("w", *steps)
    assert str(refused.value).startswith(f"workflow 'w': {message}"), str(refused.value)
    assert (refused.value.sqlstate or "").startswith("PC")


MEBIBYTE = 1_048_576


def definition_of(size: int) -> str:
    """One of so many bytes as PostgreSQL writes it."""
    steps = [step(name, args={"x": "y" * 200_000}) for name in "abcde"]
    text = json.dumps({"steps": [*steps, step("f", args={"x": ""})]})
    padding = f'"x": "{"y" * (size - len(text))}"'
    return padding.join(text.rsplit('"x": ""', 1))


WAYS = {
    "put": "SELECT pgcron.put_workflow('w', $1::jsonb)",
    "start": "SELECT pgcron.start_workflow($1::jsonb)",
    "apply": "SELECT * FROM pgcron.apply_workflows(jsonb_build_object('w', $1::jsonb), 'jobs')",
}


@pytest.mark.parametrize("way", WAYS)
async def test_a_definition_has_one_mebibyte(connection: Connection, way: str) -> None:
    with pytest.raises(asyncpg.PostgresError, match="the definition has 1048577 bytes") as refused:
        await connection.execute(WAYS[way], definition_of(MEBIBYTE + 1))
    assert refused.value.sqlstate == "PC004"
    said = refused.value.as_dict()
    assert said["detail"] == "A definition may have 1048576 bytes (1 MiB) as JSON text."
    assert said["hint"] == "Use for_each for steps that are alike, or a step that is a workflow."
    for table in ("workflow_definition", "workflow_run", "run"):
        assert await connection.fetchval(f"SELECT count(*) FROM pgcron.{table}") == 0

    await connection.execute(WAYS[way], definition_of(MEBIBYTE))
    assert await connection.fetchval("SELECT steps FROM pgcron.workflow_definition") == 6


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("one", "code", "fact", "rule"),
    [
        # A step takes more than 10 bytes: the bound of the size is reached first.
        (step("a"), "PC004", "the definition has {size} bytes", "1048576 bytes (1 MiB)"),
        (0, "PC001", "a workflow without steps, or with more than 100000", "1 to 100000 steps."),
    ],
)
async def test_a_definition_of_more_than_100000_steps_is_refused(
    connection: Connection, way: str, one: object, code: str, fact: str, rule: str
) -> None:
    definition = json.dumps({"steps": [one] * 100_001})
    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.execute(WAYS[way], definition)
    assert refused.value.sqlstate == code
    assert fact.format(size=len(definition)) in str(refused.value)
    assert rule in refused.value.as_dict()["detail"]
    assert refused.value.as_dict()["hint"]
    assert await connection.fetchval("SELECT count(*) FROM pgcron.workflow_definition") == 0


async def test_a_step_of_another_part_is_not_taken_for_a_misspelling(flow: Stage) -> None:
    with pytest.raises(asyncpg.PostgresError, match="'load', a step of another part") as refused:
        await flow.put("w", step("load"), step("tidy", "load", **{"finally": True}))
    assert refused.value.as_dict()["hint"] == "Move it, or correct the name."


async def test_a_timeout_that_is_no_duration_is_refused_with_what_it_may_be(flow: Stage) -> None:
    for timeout in ("soon", "0 s", "367 days"):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await flow.put("w", step("a"), timeout=timeout)
        assert refused.value.sqlstate == "PC001"
        assert refused.value.as_dict()["message"] == (
            f"workflow 'w': timeout '{timeout}' is no duration"
        )
        assert refused.value.as_dict()["detail"] == "It is more than nothing, and at most 366 days."


async def test_a_name_that_would_be_taken_for_another_thing_is_refused(flow: Stage) -> None:
    for name in ("ad_hoc", "2024", "7", "", "-a", "a b", "a" * 198):
        with pytest.raises(
            asyncpg.PostgresError, match="a workflow can't have the name"
        ) as refused:
            await flow.put(name, step("a"))
        assert refused.value.sqlstate == "PC001"
        assert "is no number" in refused.value.as_dict()["detail"]
    for name in ("2024_q1", "7a", "a7"):
        assert await flow.put(name, step("a")) == 1


async def test_definitions_without_a_name_are_not_deleted_as_one_workflow(
    flow: Stage, connection: Connection
) -> None:
    run = await connection.fetchval(
        "SELECT pgcron.start_workflow($1::jsonb)", json.dumps({"steps": [step("a")]})
    )
    with pytest.raises(asyncpg.PostgresError, match="workflow 'ad_hoc' does not exist") as refused:
        await connection.execute("SELECT pgcron.delete_workflow('ad_hoc')")
    assert refused.value.sqlstate == "PC010"
    deleted = "SELECT count(*) FROM pgcron.workflow_definition WHERE deleted_at IS NOT NULL"
    assert await connection.fetchval(deleted) == 0
    await flow.work()
    assert await flow.state(run) == "succeeded"


async def test_the_context_of_a_refusal_quotes_no_other_rule(connection: Connection) -> None:
    for wrong in ('[{"name": "a"}]', '[{"name": "a", "handler": "py:a", "tolerate": 2}]'):
        definition = f'{{"steps": {wrong}}}'
        with pytest.raises(asyncpg.PostgresError) as refusal:
            await connection.execute("SELECT pgcron.put_workflow('w', $1)", definition)
        assert refusal.value.sqlstate == "PC001"
        assert "compensat" not in str(refusal.value.context)
        assert len(str(refusal.value.context).splitlines()) <= 3


async def test_files_that_make_a_next_version_have_changed_the_workflow(
    connection: Connection,
) -> None:
    applied = []
    for number in ("1", "1", "1.0"):  # equal as JSON, but not as args of a run
        steps = f'[{{"name": "a", "handler": "py:a", "args": {{"n": {number}}}}}]'
        row = await connection.fetchrow(
            "SELECT change FROM pgcron.apply_workflows($1, 'jobs')",
            f'{{"w": {{"steps": {steps}}}}}',
        )
        applied.append(row["change"] if row else None)

    assert applied == ["added", "unchanged", "changed"]
    assert await connection.fetchval("SELECT version FROM pgcron.workflows") == 2
