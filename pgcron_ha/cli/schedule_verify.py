"""``schedules verify``: whether each instant of a schedule has its one answer."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime, timedelta

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import Column, echo, plural, report, shown, table_lines
from pgcron_ha.cli.session import Session, with_session
from pgcron_ha.client.verifying import Proof, prove
from pgcron_ha.db.queries import health
from pgcron_ha.spec.text import in_number
from pgcron_ha.spec.zones import TZDATA

COLUMNS = (
    Column("SCHEDULE", "schedule", 30),
    Column("FIRE TIME", "fire_at"),
    Column("RUN", "run_id"),
    Column("RULE", "rule", 60),
    Column("DETAIL", "detail", 100),
)


def _ago_or_instant(option: str, text: str) -> timedelta | datetime:
    return arguments.duration_or_none(text) or arguments.instant(option, text)


_WHEN = arguments.ReadBy("when", _ago_or_instant)


@click.command("verify", cls=arguments.JsonCommand)
@click.argument("name", required=False)
@arguments.option("--since", "An instant, or how long ago.", _WHEN, default="1d")
@with_session
async def verify_command(session: Session, name: str | None, since: timedelta | datetime) -> int:
    """Prove that no fire is missing or double.

    For the schedule NAME, or for all, the instants of each version's spec are compared with the
    ledger, and its rows with each other. Exit code 1 if something breaks the rule; it is listed.
    """
    now: datetime = (await session.call(health.server))["now"]
    after = now - since if isinstance(since, timedelta) else since.astimezone(UTC)
    proof = await session.call(prove, after, name=name)
    for broken in proof.breaks:
        report(broken)
    report({**asdict(proof), "since": after, "breaks": len(proof.breaks)})
    for line in proof_lines(proof, after):
        echo(line)
    return 1 if proof.breaks else 0


def proof_lines(proof: Proof, after: datetime) -> list[str]:
    """What breaks a rule, and the sentence that sums it up."""
    return [*table_lines(proof.breaks, COLUMNS), _sentence(proof, after)]


def _sentence(proof: Proof, after: datetime) -> str:
    schedules, instants = plural(proof.schedules, "schedule"), plural(proof.instants, "instant")
    looked = f"{schedules}, {instants} since {shown(after)}"
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
    return f"{looked}{cut}: each is accounted for, none twice"
