"""The part of a run's page that is about its steps, ``/runs/{id}/steps/{step}``: one of them, and
what can be done to it.
"""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from pgcron_ha.db.commands import workflows as commands
from pgcron_ha.db.driver.session import Session
from pgcron_ha.db.queries.pages import workflows as ask
from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.verdicts import OPEN_STEPS, state_words
from pgcron_ha.web.address import NoSuch, choice, first_of
from pgcron_ha.web.formats import capital, number, plural, short, who_and_why
from pgcron_ha.web.graph import Shape
from pgcron_ha.web.page_request import PageRequest
from pgcron_ha.web.pages.workflows import number_after, read_nodes, read_shape
from pgcron_ha.web.plots import gantt
from pgcron_ha.web.step_drawing import FAILED, STATES, drawing_of, items_words, step_mark
from pgcron_ha.web.verbs import ARGS, PAYLOAD, RESULT, verb

_NOT_BEGUN: Final = ("waiting", "ready")
_WAITS_FOR_SOMEBODY: Final = ("signal", "approval")
# A workflow is no execution of a node.
_NOT_OF_WORKFLOWS: Final = ("Handler", "Attempt", "Timeout", "Delivery")
FILTERS: Final = ("state", "after")


async def read_workflow(
    page_request: PageRequest, run_id: int, given: dict[str, str]
) -> dict[str, Any] | None:
    """What the page of a run shows of the workflow that it is; None before it has begun.

    The ``state`` filters the table of its steps, ``after`` is the number before the page.
    """
    state, after = choice(given.get("state"), STATES, "state"), number_after(given.get("after"))
    row = (await page_request.read("workflow_run", ask.workflow_run, run_id)).value
    if row is None:
        return None
    shape = await read_shape(page_request, row["definition"])
    snapshot = await page_request.gather(
        "workflow_steps", _read_steps, run_id, row["definition"], shape, state, after
    )
    counts, nodes, longest, steps = snapshot.value

    def link(step: Row) -> str:
        if shape.groups is None or step["steps"] == 1:
            return page_request.link("step", id=run_id, step=step["name"])
        before = {"after": step["first"] - 1}
        return page_request.link("run", before, id=run_id) + "#steps"

    begin, end = row["started_at"], row["ended_at"] or snapshot.now
    return {
        "row": row,
        "sentence": _sentence(row, counts),
        "facts": _facts(page_request, row),
        "graph": drawing_of(shape, nodes, link),
        "gantt": gantt(longest, begin, end) if longest else None,
        "has_more_bars": len(longest) == ask.MOST_BARS,
        "may_be_paused": row["ended_at"] is None and row["paused_at"] is None,
        **_table(page_request, "run", steps, counts, state, id=run_id),
    }


def of_run(workflow: dict[str, Any] | None, view: dict[str, Any]) -> dict[str, Any]:
    """What the page of a run says otherwise when it is a workflow that has begun."""
    if workflow is None:
        return {}
    row = workflow["row"]
    facts = [fact for fact in view["facts"] if fact[0] not in _NOT_OF_WORKFLOWS]
    deadline = row["deadline"] if row["ended_at"] is None else None
    instants = [*view["instants"], ("Deadline", deadline)]
    of_both = {"workflow": workflow, "facts": [*workflow["facts"], *facts], "instants": instants}
    if row["ended_at"] is not None:
        why = view["row"]["cancel_reason"] or view["row"]["error"]
        more = f" {capital(short(why, 300))}." if why else ""
        return {**of_both, "sentence": workflow["sentence"] + more}
    return {
        **of_both,
        "word": "running",  # while its steps are open it is blocked for those who take runs
        "sentence": workflow["sentence"],
        "may_be_cancelled": row["stopping"] in (None, "stop"),
        "may_kill": row["stopping"] != "abort",
    }


