"""Causes that need attention, the gravest first: a cause is one row, however much it affects; and
what is read for them and the rest of the overview.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.blocking import blocking_sessions, holding_words, session_words
from pgcron_ha.db.queries.health import snapshot_holders
from pgcron_ha.db.queries.node_health import (
    in_turns,
    merged,
    node_row,
    unresponsive_words,
    without_words,
)
from pgcron_ha.db.queries.pages import dead_letters as ask_letters
from pgcron_ha.db.queries.pages import nodes as ask_nodes
from pgcron_ha.db.queries.pages import overview as ask
from pgcron_ha.db.queries.pages import queues as ask_queues
from pgcron_ha.db.queries.pages import schedules as ask_schedules
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import (
    Mark,
    capital,
    duration,
    mark_of,
    plural,
    short,
    some_of,
    state_words,
)
from pgcron_ha.model.health import Health, circuit_sentence, judge, pause_of, paused_queue, unserved

Link: TypeAlias = Callable[..., str]
"""The address of a page by its route, query and names; empty if the reader may not see it."""

_NAMED: Final = 3
_GRAVITY: Final = {"fail": 0, "late": 1, "retry": 2, "idle": 3}
TRACKS: Final = 12
# Nodes that ended within this time are shown beside the living.
_ENDED_WITHIN: Final = 3600.0

Judged: TypeAlias = list[tuple[Row, Health]]

# What is read for all of the cluster; `breakers` are those that are not closed, `broken` the runs
# that wait for them, `blocking` sessions that keep nodes waiting for a lock, `holders` have old
# snapshots.
_READ: Final[dict[str, Callable[..., Awaitable[Any]]]] = {
    "cluster": ask.cluster,
    "count": ask.schedule_count,
    "open": ask.open_letters,
    "due": ask.due,
    "running": ask.running,
    "failing": ask.failing_candidates,
    "invalid": ask.invalid_schedules,
    "next": partial(ask_schedules.next_schedules, limit=TRACKS),
    "paused": partial(ask_schedules.lately_paused, limit=TRACKS),
    "nodes": partial(ask_nodes.nodes, ended_within=_ENDED_WITHIN, names=0, limit=ask.ROWS),
    "waiting": partial(ask.waiting, stuck=True),
    "breakers": ask_queues.open_breakers,
    "broken": ask_queues.broken,
    "recent": ask.recent,
    "dead": partial(ask_letters.groups, state="open", look=ask.LOOK, limit=ask.ROWS),
    "queues": ask_queues.settings,
    "blocking": blocking_sessions,
    "holders": snapshot_holders,
}


class Facts(SimpleNamespace):
    """What was read for the overview: rows of each statement of `_READ`, by its name. `judged` are
    schedules that may be unhealthy, and those that fire next, with their health; `tracks` ended
    runs of some of them within the window; `queues_within` those queues of rows whose pages the
    person may see; `now` when it was read, by the database's clock.
    """


async def read_facts(session: Session, length: timedelta) -> Facts:
    """Everything the page shows, in one read-only transaction."""
    seen = Facts(**{name: await session.call(query) for name, query in _READ.items()})
    candidates = [*seen.invalid, *seen.failing, *seen.due, *seen.running, *seen.next, *seen.paused]
    known = dict.fromkeys(
        row["schedule_id"] for row in candidates if row["schedule_id"] is not None
    )
    ids = list(known)[: ask_schedules.MOST_IDS]
    schedules = await session.call(ask_schedules.schedules, ids=ids, limit=len(ids))
    seen.now = now = seen.cluster["now"]
    seen.nodes = [node_row(row, now) for row in seen.nodes]
    queues = {row["queue"] for row in (*seen.due, *seen.waiting, *seen.running, *seen.broken)}
    seen.queues_within = await session.call(ask_queues.within, queues=sorted(queues))
    seen.paused_queues = [row for row in seen.queues if row["paused_at"]]
    seen.judged = [(row, judge(row, now)) for row in schedules]
    chosen = [row["id"] for row, _ in for_timeline(seen.judged, now)]
    since = now - length * 2 / 3
    seen.tracks = await session.call(ask.timeline_runs, schedule_ids=chosen, since=since)
    return seen


def queue_link(link: Link, seen: Facts, name: str) -> str:
    """The page of a queue; of one that is not in the person's scope the runs that are."""
    if name in seen.queues_within:
        return link("queue", name=name)
    return link("runs", {"queue": name})


