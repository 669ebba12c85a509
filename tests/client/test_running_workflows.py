"""Workflows of an App in the database: put by nodes, started by programs, and executed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pgcron_ha import App, Context, Unique, Workflow, chain, chord, group, map_each
from pgcron_ha.errors import Conflict, InvalidInput, NotFound, RunFailed, TooLarge
from tests.client.drivers import KINDS
from tests.db.control import Connection
from tests.product.client import RunOptions
from tests.product.config import load_settings, read_sources
from tests.product.engine import Node
from tests.waiting import until


class Shop:
    """An App, and what its handlers have seen."""

    def __init__(self, dsn: str) -> None:
        self.app = app = App(dsn)
        self.seen: dict[str, Any] = {}

        @app.handler(tags=["reading"])
        def extract(day: str = "today") -> dict[str, Any]:
            return {"rows": 3, "day": day, "files": ["a", "b"]}

        @app.handler()
        def size(context: Context, item: str, unit: str = "kB") -> str:
            self.seen[f"size {item}"] = dict(context.results)
            if item == "broken":
                raise ValueError("it is broken")
            return f"{item} {unit}"

        @app.handler()
        async def load(context: Context, rows: int = 0, scale: float = 1) -> float:
            self.seen["load"] = dict(context.results)
            if rows < 0:
                raise ValueError("rows are missing")
            return rows * scale

        @app.handler()
        def report(context: Context, **rest: Any) -> list[str]:
            self.seen["report"] = {**rest, "results": dict(context.results)}
            return sorted(context.results)


@pytest.fixture
async def shop(database: str) -> AsyncIterator[Shop]:
    shop = Shop(database)
    async with shop.app:
        yield shop


@asynccontextmanager
async def working(shop: Shop, dsn: str, folder: Path) -> AsyncIterator[None]:
    """While a node executes what the App offers."""
    flags = {"dsn": dsn, "node.name": "n1", "node.state_directory": str(folder)}
    node = Node(load_settings(read_sources(environment={}, flags=flags)), [shop.app], "0")
    task = asyncio.create_task(node.run())
    try:
        await until("it has joined", lambda: node.look().incarnation is not None or task.done())
        yield
    finally:
        node.stop()
        await task


def define_etl(app: App) -> None:
    @app.workflow(parallelism=5, timeout="1h")
    def etl(flow: Workflow) -> None:
        extract = flow.step("extract", args={"day": flow.args["day"]}, timeout="5m")
        sizes = flow.map(
            "size", extract.result["files"], args={"unit": flow.args["two words"]}, tolerate=1
        )
        load = flow.step(
            "load",
            args={"rows": extract.result["rows"], "scale": 0.5},
            when=(extract.result["rows"] > 2) & (extract.result["day"] == flow.args["day"]),
        )
        flow.step("load", name="never", when=~(extract.result["rows"] > 2), optional=True)
        flow.timer("cool-down", "10ms", after=load)
        flow.step("report", after=["cool-down", sizes, load], rule="all_ended")


async def test_a_workflow_of_the_code_is_executed(
    shop: Shop, database: str, connection: Connection, tmp_path: Path
) -> None:
    define_etl(shop.app)
    async with working(shop, database, tmp_path):
        run = await shop.app.start("etl", {"day": 'it\'s "mon"', "two words": "MB"})
        await run.result(timeout=60)

    extracted = {"rows": 3, "day": 'it\'s "mon"', "files": ["a", "b"]}
    assert shop.seen["load"] == {"extract": extracted}
    assert shop.seen["size a"] == {"extract": extracted}
    results = {"load": 1.5, "size": ["a MB", "b MB"]}
    assert shop.seen["report"]["results"] == results
    rows = await connection.fetch(
        "SELECT name, state FROM pgcron.workflow_steps WHERE run_id = $1 AND item = -1", int(run)
    )
    assert {row["name"]: row["state"] for row in rows} == {
        "extract": "succeeded",
        "size": "succeeded",
        "load": "succeeded",
        "never": "skipped",
        "cool-down": "succeeded",
        "report": "succeeded",
    }
    tags = "SELECT tags FROM pgcron.history WHERE handler = 'py:extract'"
    assert await connection.fetchval(tags) == ["reading"]


async def test_nodes_put_the_workflows_of_the_code(shop: Shop, connection: Connection) -> None:
    define_etl(shop.app)
    await shop.app.put_workflows()
    await shop.app.put_workflows()
    found = await connection.fetchrow(
        "SELECT version, managed_by, steps, definition FROM pgcron.workflows WHERE name = 'etl'"
    )
    assert found is not None
    assert tuple(found)[:3] == (1, "code", 6)
    assert json.loads(found["definition"]) == shop.app.workflows["etl"]

    changed = Shop("postgresql://x")
    changed.app.workflow("etl")(lambda flow: flow.step("load"))
    await changed.app.put_workflows(connection)
    assert await connection.fetchval("SELECT version FROM pgcron.workflows") == 2


async def test_what_the_builder_takes_the_database_takes(
    shop: Shop, connection: Connection
) -> None:
    options: RunOptions = {
        "queue": "slow",
        "priority": 2,
        "max_attempts": 3,
        "delivery": "at_least_once",
        "retry": {"backoff": ["10s", 60], "retry_for": "2h"},
        "concurrency_key": "smtp",
        "requires": {"gpu": "a100", "ssd": True},
        "weight": 2,
        "give_up_after": "2d",
        "silence_timeout": "1m",
        "tags": ["a", "b"],
        "timeout": "1h30m",
        "start_within": 90.5,
    }

    def everything(flow: Workflow) -> None:
        first = flow.step("load", **options)  # type: ignore[misc]
        odd = flow.args["exists"]["null"]["ä b"][0]["last"][-1] != None  # noqa: E711
        flow.step("report", after=first, when=odd | ~(first.result["x"] < 1.5))
        repeat: Any = {"while": flow.own_result["n"] < 3, "at_most": 5, "every": 0.5}
        flow.step("extract", repeat=repeat, rule="none_failed", after=first, optional=True)
        flow.approval("ok", after=first, deadline="366d", at_deadline="skip")
        flow.signal("go", deadline="1ms", rule="one_succeeded", after=["load", "ok"])
        flow.step("load", name="undo", compensates=first, args={"rows": flow.args["n"]})
        last = flow.step("report", name="last", finally_=True)
        flow.step("report", name="very-last", finally_=True, after=last, args={"of": last.result})

    shop.app.workflow("everything", on_failure="kill", timeout="30d")(everything)
    await shop.app.put_workflows()
    steps = await connection.fetch(
        "SELECT s.name, s.options FROM pgcron.workflow_step s WHERE kind <> 'barrier'"
    )
    kept = {row["name"]: json.loads(row["options"]) for row in steps}
    assert kept["load"].keys() == options.keys()
    hours = "SELECT extract(epoch FROM ($1::text)::interval)"
    for name, seconds in (("timeout", 5400), ("start_within", 90.5), ("give_up_after", 172_800)):
        assert await connection.fetchval(hours, kept["load"][name]) == seconds


async def test_parts_are_executed_without_a_definition(
    shop: Shop, database: str, connection: Connection, tmp_path: Path
) -> None:
    def parts(day: str) -> Any:
        return chain(
            {"handler": "extract", "args": {"day": day}},
            group("load", map_each({"handler": "size", "args": {"unit": "B"}}, ["x", "y"])),
            {"handler": "report", "args": {"two words": [1], "day": day}},
        )

    async with working(shop, database, tmp_path):
        for day in ("mon", "tue"):
            await (await shop.app.start(parts(day))).result(timeout=60)
        assert shop.seen["size x"]["extract"]["day"] == "tue"
        assert shop.seen["report"] == {
            "two words": [1],
            "day": "tue",
            "results": {"load": 0, "size": ["x B", "y B"]},
        }
        failing = await shop.app.start(
            chord([{"handler": "load", "args": {"rows": -1}, "max_attempts": 1}], "report")
        )
        with pytest.raises(RunFailed):
            await failing.result(timeout=60)
        some = map_each({"handler": "size", "max_attempts": 1}, ["a", "broken"], tolerate=1)
        await (await shop.app.start(some)).result(timeout=60)
    stored = "SELECT count(*) FROM pgcron.workflow_definition WHERE name = 'ad_hoc'"
    assert await connection.fetchval(stored) == 3


async def test_a_signal_ends_its_step(
    shop: Shop, database: str, connection: Connection, tmp_path: Path
) -> None:
    @shop.app.workflow()
    def orders(flow: Workflow) -> None:
        paid = flow.signal("paid", deadline="1h")
        flow.step("report", args={"sum": paid.result["sum"]})

    await shop.app.put_workflows()
    async with working(shop, database, tmp_path):
        run = await shop.app.start(orders)

        async def waits() -> bool:
            ask = "SELECT state FROM pgcron.workflow_steps WHERE run_id = $1 AND name = 'paid'"
            return bool(await connection.fetchval(ask, int(run)) == "running")

        await until("it waits", waits)
        with pytest.raises(NotFound, match="has no step 'payed'"):
            await shop.app.signal(run, "payed")
        assert await shop.app.signal(run, "paid", {"sum": 12.5}) == "ended"
        await run.result(timeout=60)
    assert shop.seen["report"] == {"sum": 12.5, "results": {"paid": {"sum": 12.5}}}
    with pytest.raises(Conflict, match="is over"):
        await shop.app.signal(run, "paid")


async def test_a_start_has_the_options_of_a_run(shop: Shop, connection: Connection) -> None:
    define_etl(shop.app)
    with pytest.raises(NotFound, match="workflow 'etl' does not exist"):
        await shop.app.start("etl")
    await shop.app.put_workflows()
    run = await shop.app.start("etl", queue="slow", priority=1, tags=["a"], idempotency_key="k")
    assert await shop.app.start("etl", idempotency_key="k", key_lifetime="2h") == run
    one = await shop.app.start("etl", unique=Unique("u"), concurrency_key="c")
    assert await shop.app.start("etl", unique=Unique("u")) == one
    assert await shop.app.enqueue("workflow:etl", {"day": "x"}) > one
    found = await connection.fetchrow(
        "SELECT handler, queue, priority, tags FROM pgcron.run WHERE id = $1", int(run)
    )
    assert found is not None
    assert tuple(found) == ("workflow:etl", "slow", 1, ["a"])
    assert (await run.status()).handler == "workflow:etl"


@pytest.mark.parametrize("kind", KINDS)
async def test_a_start_is_part_of_the_caller_s_transaction(
    shop: Shop, database: str, connection: Connection, kind: str
) -> None:
    define_etl(shop.app)
    await shop.app.put_workflows()
    count = "SELECT count(*) FROM pgcron.run"
    for ends, runs in (("rollback", 0), ("commit", 3)):
        async with KINDS[kind](database) as caller:
            made = [
                await shop.app.start("etl", {"day": 1}, conn=caller.connection, tags=["x"]),
                await shop.app.start(chain("load", "report"), conn=caller.connection),
                await shop.app.start(
                    "etl", key_lifetime=60, idempotency_key="k", conn=caller.connection
                ),
            ]
            assert len(set(made)) == 3
            assert await connection.fetchval(count) == 0
            await getattr(caller, ends)()
        assert await connection.fetchval(count) == runs


async def test_a_schedule_of_the_code_starts_its_workflow(
    shop: Shop, connection: Connection
) -> None:
    @shop.app.schedule("@daily", args={"day": "today"})
    @shop.app.workflow("nightly")
    def build(flow: Workflow) -> None:
        flow.step("load")

    await shop.app.put_workflows()
    await shop.app.put_schedules()
    found = await connection.fetchrow("SELECT name, handler FROM pgcron.schedule")
    assert found is not None
    assert tuple(found) == ("nightly", "workflow:nightly")


async def test_the_database_refuses_what_only_it_knows(shop: Shop) -> None:
    shop.app.workflow("odd")(lambda flow: flow.step("load", when="$.args.x ??"))
    with pytest.raises(
        InvalidInput, match=r"workflow 'odd': step 1 \('load'\): when .* can't be read"
    ):
        await shop.app.put_workflows()


async def test_a_definition_over_one_mebibyte_is_refused(
    shop: Shop, connection: Connection
) -> None:
    """As the builder writes it, and as a group becomes one. Such a definition is always refused for
    its size: a step takes more than 10 bytes, so that 100,000 steps exceed 1 MiB.
    """
    parts = [{"handler": "shell:load", "concurrency_key": "k" * 190} for _ in range(5000)]

    @shop.app.workflow()
    def wide(flow: Workflow) -> None:
        for number in range(len(parts)):
            flow.step("shell:load", name=f"load-{number}", concurrency_key="k" * 190)

    with pytest.raises(TooLarge, match=r"^workflow 'wide': the definition has 1\d{6} bytes") as put:
        await shop.app.put_workflows()
    with pytest.raises(TooLarge, match=r"^the definition has 1\d{6} bytes") as started:
        await shop.app.start(group(*parts))
    for refusal in (put.value, started.value):
        assert refusal.detail == "A definition may have 1048576 bytes (1 MiB) as JSON text."
        assert refusal.hint
    for table in ("workflow_definition", "workflow_run", "run"):
        assert await connection.fetchval(f"SELECT count(*) FROM pgcron.{table}") == 0


async def test_a_compensation_reads_the_result_of_what_it_undoes(
    shop: Shop, database: str, tmp_path: Path
) -> None:
    @shop.app.workflow()
    def order(flow: Workflow) -> None:
        reserve = flow.step("extract")
        flow.step("load", args={"rows": -1}, after=reserve, max_attempts=1)
        flow.step("report", compensates=reserve, args={"of": reserve.result["rows"]})

    async with working(shop, database, tmp_path):
        with pytest.raises(RunFailed, match="rows are missing"):
            await (await shop.app.start("order")).result(timeout=60)
    assert shop.seen["report"]["of"] == 3
    assert shop.seen["report"]["results"].keys() == {"extract"}
