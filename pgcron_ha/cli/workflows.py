"""``pgcron-ha workflows``: look at workflows and their runs, start them, decide about steps."""

from __future__ import annotations

from typing import Any, Final

import click

from pgcron_ha.cli import arguments, output
from pgcron_ha.cli.enqueue import args_of, due_instant
from pgcron_ha.cli.options import label_filters, start_options
from pgcron_ha.cli.output import columns, echo, plural, print_result
from pgcron_ha.cli.runs import cancel_command, duration_of, kill_command, print_run_id
from pgcron_ha.cli.session import Session, act, call, on_database
from pgcron_ha.cli.watching import follow_to_end
from pgcron_ha.client.run_request import request_run
from pgcron_ha.db.commands import workflows as commands
from pgcron_ha.db.queries import workflows
from pgcron_ha.db.queries.overview import Row, may_read_history
from pgcron_ha.errors import Mistakes, NotFound
from pgcron_ha.model.formats import state_words
from pgcron_ha.model.verdicts import step_sentence
from pgcron_ha.model.workflow_graph import mermaid, remarks_on, text_lines

_LAST_RUNS: Final = 5


def _what(row: Row) -> str:
    return ", ".join(filter(None, (row["handler"], *remarks_on(row))))


def _state(run: Row) -> str:
    is_paused = run["paused_at"] is not None and run["finished_at"] is None
    return f"{run['state']} (paused)" if is_paused else str(run["state"])


COLUMNS: Final = columns(
    "NAME:32 VERSION STEPS LAST=last_state LAST_RUN STARTED=last_started_at MANAGED_BY"
    " DESCRIPTION:40"
)
RUN_COLUMNS: Final = columns(
    "RUN=run_id VERSION STATE STARTED=started_at ENDED=finished_at STEPS SUCCEEDED FAILED SKIPPED"
    " RUNNING",
    STATE=_state,
)
_DEFINED_COLUMNS: Final = columns("STEP=name:40 WHAT:50 RULE AFTER:60", WHAT=_what)
_STEP_COLUMNS: Final = columns(
    "STEP=name:40 STATE RUN=step_run STARTED=started_at DURATION WHAT:40 WHY:80",
    DURATION=duration_of,
    WHAT=_what,
    WHY=lambda row: row["waits_detail"] or row["reason"],
)
_run_id: Final = click.argument("run_id", type=arguments.RUN_ID)
_which: Final = click.argument("which", metavar="NAME|RUN_ID")
_note: Final = arguments.option("--note", "Why; kept with the step or the run.")
_step_of_run: Final = arguments.together(_run_id, click.argument("step"), _note)


@click.group("workflows", cls=arguments.JsonGroup)
def workflows_group() -> None:
    """List, show, start workflows; decide about steps."""


# A workflow is a run.
workflows_group.add_command(cancel_command)
workflows_group.add_command(kill_command)


@workflows_group.command("list")
@label_filters
@arguments.limit_option()
def list_command(**given: Any) -> None:
    """List workflows by name, each with its last run.

    --owner and --tag are those of the last run.
    """
    output.print_rows(call(workflows.workflows, **given), COLUMNS, "no workflows")


@workflows_group.command("show")
@_which
@arguments.limit_option(1000)
async def show_command(session: Session, which: str, limit: int) -> None:
    """Show a workflow with its last runs, or a run of it.

    A number is the id of a run. Both have their steps: of a run WHY says what an open step waits
    for, or why one ended so.
    """
    found, steps = await _found(session, which, limit=limit)
    is_run = "run_id" in found
    runs = [] if is_run else await session.call(workflows.workflow_runs, which, limit=_LAST_RUNS)
    output.report({**found, "steps": steps, **({} if is_run else {"runs": runs})})
    fields = {key: each for key, each in found.items() if "definition" not in key}
    output.print_fields(fields | {"state": _state(found)} if is_run else fields)
    echo()
    output.print_table(steps, _STEP_COLUMNS if is_run else _DEFINED_COLUMNS, "no steps")
    if len(steps) == limit and not output.is_json():
        echo(f"there may be more than these {limit} steps: --limit", err=True)
    if not is_run:
        echo()
        output.print_table(runs, RUN_COLUMNS, "no runs")


@workflows_group.command("graph")
@_which
@arguments.flag("--mermaid", "As a flowchart of Mermaid.", "is_mermaid")
async def graph_command(session: Session, which: str, is_mermaid: bool) -> None:
    """Print the graph of a workflow, or of a run of it.

    A number is the id of a run: each step has its state then. A step stands below one that it comes
    after.
    """
    _, steps = await _found(session, which)
    text = "\n".join(mermaid(steps) if is_mermaid else text_lines(steps))
    if is_mermaid:
        print_result({"mermaid": text}, text)
        return
    echo(text)
    for each in steps:
        kept = ("name", "kind", "handler", "after", "compensates", "state")
        output.report({key: each[key] for key in kept})


@workflows_group.command("start")
@click.argument("name")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@start_options
@arguments.flag("--wait", "Wait until the workflow ends.")
def start_command(name: str, pairs: tuple[str, ...], wait: bool, **given: Any) -> None:
    """Start the workflow NAME and print the id of its run.

    Its args are --args, or KEY=VALUE pairs: a value is JSON, or text if it is none (day=monday).
    """
    mistakes = Mistakes()
    given["due_at"] = mistakes.tried(due_instant, given["due_at"])
    args = mistakes.tried(args_of, pairs, given.pop("args"))
    request = mistakes.tried(request_run, f"workflow:{name}", args, given)
    mistakes.raise_any()

    async def start(session: Session) -> int:
        # As in `enqueue`: a role that may read only its own runs is itself recorded.
        actor = session.actor if await session.call(may_read_history) else None
        return await session.call(
            commands.start_workflow, name, request.args, **request.options, actor=actor
        )

    run_id = on_database(start)
    print_run_id(run_id)
    if wait:
        follow_to_end(run_id)


