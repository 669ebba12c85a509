from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from pgcron_ha import App
from pgcron_ha.errors import InvalidInput
from tests.db.control import Connection
from tests.product.client import NewRun

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def app(database: str) -> AsyncIterator[App]:
    async with App(database) as app:

        @app.handler(timeout=90, start_within=60, give_up_after=3600, silence_timeout=30)
        async def sync() -> None: ...

        @app.handler()
        async def plain() -> None: ...

        yield app


async def limits(connection: Connection, run_id: int) -> tuple[Any, ...]:
    """(timeout, seconds to start, seconds in all, seconds of silence) of a run."""
    row = await connection.fetchrow(
        "SELECT timeout, expire_at - due_at AS start, time_limits FROM pgcron.run WHERE id = $1",
        run_id,
    )
    assert row is not None
    reported = json.loads(row["time_limits"] or "{}")
    return (
        row["timeout"],
        row["start"],
        reported.get("give_up_after"),
        reported.get("silence_timeout"),
    )


async def test_a_run_has_the_limits_that_its_handler_declares(
    app: App, connection: Connection
) -> None:
    requested: list[NewRun] = [{"handler": "sync"}, {"handler": "plain"}]
    many = await app.enqueue_many(requested)
    declared = (1.5 * MINUTE, MINUTE, 3600, 30)
    for run_id in (await app.enqueue("sync"), many[0]):
        assert await limits(connection, run_id) == declared
    for run_id in (await app.enqueue("plain"), many[1], await app.enqueue("shell:sync")):
        assert await limits(connection, run_id) == (None, None, None, None)  # the defaults


async def test_who_asks_for_a_run_may_say_otherwise(app: App, connection: Connection) -> None:
    own: dict[str, Any] = {"timeout": 5, "start_within": 2 * MINUTE, "silence_timeout": 7.5}
    one = await app.enqueue("sync", **own)
    [other] = await app.enqueue_many([{"handler": "sync", "give_up_after": None, **own}])  # type: ignore[typeddict-item]
    for run_id in (one, other):
        assert await limits(connection, run_id) == (MINUTE / 12, 2 * MINUTE, 3600, 7.5)


async def test_durations_may_be_texts_with_their_unit(app: App, connection: Connection) -> None:
    own: dict[str, Any] = {"timeout": "1m", "start_within": "1m30s", "silence_timeout": "7500ms"}
    one = await app.enqueue("plain", give_up_after="1h", **own)
    [other] = await app.enqueue_many([{"handler": "plain", "give_up_after": "1h", **own}])  # type: ignore[typeddict-item]
    for run_id in (one, other):
        assert await limits(connection, run_id) == (MINUTE, 1.5 * MINUTE, 3600, 7.5)
    with pytest.raises(InvalidInput, match=r" -?\d+(\.\d+)? s is out of range"):
        await app.enqueue("plain", silence_timeout="500ms")


async def test_a_schedule_has_the_limits_of_its_handler(app: App, connection: Connection) -> None:
    app.add_schedule("a", "@daily", "sync", give_up_after=60)
    app.add_schedule("b", "@daily", "plain", silence_timeout=2)
    await app.put_schedules()
    await app.put_schedules()

    rows = await connection.fetch("SELECT * FROM pgcron.schedule ORDER BY name")
    names = ("timeout", "start_deadline", "give_up_after", "silence_timeout", "version")
    assert [tuple(row[name] for name in names) for row in rows] == [
        (1.5 * MINUTE, MINUTE, MINUTE, MINUTE / 2, 1),
        (60 * MINUTE, None, None, MINUTE / 30, 1),
    ]


@pytest.mark.parametrize(
    "wrong",
    [{"silence_timeout": 0.5}, {"give_up_after": 0}, {"start_within": timedelta(days=367)}],
    ids=str,
)
async def test_limits_out_of_reason_are_refused_where_they_are_written(
    app: App, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        await app.enqueue("plain", **wrong)
    with pytest.raises(InvalidInput, match=next(iter(wrong))):
        app.handler("other", **wrong)(lambda: None)
    if "start_within" not in wrong:
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            app.add_schedule("a", "@daily", "plain", **wrong)


async def test_a_kill_tells_what_became_of_the_run(app: App, connection: Connection) -> None:
    run_id = await app.enqueue("plain")
    assert await app.kill_run(run_id, "not needed") == "cancelled"
    assert await app.kill_run(run_id) == "finished"
