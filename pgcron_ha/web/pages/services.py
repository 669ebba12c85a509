"""What the services of nodes say is wrong: those that fail, and what others go on without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from pgcron_ha.db.queries.blocking import holding_words, session_words
from pgcron_ha.db.queries.node_health import Failing, NodeHealth, Without, merged, without_words
from pgcron_ha.db.queries.overview import Row
from pgcron_ha.web.contexts import Attention, NodeLine
from pgcron_ha.web.formats import duration, plural
from pgcron_ha.web.page_request import PageRequest

_NAMED: int = 3


def troubled_services(
    page_request: PageRequest, nodes: Sequence[NodeLine], now: datetime
) -> Iterator[Attention]:
    """One row for each cause, however many nodes have it."""
    hrefs = {node.name: node.href for node in nodes if node.state != "dead"}
    for names, cause in merged((node.name, node.health) for node in nodes):
        href = hrefs[names[0]] if len(names) == 1 else page_request.link("nodes")
        since = now - timedelta(seconds=cause.seconds)
        if isinstance(cause, Failing):
            what = f"{_capital(cause.service)} of {_nodes(names)}"
            why = f"No pass has succeeded for {duration(cause.seconds)}: {cause.error}"
            yield Attention("✕", "failing", "fail", what, href, since, why, cause.consequence)
        else:
            why = f"On {_nodes(names)} {without_words(cause)}"
            yield Attention("▲", "set aside", "late", cause.what, href, since, why, None)
    more = sum(node.health.more for node in nodes)
    if more:
        what, why = plural(more, "more thing"), "Services go on without them, too; the log has why."
        yield Attention("▲", "set aside", "late", what, page_request.link("nodes"), None, why, None)


def blocking(page_request: PageRequest, rows: Sequence[Row], now: datetime) -> Iterator[Attention]:
    """Sessions that keep nodes waiting for a lock."""
    for row in rows:
        seconds = row["seconds"]
        yield Attention(
            "✕" if row["waiting"] else "▲",
            "blocking" if row["waiting"] else "locking",
            "fail" if row["waiting"] else "late",
            _capital(session_words(row)),
            None,
            None if seconds is None else now - timedelta(seconds=seconds),
            f"It {holding_words(row)}.",
            "What waits goes on when its transaction ends.",
        )


def troubles(health: NodeHealth) -> tuple[str, ...]:
    """A sentence for each, for the page of their node."""
    return (*map(_fails, health.failing), *map(_goes_without, health.without))


def _fails(each: Failing) -> str:
    since = duration(each.seconds)
    return f"{_capital(each.service)}: no pass has succeeded for {since}: {each.error}"


def _goes_without(each: Without) -> str:
    return f"{_capital(each.what)}: {without_words(each)}"


def _nodes(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"node {names[0]}"
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"nodes {', '.join(names[:_NAMED])}{more}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