def for_timeline(judged: Judged, now: datetime) -> Judged:
    """What the timeline shows: the problem ones first, then by next fire."""

    def rank(line: tuple[Row, Health]) -> tuple[bool, bool, datetime]:
        row, health = line
        return (not health.is_problem, row["next_fire"] is None, row["next_fire"] or now)

    return sorted(judged, key=rank)[:TRACKS]


@dataclass(frozen=True)
class Attention:
    """One row of "needs attention": a cause, however many things it affects."""

    mark: Mark
    what: str
    """A name from outside: shown as plain text."""
    href: str | None
    since: datetime | None
    why: str
    """First line of the newest error, or the reason why nothing runs."""
    hint: str | None = None
    """What to do now, if there is more to do than to look."""
    actions: tuple[tuple[str, str], ...] = ()
    """Buttons: their words and the addresses of their verbs."""


def causes(link: Link, seen: Facts) -> list[Attention]:
    """Everything that is wrong, worst first, the newest of equals first."""
    found = [
        *_cluster(link, seen),
        *_nodes(link, seen),
        *_blocking(seen),
        *_holding(link, seen),
        *_troubled_services(link, seen),
        *_failing(link, seen),
        *_open_circuits(link, seen),
        *_unserved(link, seen),
        *_others(link, seen),
        *_dead(link, seen),
        *_paused_queues(link, seen),
    ]
    return sorted(found, key=lambda cause: _GRAVITY.get(cause.mark.tone, 9))


def shortlist(found: Sequence[Attention], most: int) -> list[Attention]:
    """At most `most` causes, in their order; some of each kind, so that none hides the others."""
    turns = in_turns(enumerate(found), lambda each: each[1].mark.word)
    return [cause for _, cause in sorted(turns[:most], key=lambda each: each[0])]


def _cluster(link: Link, seen: Facts) -> Iterator[Attention]:
    cluster = seen.cluster
    if (why := pause_of(cluster)) is not None:
        hint = "Nothing is claimed until it is resumed: pgcron-ha cluster resume"
        mark, what = Mark("‖", "paused", "fail"), "Everything is paused"
        yield Attention(mark, what, link("queues"), cluster["paused_at"], short(why), hint)
    if cluster["quarantine_until"] is not None:
        why = "Claims wait for one lease, so that what the old server gave out can end."
        mark, what = Mark("▲", "waiting", "late"), "The database server is another one"
        yield Attention(mark, what, link("nodes"), None, why)


def _nodes(link: Link, seen: Facts) -> Iterator[Attention]:
    """That none lives. To who may see nodes: those that died or are silent; cordons, of which a
    forgotten one costs capacity; and slots that only the end of a handler, or of the node, frees.
    """
    nodes = seen.nodes
    if not any(node["word"] in ("alive", "cordoned", "draining") for node in nodes):
        since = max((node["over_at"] for node in nodes if node["over_at"]), default=None)
        why, hint = "Nothing fires and nothing runs.", "Start one: pgcron-ha node"
        mark = Mark("✕", "none", "fail")
        yield Attention(mark, "No node is alive", link("nodes"), since, why, hint)
    if not link("nodes"):
        return
    alive = {node["name"] for node in nodes if node["word"] in ("alive", "cordoned")}
    takes_work = any(node["word"] == "alive" for node in nodes)
    for node in nodes:
        about = f"Node {node['name']}", link("node", incarnation=node["incarnation"])
        if node["word"] in ("silent", "died") and node["name"] not in alive:
            mark = mark_of(node["word"])._replace(tone="late")
            why = node["reason"] or "Its lease ran out; its runs are taken over."
            yield Attention(mark, *about, node["over_at"], why)
        elif node["word"] == "cordoned":
            mark = mark_of("cordoned")._replace(tone="idle" if takes_work else "late")
            why = f"It takes nothing new, by word of {short(node['cordon'] or 'somebody')}."
            hint = "No other node takes runs: uncordon it, or start another."
            yield Attention(mark, *about, node["cordoned_at"], why, None if takes_work else hint)
        if runs := node["unresponsive_runs"]:
            mark, why = Mark("▲", "unresponsive", "late"), f"{capital(unresponsive_words(runs))}."
            hint = "Only the end of that handler or of its node ends them: restart the node."
            yield Attention(mark, *about, None, why, hint)


