"""The part of a run's page that is about its steps, ``/runs/{id}/steps/{step}``: one of them, and
what can be done to it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import workflows as commands
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.pages import workflows as ask
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.db.queries.workflows import MOST_FAILED
from pgcron_ha.model.formats import capital, number, plural, short, who_and_why
from pgcron_ha.model.verdicts import OPEN_STEPS
from pgcron_ha.model.workflow_graph import items_words
from pgcron_ha.web.address import NoSuch, choice, first_of
from pgcron_ha.web.graph import FAILED, STATES, Shape, drawing_of, step_mark
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.workflows import number_after, read_nodes, read_shape
from pgcron_ha.web.plots import gantt
from pgcron_ha.web.verbs import ARGS, PAYLOAD, RESULT, page_with_verbs, verb

# A workflow is no execution of a node.
_NOT_OF_WORKFLOWS: Final = ("Handler", "Attempt", "Timeout", "Delivery")
FILTERS: Final = ("state", "after")


async def view_of_workflow(
    page_request: PageRequest, view: dict[str, Any], given: dict[str, str]
) -> dict[str, Any]:
    """What the page of a run, with this `view`, says otherwise when it is a workflow that has
    begun. The ``state`` of those `given` filters the table of its steps, ``after`` is the number
    before the page.
    """
    run_id = view["row"]["id"]
    state, after = choice(given.get("state"), STATES, "state"), number_after(given.get("after"))
    row = (await page_request.read("workflow_run", ask.workflow_run, run_id)).value
    if row is None:
        return {}
    shape = await read_shape(page_request, row["definition"])
    snapshot = await page_request.gather(
        "workflow_steps", _read_steps, run_id, row["definition"], shape, state, after
    )
    counts, nodes, longest, steps = snapshot.value
    by_state = Counter({each["state"]: each["steps"] for each in counts})
    is_open = row["ended_at"] is None

    def link(step: Row) -> str:
        if shape.groups is None or step["steps"] == 1:
            return page_request.link("step", id=run_id, step=step["name"])
        before = {"after": step["first"] - 1}
        return page_request.link("run", before, id=run_id) + "#steps"

    workflow = {
        "row": row,
        "counts": by_state,
        "graph": drawing_of(shape, nodes, link),
        "gantt": longest and gantt(longest, row["started_at"], row["ended_at"] or snapshot.now),
        "has_more_bars": len(longest) == ask.MOST_BARS,
        **_table(page_request, "run", steps, counts, state, id=run_id),
    }
    facts = [fact for fact in view["facts"] if fact[0] not in _NOT_OF_WORKFLOWS]
    said: dict[str, Any] = {
        "workflow": workflow,
        "facts": [*_facts(page_request, row), *facts],
        "instants": [*view["instants"], ("Deadline", row["deadline"] if is_open else None)],
        "sentence": _sentence(row, by_state),
    }
    if is_open:
        said["word"] = "running"  # while its steps are open it is blocked for those who take runs
        said["verbs"] = view["verbs"] | {
            "resume": row["paused_at"] is not None,
            "pause": row["paused_at"] is None,
            "cancel": row["stopping"] in (None, "stop"),
            "kill": row["stopping"] != "abort",
        }
    elif why := view["row"]["cancel_reason"] or view["row"]["error"]:
        said["sentence"] += f" {capital(short(why, 300))}."
    return said


async def show_step(page_request: PageRequest) -> Response:
    """One step; its items are filtered as the steps of a run."""
    run_id, name = page_request.segments["id"], page_request.segments["step"]
    given = page_request.query(*FILTERS, "verb")
    state, after = choice(given.get("state"), STATES, "state"), number_after(given.get("after"))
    may_clear = given.get("verb") in ("clear", "skip", "succeed")
    snapshot = await page_request.gather("step", _read_step, run_id, name, state, after, may_clear)
    row, counts, items, causes, again = snapshot.value
    return page_with_verbs(
        page_request,
        "step",
        snapshot,
        _verbs(row),
        title=f"{step_mark(row).word} · {name} · run {run_id}",
        row=row,
        mark=step_mark(row),
        causes=causes,
        again=Counter({each["state"]: each["steps"] for each in again}),
        looked_at=MOST_FAILED,
        **_table(page_request, "step", items, counts, state, id=run_id, step=name),
    )


# Of the whole workflow; the run's own verbs cancel and kill it.
pause = verb(commands.pause_workflow, "run", "workflow_paused", "note")
resume = verb(commands.resume_workflow, "run", "workflow_resumed", "note")
_SIGNALLED: Final = {"ended": "step_signalled", "kept": "signal_kept"}
signal = verb(commands.signal, "step", _SIGNALLED, PAYLOAD, "note")
approve = verb(commands.approve_step, "step", _SIGNALLED, "note", approved=True)
reject = verb(commands.approve_step, "step", _SIGNALLED, "note", approved=False)
skip = verb(commands.skip_step, "step", "step_skipped", "note")
succeed = verb(commands.succeed_step, "step", "step_succeeded", RESULT, "note")
clear = verb(commands.clear_step, "step", "step_cleared", "note")
set_args = verb(commands.set_step_args, "step", "step_args_set", ARGS, "note")


async def _read_steps(
    session: Session, run_id: int, definition: int, shape: Shape, state: str | None, after: int
) -> tuple[list[Row], list[Row], list[Row], list[Row]]:
    """Counts by state, what the graph and the Gantt chart show, and a page of steps (one more)."""
    return (
        await session.call(ask.step_counts, run_id=run_id),
        await read_nodes(session, shape, definition, run_id),
        await session.call(ask.longest_steps, run_id=run_id, definition=definition),
        await session.call(ask.steps, run_id=run_id, state=state, first=after + 1),
    )


async def _read_step(
    session: Session, run_id: int, name: str, state: str | None, after: int, may_clear: bool
) -> tuple[Row, list[Row], list[Row], list[Row], list[Row]]:
    """The step, its items by state, a page of them, why some failed, and by state (if it
    `may_clear` them) the steps that run again with it. NotFound.
    """
    row = await session.call(ask.step, run_id=run_id, name=name)
    if row is None:
        rule = "Steps belong to runs of workflows; they are made when the workflow begins."
        raise NoSuch("step", name, rule, hint="Look at the page of the run.")
    again = []
    if may_clear:
        again = await session.call(ask.step_counts, run_id=run_id, cleared=row["number"])
    if row["kind"] != "map":
        return row, [], [], [], again
    counts = await session.call(ask.item_counts, run_id=run_id, number=row["number"])
    bounds = {"first": row["number"], "last": row["number"], "first_item": after + 1}
    items = await session.call(ask.items, run_id=run_id, state=state, **bounds)
    return row, counts, items, await session.call(ask.causes, run_id=run_id, step=name), again


def _verbs(row: Row) -> dict[str, bool]:
    """What can be done to a step now."""
    may_end = row["is_open"] and row["state"] not in ("succeeded", "skipped")
    has_begun = row["state"] not in ("waiting", "ready")
    waits_for = row["kind"] if row["ended_at"] is None else None
    return {
        "signal": waits_for == "signal",
        "approve": waits_for == "approval",
        "reject": waits_for == "approval",
        "clear": row["is_open"] and has_begun,
        "skip": may_end,
        "succeed": may_end,
        "set_args": may_end and row["kind"] == "run" and not has_begun,
    }


def _table(
    page_request: PageRequest,
    route: str,
    rows: list[Row],
    counts: list[Row],
    state: str | None,
    **segments: Any,
) -> dict[str, Any]:
    """A page of steps, or of items, with the states to choose from."""
    by_state = {row["state"]: row["steps"] for row in counts}
    known = [None, *(word for word in STATES if word in by_state or word == state)]
    offered = page_request.choices(route, "state", known, {"state": state}, **segments)
    shown, begin = first_of(rows, ask.PAGE_ROWS, "number" if route == "run" else "item")
    return {
        "steps": [{**row, "mark": step_mark(row), "words": items_words(row)} for row in shown],
        "states": [
            (f"{said} {number(by_state.get(word, 0))}" if word else said, f"{href}#steps", chosen)
            for word, (said, href, chosen) in zip(known, offered, strict=True)
        ],
        "total": sum(by_state.values()),
        **page_request.turns(route, {"state": state}, "after", begin, **segments),
    }


def _facts(page_request: PageRequest, row: Row) -> list[tuple[str, str | None, str | None]]:
    """Word, value (what has none is not shown), and an address if there is one."""
    version, kept = f"{row['name']}, version {row['version']}", row["redrive_of"]
    by = who_and_why(row["paused_by"], row["paused_note"])
    return [
        ("Workflow", version, page_request.link("workflow", name=row["name"])),
        ("Steps", number(row["steps"]), None),
        ("At once", row["parallelism"] and plural(row["parallelism"], "step"), None),
        ("Paused", row["paused_at"] and by, None),
        ("Stops because", row["stopping"] and (row["stop_reason"] or row["stopping"]), None),
        ("Redrive of", kept and f"run {kept}", kept and page_request.link("run", id=kept)),
    ]


def _sentence(row: Row, by_state: Counter[str]) -> str:
    """How far it is, and what holds it up."""
    total, failed = by_state.total(), sum(by_state[state] for state in FAILED)
    ended = total - sum(by_state[state] for state in OPEN_STEPS)
    others = {"failed": failed, "running": by_state["running"]}
    parts = [f"{number(ended)} of {plural(total, 'step')} ended"]
    parts += [f"{number(count)} {word}" for word, count in others.items() if count]
    sentences = [", ".join(parts)]
    if row["held_by"] is not None:
        who = "" if row["paused_at"] else f"run {row['held_by']} above is "
        by = who_and_why(row["paused_by"], short(row["paused_note"] or ""))
        sentences.append(f"No further step begins: {who}paused by {by}")
    if row["stopping"] is not None and row["ended_at"] is None:
        sentences.append(f"It stops: {short(row['stop_reason'] or row['stopping'], 160)}")
    return ". ".join(sentences) + "."
