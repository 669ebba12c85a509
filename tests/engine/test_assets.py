"""Assets that handlers update: in the transaction that ends their run, or not at all."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from pgcron_ha.errors import InvalidInput
from pgcron_ha.executors.contract.base import Context, Failed, Succeeded
from tests.db.control import Connection, history_row, kill, put_schedule, reap
from tests.engine.conftest import MakeLink
from tests.engine.ending import Ending, begin
from tests.engine.test_transactional import Stage
from tests.product.db import Link
from tests.product.engine import Materializer


@pytest.fixture
async def ending(make_link: MakeLink, connection: Connection) -> Ending:
    return await begin(make_link(joins_by_hash=True), connection)


@pytest.fixture
async def stage(make_link: MakeLink, connection: Connection) -> AsyncIterator[Stage]:
    stage = Stage(make_link(joins_by_hash=True), connection)
    yield stage
    await stage.close()


async def updates(connection: Connection) -> list[tuple[str, str | None, str]]:
    rows = await connection.fetch("SELECT * FROM pgcron.asset_update ORDER BY id")
    return [(row["asset"], row["metadata"], row["updated_by"]) for row in rows]


async def test_an_update_runs_the_schedules_on_it_once(link: Link, connection: Connection) -> None:
    schedule = await put_schedule(connection, spec="on asset sales")
    other = await put_schedule(connection, "other", spec="on asset sales and stock")
    materializer = Materializer(link, 600)
    await materializer.run_once()
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() + interval '1 minute'")
    await connection.execute("SELECT pgcron.update_asset('sales') FROM generate_series(1, 450)")
    while (wait := await materializer.run_once()) == 0:
        pass
    assert wait == 0.5  # a second has one fire at most
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
    await connection.execute("UPDATE pgcron.cursor SET watermark = now() - interval '1 minute'")

    assert await materializer.run_once() is None

    runs = await connection.fetch("SELECT schedule_id, origin FROM pgcron.run")
    assert [tuple(run) for run in runs] == [(schedule, "schedule")]
    assert await connection.fetchval("SELECT max(updates) FROM pgcron.assets") == 450
    preview = await connection.fetchrow("SELECT note, sentence FROM pgcron.preview('other', 1)")
    assert preview is not None
    assert preview["note"] == "it runs when its assets were updated"
    assert preview["sentence"] == "When assets sales and stock were updated."
    status = await connection.fetchrow(
        "SELECT status, waits_for_assets FROM pgcron.schedules WHERE id = $1", other
    )
    assert status is not None
    assert tuple(status) == ("valid", ["stock"])


async def test_a_run_and_its_updates_end_in_one_transaction(
    ending: Ending, connection: Connection
) -> None:
    plain, *runs = await ending.claim(3)
    contexts = {context.run_id: context for context in ending.runner.contexts()}
    for run in runs:
        contexts[run].update_asset("sales", {"rows": 2})
        contexts[run].update_asset("sales", {"rows": run})
        contexts[run].update_asset("stock")
    await ending.end([plain, runs[0]], Succeeded("done", '"done"'))
    await ending.end(runs[1:], Failed("ValueError", "no"))

    await ending.report()

    assert await updates(connection) == [
        ("sales", f'{{"rows": {runs[0]}}}', f"run {runs[0]}"),
        ("stock", None, f"run {runs[0]}"),
    ]
    row = await history_row(connection, runs[0])
    assert row is not None
    assert (row["outcome"], row["result"]) == ("succeeded", '"done"')


async def test_a_zombie_updates_nothing_and_who_is_late_does(
    ending: Ending, connection: Connection
) -> None:
    taken, late = await ending.claim(2)
    for context in ending.runner.contexts():
        context.update_asset("sales")
    await kill(connection, ending.node)
    assert await reap(connection) == {taken: "retry", late: "retry"}
    await connection.execute("DELETE FROM pgcron.run WHERE id = $1", taken)
    await ending.end([taken, late])

    await ending.report()

    assert await updates(connection) == [("sales", None, f"run {late}")]
    assert await history_row(connection, taken) is None
    assert await history_row(connection, late) is not None


async def test_a_transaction_of_a_handler_has_its_updates(stage: Stage, database: str) -> None:
    async def work(context: Context) -> None:
        async with context.connection() as own:
            await own.execute("SELECT pgcron.update_asset('by_sql')")
        context.update_asset("sales", {"rows": 3})
        if context.run_id == failing:
            raise ValueError

    failing = -1
    stage.offer(work, database)
    failing, run = await stage.start(2)
    await stage.outcome(failing)
    await stage.outcome(run)

    found = await updates(stage.connection)
    assert [asset for asset, _, _ in found] == ["by_sql", "sales"]
    assert found[1][1:] == ('{"rows": 3}', f"run {run}")


@pytest.mark.parametrize(
    ("name", "metadata", "message"),
    [
        ("a b", None, "'a b' is not the name of an asset"),
        ("a", [1], "the metadata of asset 'a' can't be kept: it is a list"),
        ("a", {"x": "x" * 4096}, "the metadata of asset 'a' can't be kept: it has 4105 bytes"),
        ("a", {"x": object()}, "the metadata of asset 'a' can't be kept: it is too large,"),
    ],
)
async def test_what_is_no_update_is_refused_at_once(
    ending: Ending, name: str, metadata: dict[str, object], message: str
) -> None:
    await ending.claim()
    [context] = ending.runner.contexts()
    with pytest.raises(InvalidInput) as refusal:
        context.update_asset(name, metadata)

    assert refusal.value.message.startswith(message)


async def test_a_run_updates_a_hundred_assets(ending: Ending) -> None:
    await ending.claim()
    [context] = ending.runner.contexts()
    for number in range(100):
        context.update_asset(f"part/{number}")
    context.update_asset("part/1")
    with pytest.raises(InvalidInput, match="101 assets"):
        context.update_asset("more")
