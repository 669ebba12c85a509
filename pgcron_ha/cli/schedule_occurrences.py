"""``schedules occurrences``: the ledger; ``why``, ``skip``, ``move``, ``edit-`` and
``restore-occurrence``: one fire; ``verify``: whether each instant has its one answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

import click

from pgcron_ha.cli import arguments, output
from pgcron_ha.cli.output import columns, echo, plural, shown
from pgcron_ha.cli.session import Session
from pgcron_ha.cli.watching import what_it_waits_for
from pgcron_ha.client import checks, fires
from pgcron_ha.client.verifying import Proof, prove
from pgcron_ha.config.values import WrittenTime, attach
from pgcron_ha.db.commands import functions
from pgcron_ha.db.commands.schedule_versions import last_definition
from pgcron_ha.db.queries import health, overview, reasons
from pgcron_ha.db.queries.pages import schedules as ledger
from pgcron_ha.model.verdicts import ledger_line
from pgcron_ha.spec.bounds import AN_INSTANT
from pgcron_ha.spec.text import in_number, instant_text
from pgcron_ha.spec.zones import TZDATA, load_zone

occurrence_commands = arguments.JsonGroup()
"""Those of ``schedules`` that are below."""

COLUMNS = columns("SCHEDULE:30 FIRE_TIME=fire_at RUN=run_id RULE:60 DETAIL:100")
LEDGER_COLUMNS = columns(
    "FIRE_TIME:44 DECISION REASON RUN=run_id OUTCOME=run_state STARTED=started_at",
    FIRE_TIME=lambda row: " to ".join(dict.fromkeys(map(shown, (row["fire_at"], row["last_at"])))),
)
_WHEN = arguments.ReadBy("instant", checks.duration, arguments.instant)


def _ago(option: str, text: str) -> timedelta:
    return timedelta() if text == "now" else checks.duration(option, text)


_fire_arguments = arguments.together(
    click.argument("name"), click.argument("instant", type=arguments.LOCAL_INSTANT)
)
_note = arguments.option("--note", "Why; shown by `schedules why`.")


@occurrence_commands.command("occurrences")
@click.argument("name")
@arguments.option("--decision", "Only what was decided so.", ledger.DECISIONS)
@arguments.option("--until", "Only before: 2h (ago), 18:30, ISO.", arguments.LOCAL_INSTANT)
@arguments.limit_option()
async def occurrences_command(
    session: Session, name: str, decision: str | None, until: WrittenTime | None, limit: int
) -> None:
    """List what became of the fires, newest first.

    Fires that were missed one after another are one row. Without an offset --until is local time in
    the schedule's zone. A deleted schedule is found by its last name. With --decision the newest
    20,000 are searched.
    """
    row = await session.call(last_definition, name)
    before = until and arguments.in_zone(until, row["timezone"])
    found = await session.call(
        ledger.occurrences, schedule_id=row["id"], decision=decision, before=before, limit=limit
    )
    now = await session.call(overview.database_time)
    lines = [ledger_line(fire, now) for fire in found]
    output.print_rows(lines, LEDGER_COLUMNS, "no occurrences")


@occurrence_commands.command("why")
@click.argument("name")
@click.argument(
    "instant", required=False, type=arguments.ReadBy("instant", _ago, arguments.local_instant)
)
async def why_command(session: Session, name: str, instant: timedelta | WrittenTime | None) -> None:
    """Say why a schedule ran, or did not run, at INSTANT.

    INSTANT is ISO 8601, or 18:30 (the last one), yesterday 03:00; without an offset it is local
    time in the schedule's zone. A duration (2h: so long ago) is the last fire at or before then;
    without INSTANT it is the last fire. A deleted schedule is found by its last name.
    """
    row = await session.call(last_definition, name)
    now = await session.call(overview.database_time)
    if isinstance(instant, WrittenTime):
        zone = load_zone(row["timezone"])
        moment = attach(instant.last_wall(now, zone), zone)
    else:
        then = now - (instant or timedelta())
        kept: dict[str, Any] = {"before": then + AN_INSTANT, "limit": 1}
        decided = await session.call(ledger.occurrences, schedule_id=row["id"], **kept)
        moment = fires.last_fire(row, then) or (decided[0]["fire_at"] if decided else then)
    stored = await session.call(reasons.why, name, moment)
    reported, before, after = fires.explain(row, moment, stored)
    fields = {"schedule": name, "instant": instant_text(moment), **reported._asdict()}
    run = reported.run
    fields |= {"waits_for": None, "waits_detail": None}
    fields |= {} if run is None else await what_it_waits_for(session, run)
    if reported.decision == "not an instant":
        fields |= {"fires_before": before, "fires_after": after}
    output.report(fields)
    if run is not None and reported.outcome is None:
        fields["outcome"] = "retention has removed it"
    output.print_fields(fields)


@occurrence_commands.command("skip")
@_fire_arguments
@_note
async def skip_command(session: Session, name: str, instant: WrittenTime, note: str | None) -> None:
    """Let the fire of a schedule at INSTANT not run.

    INSTANT is ISO 8601, or 18:30, tomorrow 03:00; without an offset it is local time in the
    schedule's zone. It may lie any time ahead, and survives edits of the schedule.
    """
    await _change(session, name, instant, "is skipped", functions.skip_occurrence, note)


@occurrence_commands.command("move")
@_fire_arguments
@click.argument("to", type=arguments.LOCAL_INSTANT)
@_note
async def move_command(
    session: Session, name: str, instant: WrittenTime, to: WrittenTime, note: str | None
) -> None:
    """Let one fire run at another time.

    The fire of a schedule at INSTANT runs at TO, before or after. Its run is still that of INSTANT.
    Each is ISO 8601, or 18:30, tomorrow 03:00, 2h (from now); without an offset it is local time in
    the schedule's zone.
    """
    then = await arguments.in_zone_of(session, name, to, direction=1)
    done = f"runs at {instant_text(then)}"
    await _change(session, name, instant, done, functions.move_occurrence, then, note)


@occurrence_commands.command("edit-occurrence")
@_fire_arguments
@arguments.args_option("Its arguments instead of the schedule's.", required=True)
@_note
async def edit_occurrence_command(
    session: Session, name: str, instant: WrittenTime, args: str, note: str | None
) -> None:
    """Give one fire other arguments.

    It is the fire of the schedule at INSTANT: ISO 8601, or 18:30, tomorrow 03:00; without an offset
    it is local time in the schedule's zone.
    """
    await _change(session, name, instant, "has other args", functions.edit_occurrence, args, note)


@occurrence_commands.command("restore-occurrence")
@_fire_arguments
async def restore_occurrence_command(session: Session, name: str, instant: WrittenTime) -> None:
    """Let one fire be as the schedule says.

    It undoes a skip, move or edit of the fire at INSTANT.
    """
    fire = await arguments.in_zone_of(session, name, instant, direction=1)
    await session.act(functions.restore_occurrence, name, fire)
    _say(name, fire, "is restored")


@occurrence_commands.command("verify")
@click.argument("name", required=False)
@arguments.option("--since", "Not before: 1d (ago), 18:30, ISO.", _WHEN, default="1d")
async def verify_command(session: Session, name: str | None, since: timedelta | datetime) -> int:
    """Prove that no fire is missing or double.

    For the schedule NAME, or for all, the instants of each version's spec are compared with the
    ledger, and its rows with each other: those of a paused schedule up to the pause. Exit code 1 if
    something breaks the rule; it is listed.
    """
    now: datetime = (await session.call(health.server))["now"]
    after = now - since if isinstance(since, timedelta) else since.astimezone(UTC)
    proof = await session.call(prove, after, name=name)
    for broken in proof.breaks:
        output.report(broken)
    output.report({**asdict(proof), "since": after, "breaks": len(proof.breaks)})
    for line in proof_lines(proof, after):
        echo(line)
    return 1 if proof.breaks else 0


def proof_lines(proof: Proof, after: datetime) -> list[str]:
    """What breaks a rule, and the sentence that sums it up."""
    return [*output.table_lines(proof.breaks, COLUMNS), _sentence(proof, after)]


def _sentence(proof: Proof, after: datetime) -> str:
    schedules, instants = plural(proof.schedules, "schedule"), plural(proof.instants, "instant")
    looked = f"{schedules}, {instants} since {shown(after)} and to come"
    cut = " (there are more: name one schedule, or a later --since)" if proof.is_cut else ""
    if proof.other_tzdata is not None:
        cut += (
            f" (in UTC only: the others follow tzdata {proof.other_tzdata}, and tzdata {TZDATA} "
            "is installed here)"
        )
    if proof.breaks:
        broken = len(proof.breaks)
        breaks = f"{broken} {in_number(broken, 'breaks', 'break')} a rule"
        return f"{looked}{cut}: {breaks}; keep the database's log and report it"
    if not proof.schedules:
        return f"{looked}{cut}: nothing to verify; no node has made a fire of them"
    return f"{looked}{cut}: each is accounted for, none twice"


def changed_lines(schedule: Mapping[str, Any], changed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Fires to come that somebody has changed, and whether they still are fires."""
    return [
        f"changed {instant_text(one['fire_at'])}  {fires.changed_words(schedule, one)}"
        for one in changed
    ]


async def _change(
    session: Session, name: str, instant: WrittenTime, done: str, change: Any, *values: Any
) -> None:
    """A change of the instant, if it is a fire of the schedule. NotFound, InvalidInput."""
    row = await session.call(overview.schedule, name)
    fire = arguments.in_zone(instant, row["timezone"], direction=1)
    fires.require_fire(row, fire)
    await session.act(change, name, fire, *values)
    _say(name, fire, done)


def _say(name: str, fire: datetime, done: str) -> None:
    output.print_result(
        {"schedule": name, "instant": fire, "done": done},
        f"the fire of schedule '{name}' at {instant_text(fire)} {done}",
    )
