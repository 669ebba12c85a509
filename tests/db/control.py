"""The control statements as a node sends them: what the tests of the protocol play with."""

from __future__ import annotations

import json
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

import asyncpg

from tests.product.db import NEWEST, load
from tests.product.engine import materialize_parameters
from tests.product.model import Plan
from tests.waiting import until

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
Row: TypeAlias = asyncpg.Record
Connect: TypeAlias = Callable[[], Awaitable[Connection]]

NO_BOUND = datetime(2000, 1, 1, tzinfo=UTC)
NO_BOUNDS: Final[dict[str, list[Any]]] = {
    "bound_queues": [],
    "bound_priorities": [],
    "bound_onces": [],
    "bound_dues": [],
    "bound_ids": [],
}
"""A look that begins at the first run of each path."""
HANDLER = "py:work"


@dataclass(frozen=True)
class Node:
    """A row of ``node`` that tests act as."""

    incarnation: uuid.UUID
    handlers: Sequence[str]
    queues: Sequence[str]


async def call(connection: Connection, name: str, /, **values: Any) -> list[Row]:
    """Send one named statement; every parameter must be given, and no other."""
    statement = load(revision=NEWEST)[name]
    assert set(values) == set(statement.parameters), name
    rows: list[Row] = await connection.fetch(
        statement.sql, *(values[parameter] for parameter in statement.parameters)
    )
    return rows


async def end_waiting(
    connection: Connection, runs: list[int], outcome: str, reason: str = "because"
) -> list[int]:
    """End these runs, if they wait; those that ended."""
    ended = "SELECT pgcron.end_waiting_runs($1, $2, $3)"
    return [row[0] for row in await connection.fetch(ended, runs, outcome, reason)]


async def join(
    connection: Connection,
    *,
    handlers: Sequence[str] = (HANDLER,),
    queues: Sequence[str] = ("default",),
    lease_ttl: float = 60,
    labels: dict[str, str] | None = None,
    name: str | None = None,
    slots: int = 16,
    home: str | None = None,
    tzdata: str = "2026a",
) -> Node:
    """A node with a living lease."""
    node = Node(uuid.uuid4(), handlers, queues)
    await call(
        connection,
        "join_node",
        incarnation=node.incarnation,
        name=name or f"node-{node.incarnation.hex[:4]}",
        host="here",
        process_id=1,
        version="0",
        tzdata=tzdata,
        home=home,
        lease_ttl=lease_ttl,
        slots=slots,
        queues=queues,
        labels=json.dumps(labels or {}),
    )
    await call(connection, "offer_handlers", incarnation=node.incarnation, handlers=handlers)
    return node


async def kill(connection: Connection, node: Node) -> None:
    """What the others know of a node that is gone."""
    await call(connection, "leave", incarnation=node.incarnation, reason="killed by the test")


async def enqueue(connection: Connection, count: int = 1, **columns: Any) -> list[int]:
    """Due runs by plain INSERT; returns their ids in the order they are due."""
    given = {"handler": HANDLER, **columns}
    names = ", ".join(given)
    places = ", ".join(f"${number}" for number in range(1, len(given) + 1))
    rows = await connection.fetch(
        f"INSERT INTO pgcron.run ({names}) SELECT {places} FROM generate_series(1, {count})"
        " RETURNING id",
        *given.values(),
    )
    return [row["id"] for row in rows]


async def claim(
    connection: Connection, node: Node, limit: int = 10, kinds: Sequence[bool] = (False, True)
) -> list[Row]:
    """Claim runs without a capacity gate from every priority of the node's queues; `kinds`: those
    that may start more than once (False), and those that may not (True).
    """
    paths = [(queue, level, once) for queue in node.queues for level in range(10) for once in kinds]
    return await call(
        connection,
        "claim",
        incarnation=node.incarnation,
        handlers=list(node.handlers),
        plain=limit,
        queues=[queue for queue, _, _ in paths],
        priorities=[level for _, level, _ in paths],
        onces=[once for _, _, once in paths],
        bound_dues=[NO_BOUND] * len(paths),
        bound_ids=[0] * len(paths),
    )


