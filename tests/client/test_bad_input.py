from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, TypeAlias

import asyncpg
import pytest

from pgcron_ha import App
from pgcron_ha.errors import InvalidInput, InvalidSpec, TooLarge, UnknownZone
from tests.product.client import RunRequest

Reader: TypeAlias = "asyncpg.Connection[asyncpg.Record]"

MOST = 256 * 1024 - len('{"text": ""}')
DEEP: dict[str, Any] = {}
for _ in range(100_000):
    DEEP = {"deeper": DEEP}

WRONG_RUNS: dict[str, tuple[type[InvalidInput], dict[str, Any]]] = {
    "unknown kind": (InvalidInput, {"handler": "Ftp:x"}),
    "empty name": (InvalidInput, {"handler": ""}),
    "newline": (InvalidInput, {"handler": "py:x\n"}),
    "args too large": (TooLarge, {"args": {"text": "x" * (MOST + 1)}}),
    "args too large in UTF-8": (TooLarge, {"args": {"text": "ü" * (MOST // 2 + 1)}}),
    "args is a list": (InvalidInput, {"args": [1]}),
    "args is no JSON": (InvalidInput, {"args": "{'day': 1}"}),
    "args has an object": (InvalidInput, {"args": {"day": object()}}),
    "args has NaN": (InvalidInput, {"args": {"x": float("nan")}}),
    "args has NUL": (InvalidInput, {"args": {"x": ["a\x00b"]}}),
    "args has half a character": (InvalidInput, {"args": {"x": "\ud800"}}),
    "args is too deep": (InvalidInput, {"args": DEEP}),
    "queue": (InvalidInput, {"queue": "two words"}),
    "priority": (InvalidInput, {"priority": 10}),
    "priority is true": (InvalidInput, {"priority": True}),
    "naive due_at": (InvalidInput, {"due_at": datetime(2026, 1, 1)}),
    "due_at is text": (InvalidInput, {"due_at": "tomorrow"}),
    "long key": (InvalidInput, {"idempotency_key": "k" * 501}),
    "key with NUL": (InvalidInput, {"idempotency_key": "k\x00"}),
    "lifetime without key": (InvalidInput, {"key_lifetime": 5}),
    "negative timeout": (InvalidInput, {"timeout": timedelta(seconds=-1)}),
    "endless timeout": (InvalidInput, {"timeout": float("inf")}),
    "timeout without a unit": (InvalidInput, {"timeout": "90"}),
    "timeout in words": (InvalidInput, {"timeout": "1 hour"}),
    "timeout is true": (InvalidInput, {"timeout": True}),
    "timeout is NaN": (InvalidInput, {"timeout": float("nan")}),
    "long timeout": (InvalidInput, {"timeout": timedelta(days=31)}),
    "longest timeout": (InvalidInput, {"timeout": timedelta.max}),
    "timeout of ages": (InvalidInput, {"timeout": "99999999999d"}),
    "no attempt": (InvalidInput, {"max_attempts": 0}),
    "delivery": (InvalidInput, {"delivery": "exactly_once"}),
    "two attempts at most once": (InvalidInput, {"delivery": "at_most_once", "max_attempts": 2}),
}

WRONG_SCHEDULES: dict[str, tuple[type[InvalidInput], dict[str, Any]]] = {
    "cron text": (InvalidSpec, {"spec": "61 * * * *"}),
    "never fires": (InvalidSpec, {"spec": "0 0 31 2 *"}),
    "negative interval": (InvalidSpec, {"spec": "every -5m"}),
    "spec is a number": (InvalidInput, {"spec": 5}),
    "zone": (UnknownZone, {"timezone": "Europe/Nowhere"}),
    "DST policy": (InvalidInput, {"dst": "none"}),
    "overlap": (InvalidInput, {"overlap": "maybe"}),
    "catch-up": (InvalidInput, {"catchup": "some"}),
    "catch-up is a number": (InvalidInput, {"catchup": 5}),
    "window": (InvalidInput, {"catchup_window": 0}),
    "start deadline": (InvalidInput, {"start_deadline": timedelta(seconds=-5)}),
    "retry base": (InvalidInput, {"retry": {"base": "2d"}}),
    "name": (InvalidInput, {"name": " "}),
    "long name": (InvalidInput, {"name": "n" * 201}),
    "unknown policy": (InvalidInput, {"colour": "red"}),
    "what an operator decides": (InvalidInput, {"enabled": False}),
    "what the door decides": (InvalidInput, {"managed_by": "me"}),
    "kind": (InvalidInput, {"handler": "Ftp:x"}),
    "args": (TooLarge, {"args": {"text": "x" * (MOST + 1)}}),
}


@pytest.mark.parametrize("case", WRONG_RUNS)
async def test_a_wrong_run_is_refused_without_asking_the_database(case: str) -> None:
    kind, given = WRONG_RUNS[case]
    # Nothing listens there: what is refused was refused before anything was sent.
    app = App("postgresql://127.0.0.1:1/nobody")

    with pytest.raises(kind) as refusal:
        await app.enqueue(**{"handler": "py:x", **given})

    assert type(refusal.value) is kind
    assert refusal.value.message
    assert refusal.value.detail
    assert refusal.value.hint


@pytest.mark.parametrize("case", WRONG_SCHEDULES)
def test_a_wrong_schedule_is_refused_where_it_is_written(case: str) -> None:
    kind, given = WRONG_SCHEDULES[case]
    app = App()

    with pytest.raises(kind) as refusal:
        app.add_schedule(**{"name": "s", "spec": "@daily", "handler": "x", **given})

    assert type(refusal.value) is kind
    assert refusal.value.message
    assert app.schedules == {}


async def test_python_and_sql_draw_the_line_for_args_at_the_same_byte(connection: Reader) -> None:
    app = App()
    for filler in ("x" * MOST, "ü" * (MOST // 2), "\\" * (MOST // 2), "\n" * (MOST // 2)):
        await app.enqueue("x", {"text": filler}, conn=connection)
        with pytest.raises(TooLarge):
            await app.enqueue("x", {"text": filler + "xxx"}, conn=connection)
        unchecked = RunRequest("py:x", '{"text": "' + "x" * (MOST + 1) + '"}', {})
        with pytest.raises(TooLarge):
            await unchecked.send(connection, "pgcron")


@pytest.mark.parametrize(
    "given",
    [
        {"handler": "Ftp:x"},
        {"queue": "two words"},
        {"priority": 10},
        {"timeout": timedelta(days=31)},
        {"max_attempts": 0},
        {"delivery": "exactly_once"},
        {"delivery": "at_most_once", "max_attempts": 2},
        {"idempotency_key": "k" * 501},
        {"args": "[]"},
    ],
    ids=str,
)
async def test_sql_refuses_the_same_in_the_same_words(
    given: dict[str, Any], connection: Reader
) -> None:
    handler = given.pop("handler", "py:x")
    options = {name: value for name, value in given.items() if name != "args"}
    unchecked = RunRequest(handler, given.get("args", "{}"), options)
    with pytest.raises(InvalidInput) as by_sql:
        await unchecked.send(connection, "pgcron")
    with pytest.raises(InvalidInput) as by_python:
        await App().enqueue(handler, conn=connection, **given)

    assert (
        (by_sql.value.message, type(by_sql.value))
        == (by_python.value.message, type(by_python.value))
        or "timeout" in given
        or "idempotency_key" in given
    )
    assert by_sql.value.detail
    assert by_sql.value.hint
    assert await connection.fetchval("SELECT count(*) FROM pgcron.run") == 0
