from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import pytest

from pgcron_ha import App, Context, Debounce, Throttle, Unique, Workflow
from pgcron_ha.errors import ConfigError, Conflict, DatabaseUnavailable, InvalidInput, NotFound
from tests.product.client import define_schedule
from tests.product.db import migrate
from tests.servers import ThrowAwayServer
from tests.waiting import COMMAND_SECONDS, until

Reader: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


async def test_a_function_becomes_a_handler_under_its_name_or_a_given_one() -> None:
    app = App()

    @app.handler()
    async def tidy(context: Context) -> None: ...

    @app.handler("report.daily")
    def make_report(day: str) -> str:
        return day

    assert set(app.handlers) == {"py:tidy", "py:report.daily"}
    assert (app.handlers["py:tidy"].is_async, app.handlers["py:tidy"].takes_context) == (True, True)
    assert app.handlers["py:report.daily"].function is make_report
    assert make_report("monday") == "monday"


def test_wrong_definitions_of_handlers_are_told_where_they_are_made() -> None:
    app = App()
    app.handler("report")(lambda: None)

    with pytest.raises(ConfigError, match="defined twice"):
        app.handler("report")(lambda: None)
    with pytest.raises(InvalidInput, match="not a handler name"):
        app.handler("no spaces")(lambda: None)
    with pytest.raises(ConfigError, match="without parentheses"):
        app.handler(lambda: None)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="on_lease_loss is 'go on'"):
        app.handler("long", on_lease_loss="go on")(lambda: None)  # type: ignore[arg-type]
    for misplaced in (lambda order, context: 1, lambda context, *, ctx: 1, lambda *, ctx=None: 1):
        with pytest.raises(ConfigError, match="of the handler 'py:new' is in the wrong place"):
            app.handler("new")(misplaced)
    app.handler("rest")(lambda *context, **ctx: None)
    with pytest.raises(InvalidInput, match="delivery 'sometimes' is not known"):
        app.handler("other", delivery="sometimes")(lambda: None)
    with pytest.raises(ConfigError, match="not a handler of this App"):
        app.schedule("@daily")(lambda: None)
    with pytest.raises(ConfigError, match="not a plain name"):
        App(schema="No Schema")


