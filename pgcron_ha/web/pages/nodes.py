"""``/nodes``: who is alive and for how long, who holds what, who is dead and why."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime
from functools import partial
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import cluster
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.node_health import Trouble, read_health, unresponsive_words, without_words
from pgcron_ha.db.queries.pages import nodes as ask
from pgcron_ha.db.queries.pages import overview as ask_overview
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.web.address import NoSuch, choice
from pgcron_ha.web.formats import capital, duration, plain, plural, short, who_and_why
from pgcron_ha.web.page_request import PageRequest, together
from pgcron_ha.web.verbs import verb

STATES: Final = ("alive", "cordoned", "draining", "silent", "dead")
_FILTERS: Final[tuple[str, ...]] = ("state", "queue", "handler")
_POOLED: Final = (
    "No notification reaches it (none passes through a pooler in transaction mode), so it looks "
    "for work by and by. A listen_dsn that leads to the server itself lets work begin at once."
)

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


def node_row(facts: Row, now: datetime) -> Row:
    """One node incarnation at an instant: a row of `pgcron_ha.db.queries.pages.nodes.nodes`, and

    - ``word``: alive, cordoned, draining, silent (its lease ran out), gone (left in order) or died;
    - ``left``, seconds of its lease, below zero if it ran out, and ``lease_left``: at least 0, None
      of the dead;
    - ``over_at``: when it ended, of a silent one the end of its lease; None while it lives;
    - ``cordon``: by whom and why it takes nothing new; None: it does;
    - ``reason``: why it ended; of a cordoned one by whom it is, and why;
    - ``services``: their health, and ``troubles``, a sentence for each thing that is wrong;
    - ``labels``, each as key=value, and a ``sentence``: why it ended, or what happens to it now.
    """
    word, left = str(facts["state"]), (facts["lease_until"] - now).total_seconds()
    is_dead = word == "dead"
    if is_dead:
        word = "died" if "lease" in (facts["ended_because"] or "") else "gone"
    elif left <= 0:
        word = "silent"
    cordon = None
    if facts["cordoned_at"]:
        cordon = who_and_why(facts["cordoned_by"], short(facts["cordon_note"] or ""))
    services = read_health(facts)
    row = {
        **facts,
        "word": word,
        "left": left,
        "lease_left": None if is_dead else max(0.0, left),
        "over_at": facts["lease_until"] if word == "silent" else facts["ended_at"],
        "cordon": cordon,
        "reason": facts["ended_because"] if cordon is None else cordon,
        "services": services,
        "troubles": [_trouble_words(each) for each in services.troubles],
        "labels": [f"{key}={value}" for key, value in json.loads(facts["labels"]).items()],
    }
    unresponsive = facts["unresponsive_runs"]
    said = [
        _sentence(row),
        unresponsive and f"{capital(unresponsive_words(unresponsive))}.",
        _POOLED if facts["is_pooled"] and not is_dead else None,
    ]
    return {**row, "sentence": " ".join(filter(None, said)) or None}


def _trouble_words(each: Trouble) -> str:
    if each.what:
        return f"{capital(each.what)}: {without_words(each)}"
    fails = f"no pass has succeeded for {duration(each.seconds)}"
    return f"{capital(each.service)}: {fails}: {each.error}"


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


def _sentence(row: Row) -> str | None:
    runs = row["runs"]
    match row["word"]:
        case "silent":
            held = f"; a living one declares it dead and takes over {plural(runs, 'run')}"
            return f"Its lease ran out {duration(-row['left'])} ago{held if runs else ''}."
        case "cordoned":
            rest = f"finishes {plural(runs, 'run')}" if runs else "holds no run: it is drained"
            by = f", by word of {row['cordon']}" if row["cordon"] else ""
            return f"It takes nothing new{by}; it {rest}."
        case "draining":
            if not runs:
                return "It leaves."
            return f"It takes nothing new and finishes {plural(runs, 'run')}."
        case "died":
            because = capital(row["ended_because"])
            return f"{because}: its runs were taken over by living nodes."
        case "gone":
            return capital(row["ended_because"] or "")
    return None
