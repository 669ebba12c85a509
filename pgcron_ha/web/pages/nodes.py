"""``/nodes``: who is alive and for how long, who holds what, who is dead and why."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import cluster
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.node_health import node_row
from pgcron_ha.db.queries.pages import nodes as ask
from pgcron_ha.db.queries.pages import overview as ask_overview
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import plain
from pgcron_ha.web.address import NoSuch, choice
from pgcron_ha.web.page_request import PageRequest, together
from pgcron_ha.web.verbs import verb

STATES: Final = ("alive", "cordoned", "draining", "silent", "dead")
_FILTERS: Final[tuple[str, ...]] = ("state", "queue", "handler")

_LIVING_AND_DEAD: Final = together(
    partial(ask.nodes, is_dead=False, limit=ask.MOST_NODES),
    partial(ask.nodes, is_dead=True, limit=ask.MOST_DEAD),
)


async def show_nodes(page_request: PageRequest) -> Response:
    """The list; ``?queue=`` and ``handler`` choose those that serve it, ``state`` by their word."""
    given = page_request.query(*_FILTERS)
    choice(given.get("state"), STATES, "state")
    chosen: dict[str, Any] = {name: given.get(name) for name in ("queue", "handler")}
    snapshot = await page_request.read("nodes", _LIVING_AND_DEAD, **chosen)
    (living, dead), state = snapshot.value, given.get("state")
    versions = Counter(row["version"] for row in living)
    rows = [node_row(row, snapshot.now) for row in living]
    shown = [row for row in rows if state in (None, row["word"])]
    alive = [row for row in shown if row["word"] == "alive"]
    return page_request.page(
        "nodes.html",
        snapshot,
        title="Nodes",
        living=shown,
        dead=[node_row(row, snapshot.now) for row in dead],
        slots=sum(row["slots"] for row in alive),
        free_slots=sum(max(0, row["slots"] - row["slots_used"]) for row in alive),
        versions=sorted(versions),  # more than one: the cluster is mixed
        usual_version=versions.most_common(1)[0][0] if versions else None,
        chips=page_request.chips("nodes", given, but="state"),
        states=page_request.choices("nodes", "state", (None, *STATES), given),
        is_cut=len(living) >= ask.MOST_NODES,
        dead_is_cut=len(dead) >= ask.MOST_DEAD,
        shows_living=state != "dead",
        shows_dead=state in (None, "dead"),
    )


async def show_node(page_request: PageRequest) -> Response:
    """One incarnation: its lease, what it holds, what it offers."""
    given = page_request.segments["incarnation"]
    page_request.query()
    snapshot = await page_request.gather("node", _read_node, given)
    node, runs = snapshot.value
    return page_request.page(
        "node.html",
        snapshot,
        title=plain(node["name"]),
        row=node_row(node, snapshot.now),
        runs=runs,  # what it executes or holds ahead
    )


async def _cordon(connection: Any, given: str, *, schema: str, **more: Any) -> None:
    node, _ = await _read_node(Session(connection, schema), given)
    await cluster.cordon_node(connection, node["name"], schema=schema, **more)


async def _uncordon(connection: Any, given: str, *, schema: str, **more: Any) -> None:
    node, _ = await _read_node(Session(connection, schema), given)
    held = node["incarnation" if node["is_cordoned_alone"] else "name"]
    await cluster.uncordon_node(connection, held, schema=schema, **more)


# Every process of its name takes nothing new until it is uncordoned; ``note`` is kept.
cordon = verb(_cordon, "node", "cordoned", "note")
# It takes runs again, whether its name or this process alone was cordoned.
uncordon = verb(_uncordon, "node", "uncordoned")


async def _read_node(session: Session, given: str) -> tuple[Row, list[Row]]:
    """The node and its runs. NotFound."""
    node = await session.call(ask.node, incarnation=given)
    if not node:
        rule = (
            "A page of a node is named by its incarnation: each start of a process is another."
            " Those that died are forgotten after a day."
        )
        raise NoSuch("node", given, rule)
    held = {"incarnation": node["incarnation"], "limit": ask.SHOWN_RUNS}
    return node, await session.call(ask_overview.running, **held)
