"""``/nodes``: who is alive and for how long, who holds what, who is dead and why."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from starlette.responses import Response

from pgcron_ha.db.commands import cordons
from pgcron_ha.db.driver.read_pool import Connection
from pgcron_ha.db.queries.node_health import read_health
from pgcron_ha.db.queries.pages import nodes as ask
from pgcron_ha.db.queries.unresponsive_runs import unresponsive_words
from pgcron_ha.errors import NotFound
from pgcron_ha.web.address import choice
from pgcron_ha.web.cluster_contexts import NodeRow, NodesView, NodeView
from pgcron_ha.web.contexts import FilterChip
from pgcron_ha.web.formats import duration, plain, plural, short
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.overview import node_state
from pgcron_ha.web.pages.services import troubles

STATES: Final = ("alive", "cordoned", "draining", "silent", "dead")
_FILTERS: Final[tuple[str, ...]] = ("state", "queue", "handler")


class NoSuchNode(NotFound):
    """A node that does not exist, with those that may have been meant."""

    def __init__(self, given: str, near: list[tuple[str, str]]) -> None:
        super().__init__(
            f"node '{given[:200]}' does not exist",
            "A page of a node is named by its incarnation: each start of a process is another."
            " Those that died are forgotten after a day.",
            "Look for it in the list of nodes.",
        )
        self.near = near


@dataclass(frozen=True)
class Listing:
    """The living and the dead that match, as rows."""

    living: list[dict[str, Any]]
    dead: list[dict[str, Any]]


async def show_nodes(page_request: PageRequest) -> Response:
    """The list; ``?queue=`` and ``handler`` choose those that serve it, ``state`` by their word."""
    given = page_request.query(*_FILTERS)
    choice(given.get("state"), STATES, "state")
    snapshot = await page_request.read(
        ("nodes", given.get("queue"), given.get("handler")),
        lambda connection: read_listing(connection, page_request.schema, given),
    )
    view = _listing_view(page_request, snapshot.value, given, snapshot.now)
    return page_request.page("nodes.html", view, snapshot, title="Nodes", section="nodes")


async def show_node(page_request: PageRequest) -> Response:
    """One incarnation: its lease, what it holds, what it offers."""
    given = page_request.segment("incarnation")
    page_request.query()
    incarnation = _incarnation(given)
    snapshot = await page_request.read(
        ("node", incarnation or given),
        lambda connection: read_node(connection, page_request.schema, given, incarnation),
    )
    node, runs, near = snapshot.value
    if node is None:
        raise NoSuchNode(given, [(_near_name(row), _href(page_request, row)) for row in near])
    row = _row(page_request, node, snapshot.now, None)
    queues = tuple((queue, page_request.link("queue", name=queue)) for queue in node["queues"])
    by = [node["cordoned_by"], short(node["cordon_reason"] or "")]
    view = NodeView(
        row=row,
        runs=runs,
        queues=queues,
        cordon=": ".join(filter(None, by)) if node["cordoned_at"] else None,
    )
    return page_request.page(
        "node.html", view, snapshot, title=plain(node["name"]), section="nodes"
    )


async def cordon(page_request: PageRequest) -> Response:
    """It takes nothing new: every process of its name, until that is lifted; ``reason`` is kept."""
    given = page_request.segment("incarnation")
    reason = (await page_request.form("reason")).get("reason")

    async def work(connection: Connection) -> None:
        node, _ = await _named(connection, page_request.schema, given)
        await cordons.cordon_node(
            connection, node, reason, actor=page_request.actor, schema=page_request.schema
        )

    await page_request.act(work)
    return page_request.redirect("node", {"done": "cordoned"}, incarnation=given)


async def uncordon(page_request: PageRequest) -> Response:
    """It takes runs again."""
    given = page_request.segment("incarnation")
    await page_request.form()

    async def work(connection: Connection) -> None:
        name, is_cordoned_alone = await _named(connection, page_request.schema, given)
        node = given if is_cordoned_alone else name
        await cordons.uncordon_node(
            connection, node, actor=page_request.actor, schema=page_request.schema
        )

    await page_request.act(work)
    return page_request.redirect("node", {"done": "uncordoned"}, incarnation=given)


async def _named(connection: Connection, schema: str, given: str) -> tuple[str, bool]:
    """The node's name, and whether the cordon that was set first is of this process alone."""
    incarnation = _incarnation(given)
    node = incarnation and await ask.node(connection, incarnation, schema=schema)
    if not node:
        raise NoSuchNode(given, [])
    return node["name"], bool(node["is_cordoned_alone"])


async def read_listing(connection: Connection, schema: str, given: dict[str, str]) -> Listing:
    """The living and the dead, in one transaction."""
    chosen = {"queue": given.get("queue"), "handler": given.get("handler")}
    return Listing(
        await ask.nodes(connection, is_dead=False, **chosen, schema=schema),
        await ask.nodes(connection, is_dead=True, **chosen, schema=schema),
    )


