"""A producer enqueues many runs at once: COPY, INSERT of many rows, enqueue_many."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli, Execute, dsn_of
from tests.sessions import USUAL

Producer = psycopg.Connection[Any]
COPY = "COPY pgcron.run (handler, args, queue, priority) FROM STDIN"


@pytest.fixture
def producer(cli: Cli, execute: Execute, database: str, role: str) -> Iterator[Producer]:
    execute(cli("grants", "producer", role, "--everything").out)
    with psycopg.connect(dsn_of(role, database)) as connection:
        connection.execute(USUAL)
        connection.commit()
        yield connection


def copy(producer: Producer, rows: list[tuple[Any, ...]], command: str = COPY) -> None:
    with producer.cursor() as cursor, cursor.copy(command.encode()) as sink:
        for row in rows:
            sink.write_row(row)


def test_copied_rows_are_runs_with_all_defaults(
    producer: Producer, execute: Execute, role: str
) -> None:
    copy(producer, [("py:report", json.dumps({"n": n}), "slow", n) for n in range(5)])
    copy(producer, [("py:x",)] * 3, "COPY pgcron.run (handler) FROM STDIN")
    assert execute("SELECT count(*) FROM pgcron.run") == [(0,)], "not before the commit"
    producer.commit()

    rows = execute(
        "SELECT DISTINCT state, attempt, origin, delivery, timeout IS NULL, created_by, "
        "due_at <= now(), max_attempts FROM pgcron.run"
    )
    assert rows == [("ready", 0, "enqueued", "at_least_once", True, role, True, None)]
    assert execute("SELECT count(DISTINCT uuid), count(*) FROM pgcron.runs") == [(8, 8)]
    assert execute("SELECT array_agg(args->'n' = to_jsonb(priority)) FROM pgcron.run "
                   "WHERE queue = 'slow'") == [([True] * 5,)]  # fmt: skip


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (("report", "{}", "default", 5), "handler 'report' is not a handler name"),
        (("py:x", "[]", "default", 5), "args is a JSON array"),
        (("py:x", "{}", "two words", 5), "queue 'two words' is not a queue name"),
        (("py:x", "{}", "default", 11), "priority 11 is out of range"),
    ],
)
def test_a_row_that_is_refused_is_named_and_takes_all_along(
    row: tuple[Any, ...], message: str, producer: Producer, execute: Execute
) -> None:
    fine = ("py:x", "{}", "default", 5)
    with pytest.raises(psycopg.Error) as refusal:
        copy(producer, [fine, fine, row, fine])
    producer.rollback()

    said = refusal.value.diag
    assert (said.sqlstate, said.message_primary) == ("PC001", message)
    assert said.message_detail
    assert said.message_hint
    assert "COPY run, line 3" in str(said.context)
    assert execute("SELECT count(*) FROM pgcron.run") == [(0,)]


@pytest.mark.parametrize(
    "command",
    [
        "COPY pgcron.run (handler, state) FROM STDIN",
        "COPY pgcron.run (handler, token) FROM STDIN",
        "COPY pgcron.run FROM STDIN",
        "COPY pgcron.run (id, args) TO STDOUT",
        "COPY pgcron.history (id) TO STDOUT",
        "COPY pgcron.schedule (name, spec, handler) FROM STDIN",
    ],
)
def test_copy_opens_no_door_that_is_closed(command: str, producer: Producer) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        copy(producer, [], command)


def test_an_insert_of_many_rows_gives_their_ids(producer: Producer, execute: Execute) -> None:
    rows = producer.execute(
        "INSERT INTO pgcron.run (handler, args) "
        "SELECT 'py:report', jsonb_build_object('n', n) FROM generate_series(1, 100) n RETURNING id"
    ).fetchall()
    many = producer.execute(
        "SELECT pgcron.enqueue_many(%s)", [json.dumps([{"handler": "py:report"}] * 100)]
    ).fetchone()
    producer.commit()

    assert many is not None
    assert len({*(row[0] for row in rows), *many[0]}) == 200
    assert execute("SELECT count(*) FROM pgcron.run") == [(200,)]


def test_a_producer_waits_for_its_own_runs_only(
    producer: Producer, execute: Execute, cli: Cli
) -> None:
    row = producer.execute("SELECT pgcron.enqueue('py:x')").fetchone()
    producer.commit()
    assert row is not None
    waited = producer.execute("SELECT ended, state FROM pgcron.wait(%s, '0')", row).fetchone()
    assert waited == (False, "ready")
    assert producer.execute("SELECT ended FROM pgcron.await_runs(ARRAY[%s])", row).fetchone() == (
        [],
    )
    producer.commit()
    other = int(cli("enqueue", "py:x").out)
    with pytest.raises(psycopg.Error) as refusal:
        producer.execute("SELECT pgcron.wait(%s)", [other])
    assert refusal.value.sqlstate == "PC010"
