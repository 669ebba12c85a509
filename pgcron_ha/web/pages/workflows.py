"""``/workflows``: which workflows there are, and how their last runs ended; ``/workflows/{name}``:
the graph of one, how each step of its last runs ended, and starting it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import workflows as commands
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA
from pgcron_ha.db.queries.pages import workflows as ask
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import duration, number, plural
from pgcron_ha.web.address import NoSuch, first_of, label_filters, whole_cursor
from pgcron_ha.web.graph import MOST_NODES, Shape, drawing_of, shape_of
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.verbs import START_ARGS, run_verb

# A version never changes, so its drawing is kept until it is forgotten for others.
_SHAPE_LIFE_SECONDS: Final = 86_400.0
_MOST_STEPS: Final = 1_000_000
_FILTERS: Final = ("text", "tag", "owner")


async def show_workflows(page_request: PageRequest) -> Response:
    """The list; ``text`` is a part of the name, ``after`` the name before the page; ``tag`` and
    ``owner`` are of the last run.
    """
    given = page_request.query(*_FILTERS, "after")
    wanted = {"text": given.get("text"), "after": given.get("after"), **label_filters(given)}
    snapshot = await page_request.read("workflows", ask.workflows, **wanted)
    shown, last = first_of(snapshot.value, ask.PAGE_ROWS, "name")
    return page_request.page(
        "workflows.html",
        snapshot,
        title="Workflows",
        rows=shown,
        **page_request.listed("workflows", _FILTERS, given, "after", last),
    )


async def show_workflow(page_request: PageRequest) -> Response:
    """One workflow; its steps after the number ``after`` are the rows of the grid."""
    name = page_request.segments["name"]
    after = number_after(page_request.query("after").get("after"))
    row = (await page_request.read("workflow", ask.workflow, name=name)).value
    if row is None:
        raise NoSuch("workflow", name, "It was never defined, or it is deleted; its runs are kept.")
    version = row["definition_id"]
    shape = await read_shape(page_request, version)
    snapshot = await page_request.gather("workflow_grid", _read_grid, name, version, shape, after)
    nodes, steps, runs = snapshot.value
    shown, last = first_of(steps, ask.PAGE_ROWS, "number")
    return page_request.page(
        "workflow.html",
        snapshot,
        title=name,
        row=row,
        facts=_facts(row),
        is_cut=len(row["definition"]) == ask.MOST_JSON,
        graph=drawing_of(shape, nodes, lambda _: None),
        runs=[{**run, "cells": _cells(run)} for run in runs],
        steps=shown,
        **page_request.turns("workflow", {}, "after", last, name=name),
    )


# A run of the workflow with ``args`` (JSON).
start = run_verb(commands.start_workflow, "started", START_ARGS)


async def read_shape(page_request: PageRequest, definition: int) -> Shape:
    """How the graph of a version is drawn; made once."""
    found = await page_request.read(
        "workflow_shape", _shape, definition=definition, life=_SHAPE_LIFE_SECONDS
    )
    return found.value


def number_after(text: str | None) -> int:
    """The step or item before a page of them; InvalidInput."""
    rule = "A page begins after the number of a step."
    after = 0 if text == "0" else whole_cursor(text, _MOST_STEPS, "the steps", rule)
    return -1 if after is None else after  # no number of a step or an item is lower


async def _shape(connection: Any, *, definition: int, schema: str = DEFAULT_SCHEMA) -> Shape:
    row = await ask.graph(connection, definition, schema=schema)
    # In a thread: 100,000 dependencies take a while.
    return await asyncio.to_thread(shape_of, row["nodes"], row["edges"])


async def _read_grid(
    session: Session, name: str, definition: int, shape: Shape, after: int
) -> tuple[list[Row], list[Row], list[Row]]:
    """What the graph shows, the steps of one page (one more), and the last runs with their states
    in these.
    """
    steps = await session.call(
        ask.nodes, definition=definition, after=after, limit=ask.PAGE_ROWS + 1
    )
    names = [step["name"] for step in steps[: ask.PAGE_ROWS]]
    return (
        await read_nodes(session, shape, definition, None),
        steps,
        await session.call(ask.cells, name=name, names=names),
    )


async def read_nodes(
    session: Session, shape: Shape, definition: int, run_id: int | None
) -> list[Row]:
    """The steps that a drawing shows, or the counts of its groups; of a run with their states."""
    if shape.groups is not None:
        groups: dict[str, Sequence[int]] = {"numbers": shape.nodes, "groups": shape.groups}
        return await session.call(ask.step_groups, definition=definition, run_id=run_id, **groups)
    return await session.call(ask.nodes, definition=definition, run_id=run_id, limit=MOST_NODES)


def _cells(run: Row) -> dict[str, str]:
    return dict(zip(run["names"] or (), run["states"] or (), strict=True))


def _facts(row: Row) -> list[tuple[str, str | None]]:
    """Word and value; what has none is not shown."""
    failure = {
        "continue": "the others continue",
        "stop": "no further step begins",
        "kill": "those that execute are ended, too",
    }
    return [
        ("Steps", number(row["steps"])),
        ("After a failure", failure.get(row["on_failure"], row["on_failure"])),
        ("At once", row["parallelism"] and plural(row["parallelism"], "step")),
        ("Timeout", row["timeout"] and duration(row["timeout"])),
        ("Managed by", ", ".join(filter(None, [row["managed_by"], row["source"]]))),
        ("Version", f"{row['version']}, {row['created_by']}"),
    ]
