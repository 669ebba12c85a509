"""`pgcron-ha workflows`, beside a node whose part the test plays."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Cli, Execute, dsn_of
from tests.db.control import join
from tests.db.workflows import Stage, step
from tests.sessions import own_session

ETL = {
    "description": "Loads the orders of a day",
    "steps": [
        step("a"),
        {"name": "ok", "wait_for": "approval", "after": "a"},
        {"name": "go", "wait_for": "signal", "after": "a"},
        step("b", "ok", "go"),
        step("c", "b"),
        step("last", **{"finally": True}),
    ],
}


class Played:
    """A node, and the workflow `etl`."""

    def __init__(self, runner: asyncio.Runner, played: Stage) -> None:
        self._runner = runner
        self._stage = played

    def work(self, **outcomes: Any) -> None:
        """All that may begin is executed."""
        self._runner.run(self._stage.work(outcomes))

    def begin(self) -> None:
        """All that may begin executes."""
        self._runner.run(self._stage.turn({}))

    def states(self, run: int) -> Mapping[str, str]:
        return self._runner.run(self._stage.states(run))


@pytest.fixture
def played(database: str, execute: Execute) -> Iterator[Played]:
    execute("SELECT pgcron.put_workflow('etl', %s)", json.dumps(ETL))
    with asyncio.Runner() as runner:
        connection = runner.run(own_session(database))
        node = runner.run(
            join(connection, handlers=[*map("py:{}".format, "abc"), "py:last", "workflow:etl"])
        )
        yield Played(runner, Stage(connection, node))
        runner.run(connection.close(timeout=5))


def start(cli: Cli, *options: object) -> int:
    return int(cli("workflows", "start", "etl", *options).out)


def test_workflows_are_listed_shown_drawn_and_deleted(cli: Cli, played: Played) -> None:
    run = start(cli, "day=monday")
    assert cli("workflows").out.splitlines()[1].split()[:4] == ["etl", "1", "6", "-"]
    played.begin()

    [listed] = cli("workflows", "--json").rows
    assert (listed["name"], listed["last_run"], listed["last_state"]) == ("etl", run, "running")
    shown = cli("workflows", "show", "etl").out.splitlines()
    assert "Loads the orders of a day" in shown[2]
    assert any(line.startswith("b ") and "py:b" in line and "ok, go" in line for line in shown)
    assert shown[-1].split()[:3] == [str(run), "1", "running"]
    assert cli("workflows", "graph", "etl").out.splitlines() == [
        "a",
        "  ok     approval; after a",
        "  go     signal; after a",
        "    b    after ok, go",
        "      c  after b",
        "last     finally",
    ]
    chart = cli("workflows", "graph", "etl", "--mermaid").out
    assert "s1 --> s2" in chart
    assert 's1["a"]' in chart
    assert cli("workflows", "delete", "etl").out == "workflow 'etl' is deleted\n"
    assert cli("workflows").out == "no workflows\n"


def test_the_list_is_filtered_by_the_owner_and_the_tags_of_the_last_run(
    cli: Cli, played: Played, execute: Execute
) -> None:
    execute("SELECT pgcron.set_team('queue', 'default', 'ops')")
    execute("SELECT pgcron.put_workflow('unused', %s)", json.dumps(ETL))
    assert cli("workflows", "start", "etl", "--tag", "x", "--tag", "y").code == 0
    played.begin()

    def found(*options: str) -> list[str]:
        return [row["name"] for row in cli("workflows", "list", *options, "--json").rows]

    assert found() == ["etl", "unused"]
    assert found("--tag", "y", "--tag", "x") == found("--owner", "ops") == ["etl"]
    assert found("--tag", "x", "--tag", "z") == found("--owner", "sales", "--tag", "x") == []


@pytest.mark.parametrize("command", ["show", "graph", "start", "delete"])
def test_an_unknown_workflow_is_refused_with_one_that_is_alike(
    cli: Cli, played: Played, command: str
) -> None:
    answer = cli("workflows", command, "elt")

    assert (answer.code, answer.out) == (1, "")
    assert "workflow 'elt' does not exist; did you mean 'etl'?" in answer.err


def test_what_is_no_workflow_or_has_not_begun_says_so(cli: Cli, played: Played) -> None:
    run = start(cli)
    for number in (run, int(cli("enqueue", "py:a").out), 10**6, 2**63 - 1):
        assert f"run {number} is no workflow that has begun" in cli("workflows", "show", number).err
    assert cli("workflows", "show", 2**64).code in (1, 2)


def test_a_run_is_shown_with_what_its_steps_wait_for(cli: Cli, played: Played) -> None:
    run = start(cli)
    played.work()

    why = dict(line.split(": ", 1) for line in cli("workflows", "why", run).out.splitlines())
    assert list(why) == ["ok", "go", "b", "c", "last"]
    assert why["ok"].startswith("it waits for the approval")
    assert "it waits for 2 of 2 steps: ok, go" in why["b"]
    assert cli("workflows", "why", run, "a").out == "a: it has ended: succeeded\n"
    assert f"run {run} has no step 'x'" in cli("workflows", "why", run, "x").err
    [row] = cli("workflows", "why", run, "b", "--json").rows
    assert (row["step"], row["state"], row["why"]) == ("b", "waiting", why["b"])
    shown = cli("workflows", "show", run).out
    assert "it waits for 2 of 2 steps: ok, go" in shown
    [found] = cli("workflows", "show", run, "--json").rows
    assert (found["state"], found["succeeded"], found["waiting"]) == ("running", 1, 3)
    assert [each["after"] for each in found["steps"]] == [[], ["a"], ["a"], ["ok", "go"], ["b"], []]
    line = "  ok     running    approval; after a"
    assert cli("workflows", "graph", run).out.splitlines()[1] == line
    assert 's1["a<br/>succeeded"]' in cli("workflows", "graph", run, "--mermaid").out
    rows = cli("workflows", "graph", run, "--json").rows
    assert [each["name"] for each in rows] == ["a", "ok", "go", "b", "c", "last"]


def test_steps_are_decided_and_repeated(cli: Cli, played: Played, tmp_path: Path) -> None:
    run = start(cli)
    payload = tmp_path / "payload.json"
    payload.write_text('{"rows": 3}')
    played.begin()
    early = cli("workflows", "signal", run, "go", "--payload", f"@{payload}", "--note", "by bank")
    assert early.out == f"step 'go' of run {run} gets the signal when it waits for it\n"
    changed = cli("workflows", "set-args", run, "c", "--args", '{"day": 2}', "--note", "too late")
    assert changed.out == f"step 'c' of run {run} begins with these args\n"
    assert "set-args" not in cli("workflows", "set-args", run, "c", "--args", "[2]").out
    played.work()
    assert "(signal by " in (why := cli("workflows", "why", run, "go").out)
    assert ": by bank)" in why

    assert cli("workflows", "approve", run, "ok").out == f"step 'ok' of run {run} is approved\n"
    played.work(b=ValueError("no"))
    assert played.states(run)["b"] == "dead"
    assert cli("workflows", "why", run).out == f"run {run} has no open step: it is dead\n"
    assert "is over" in cli("workflows", "clear", run, "b").err


def test_a_rejected_step_fails_and_a_skipped_one_allows_no_other(cli: Cli, played: Played) -> None:
    run = start(cli)
    played.work()
    said = cli("workflows", "approve", run, "ok", "--reject", "--note", "not today").out
    assert said == f"step 'ok' of run {run} is rejected\n"
    played.begin()
    assert cli("workflows", "skip", run, "go").out == f"step 'go' of run {run} is skipped\n"
    played.work()

    assert played.states(run) == {
        "a": "succeeded",
        "ok": "dead",
        "go": "skipped",
        "b": "upstream_failed",
        "c": "upstream_failed",
        "last": "succeeded",
    }
    assert "not today" in cli("workflows", "why", run, "ok").out


def test_why_groups_the_items_that_failed_by_cause(
    cli: Cli, played: Played, execute: Execute
) -> None:
    mapped = step("a", for_each="$.args.list", max_parallel=2, tolerate=1)
    execute("SELECT pgcron.put_workflow('etl', %s)", json.dumps({"steps": [mapped]}))
    run = start(cli, "list=[1, 2, 3, 4]")
    played.work(a=ValueError("no such item"))

    [of_step, *causes] = cli("workflows", "why", run, "a").out.splitlines()
    assert of_step.startswith("a: it has ended: dead")
    failed = execute("SELECT id, error FROM pgcron.runs WHERE handler = 'py:a' ORDER BY id")
    assert len(failed) == 2
    [(first, error), _] = failed
    assert causes[0] == f"a, 2 items from 0 to 1, such as run {first}: it has ended: dead ({error})"
    assert re.fullmatch(
        r"a, 2 items from 2 to 3: it has ended: cancelled \(too many items .*\)", causes[1]
    )
    [_, cause, _] = cli("workflows", "why", run, "a", "--json").rows
    assert (cause["failed"], cause["first_item"], cause["last_item"]) == (2, 0, 1)


def test_a_step_succeeds_by_hand_or_runs_again(cli: Cli, played: Played) -> None:
    run = start(cli)
    played.begin()
    assert "counts as succeeded" in cli("workflows", "succeed", run, "a", "--result", "[1]").out
    played.work()
    assert played.states(run)["a"] == "succeeded"

    cleared = cli("workflows", "clear", run, "a", "--note", "wrong day").out
    assert cleared == f"step 'a' of run {run} runs again with all that come after it: 6 steps\n"
    played.begin()
    assert played.states(run)["a"] in ("ready", "running")


def test_a_paused_workflow_begins_nothing(cli: Cli, played: Played) -> None:
    run = start(cli)
    played.begin()
    assert cli("workflows", "pause", run, "--note", "look").out == (
        f"the workflow of run {run} is paused\n"
    )
    assert cli("workflows", "show", run, "--json").rows[0]["paused_note"] == "look"
    assert re.search(r"^state +running \(paused\)$", cli("workflows", "show", run).out, re.M)
    assert "running (paused)" in cli("workflows", "show", "etl").out
    assert re.search(
        r"6 of 6 .* over, and it is paused by .* \(look\)", cli("runs", "show", run).out
    )
    assert cli("workflows", "resume", run, "--note", "looked").out == (
        f"the workflow of run {run} goes on\n"
    )
    assert cli("workflows", "show", run, "--json").rows[0]["paused_at"] is None
    assert "asked to stop" in cli("workflows", "cancel", run).out
    played.work()
    assert cli("runs", "show", run, "--json").rows[0]["state"] == "cancelled"


def test_a_workflow_takes_options_and_is_refused_with_all_mistakes(
    cli: Cli, played: Played, execute: Execute
) -> None:
    words = ["--queue", "slow", "--tag", "a", "--unique-key", "monday", "--due-at", "2h"]
    run = start(cli, *words, "--args", '{"day": 1}', "--timeout", "1h", "--start-within", "3h")

    assert start(cli, *words) == run
    assert (
        "has the unique key"
        in cli("workflows", "start", "etl", *words, "--on-conflict", "refuse").err
    )
    assert execute("SELECT handler, queue, tags, args FROM pgcron.run") == [
        ("workflow:etl", "slow", ["a"], {"day": 1})
    ]
    answer = cli("workflows", "start", "etl", "--args", "[]", "--due-at", "someday")
    assert answer.err.startswith("error: 2 mistakes")
    assert cli("workflows", "signal", run, "go", "--payload", "{").code == 1
    pair = cli("workflows", "start", "etl", "order")
    assert (pair.code, "'order' is no KEY=VALUE pair" in pair.err) == (1, True)


def test_the_doctor_names_what_is_wrong_with_workflows(
    cli: Cli, played: Played, execute: Execute
) -> None:
    run = start(cli)
    played.begin()
    assert "ok       workflows" in cli("doctor").out

    execute("UPDATE pgcron.step SET waits = 5 WHERE state = 'waiting'")
    found = [row for row in cli("doctor", "--json").rows if row["check"] == "workflows"]

    assert len(found) == 5
    assert {row["level"] for row in found} == {"problem"}
    assert found[0]["message"].startswith(f"run {run}, step 'ok': it waits for 5 steps")


def test_a_workflow_is_waited_for_and_prints_its_result(cli: Cli, played: Played) -> None:
    run = start(cli, "--idempotency-key", "monday")
    played.work()
    for step_name in ("go", "ok"):
        cli("workflows", "succeed", run, step_name)
    played.work(c={"rows": 3})

    answer = cli("workflows", "start", "etl", "--idempotency-key", "monday", "--wait", "--json")
    assert [row.get("result") for row in answer.rows] == [None, {"rows": 3}]


def test_a_run_of_an_unknown_workflow_says_so(cli: Cli, played: Played) -> None:
    asked = cli("enqueue", "workflow:etll")
    waits = "Workflow 'etll' does not exist: its runs would wait until one does; did you mean"
    assert waits in asked.err
    why = "workflow 'etll' does not exist (did you mean 'etl'?)"
    assert cli("runs", "show", asked.out.strip(), "--json").rows[0]["waits_detail"] == why
    status = cli("status").out
    assert f"workflow:etll: 1 run waits: {why}." in status
    assert "Define it; they run then, but of late fires only what catch-up allows." in status
    other = cli("enqueue", "workflow:zzz").out.strip()
    why = "workflow 'zzz' does not exist"
    assert cli("runs", "show", other, "--json").rows[0]["waits_detail"] == why


def test_of_a_workflow_that_failed_the_steps_are_named(cli: Cli, played: Played) -> None:
    run = start(cli)
    played.work(a=ValueError("no"))

    failed = cli("runs", "watch", run)
    assert failed.code == 1
    assert f"`pgcron-ha workflows show {run}` shows its steps" in failed.err
    never = start(cli)
    cli("runs", "cancel", never)
    [listed] = [
        line for line in cli("runs", "list").out.splitlines() if line.split()[0] == str(never)
    ]
    assert listed.split()[2:6] == ["-", "cancelled", "-", "-"]
    assert f"`pgcron-ha runs show {never}` shows its attempts" in cli("runs", "watch", never).err


def test_a_viewer_sees_workflows_and_an_operator_decides(
    cli: Cli, execute: Execute, database: str, role: str, played: Played
) -> None:
    run = start(cli)
    played.work()
    dsn = dsn_of(role, database)
    execute(cli("grants", "viewer", role).out)

    for words in (["list"], ["show", "etl"], ["show", run], ["graph", run], ["why", run]):
        assert cli("workflows", *words, dsn=dsn).err == ""
    assert "permission denied" in cli("workflows", "approve", run, "ok", dsn=dsn).err
    execute(cli("grants", "operator", role).out)
    assert cli("workflows", "approve", run, "ok", dsn=dsn).err == ""