async def admit(connection: Connection) -> Row:
    """What the service does for all that waits for an overlap slot: how many runs became `ready`,
    and how many were `skipped` and `superseded`.
    """
    query = "SELECT DISTINCT schedule_id FROM pgcron.run WHERE gate = 'overlap'"
    schedules = [row[0] for row in await connection.fetch(query)]
    [row] = await call(connection, "admit_overlap", schedules=schedules)
    return row


async def ended_as(connection: Connection, outcome: str) -> set[int]:
    query = "SELECT id FROM pgcron.history WHERE outcome = $1"
    return {row["id"] for row in await connection.fetch(query, outcome)}


async def claim_both(connection: Connection, node: Node, limit: int) -> list[Row]:
    """Runs without a capacity gate, and then those with one."""
    claimed = await claim(connection, node, limit)
    rows = await claim_limited(connection, node, limit)
    return claimed + [row for row in rows if row["verdict"] == "claim"]


async def claim_overlapping(
    connection: Connection, node: Node, limit: int = 10
) -> tuple[list[Row], list[int]]:
    """One look at the gates and one claim: (claimed rows, ids of skipped runs)."""
    before = await ended_as(connection, "skipped")
    await admit(connection)
    claimed = await claim(connection, node, limit) if limit else []
    return claimed, sorted(await ended_as(connection, "skipped") - before)


async def claim_limited(
    connection: Connection,
    node: Node,
    free: int = 10,
    *,
    beyond: str = "",
    look: int = 20,
    aged: bool = False,
    probes: Sequence[int] = (),
    ahead: int = 0,
) -> list[Row]:
    """One round over runs with a capacity gate."""
    rows = await look_at_keys(
        connection, node, free, beyond=beyond, look=look, aged=aged, probes=probes, ahead=ahead
    )
    return [row for row in rows if row["verdict"] not in ("walked", "blocked")]


async def look_at_keys(
    connection: Connection,
    node: Node,
    free: int = 10,
    *,
    beyond: str = "",
    look: int = 20,
    since: datetime | None = None,
    aged: bool = False,
    probes: Sequence[int] = (),
    ahead: int = 0,
) -> list[Row]:
    """As `claim_limited`, with how far it has come."""
    return await call(
        connection,
        "claim_gated",
        incarnation=node.incarnation,
        handlers=list(node.handlers),
        gated=free,
        ahead=ahead,
        queues=list(node.queues),
        beyond=[beyond for _ in node.queues],
        look=look,
        since=since,
        aged=aged,
        probes=list(probes),
    )


async def finish(connection: Connection, runs: Sequence[Row]) -> list[int]:
    """Complete these claims; returns the ids that were accepted."""
    rows = await call(
        connection,
        "finish_runs",
        run_ids=[run["id"] for run in runs],
        tokens=[run["token"] for run in runs],
        elapsed_seconds=[0.5 for _ in runs],
        results=['{"fine": true}' for _ in runs],
        without_args=None,
        node="a node",
    )
    return [row["id"] for row in rows]


async def fail(
    connection: Connection,
    runs: Sequence[Row],
    *,
    kind: str = "failed",
    retryable: bool = True,
    retry_after: float | None = None,
    causes: str | None = "ValueError Exception BaseException",
    fingerprint: str | None = None,
) -> dict[int, str]:
    """End these attempts badly; returns what became of the accepted ones."""
    ends = [
        {
            "run_id": run["id"],
            "token": str(run["token"]),
            "kind": kind,
            "retryable": retryable,
            "retry_after": retry_after,
            "elapsed": 0.5,
            "error_class": "ValueError",
            "error": "it went wrong",
            "traceback": "Traceback …",
            "causes": causes,
            "fingerprint": fingerprint,
            "node_name": "a node",
        }
        for run in runs
    ]
    rows = await call(connection, "fail_runs", ends=json.dumps(ends))
    return {row["run_id"]: row["verdict"] for row in rows}


async def release(connection: Connection, runs: Sequence[Row]) -> list[int]:
    """Give these claims back."""
    rows = await call(
        connection,
        "release_runs",
        run_ids=[run["id"] for run in runs],
        tokens=[run["token"] for run in runs],
        weights=None,
    )
    return [row["id"] for row in rows]


async def reap(connection: Connection, at_most: int = 100) -> dict[int, str]:
    """End what runs under dead nodes."""
    rows = await call(connection, "reap_runs", at_most=at_most)
    return {row["run_id"]: row["verdict"] for row in rows}