def _blocking(seen: Facts) -> Iterator[Attention]:
    """Sessions that keep nodes waiting for a lock."""
    for row in seen.blocking:
        mark = Mark("✕", "blocking", "fail") if row["waiting"] else Mark("▲", "locking", "late")
        since, why = _since(seen, row["seconds"]), f"It {holding_words(row)}."
        hint = "What waits goes on when its transaction ends."
        yield Attention(mark, capital(session_words(row)), None, since, why, hint)


def _holding(link: Link, seen: Facts) -> Iterator[Attention]:
    """Snapshots so old that dead rows pile up in every table."""
    for row in seen.holders:
        what, since = f"{capital(row['kind'])} {row['name']}", _since(seen, row["seconds"])
        held = f"It holds a snapshot of {plural(row['age'], 'transaction')}"
        why = f"{held}: dead rows stay in every table."
        hint = f"If nobody needs it: {row['remedy']}"
        yield Attention(Mark("▲", "snapshot", "late"), what, link("storage"), since, why, hint)


def _since(seen: Facts, seconds: float | None) -> datetime | None:
    return None if seconds is None else seen.now - timedelta(seconds=seconds)


def _troubled_services(link: Link, seen: Facts) -> Iterator[Attention]:
    """Services that fail, and rows that others have set aside: one row for each cause, however many
    nodes have it, to who may see nodes.
    """
    if not link("nodes"):
        return
    set_aside = Mark("▲", "set aside", "late")
    nodes = seen.nodes
    living = {node["name"]: node["incarnation"] for node in nodes if node["state"] != "dead"}
    for names, cause in merged((node["name"], node["services"]) for node in nodes):
        is_one = len(names) == 1
        href = link("node", incarnation=living[names[0]]) if is_one else link("nodes")
        since = _since(seen, cause.seconds)
        if not cause.what:
            mark, what = mark_of("failing"), f"{capital(cause.service)} of {_named(names)}"
            why = f"No pass has succeeded for {duration(cause.seconds)}: {cause.error}"
            yield Attention(mark, what, href, since, why, cause.consequence)
        else:
            why = f"On {_named(names)} {without_words(cause)}"
            hint = "It is tried again by itself, after five minutes at most."
            yield Attention(set_aside, cause.what, href, since, why, hint)
    if more := sum(node["services"].more for node in nodes):
        why = "Services go on without them, too; the log has why."
        yield Attention(set_aside, plural(more, "more thing"), link("nodes"), None, why)


