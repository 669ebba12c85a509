"""Workflows on real connections: two nodes, of which one may have a transaction open."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine, Sequence
from typing import Any, Final, TypeVar

import asyncpg

from tests.db.control import NO_BOUND, Connection, Node, Row, call, fail, join, kill, reap
from tests.product.db import connect

T = TypeVar("T")

HANDLERS: Final = ("py:work", "workflow:outer", "workflow:inner")


class RealWorkflows:
    """Waits for what it does; what waits for the open transaction ends it."""

    def __init__(self, dsn: str) -> None:
        self._loop = asyncio.new_event_loop()
        self.main, self.other, self._observer = (self._wait(connect(dsn)) for _ in range(3))
        self._transaction: Any = None
        self.is_service = False
        self.commits = False
        self.on_close: Any = None
        self.waited = False

    def begin(self) -> None:
        """Nothing is left of what was before; two nodes join."""
        self._wait(
            self.main.execute(
                "DELETE FROM pgcron.run; DELETE FROM pgcron.workflow_run;"
                " DELETE FROM pgcron.step_outbox; DELETE FROM pgcron.dead_letter"
            )
        )
        self.nodes = [self._wait(join(self.main, handlers=HANDLERS)) for _ in range(2)]

    def close(self) -> None:
        for connection in (self.main, self.other, self._observer):
            self._wait(connection.close(timeout=5))
        self._loop.close()

    # Transactions that are open for a while.

    @property
    def is_open(self) -> bool:
        return self._transaction is not None

    def open(self, work: Any, *, commits: bool, on_close: Any) -> None:
        """Does it on the other connection, without a commit yet."""
        self._transaction = self.other.transaction()
        self.commits, self.on_close = commits, on_close
        self._wait(self._transaction.start())
        self._wait(work(self.other))

    def end_open(self) -> None:
        if self._transaction is not None:
            transaction, self._transaction = self._transaction, None
            if self.commits:
                self._wait(transaction.commit())
            else:
                self._wait(transaction.rollback())
            self.on_close(self.commits)

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """On the first connection; where it waits for the open transaction, that ends first."""
        task = self._loop.create_task(work)
        while not task.done():
            self._wait(asyncio.wait({task}, timeout=0.1 if self.is_open else 5))
            if not task.done() and self._is_blocked():
                assert self.is_open, "it waits for nobody"
                self.waited = True
                self.end_open()
        return task.result()

    def _is_blocked(self) -> bool:
        process = self.main.get_server_pid()
        query = "SELECT cardinality(pg_blocking_pids($1)) > 0"
        blocked: bool = self._wait(self._observer.fetchval(query, process))
        return blocked

    # What people do.

    def ask(self, query: str, *arguments: Any) -> Any:
        """The value, or the SQLSTATE of the refusal."""
        try:
            return self.do(self.main.fetchval(query, *arguments))
        except asyncpg.PostgresError as refused:
            if not (refused.sqlstate or "").startswith("PC"):
                raise
            return refused.sqlstate

    def rows(self, query: str, *arguments: Any) -> list[Row]:
        found: list[Row] = self.do(self.main.fetch(query, *arguments))
        return found

    # What nodes do.

    def claim(self, node: int, most: int) -> list[Row]:
        """Workflows among them become steps at once, and are not returned."""
        rows = self.do(_claim(self.main, self.nodes[node], most))
        roots = [row for row in rows if row["handler"].startswith("workflow:")]
        if roots:
            ids, tokens = [r["id"] for r in roots], [r["token"] for r in roots]
            claims: dict[str, Any] = {"run_ids": ids, "tokens": tokens}
            self.do(call(self.main, "start_claimed_workflows", **claims, node_name="a node"))
        return [row for row in rows if row not in roots]

    def finish(self, rows: Sequence[Row], result: str | None) -> list[int]:
        return self.do(finish(self.main, rows, result))

    def fail(self, row: Row, *, retryable: bool) -> str | None:
        verdicts = self.do(fail(self.main, [row], retryable=retryable, retry_after=0))
        return verdicts.get(row["id"])

    def lose(self, node: int) -> None:
        self.do(kill(self.main, self.nodes[node]))
        self.nodes[node] = self.do(join(self.main, handlers=HANDLERS))

    def reap(self) -> dict[int, str]:
        return self.do(reap(self.main))

    def advance(self) -> bool:
        """One look; True when there was something to do."""
        [found] = self.do(call(self.main, "workflows_to_advance", most=100, aside=[], after=0))
        for workflow in found["workflows"]:
            self.do(call(self.main, "advance_workflow", workflow=workflow, most=500))
        return bool(found["workflows"])

    def _wait(self, answer: Coroutine[Any, Any, T]) -> T:
        return self._loop.run_until_complete(answer)


async def finish(connection: Connection, rows: Sequence[Row], result: str | None) -> list[int]:
    ended = await call(
        connection,
        "finish_runs",
        run_ids=[row["id"] for row in rows],
        tokens=[row["token"] for row in rows],
        elapsed_seconds=[0.1 for _ in rows],
        results=[result for _ in rows],
        without_args=None,
        node="a node",
    )
    return [row["id"] for row in ended]


async def finish_as_service(connection: Connection, row: Row, result: str | None) -> None:
    await connection.execute(
        "SELECT pgcron.finish_run($1, $2, result => $3)", row["id"], row["token"], result
    )


async def advance_all(connection: Connection) -> None:
    [found] = await call(connection, "workflows_to_advance", most=100, aside=[], after=0)
    for workflow in found["workflows"]:
        await call(connection, "advance_workflow", workflow=workflow, most=500)


async def put(connection: Connection, name: str, definition: dict[str, Any]) -> None:
    await connection.execute("SELECT pgcron.put_workflow($1, $2)", name, json.dumps(definition))


async def _claim(connection: Connection, node: Node, most: int) -> list[Row]:
    return await call(
        connection,
        "claim",
        incarnation=node.incarnation,
        handlers=list(node.handlers),
        plain=most,
        queues=["default", "default"],
        priorities=[5, 5],
        onces=[False, True],
        bound_dues=[NO_BOUND, NO_BOUND],
        bound_ids=[0, 0],
    )
