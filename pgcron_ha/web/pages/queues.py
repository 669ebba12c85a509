"""``/queues``: is work flowing, and what blocks it; pausing and resuming a queue."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from types import SimpleNamespace
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import breakers, cluster
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.pages import overview as ask_overview
from pgcron_ha.db.queries.pages import queues as ask
from pgcron_ha.db.queries.pages import schedules as ask_schedules
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import duration, number
from pgcron_ha.model.health import circuit_sentence, judge_queue, pause_of, put_aside
from pgcron_ha.web.address import NoSuch
from pgcron_ha.web.page_request import Ask, PageRequest
from pgcron_ha.web.verbs import verb

# The gravest first; the rest by name.
_GRAVITY: Final = {"fail": 0, "late": 1}
# What a queue has when no statement has a row of it.
_NOTHING: Final = {
    **dict.fromkeys(("due", "later", "nodes", "slots", "free"), 0),
    **dict.fromkeys(("paused_at", "paused_by", "paused_note", "max_running", "set_by", "next_at")),
    **dict.fromkeys(("rate", "per", "first_due")),
    "is_cut": False,
}


# What is read of all queues; `scheduled` are those that schedules name.
_READ: Final[dict[str, Ask[Any]]] = {
    "cluster": ask_overview.cluster,
    "settings": ask.settings,
    "depths": ask.depths,
    "running": ask.running,
    "waiting": partial(ask_overview.waiting, look=0),
    "broken": ask.broken,
    "servers": ask.servers,
    "dead": ask.dead,
    "producers": ask.producers,
    "scheduled": ask_schedules.queue_names,
}


async def show_queues(page_request: PageRequest) -> Response:
    """The list, what is wrong first."""
    page_request.query()
    snapshot = await page_request.gather("queues", _read_queues)
    facts = snapshot.value
    return page_request.page(
        "queues.html",
        snapshot,
        title="Queues",
        rows=_rows(facts, snapshot.now),
        producers=facts.producers,
        cluster_pause=pause_of(facts.cluster),
    )


async def show_queue(page_request: PageRequest) -> Response:
    """One queue: what is next, and why each of it is not taken."""
    name = page_request.segments["name"]
    page_request.query()
    snapshot = await page_request.gather("queue", _read_queues, name)
    facts = snapshot.value
    rows = {row["name"]: row for row in _rows(facts, snapshot.now)}
    if name not in rows:
        rule = "A queue exists as soon as a run, a schedule, a node or a pause names it."
        raise NoSuch("queue", name, rule, page_request.near("queue", name, sorted(rows)))
    return page_request.page(
        "queue.html",
        snapshot,
        title=name,
        row=rows[name],
        head=[_head_run(run, rows[name]) for run in facts.head],
        cluster_pause=pause_of(facts.cluster),
    )


pause = verb(cluster.pause_queue, "queue", "queue_paused", "note")
resume = verb(cluster.resume_queue, "queue", "queue_resumed")
reset_breaker = verb(breakers.reset_breaker, "overview", "breaker_reset")


async def _read_queues(session: Session, queue: str | None = None) -> SimpleNamespace:
    """The rows of each statement of `_READ`, by its name; the `names` of the queues; the `head` of
    one of them: what is due first.
    """
    facts = SimpleNamespace(**{name: await session.call(query) for name, query in _READ.items()})
    read = [*facts.depths, *facts.running, *facts.waiting, *facts.servers, *facts.broken]
    names = {
        *(row["name"] for row in facts.settings),
        *(row["queue"] for row in [*read, *facts.dead]),
        *facts.scheduled,
    }
    facts.names = await session.call(ask.within, queues=sorted(names))
    facts.head = () if queue is None else await session.call(ask.head, queue=queue)
    return facts


def _rows(facts: SimpleNamespace, now: datetime) -> list[Row]:
    rows = [_row(facts, name, now) for name in sorted(facts.names)]
    return sorted(rows, key=lambda row: _GRAVITY.get(row["judged"][0].tone, 2))


def _row(facts: SimpleNamespace, name: str, now: datetime) -> Row:
    """One queue: what was read of it (``due`` and ``later`` are lower bounds if it ``is_cut``);
    what is ``blocked``, since no living node can take it, or ``broken``, by a circuit breaker, both
    by handler; the word and the sentence that is ``judged`` of it.
    """

    def of_it(rows: list[Row], key: str = "queue") -> list[Row]:
        return [row for row in rows if row[key] == name]

    row: Row = {**_NOTHING, "name": name}
    for read in (*of_it(facts.depths), *of_it(facts.settings, "name"), *of_it(facts.servers)):
        row |= read
    first, blocked = row["first_due"], of_it(put_aside(facts.waiting))
    broken = [{**each, "why": circuit_sentence(each)} for each in of_it(facts.broken)]
    row |= {
        "oldest_due": first if first is not None and first <= now else None,
        "running": sum(each["runs"] for each in of_it(facts.running)),
        "dead": sum(each["letters"] for each in of_it(facts.dead)),
        "blocked": blocked,
        "broken": broken,
        "blocked_runs": sum(group["at_gates"] for group in of_it(facts.waiting)),
        # How many start in a time, such as ``10 in 1 m``; None is no limit.
        "starts": row["rate"] and f"{number(row['rate'])} in {duration(row['per'])}",
    }
    return {**row, "judged": judge_queue(row, now)}


def _head_run(run: Row, row: Row) -> Row:
    """A due run: ``why`` no node has it, and if it ``is_held``, so does not go on by itself."""
    is_free = run["waits_for"] == "slots" and row["free"]
    why = "a node takes it at its next look" if is_free else run["waits_detail"]
    return {**run, "why": why, "is_held": run["waits_for"] in ("paused", "no_node", "weight")}