@workflows_group.command("why")
@_run_id
@click.argument("step", required=False)
@arguments.limit_option(1000)
async def why_command(session: Session, run_id: int, step: str | None, limit: int) -> None:
    """Say what the open steps of a run, or STEP, wait for.

    With STEP also its items that are open, and why others failed, a line for each cause.
    """
    found = await session.call(workflows.workflow_run, run_id)
    rows = await session.call(workflows.why_steps, run_id, step=step, limit=limit)
    if step is not None and not rows:
        raise NotFound(
            f"run {run_id} has no step '{step[:100]}'",
            "A step is named as in the definition of the workflow.",
            f"`pgcron-ha workflows show {run_id}` lists them.",
        )
    for row in rows:
        item = f", item {row['item']}" if row["item"] is not None else ""
        sentence = step_sentence(row)
        print_result({**row, "why": sentence}, f"{row['step']}{item}: {sentence}")
    for row in await session.call(workflows.item_causes, run_id, step) if step else ():
        which = f"{plural(row['failed'], 'item')} from {row['first_item']} to {row['last_item']}"
        which += f", such as run {row['step_run']}" if row["step_run"] else ""
        print_result(row, f"{step}, {which}: {step_sentence(row)}")
    if not rows:
        because = f" ({found['reason']})" if found["reason"] else ""
        echo(f"run {run_id} has no open step: it is {state_words(found['state'])}{because}")


@workflows_group.command("signal")
@_step_of_run
@arguments.json_value_option("--payload", "The result of the step, any JSON.")
def signal_command(run_id: int, step: str, payload: str | None, note: str | None) -> None:
    """Send a signal to STEP of a run.

    One that comes before its step is kept for it.
    """
    verdict = act(commands.signal, run_id, step, payload, note)
    said = "has its signal" if verdict == "ended" else "gets the signal when it waits for it"
    _say(run_id, step, said, verdict=verdict)


@workflows_group.command("approve")
@_step_of_run
@arguments.flag("--reject", "Reject it: the step fails.")
def approve_command(run_id: int, step: str, reject: bool, note: str | None) -> None:
    """Approve STEP of a run, or reject it; your name is kept with it."""
    verdict = act(commands.approve_step, run_id, step, not reject, note)
    done = "rejected" if reject else "approved"
    said = f"is {done}" if verdict == "ended" else f"is {done} when it waits for that"
    _say(run_id, step, said, verdict=verdict, done=done)


@workflows_group.command("skip")
@_step_of_run
def skip_command(run_id: int, step: str, note: str | None) -> None:
    """Skip STEP of a run: those after it go on.

    It does not run; each step after it goes on or not by its rule.
    """
    act(commands.skip_step, run_id, step, note)
    _say(run_id, step, "is skipped", done="skipped")


@workflows_group.command("succeed")
@_step_of_run
@arguments.json_value_option("--result", "Its result, any JSON.")
def succeed_command(run_id: int, step: str, result: str | None, note: str | None) -> None:
    """Let STEP of a run count as succeeded, with a result."""
    act(commands.succeed_step, run_id, step, result, note)
    _say(run_id, step, "counts as succeeded", done="succeeded")


@workflows_group.command("clear")
@_step_of_run
def clear_command(run_id: int, step: str, note: str | None) -> None:
    """Run STEP of a run again, and all steps that come after it."""
    count = act(commands.clear_step, run_id, step, note)
    said = f"runs again with all that come after it: {plural(count, 'step')}"
    _say(run_id, step, said, done="cleared", steps=count)


@workflows_group.command("set-args")
@_step_of_run
@arguments.args_option("A JSON object of arguments.", required=True)
def set_args_command(run_id: int, step: str, args: str, note: str | None) -> None:
    """Give STEP of a run args besides those of its definition.

    It must not have begun.
    """
    act(commands.set_step_args, run_id, step, args, note)
    _say(run_id, step, "begins with these args", done="args set")


@workflows_group.command("pause")
@_run_id
@_note
def pause_command(run_id: int, note: str | None) -> None:
    """Let no further step of a run begin until it is resumed.

    What runs goes on.
    """
    act(commands.pause_workflow, run_id, note)
    print_result({"run_id": run_id, "done": "paused"}, f"the workflow of run {run_id} is paused")


@workflows_group.command("resume")
@_run_id
@_note
def resume_command(run_id: int, note: str | None) -> None:
    """Let steps of a run begin again."""
    act(commands.resume_workflow, run_id, note)
    print_result({"run_id": run_id, "done": "resumed"}, f"the workflow of run {run_id} goes on")


@workflows_group.command("delete")
@click.argument("name")
def delete_command(name: str) -> None:
    """Delete a workflow: it starts no more, and what runs goes on."""
    act(commands.delete_workflow, name)
    print_result({"workflow": name, "done": "deleted"}, f"workflow '{name}' is deleted")


async def _found(session: Session, which: str, limit: int | None = None) -> tuple[Row, list[Row]]:
    """The workflow, or the run of one, and its steps."""
    options: dict[str, Any] = {"limit": limit}
    if which.isdecimal():
        options["run_id"] = run_id = int(which)
        found = await session.call(workflows.workflow_run, run_id)
    else:
        found = await session.call(workflows.workflow, which)
    return found, await session.call(workflows.steps_of_workflow, found["definition_id"], **options)


def _say(run_id: int, step: str, said: str, **more: Any) -> None:
    print_result({"run_id": run_id, "step": step, **more}, f"step '{step}' of run {run_id} {said}")