async def put_schedule(connection: Connection, name: str = "job", **columns: Any) -> int:
    """A schedule by plain INSERT; returns its id."""
    given = {"name": name, "spec": "* * * * *", "handler": HANDLER, **columns}
    places = ", ".join(f"${number}" for number in range(1, len(given) + 1))
    made: int = await connection.fetchval(
        f"INSERT INTO pgcron.schedule ({', '.join(given)}) VALUES ({places}) RETURNING id",
        *given.values(),
    )
    return made


async def fires_ahead(connection: Connection, count: int) -> list[datetime]:
    """The next whole minutes."""
    first = (await database_now(connection)).replace(second=0, microsecond=0) + minutes(1)
    return [first + minutes(number) for number in range(count)]


@dataclass(frozen=True)
class Dropped:
    """A range of fires that a plan drops."""

    first: datetime
    last: datetime
    count: int | None = None
    reason: str = "catchup_latest"


async def materialize(
    connection: Connection,
    cursor: Row,
    fires: Sequence[datetime] = (),
    *,
    watermark: datetime | None = None,
    next_fire: datetime | None = None,
    dropped: Sequence[Dropped] = (),
    max_runs: int | None = None,
    delay: timedelta = timedelta(0),
) -> tuple[int, int]:
    """Decide these fires of one schedule; returns (schedules moved, runs made)."""
    return await materialize_many(
        connection,
        [cursor],
        [fires],
        watermark=watermark,
        next_fire=next_fire,
        dropped=dropped,
        max_runs=max_runs,
        delay=delay,
    )


async def materialize_many(
    connection: Connection,
    cursors: Sequence[Row],
    fires: Sequence[Sequence[datetime]],
    *,
    watermark: datetime | None = None,
    next_fire: datetime | None = None,
    dropped: Sequence[Dropped] = (),
    max_runs: int | None = None,
    delay: timedelta = timedelta(0),
) -> tuple[int, int]:
    """One statement for many schedules; a missing watermark is the last fire of each."""
    decisions: list[Any] = []
    for cursor, planned in zip(cursors, fires, strict=True):
        row = {**cursor, "max_runs": max_runs, "jitter": None}
        missed: list[Any] = [] if decisions else list(dropped)
        until = watermark or max([*planned, cursor["watermark"]])
        decisions.append((row, Plan(list(planned), missed, until, None), "* * * * *"))
    columns = materialize_parameters(decisions)
    columns |= {"next_fires": [next_fire for _ in cursors], "delays": [delay for _ in cursors]}
    rows = await call(connection, "materialize", **columns)
    return rows[0]["schedules"], rows[0]["runs"]


async def cursor_of(connection: Connection, schedule_id: int) -> Row:
    """What a materializer has read of a schedule, and more."""
    row = await connection.fetchrow(
        "SELECT * FROM pgcron.cursor WHERE schedule_id = $1", schedule_id
    )
    assert row is not None
    return row


async def run_row(connection: Connection, run_id: int) -> Row | None:
    """The live row, or None."""
    return await connection.fetchrow("SELECT * FROM pgcron.run WHERE id = $1", run_id)


async def history_row(connection: Connection, run_id: int) -> Row | None:
    """How it ended, or None."""
    return await connection.fetchrow("SELECT * FROM pgcron.history WHERE id = $1", run_id)


async def database_now(connection: Connection) -> datetime:
    """The clock of the database."""
    now: datetime = await connection.fetchval("SELECT clock_timestamp()")
    return now


def minutes(count: float) -> timedelta:
    """For sums of instants."""
    return timedelta(minutes=count)


async def waits_for_lock(observer: Connection, waiting: Connection) -> None:
    """Return when the statement under way on `waiting` is blocked by somebody's lock."""
    process = waiting.get_server_pid()
    await until(
        f"backend {process} waits for a lock",
        lambda: observer.fetchval("SELECT cardinality(pg_blocking_pids($1)) > 0", process),
    )


async def rows_read(connection: Connection) -> int:
    """Rows of the table of runs, since some moment before the transaction under way."""
    read = "idx_tup_fetch + seq_tup_read FROM pg_stat_xact_user_tables WHERE relname = 'run'"
    return int(await connection.fetchval(f"SELECT {read}"))
