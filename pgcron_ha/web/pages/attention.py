"""The causes that need somebody, the gravest first: a cause is one row, whatever it touches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pgcron_ha.db.queries.node_health import in_turns
from pgcron_ha.db.queries.unresponsive_runs import unresponsive_words
from pgcron_ha.web.contexts import Action, Attention, NodeLine
from pgcron_ha.web.formats import health_mark, plural, short, state_mark
from pgcron_ha.web.health import Health
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.breakers import open_circuits
from pgcron_ha.web.pages.facts import Facts
from pgcron_ha.web.pages.services import blocking, troubled_services

Judged = Sequence[tuple[dict[str, Any], Health]]

# Failing schedules with one error are one cause from this number on.
_MERGED_FROM: Final = 2
_GRAVITY: Final = {"fail": 0, "late": 1, "retry": 2, "idle": 3}


def causes(
    page_request: PageRequest, facts: Facts, judged: Judged, nodes: Sequence[NodeLine]
) -> list[Attention]:
    """Everything that is wrong, worst first, the newest of equals first."""
    found = [
        *_cluster(page_request, facts),
        *_missing_nodes(page_request, nodes),
        *_cordoned(page_request, nodes),
        *_unresponsive(nodes),
        *blocking(page_request, facts.blocking, facts.cluster["now"]),
        *troubled_services(page_request, nodes, facts.cluster["now"]),
        *_failing(page_request, judged),
        *open_circuits(page_request, facts.breakers, facts.broken, facts.cluster["now"]),
        *_unserved(page_request, facts),
        *_others(page_request, judged),
        *_dead(page_request, facts),
        *_paused_queues(page_request, facts),
    ]
    return sorted(found, key=lambda cause: _GRAVITY.get(cause.tone, 9))


def shortlist(found: Sequence[Attention], most: int) -> list[Attention]:
    """At most `most` causes, in their order; some of each kind, so that none hides the others."""
    turns = in_turns(enumerate(found), lambda each: each[1].word)
    return [cause for _, cause in sorted(turns[:most], key=lambda each: each[0])]


def _cluster(page_request: PageRequest, facts: Facts) -> Iterator[Attention]:
    cluster = facts.cluster
    if cluster["paused_at"] is not None:
        by = ": ".join(filter(None, [cluster["paused_by"], cluster["paused_note"]]))
        yield Attention(
            "‖",
            "paused",
            "fail",
            "Everything is paused",
            page_request.link("queues"),
            cluster["paused_at"],
            short(by) or "nobody said why",
            "Nothing is claimed until it is resumed.",
        )
    if cluster["quarantine_until"] is not None:
        yield Attention(
            "▲",
            "waiting",
            "late",
            "The database server is another one",
            page_request.link("nodes"),
            None,
            "Claims wait for one lease, so that what the old server gave out can end.",
            None,
        )


def _missing_nodes(page_request: PageRequest, nodes: Sequence[NodeLine]) -> Iterator[Attention]:
    href = page_request.link("nodes")
    if not any(node.state in ("alive", "cordoned", "draining") for node in nodes):
        yield Attention(
            "✕",
            "none",
            "fail",
            "No node is alive",
            href,
            max((node.ended_at for node in nodes if node.ended_at), default=None),
            "Nothing fires and nothing runs.",
            "Start one: pgcron-ha node",
        )
    alive = {node.name for node in nodes if node.state in ("alive", "cordoned")}
    for node in nodes:
        if node.state in ("silent", "died") and node.name not in alive:
            mark = state_mark(node.state)
            why = node.reason or "Its lease ran out; its runs are taken over."
            what = f"Node {node.name}"
            yield Attention(
                mark.glyph, mark.word, "late", what, node.href, node.ended_at, why, None
            )


def _cordoned(page_request: PageRequest, nodes: Sequence[NodeLine]) -> Iterator[Attention]:
    """Nodes that take nothing new: one that is forgotten so is missed when work piles up."""
    mark = state_mark("cordoned")
    takes_work = any(node.state == "alive" for node in nodes)
    for node in nodes:
        if node.state == "cordoned":
            yield Attention(
                mark.glyph,
                mark.word,
                "idle" if takes_work else "late",
                f"Node {node.name}",
                node.href,
                node.cordoned_at,
                f"It takes nothing new, by word of {short(node.reason or 'somebody')}.",
                None if takes_work else "No other node takes runs: uncordon it, or start another.",
            )


def _unresponsive(nodes: Sequence[NodeLine]) -> Iterator[Attention]:
    """Slots that nothing frees but the end of a handler, or of its node."""
    for node in nodes:
        if node.unresponsive_runs:
            words = unresponsive_words(node.unresponsive_runs)
            yield Attention(
                "▲",
                "unresponsive",
                "late",
                f"Node {node.name}",
                node.href,
                None,
                f"{words[:1].upper()}{words[1:]}.",
                "Only the end of that handler or of its node ends them: restart the node.",
            )


def _failing(page_request: PageRequest, judged: Judged) -> Iterator[Attention]:
    by_error: dict[str, list[tuple[dict[str, Any], Health]]] = {}
    for row, health in judged:
        if health.word == "failing":
            error = health.reason.partition(": ")[2]
            by_error.setdefault(error or row["name"], []).append((row, health))
    mark = health_mark("failing")
    for error, failing in by_error.items():
        if len(failing) < _MERGED_FROM:
            yield from (_schedule(page_request, row, health) for row, health in failing)
            continue
        names = ", ".join(row["name"] for row, _ in failing[:3])
        more = f" and {len(failing) - 3} more" if len(failing) > 3 else ""
        since = min(health.since for _, health in failing if health.since)
        yield Attention(
            mark.glyph,
            mark.word,
            mark.tone,
            f"{plural(len(failing), 'schedule')}: {names}{more}",
            page_request.link("schedules", {"health": "failing"}),
            since,
            error,
            None,
        )


def _unserved(page_request: PageRequest, facts: Facts) -> Iterator[Attention]:
    """Work that no live node can take: put aside by a node, not looked at by any, or too heavy."""
    unserved: dict[tuple[str, str, str, int], tuple[int, Any]] = {}
    for row in [*facts.parked, *(due for due in facts.due if not due["is_served"])]:
        slots = row["weight"] if row.get("is_offered") else 0
        key = (row["handler"], row["queue"], ", ".join(row["requires"] or ()), slots)
        runs, oldest = unserved.get(key, (0, row["oldest_due"]))
        unserved[key] = (runs + row["runs"], min(oldest, row["oldest_due"]))
    mark = state_mark("parked")
    for (handler, queue, needed, slots), (runs, oldest) in unserved.items():
        which = f" with the labels {short(needed, 90)}" if needed else ""
        labels = " and those labels" if needed else ""
        if slots:
            which += f" with {slots} slots"
            labels += f", and with {slots} slots at least"
        waiting = plural(runs, "run waits", "runs wait")
        yield Attention(
            mark.glyph,
            mark.word,
            mark.tone,
            handler,
            page_request.link("queue", name=queue),
            oldest,
            f"{waiting}: no live node{which} offers it for queue {queue}.",
            f"Start a node with that handler{labels}; they run then.",
        )


def _others(page_request: PageRequest, judged: Judged) -> Iterator[Attention]:
    for row, health in judged:
        if health.is_problem and health.word != "failing":
            yield _schedule(page_request, row, health)


def _dead(page_request: PageRequest, facts: Facts) -> Iterator[Attention]:
    """Dead letters that no schedule stands for."""
    mark = state_mark("dead")
    for group in facts.dead:
        if group["has_enqueued"]:
            yield Attention(
                mark.glyph,
                mark.word,
                "late",
                f"{group['handler']} ({plural(group['letters'], 'dead letter')})",
                page_request.link("dead", {"handler": group["handler"]}),
                group["last_at"],
                short(group["cause"]) or "it said nothing",
                None,
            )


def _paused_queues(page_request: PageRequest, facts: Facts) -> Iterator[Attention]:
    waiting: dict[str, int] = {}
    for row in facts.due:
        waiting[row["queue"]] = waiting.get(row["queue"], 0) + row["runs"]
    for queue in facts.paused_queues:
        count = waiting.get(queue["name"], 0)
        by = ": ".join(filter(None, [queue["paused_by"], queue["paused_note"]])) or "somebody"
        wait = plural(count, "due run waits", "due runs wait")
        yield Attention(
            "‖",
            "paused",
            "late" if count else "idle",
            f"Queue {queue['name']}",
            page_request.link("queue", name=queue["name"]),
            queue["paused_at"],
            f"{wait}; paused by {short(by)}",
            None,
            (Action("Resume", page_request.link("resume_queue", name=queue["name"])),),
        )


def _schedule(page_request: PageRequest, row: dict[str, Any], health: Health) -> Attention:
    mark = health_mark(health.word)
    actions = (
        Action("Run now", page_request.link("run_now", name=row["name"])),
        Action("Pause", page_request.link("pause", name=row["name"])),
    )
    return Attention(
        mark.glyph,
        mark.word,
        mark.tone,
        row["name"],
        page_request.link("schedule", name=row["name"]),
        health.since,
        health.reason,
        None,
        actions if health.word != "invalid" else (),
    )