async def read_node(
    connection: Connection, schema: str, given: str, incarnation: UUID | None
) -> tuple[dict[str, Any] | None, list[dict[str, Any]], list[dict[str, Any]]]:
    """The node, its runs, and, if there is none, those that may have been meant."""
    node = incarnation and await ask.node(connection, incarnation, schema=schema)
    if not node or incarnation is None:
        return None, [], await ask.near_nodes(connection, given, schema=schema)
    return node, await ask.node_runs(connection, incarnation, schema=schema), []


def _listing_view(
    page_request: PageRequest, listing: Listing, given: dict[str, str], now: datetime
) -> NodesView:
    state = given.get("state")
    versions = Counter(row["version"] for row in listing.living)
    usual = versions.most_common(1)[0][0] if versions else None
    living = [_row(page_request, row, now, usual) for row in listing.living]
    alive = [row for row in living if row.state == "alive"]
    filters = {name: given[name] for name in _FILTERS if name in given}
    others = {name: value for name, value in filters.items() if name != "state"}
    return NodesView(
        living=tuple(row for row in living if state in (None, row.state)),
        dead=tuple(_row(page_request, row, now, None) for row in listing.dead),
        slots=sum(row.facts["slots"] for row in alive),
        free_slots=sum(max(0, row.facts["slots"] - row.facts["slots_used"]) for row in alive),
        versions=sorted(versions),
        chips=tuple(
            FilterChip(
                f"{name}: {plain(value)}",
                page_request.link("nodes", {key: v for key, v in filters.items() if key != name}),
            )
            for name, value in others.items()
        ),
        states=[
            (word or "all", page_request.link("nodes", {**others, "state": word}), word == state)
            for word in (None, *STATES)
        ],
        is_cut=len(listing.living) >= ask.MOST_NODES,
        dead_is_cut=len(listing.dead) >= ask.MOST_DEAD,
        shows_living=state != "dead",
        shows_dead=state in (None, "dead"),
    )


_UNRESPONSIVE: Final = (
    "No notification reaches it (none passes through a pooler in transaction mode), so it looks "
    "for work by and by. A listen_dsn that leads to the server itself lets work begin at once."
)


def _row(
    page_request: PageRequest, facts: dict[str, Any], now: datetime, usual: str | None
) -> NodeRow:
    left = (facts["lease_until"] - now).total_seconds()
    state = node_state({**facts, "lease_left": left})
    names = facts["handler_names"]
    labels = json.loads(facts["labels"])
    return NodeRow(
        facts=facts,
        href=_href(page_request, facts),
        state=state,
        lease_left=max(0.0, left) if facts["state"] != "dead" else None,
        handlers=tuple((name, page_request.link("nodes", {"handler": name})) for name in names),
        more_handlers=facts.get("handlers", len(names)) - len(names),
        has_other_version=usual is not None and facts["version"] != usual,
        sentence=_sentences(facts, state, left),
        labels=tuple(f"{key}={value}" for key, value in labels.items()),
        troubles=troubles(read_health(facts)),
    )


def _sentences(facts: dict[str, Any], state: str, left: float) -> str | None:
    unresponsive = facts["unresponsive_runs"]
    said = [
        _sentence(facts, state, left),
        unresponsive and f"{_capital(unresponsive_words(unresponsive))}.",
        _UNRESPONSIVE if facts["is_pooled"] and facts["state"] != "dead" else None,
    ]
    return " ".join(filter(None, said)) or None


def _sentence(facts: dict[str, Any], state: str, left: float) -> str | None:
    runs = facts.get("runs", 0)
    if state == "silent":
        held = f"; a living one declares it dead and takes over {plural(runs, 'run')}"
        return f"Its lease ran out {duration(-left)} ago{held if runs else ''}."
    if state == "cordoned":
        by = ": ".join(filter(None, [facts["cordoned_by"], short(facts["cordon_reason"] or "")]))
        rest = f"finishes {plural(runs, 'run')}" if runs else "holds no run: it is drained"
        return f"It takes nothing new{f', by word of {by}' if by else ''}; it {rest}."
    if state == "draining":
        return f"It takes nothing new and finishes {plural(runs, 'run')}." if runs else "It leaves."
    if state == "died":
        return f"{_capital(facts['ended_because'])}: its runs were taken over by living nodes."
    if state == "gone":
        return _capital(facts["ended_because"])
    return None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _href(page_request: PageRequest, row: dict[str, Any]) -> str:
    return page_request.link("node", incarnation=row["incarnation"])


def _near_name(row: dict[str, Any]) -> str:
    return f"{row['name']} ({row['state']}, {row['incarnation'][:8]}…)"


def _incarnation(text: str) -> UUID | None:
    try:
        return UUID(text) if len(text) == len(str(UUID(int=0))) else None
    except ValueError:
        return None