async def show_step(page_request: PageRequest) -> Response:
    """One step; its items are filtered as the steps of a run."""
    run_id, name = page_request.id, page_request.segment("step")
    given = page_request.query(*FILTERS)
    state, after = choice(given.get("state"), STATES, "state"), number_after(given.get("after"))
    snapshot = await page_request.gather("step", _read_step, run_id, name, state, after)
    row, counts, items = snapshot.value
    is_open, kind = row["is_open"], row["kind"]
    waits_for_somebody = kind if row["ended_at"] is None and kind in _WAITS_FOR_SOMEBODY else None
    return page_request.page(
        "step.html",
        snapshot,
        title=f"{step_mark(row).word} · {name} · run {run_id}",
        row=row,
        mark=step_mark(row),
        sentence=_step_sentence(row),
        waits_for=waits_for_somebody,
        may_be_decided=is_open and row["state"] not in ("succeeded", "skipped"),
        may_be_cleared=is_open and row["state"] not in _NOT_BEGUN,
        may_get_args=kind == "run" and row["state"] in _NOT_BEGUN,
        **_table(page_request, "step", items, counts, state, id=run_id, step=name),
    )


# Of the whole workflow; the run's own verbs cancel and kill it.
pause = verb(commands.pause_workflow, "run", "workflow_paused", "note")
resume = verb(commands.resume_workflow, "run", "workflow_resumed")
_SIGNALLED: Final = {"ended": "step_signalled", "kept": "signal_kept"}
signal = verb(commands.signal, "step", _SIGNALLED, PAYLOAD)
approve = verb(commands.approve_step, "step", _SIGNALLED, "note", approved=True)
reject = verb(commands.approve_step, "step", _SIGNALLED, "note", approved=False)
skip = verb(commands.skip_step, "step", "step_skipped", "note")
succeed = verb(commands.succeed_step, "step", "step_succeeded", RESULT, "note")
clear = verb(commands.clear_step, "step", "step_cleared", "note")
set_args = verb(commands.set_step_args, "step", "step_args_set", ARGS)


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
    session: Session, run_id: int, name: str, state: str | None, after: int
) -> tuple[Row, list[Row], list[Row]]:
    """The step, its items by state, and a page of its items. NotFound."""
    row = await session.call(ask.step, run_id=run_id, name=name)
    if row is None:
        rule = "Steps belong to runs of workflows; they are made when the workflow begins."
        raise NoSuch("step", name, rule, hint="Look at the page of the run.")
    if row["kind"] != "map":
        return row, [], []
    counts = await session.call(ask.item_counts, run_id=run_id, number=row["number"])
    bounds = {"first": row["number"], "last": row["number"], "first_item": after + 1}
    items = await session.call(ask.items, run_id=run_id, state=state, **bounds)
    return row, counts, items


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
    shown, begin = first_of(rows, ask.PAGE_ROWS, "number" if route == "run" else "item")
    return {
        "steps": [
            {
                **row,
                "mark": step_mark(row),
                "words": items_words(row),
                "why": row["waits_detail"] or row["reason"],
            }
            for row in shown
        ],
        "states": [
            (
                f"{state_words(word)} {number(by_state.get(word, 0))}" if word else "all",
                page_request.link(route, {"state": word}, **segments) + "#steps",
                word == state,
            )
            for word in known
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


def _sentence(row: Row, counts: list[Row]) -> str:
    """How far it is, and what holds it up."""
    by_state = {each["state"]: each["steps"] for each in counts}
    total = sum(by_state.values())
    ended = total - sum(by_state.get(state, 0) for state in OPEN_STEPS)
    failed = sum(by_state.get(state, 0) for state in FAILED)
    parts = [f"{number(ended)} of {plural(total, 'step')} ended"]
    if failed:
        parts.append(f"{number(failed)} failed")
    if by_state.get("running"):
        parts.append(f"{number(by_state['running'])} running")
    sentences = [", ".join(parts)]
    if row["held_by"] is not None:
        who = "" if row["paused_at"] else f"run {row['held_by']} above is "
        by = who_and_why(row["paused_by"], short(row["paused_note"] or ""))
        sentences.append(f"No further step begins: {who}paused by {by}")
    if row["stopping"] is not None and row["ended_at"] is None:
        sentences.append(f"It stops: {short(row['stop_reason'] or row['stopping'], 160)}")
    return ". ".join(sentences) + "."


def _step_sentence(row: Row) -> str:
    """What it waits for, or why it ended so."""
    said = row["waits_detail"] if row["ended_at"] is None else row["reason"]
    return f"{capital(short(said, 300).rstrip('.'))}." if said else ""
