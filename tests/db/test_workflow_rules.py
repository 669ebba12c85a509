"""What a rule makes of how two steps before it ended: the whole table, decided by the real SQL."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import pytest

from tests.db.control import Connection, claim, fail, finish, join, kill, reap
from tests.db.workflows import BAD, Stage, stage, step

RULES: Final = ("all_succeeded", "all_ended", "one_succeeded", "one_failed", "none_failed")
OUTCOMES: Final = (
    "succeeded",
    "dead",
    "lost",
    "cancelled",
    "expired",
    "upstream_failed",
    "skipped",
    "superseded",
)


class Parent(NamedTuple):
    """How a step before ended; '' is that it is open."""

    outcome: str
    is_optional: bool

    @property
    def name(self) -> str:
        return self.outcome + "_optional" * self.is_optional

    @property
    def counts(self) -> str:
        if self.outcome in ("skipped", "superseded"):
            return "skipped"
        if self.outcome in BAD and not self.is_optional:
            return "bad"
        return "good" if self.outcome else "open"


ENDED: Final = [Parent(*each) for each in product(OUTCOMES, (False, True))]
OPEN: Final = Parent("", False)


def expected(rule: str, *parents: Parent) -> str:
    """As the documents say it."""
    counts = [parent.counts for parent in parents]
    if rule == "one_succeeded" and "good" in counts:
        return "go"
    if rule == "one_failed" and "bad" in counts:
        return "go"
    if "open" in counts:
        return "wait"
    holds = {
        "all_succeeded": set(counts) <= {"good"},
        "all_ended": True,
        "one_succeeded": False,
        "one_failed": False,
        "none_failed": "bad" not in counts,
    }[rule]
    if holds:
        return "go"
    # No failure is why: a failure is what the step waited for, or there is none.
    return "skipped" if rule == "one_failed" or "bad" not in counts else "upstream_failed"


async def test_each_rule_decides_each_pair_of_outcomes(rolled_back: Connection) -> None:
    table = [
        (rule, a, b) for rule in RULES for a, b in product([*ENDED, OPEN], repeat=2) if a != OPEN
    ]
    columns: list[list[Any]] = [[rule for rule, _, _ in table]]
    columns += [
        [[a.counts, b.counts].count(kind) for _, a, b in table]
        for kind in ("open", "good", "bad", "skipped")
    ]
    rows = await rolled_back.fetch(
        "SELECT pgcron.judge_step(t.rule, t.waits, t.good, t.bad, t.skipped) FROM"
        " unnest($1::text[], $2::int[], $3::int[], $4::int[], $5::int[])"
        " WITH ORDINALITY t(rule, waits, good, bad, skipped, place) ORDER BY t.place",
        *columns,
    )
    assert [row[0] for row in rows] == [expected(rule, a, b) for rule, a, b in table]


def steps_before() -> list[dict[str, Any]]:
    """One step for each outcome; those that fail by another have one before them."""
    steps = [step("fails")]
    for parent in ENDED:
        keys: dict[str, Any] = {"handler": f"py:{parent.name}"}
        if parent.is_optional:
            keys["optional"] = True
        if parent.outcome == "upstream_failed":
            keys["after"] = "fails"
        elif parent.outcome == "skipped":
            keys["when"] = "false"
        elif parent.outcome == "lost":
            keys["delivery"] = "at_most_once"
        steps.append(step(parent.name, **keys))
    return steps


async def end_all(flow: Stage, names: Sequence[str]) -> None:
    """Each of these ends as its name says."""
    connection = flow.connection
    for name in names:
        outcome = name.removesuffix("_optional")
        row = await connection.fetchrow("SELECT * FROM pgcron.run WHERE handler = $1", f"py:{name}")
        if row is None:
            assert outcome in ("skipped", "upstream_failed")
        elif outcome in ("expired", "superseded"):
            await connection.execute(
                "SELECT pgcron.end_waiting_runs($1, $2, 'by the test')", [row["id"]], outcome
            )
        elif outcome == "cancelled":
            await connection.execute("SELECT pgcron.cancel_run($1)", row["id"])
        else:
            node = await join(connection, handlers=[f"py:{name}"])
            rows = await claim(connection, node)
            if outcome == "lost":
                await kill(connection, node)
                assert await reap(connection) == {row["id"]: "lost"}
            elif outcome == "succeeded":
                assert await finish(connection, rows)
            else:
                assert await fail(connection, rows, retryable=False) == {row["id"]: "dead"}
        await flow.advance()


@pytest.mark.parametrize("order", [1, -1])
async def test_each_pair_of_ends_leads_to_what_its_rule_says(
    connection: Connection, order: int
) -> None:
    flow = await stage(connection)
    table = [
        (rule, a, b)
        for rule in RULES
        for a, b in product(ENDED, repeat=2)
        if a < b and not (rule == "one_failed" and a.is_optional and b.is_optional)  # refused
    ]
    below = [
        step(f"s{place}", a.name, b.name, rule=rule, handler="py:e")
        for place, (rule, a, b) in enumerate(table)
    ]
    run = await flow.run(*steps_before(), *below)
    await end_all(flow, ["fails", *(parent.name for parent in ENDED)][::order])
    await flow.work()

    states = await flow.states(run)
    assert {p.name: states[p.name] for p in ENDED} == {p.name: p.outcome for p in ENDED}
    for place, (rule, a, b) in enumerate(table):
        end = expected(rule, a, b).replace("go", "succeeded")
        assert states[f"s{place}"] == end, (rule, a, b)
    assert await flow.state(run) == "dead"
    await flow.check()


@pytest.mark.parametrize("parent", [p for p in ENDED if p.outcome != "upstream_failed"])
async def test_the_end_of_a_step_decides_that_of_its_workflow(
    connection: Connection, parent: Parent
) -> None:
    flow = await stage(connection)
    run = await flow.run(*(each for each in steps_before() if each["name"] == parent.name))
    await end_all(flow, [parent.name])

    assert await flow.states(run) == {parent.name: parent.outcome}
    assert await flow.state(run) == ("dead" if parent.counts == "bad" else "succeeded")
    await flow.check()


@pytest.mark.parametrize(
    "keys",
    [{"when": "$x == 1"}, {"for_each": "$x"}, {"repeat": {"while": "$x == 1", "at_most": 2}}],
)
async def test_a_path_that_postgresql_refuses_to_follow_fails_its_step_alone(
    connection: Connection, keys: dict[str, Any]
) -> None:
    flow = await stage(connection)
    run = await flow.run(step("a"), step("b", "a", **keys), step("c", "a"))
    await flow.work({"b": 1})

    assert await flow.states(run) == {"a": "succeeded", "b": "dead", "c": "succeeded"}
    reason = "SELECT reason FROM pgcron.workflow_steps WHERE name = 'b'"
    assert 'could not find jsonpath variable "x"' in await connection.fetchval(reason)
    await flow.check()
