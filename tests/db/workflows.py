"""A node's part of workflows, by hand: claims, ends, and what goes on from the outbox."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.db.control import Connection, Node, Row, call, claim_both, fail, join

BAD = frozenset({"dead", "lost", "cancelled", "expired", "upstream_failed"})


class Stage:
    """One node that may execute every handler of the test, and the database."""

    def __init__(self, connection: Connection, node: Node) -> None:
        self.connection = connection
        self.node = node
        self.is_idle = False
        self.began: list[str] = []
        """The names of steps in the order in which their runs began."""
        self.results: dict[str, Any] = {}
        """What the handler of a step saw of the steps before it, as text."""

    async def put(self, name: str, *steps: Mapping[str, Any], **keys: Any) -> int:
        definition = json.dumps({"steps": steps, **keys})
        version: int = await self.connection.fetchval(
            "SELECT pgcron.put_workflow($1, $2)", name, definition
        )
        return version

    async def start(self, name: str = "w", args: Mapping[str, Any] | None = None) -> int:
        run: int = await self.connection.fetchval(
            "SELECT pgcron.start_workflow($1::text, $2)", name, json.dumps(args or {})
        )
        await self.turn({})
        return run

    async def run(self, *steps: Mapping[str, Any], **keys: Any) -> int:
        """Define the workflow w, and start it."""
        args = keys.pop("args", None)
        await self.put("w", *steps, **keys)
        return await self.start(args=args)

    async def turn(self, outcomes: Mapping[str, Any], most: int = 1000) -> list[str]:
        """What may begin is begun: workflows become steps, a step ends as `outcomes` says by its
        name: with a result, or, for an exception, dead; others go on executing.
        """
        rows = await claim_both(self.connection, self.node, most)
        roots = [row for row in rows if row["handler"].startswith("workflow:")]
        if roots:
            await call(
                self.connection,
                "start_claimed_workflows",
                run_ids=[row["id"] for row in roots],
                tokens=[row["token"] for row in roots],
                node_name="n",
            )
        found = await self.connection.fetch(
            "SELECT step_run, name FROM pgcron.workflow_steps WHERE step_run = ANY ($1)",
            (runs := [row["id"] for row in rows if row not in roots]),
        )
        names: dict[int, Any] = dict.fromkeys(runs) | {
            row["step_run"]: row["name"] for row in found
        }
        self.began += [names[row["id"]] for row in rows if row["id"] in names]
        self.results |= {names[r["id"]]: r["results"] for r in rows if r["id"] in names}
        good = [row for row in rows if row["id"] in names]
        await self.end([r for r in good if names[r["id"]] in outcomes], names, outcomes)
        await self.advance()
        self.is_idle = not rows
        return [names[row["id"]] for row in good]

    async def end(
        self, rows: list[Row], names: Mapping[int, str], outcomes: Mapping[str, Any]
    ) -> None:
        succeeded = [r for r in rows if not isinstance(outcomes[names[r["id"]]], Exception)]
        if succeeded:
            await call(
                self.connection,
                "finish_runs",
                run_ids=[row["id"] for row in succeeded],
                tokens=[row["token"] for row in succeeded],
                elapsed_seconds=[0.1] * len(succeeded),
                results=[_text(outcomes[names[row["id"]]]) for row in succeeded],
                without_args=None,
                node="n",
            )
        failed = [row for row in rows if row not in succeeded]
        if failed:
            await fail(self.connection, failed, retryable=False)

    async def advance(self) -> None:
        """Until nothing is left to be done now."""
        for _ in range(200):
            [row] = await call(self.connection, "workflows_to_advance", most=100, aside=[], after=0)
            if not row["workflows"]:
                return
            for workflow in row["workflows"]:
                await call(self.connection, "advance_workflow", workflow=workflow, most=500)
        raise AssertionError("the outbox never becomes empty")

    async def work(self, outcomes: Mapping[str, Any] | None = None, turns: int = 50) -> None:
        """Turns until nothing begins any more; steps without an outcome succeed."""
        await self.advance()
        for _ in range(turns):
            await self.turn(_Default(outcomes or {}))
            if self.is_idle:
                return

    async def states(self, run: int) -> dict[str, str]:
        rows = await self.connection.fetch(
            "SELECT name, state FROM pgcron.workflow_steps WHERE run_id = $1 AND item < 0"
            " ORDER BY number",
            run,
        )
        return {row["name"]: row["state"] for row in rows}

    async def state(self, run: int) -> str:
        state: str = await self.connection.fetchval(
            "SELECT state FROM pgcron.runs WHERE id = $1", run
        )
        return state

    async def result(self, run: int) -> Any:
        text = await self.connection.fetchval("SELECT result FROM pgcron.runs WHERE id = $1", run)
        return None if text is None else json.loads(text)

    async def check(self) -> None:
        """Nothing is wrong with any workflow."""
        problems = await self.connection.fetch("SELECT * FROM pgcron.check_workflows()")
        assert problems == []


class _Default(dict[str, Any]):
    def __contains__(self, key: object) -> bool:
        return True

    def __missing__(self, key: str) -> Any:
        return None


def _text(result: Any) -> str | None:
    return None if result is None else json.dumps(result)


def step(name: str, *after: str, **keys: Any) -> dict[str, Any]:
    """A step with a handler of the test."""
    return {"name": name, "handler": f"py:{name}", **({"after": after} if after else {}), **keys}


async def end(flow: Stage, name: str, result: Any = None) -> None:
    """The run of a step that executes ends."""
    row = await flow.connection.fetchrow(
        "SELECT * FROM pgcron.run WHERE handler = $1 AND token IS NOT NULL", f"py:{name}"
    )
    assert row is not None
    await flow.end([row], {row["id"]: name}, {name: result})
    await flow.advance()


async def stage(connection: Connection, *handlers: str) -> Stage:
    names = ("a", "b", "c", "d", "e", "undo_a", "undo_b", "last")
    offered = [f"py:{name}" for name in (*names, *handlers)]
    offered += [f"workflow:{name}" for name in ("w", "v", "ad_hoc")]
    return Stage(connection, await join(connection, handlers=offered))