def _named(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"node {names[0]}"
    return f"nodes {some_of(names, _NAMED)}"


def _failing(link: Link, seen: Facts) -> Iterator[Attention]:
    by_error: dict[str, list[tuple[Row, Health]]] = {}
    for row, health in seen.judged:
        if health.word == "failing":
            error = health.reason.partition(": ")[2]
            by_error.setdefault(error or row["name"], []).append((row, health))
    for error, failing in by_error.items():
        if len(failing) == 1:
            yield _schedule(link, *failing[0])
            continue
        names = some_of([row["name"] for row, _ in failing], _NAMED)
        what = f"{plural(len(failing), 'schedule')}: {names}"
        since = min(health.since for _, health in failing if health.since)
        href = link("schedules", {"health": "failing"})
        yield Attention(mark_of("failing"), what, href, since, error)


def _open_circuits(link: Link, seen: Facts) -> Iterator[Attention]:
    """One cause for each breaker that is not closed."""
    for row in seen.breakers:
        waiting = sum(group["runs"] for group in seen.broken if group["name"] == row["name"])
        fallback = row["fallback_handler"] or row["fallback_queue"]
        yield Attention(
            Mark("⊘", state_words(row["state"]), "late"),
            row["name"],
            link("runs", {"handler": row["name"]}),
            row["opened_at"],
            f"{circuit_sentence(row)} {plural(waiting, 'run waits', 'runs wait')}.",
            f"New ones go to {fallback} meanwhile." if fallback else None,
            (("Reset", link("reset_breaker", name=row["name"])),),
        )


def _unserved(link: Link, seen: Facts) -> Iterator[Attention]:
    """Work that no live node can take: blocked, not offered, or too heavy."""
    for row in unserved(seen.waiting):
        waiting = plural(row["runs"], "run waits", "runs wait")
        href, why = queue_link(link, seen, row["queue"]), f"{waiting}: {row['waits_detail']}."
        is_unknown = row["waits_detail"].startswith("workflow ")
        remedy = "Define it" if is_unknown else "Start one that does"
        hint = (
            f"{remedy}; they run then, but of late fires only what catch-up allows. Or cancel the"
            " runs, and delete the schedule that makes them:"
            f" pgcron-ha schedules list --handler {row['handler']}"
        )
        yield Attention(mark_of("blocked"), row["handler"], href, row["oldest_due"], why, hint)


def _others(link: Link, seen: Facts) -> Iterator[Attention]:
    """What is late, stuck, stale or can't be read; not what a cause above holds up."""
    held_up = {group["handler"]: group["name"] for group in seen.broken}
    for row, health in seen.judged:
        if health.is_problem and health.word != "failing":
            cause = _schedule(link, row, health)
            if health.word in ("late", "stale") and row["handler"] in held_up:
                name = held_up[row["handler"]]
                why = f"{health.reason}, as the circuit breaker of {name} is open"
                reset = (("Reset", link("reset_breaker", name=name)),)
                cause = replace(cause, why=why, actions=reset)
            yield cause


def _dead(link: Link, seen: Facts) -> Iterator[Attention]:
    """Dead letters of runs without a schedule."""
    mark = mark_of("dead")._replace(tone="late")
    for group in seen.dead:
        if group["has_enqueued"]:
            handler, why = group["handler"], short(group["cause"]) or "it said nothing"
            what = f"{handler} ({plural(group['letters'], 'dead letter')})"
            address = link("dead", {"handler": handler, "group": group["fingerprint"]})
            yield Attention(mark, what, address, group["last_at"], why)


def _paused_queues(link: Link, seen: Facts) -> Iterator[Attention]:
    for queue in seen.paused_queues:
        name = queue["name"]
        due = sum(row["runs"] for row in seen.due if row["queue"] == name)
        mark, why = paused_queue(queue, due)
        about = f"Queue {name}", link("queue", name=name), queue["paused_at"], why
        actions = (("Resume", link("resume_queue", name=name)),)
        yield Attention(mark, *about, actions=actions)


def _schedule(link: Link, row: Row, health: Health) -> Attention:
    name = row["name"]
    about = name, link("schedule", name=name), health.since, health.reason
    if health.word == "invalid":
        return Attention(mark_of(health.word), *about, row["error_hint"])
    actions = (
        ("Run now", link("run_schedule", name=name)),
        ("Pause", link("pause_schedule", name=name)),
    )
    return Attention(mark_of(health.word), *about, actions=actions)