async def test_a_name_that_is_nearly_a_handler_of_the_app_is_warned_of_once(
    database: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with App(database) as app:
        app.handler("report")(lambda: None)
        for name in ("reprot", "reprot", "report", "shell:other"):
            await app.enqueue(name)

    assert [record.getMessage() for record in caplog.records] == [
        "py:reprot is no handler of this App; did you mean 'py:report'?"
    ]


def test_of_a_thousand_unknown_names_the_next_is_not_looked_for(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App("postgresql://127.0.0.1:1/nobody")
    app.handler("report")(lambda: None)
    for number in range(1000):
        app.enqueue_statement(f"shell:{number}")
    for _ in range(2):
        app.enqueue_statement("reprot")

    assert not caplog.records


def test_a_misspelled_policy_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidInput) as refused:
        define_schedule("s", "@daily", "py:x", {"jiter": "5m"})
    assert refused.value.message.endswith("; did you mean 'jitter'?")


def test_a_schedule_in_code_is_complete() -> None:
    app = App()

    @app.schedule("*/5 * * * *", name="often", catchup_window=600, args={"deep": True})
    @app.schedule(
        "0 3 * * *", timezone="Europe/Berlin", overlap="allow", catchup="none", dst="skip"
    )
    @app.handler("tidy")
    def tidy(deep: bool = False) -> None: ...

    nightly, often = app.schedules["tidy"], app.schedules["often"]
    assert (nightly.handler, nightly.timezone, nightly.dst) == ("py:tidy", "Europe/Berlin", "skip")
    assert (nightly.overlap, nightly.catchup, nightly.args) == ("allow", "none", "{}")
    assert (often.catchup_window, often.args) == (timedelta(minutes=10), '{"deep": true}')
    assert often.timeout == timedelta(hours=1)
    with pytest.raises(ConfigError, match="schedule 'often' is defined twice"):
        app.add_schedule("often", "@daily", "tidy")


async def test_enqueue_takes_a_function_a_short_name_or_a_full_one(database: str) -> None:
    app = App(database)

    @app.handler("report")
    async def make_report() -> None: ...

    async with app:
        ids = [await app.enqueue(h) for h in (make_report, "report", "py:report", "shell:backup")]
        found = [await app.run(run_id) for run_id in ids]

    assert [status.handler for status in found] == ["py:report"] * 3 + ["shell:backup"]
    assert {status.state for status in found} == {"ready"}
    assert not any(status.is_ended for status in found)


def test_a_function_with_the_name_of_another_ones_handler_stands_for_its_own() -> None:
    app = App()

    for name in ("send", "bill"):
        app.handler(name)(lambda: None)

    @app.schedule("@daily")
    @app.handler("send_by_fax")
    def send() -> None: ...

    @app.schedule("@daily")
    @app.workflow("billing")
    def bill(flow: Workflow) -> None:
        flow.step(send)

    assert {name: each.handler for name, each in app.schedules.items()} == {
        "send_by_fax": "py:send_by_fax",
        "billing": "workflow:billing",
    }


async def test_a_living_idempotency_key_returns_the_run_it_named(database: str) -> None:
    async with App(database) as app:
        first = await app.enqueue("report", idempotency_key="k", key_lifetime=3600)
        assert await app.enqueue("report", idempotency_key="k") == first
        assert await app.enqueue("report", idempotency_key="other") != first


async def test_cancelling_tells_what_became_of_the_run(database: str, connection: Reader) -> None:
    async with App(database) as app:
        run_id = await app.enqueue("report", due_at=datetime.now(UTC) + timedelta(hours=1))
        assert await app.cancel_run(run_id, "not needed") == "cancelled"
        assert await app.cancel_run(run_id) == "finished"

        status = await app.run(run_id)
        assert (status.state, status.outcome, status.is_ended) == ("cancelled", "cancelled", True)
        assert "not needed" in str(status.error)
        with pytest.raises(NotFound):
            await app.run(run_id + 1)
    (row,) = await connection.fetch("SELECT verb, interface, note FROM pgcron.audit")
    assert tuple(row) == ("cancel", "code", "not needed")


async def test_a_result_comes_back_as_the_handler_returned_it(
    database: str, connection: Reader
) -> None:
    await connection.execute(
        "INSERT INTO pgcron.history (id, uuid, origin, queue, priority, handler, args, delivery, "
        "outcome, attempt, due_at, created_at, created_by, result) VALUES (7, gen_random_uuid(), "
        "'enqueued', 'default', 5, 'py:x', '{}', 'at_least_once', 'succeeded', 1, now(), now(), "
        "'me', '{\"rows\": [12345678901234567890]}')"
    )
    async with App(database) as app:
        status = await app.run(7)
    assert (status.outcome, status.result) == ("succeeded", {"rows": [12345678901234567890]})


async def test_schedules_that_are_so_already_are_not_written(
    database: str, connection: Reader
) -> None:
    async with App(database) as app:
        app.add_schedule("a", "0 3 * * *", "report")
        app.add_schedule("b", "every 90m", "report", start_deadline=60)
        await app.put_schedules()
        await connection.execute("SELECT pgcron.pause_schedule('a', 'by hand')")
        await app.put_schedules()
        versions = await connection.fetch(
            "SELECT name, version, enabled FROM pgcron.schedule ORDER BY 1"
        )
        assert [tuple(row) for row in versions] == [("a", 2, False), ("b", 1, True)]

        await connection.execute("UPDATE pgcron.schedule SET spec = '0 4 * * *' WHERE name = 'a'")
        await app.put_schedules()
        row = await connection.fetchrow(
            "SELECT s.spec, s.enabled, v.interface FROM pgcron.schedule s "
            "JOIN pgcron.schedule_version v ON v.schedule_id = s.id AND v.version = s.version "
            "WHERE s.name = 'a'"
        )
    assert row is not None
    assert tuple(row) == ("0 3 * * *", False, "code")


async def test_nodes_that_start_together_put_the_same_schedules(
    database: str, connection: Reader
) -> None:
    app = App(database)
    for number in range(5):
        app.add_schedule(f"s{number}", "0 3 * * *", "report")

    await asyncio.gather(*(app.put_schedules() for _ in range(8)))
    await app.close()

    assert await connection.fetchval("SELECT count(*) FROM pgcron.schedule") == 5


def test_an_app_serves_several_event_loops(database: str) -> None:
    app = App(database)

    async def ask() -> int:
        async with app:
            return await app.enqueue("report")

    assert asyncio.run(ask()) != asyncio.run(ask())


async def test_without_a_dsn_the_configuration_is_asked(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGCRON_HA_DSN", raising=False)
    with pytest.raises(ConfigError) as refusal:
        await App().enqueue("report")
    assert "PGCRON_HA_DSN" in str(refusal.value.hint)

    monkeypatch.setenv("PGCRON_HA_DSN", database)
    async with App() as app:
        assert (await app.run(await app.enqueue("report"))).state == "ready"


async def test_a_node_fills_in_what_an_app_left_out(database: str, connection: Reader) -> None:
    await migrate(database, "jobs")
    given, open_one = App(schema="jobs"), App()
    for app in (given, open_one):
        app.attach(database, "pgcron")
        async with app:
            await app.enqueue("report")

    assert await connection.fetchval("SELECT count(*) FROM jobs.run") == 1
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 1


async def test_the_schema_of_the_configuration_holds_with_a_callers_connection_too(
    database: str, connection: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await migrate(database, "jobs")
    monkeypatch.setenv("PGCRON_HA_SCHEMA", "jobs")

    await App().enqueue("report", conn=connection)

    assert await connection.fetchval("SELECT count(*) FROM jobs.run") == 1


async def test_an_app_goes_on_when_the_server_is_back() -> None:
    with ThrowAwayServer() as own_server:
        dsn = own_server.create_database("shop")
        await migrate(dsn)
        async with App(dsn) as app:
            first = await app.enqueue("report", idempotency_key="first")
            own_server.stop("fast")
            with pytest.raises(DatabaseUnavailable):
                await app.enqueue("report")
            own_server.start()
            again = await until(
                "the App has a connection again",
                lambda: app.enqueue("report", idempotency_key="first"),
                ignoring=(DatabaseUnavailable,),
            )
    assert again == first


async def test_an_unreachable_database_is_an_error_with_a_hint() -> None:
    for dsn in ("postgresql://127.0.0.1:1/x", "postgresql:///x?host=/nowhere", "postgresql://h:x/"):
        async with App(dsn) as app:
            with pytest.raises(DatabaseUnavailable) as refusal:
                await app.enqueue("report")
        assert refusal.value.hint


def test_importing_the_package_loads_neither_database_nor_migrations() -> None:
    code = (
        "import sys, pgcron_ha; before = set(sys.modules);"
        "assert not before & {'asyncpg', 'alembic', 'sqlalchemy', 'croniter'}, before;"
        "pgcron_ha.App; pgcron_ha.Retry; pgcron_ha.errors.InvalidSpec;"
        "assert not set(sys.modules) & {'alembic', 'sqlalchemy', 'psycopg', 'click'};"
        "assert set(pgcron_ha.__all__) <= set(dir(pgcron_ha))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=COMMAND_SECONDS
    )
    assert run.returncode == 0, run.stderr


async def test_runs_of_the_same_work_are_one(database: str, connection: Reader) -> None:
    async with App(database) as app:
        first = await app.enqueue("work", {"n": 1}, unique=Unique("k", on_conflict="replace"))
        assert (
            await app.enqueue("work", {"n": 2}, unique=Unique("k", on_conflict="replace")) == first
        )
        assert await connection.fetchval("SELECT args FROM pgcron.run") == '{"n": 2}'
        with pytest.raises(Conflict, match=f"run {first} has the unique key 'k'"):
            await app.enqueue("work", unique=Unique("k", on_conflict="refuse"))

        soon = await app.enqueue("work", unique=Debounce("d", 5, at_most=60))
        once = await app.enqueue("work", unique=Throttle("t", timedelta(hours=1)))
        runs = [
            {"handler": "work", "unique": Debounce("d", 5)},
            {"handler": "work", "unique": Throttle("t", 3600, trailing=True)},
            {"handler": "work", "unique": Unique("other", period=60)},
        ]
        ids = await app.enqueue_many(runs)  # type: ignore[arg-type]
    assert ids[:2] == [soon, once]
    waits = await connection.fetchval("SELECT due_at - now() FROM pgcron.run WHERE id = $1", soon)
    assert timedelta(0) < waits <= timedelta(seconds=5)


@pytest.mark.parametrize(
    ("unique", "more"),
    [
        ("k", {}),
        (Unique(""), {}),
        (Unique(None), {}),  # type: ignore[arg-type]
        (Throttle(None, 5), {}),  # type: ignore[arg-type]
        (Unique("k", scope="ever"), {}),  # type: ignore[arg-type]
        (Unique("k", on_conflict="merge"), {}),  # type: ignore[arg-type]
        (Throttle("k", 0), {}),
        (Throttle("k", timedelta(days=367)), {}),
        (Debounce("k", timedelta(days=31)), {}),
        (Unique("k"), {"key_lifetime": 5}),
    ],
)
async def test_what_uniqueness_can_not_be_is_refused_before_the_database_is_asked(
    unique: Any, more: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput) as refusal:
        await App("postgresql://127.0.0.1:1/nobody").enqueue("work", unique=unique, **more)
    assert refusal.value.detail
    assert refusal.value.hint


async def test_options_that_do_not_go_with_a_unique_key_are_refused(database: str) -> None:
    soon = datetime.now(UTC)
    wrong: tuple[tuple[Any, dict[str, Any]], ...] = (
        (Unique("k"), {"idempotency_key": "k"}),
        (Unique("k", scope="open", period=60), {}),
        (Debounce("k", 5), {"due_at": soon}),
        (Throttle("k", 5, trailing=True), {"due_at": soon}),
    )
    async with App(database) as app:
        for unique, more in wrong:
            with pytest.raises(InvalidInput, match="is given with") as refusal:
                await app.enqueue("work", unique=unique, **more)
            assert refusal.value.detail
            assert refusal.value.hint
            run: Any = {"handler": "work", "unique": unique, **more}
            with pytest.raises(InvalidInput, match="is given with"):
                await app.enqueue_many([run])
