"""What runs have of a person is erased, wherever it is; the ledger stays."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import pytest

from pgcron_ha import Unique, chain, errors
from tests.e2e.ledger import Connection, dumped, tables
from tests.e2e.nodes import Cluster
from tests.e2e.person_handlers import made
from tests.waiting import until

APP = "tests.e2e.person_handlers:app"
ANN, BEN = "ann.one@example.org", "ben.two@example.org"
TOMORROW = "(timezone('UTC', now())::date + 1 + time '03:00') AT TIME ZONE 'UTC'"
KEYS = ("concurrency_key", "unique_key", "idempotency_key", "tags")
PLACES = {"history", "log", "attempt", "dead_letter", "idempotency", "unique_period", "breaker"} | {
    "step",
    "workflow_run",
    "workflow_step",
    "workflow_definition",
}
PASSING = ("breaker", "progress")  # a breaker has the error of its last failure, whosever it is
ROWS = (
    "SELECT id, schedule_id, scheduled_for, outcome, finished_at, handler, attempt, parent_run"
    " FROM pgcron.ended_runs ORDER BY id"
)


@pytest.fixture
async def host(database: str) -> AsyncIterator[Any]:
    async with made(database) as app:
        yield app


async def visit(app: Any, connection: Connection, person: str, seed: int) -> list[int]:
    """Runs of all kinds with the person in their args, and in random places beside."""
    chosen = random.Random(seed)
    runs = []
    for number in range(12):
        handler = chosen.choice(("greet", "reject", "reject_for_good"))
        args = {"person": person, "notes": [{"about": {"whom": person}}] * chosen.randint(0, 2)}
        options: dict[str, Any] = {
            key: [f"of:{person}"] if key == "tags" else f"{number}:{person}"
            for key in chosen.sample(KEYS, chosen.randint(0, len(KEYS)))
        }
        if key := options.pop("unique_key", None):
            options.pop("idempotency_key", None)  # a run has one of them
            options |= {"unique": Unique(key, period="1h")}
        runs.append(await app.enqueue(handler, args, **options))
    flow = await app.start("visit", {"person": person})
    payload = {"others": [person, f"friend of {person}"]}
    await until(
        "it has begun", lambda: app.signal(flow, "ask", payload), ignoring=(errors.Conflict,)
    )
    ad_hoc = await app.start(
        chain(
            {"handler": "greet", "args": {"person": person}},
            {"handler": "py:greet", "args": {"person": person}},
        )
    )
    steps = [{"name": "greet", "handler": "py:greet", "args": {"person": person}}]
    by_sql = await connection.fetchval(
        "SELECT pgcron.start_workflow(definition => $1::jsonb)", json.dumps({"steps": steps})
    )
    return [*runs, flow, ad_hoc, by_sql]


async def no_run_is_left(connection: Connection) -> None:
    await until(
        "all have ended",
        lambda: connection.fetchval(
            "SELECT count(*) = 0 FROM pgcron.run WHERE state <> 'blocked' OR gate = 'workflow'"
        ),
        deadline=60,
    )


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
async def test_nothing_of_a_person_is_left_and_all_of_the_others(
    cluster: Cluster, connection: Connection, host: Any, seed: int
) -> None:
    await host.put_workflows()
    cluster.start("a", app=APP)
    anns = await visit(host, connection, ANN, seed)
    await visit(host, connection, BEN, seed)
    await no_run_is_left(connection)
    # tried again by hand: other runs
    for run in anns[:3]:
        await connection.fetchval("SELECT pgcron.retry_run($1)", run)
    await no_run_is_left(connection)
    before, of_ben = await connection.fetch(ROWS), (await dumped(connection, PASSING)).count(BEN)
    places = {name for name, text in (await tables(connection)).items() if ANN in text}
    assert places >= PLACES

    wanted = json.dumps({"person": ANN})
    counted = cluster.command("erase", "--args-contain", wanted, "--dry-run", "--json")
    assert places == {name for name, text in (await tables(connection)).items() if ANN in text}
    erased = cluster.command("erase", "--args-contain", wanted, "--json")

    assert erased.returncode == 0, erased.stderr
    assert json.loads(erased.stdout)["runs"] == json.loads(counted.stdout)["runs"] >= 20
    everything = await dumped(connection)
    assert [line for line in everything.splitlines() if ANN in line] == []
    assert (await dumped(connection, PASSING)).count(BEN) == of_ben
    assert await connection.fetch(ROWS) == before
    assert await connection.fetch("SELECT * FROM pgcron.check_ledger()") == []
    assert cluster.command("doctor").returncode == 0
    for run in anns:
        with pytest.raises(asyncpg.PostgresError) as told:
            await connection.fetchval("SELECT pgcron.retry_run($1)", run)
        assert "Its args were erased" in str(told.value.as_dict()), run
    # a run that was enqueued, one of a workflow and a workflow that was given in SQL
    for run in (anns[0], *anns[-2:]):
        refused = cluster.command("runs", "retry", str(run))
        assert "Its args were erased" in refused.stderr, refused
        assert cluster.command("runs", "show", str(run)).returncode == 0
    (row,) = await connection.fetch("SELECT * FROM pgcron.audit WHERE verb = 'erase'")
    assert row["note"] == "by args"
    assert json.loads(row["after"])["runs"] == json.loads(erased.stdout)["runs"]


@pytest.mark.parametrize("key", ["--concurrency-key", "--unique-key", "--idempotency-key", "--tag"])
async def test_runs_are_found_by_their_keys(
    cluster: Cluster, connection: Connection, host: Any, key: str
) -> None:
    every: dict[str, dict[str, Any]] = {
        "--concurrency-key": {"concurrency_key": ANN},
        "--unique-key": {"unique": Unique(ANN, period="1h")},
        "--idempotency-key": {"idempotency_key": ANN},
        "--tag": {"tags": [ANN]},
    }
    run = await host.enqueue("greet", {"person": "somebody", "mail": ANN}, **every[key])
    other = await host.enqueue("greet", {"person": BEN})
    left = cluster.command("erase", key, ANN)
    assert left.returncode == 1
    assert f"run {run}" in left.stderr

    erased = cluster.command("erase", key, ANN, "--cancel", "--json")

    assert json.loads(erased.stdout)["runs"] == 1, erased.stderr
    assert ANN not in await dumped(connection)
    assert (await host.run(run)).state == "cancelled"
    assert (await host.run(other)).state == "ready"
    again = cluster.command("erase", key, ANN, "--json")
    assert json.loads(again.stdout)["runs"] == 0


async def test_batches_find_all_that_belongs_together(
    cluster: Cluster, connection: Connection, host: Any
) -> None:
    await host.put_workflows()
    cluster.start("a", app=APP)
    await visit(host, connection, ANN, 7)
    await no_run_is_left(connection)
    counts: list[int] = []
    while not counts or counts[-1]:
        counts.append(
            await connection.fetchval(
                "SELECT runs FROM pgcron.erase(args_contain => $1::jsonb, at_most => 2)",
                json.dumps({"person": ANN}),
            )
        )

    assert max(counts) == 2
    assert ANN not in await dumped(connection)


async def test_what_schedules_were_is_erased_and_what_they_are_is_reported(
    cluster: Cluster, connection: Connection
) -> None:
    args, others = json.dumps({"person": ANN}), json.dumps({"person": BEN})
    for each in (args, others):
        put = "SELECT pgcron.put_schedule('greet', '0 3 * * *', 'py:greet', args => $1::jsonb)"
        await connection.execute(put, each)
    await connection.execute(f"SELECT pgcron.edit_occurrence('greet', {TOMORROW}, $1::jsonb)", args)
    refused = cluster.command("erase", "--args-contain", args)
    assert "schedule 'greet'" in refused.stderr
    await connection.execute(f"SELECT pgcron.restore_occurrence('greet', {TOMORROW})")

    erased = cluster.command("erase", "--args-contain", args, "--json")

    assert erased.returncode == 0, erased.stderr
    assert ANN not in await dumped(connection)
    assert BEN in await dumped(connection)
    restored = cluster.command("schedules", "restore", "greet", "1")
    assert restored.returncode == 1
    assert "these args were erased" in restored.stderr


async def test_a_dry_run_of_null_erases_nothing(connection: Connection) -> None:
    run = await connection.fetchval("SELECT pgcron.enqueue('py:greet', '{\"person\": \"Ann\"}')")
    await connection.execute("SELECT pgcron.cancel_run($1)", run)

    await connection.execute("SELECT pgcron.erase(ARRAY[$1::bigint], dry_run => NULL)", run)

    args = await connection.fetchval("SELECT args FROM pgcron.history WHERE id = $1", run)
    assert args == '{"person": "Ann"}'


async def test_without_a_criterion_nothing_is_erased(
    cluster: Cluster, connection: Connection
) -> None:
    for options in ([], ["--args-contain", "{}"], ["--args-contain", "[1]"]):
        refused = cluster.command("erase", *options)
        assert refused.returncode == 1
        assert "nothing says what is to be erased" in refused.stderr
