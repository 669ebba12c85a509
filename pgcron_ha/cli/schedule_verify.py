"""``schedules verify``: whether each instant of a schedule has its one answer."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import (
    Column,
    echo,
    json_option,
    plural,
    print_json,
    print_rows,
    shown,
    table_lines,
)
from pgcron_ha.cli.session import Session, on_database
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


@click.command("verify", short_help="Prove that no fire is missing or double.")
@click.argument("name", required=False)
@click.option("--since", default="1d", metavar="WHEN", help="An instant, or how long ago.")
@json_option
def verify_command(name: str | None, since: str, as_json: bool) -> int:
    """Prove that nothing is missing and nothing double: of NAME, or of all schedules.

    The instants of each version's spec are compared with the ledger, and its rows with each other.
    Exit code 1 if something breaks the rule; it is listed.
    """

    async def look(session: Session) -> tuple[datetime, Proof]:
        server = await health.server(session.connection, schema=session.schema)
        after = _instant(since, server["now"])
        return after, await prove(session.connection, after, name=name, schema=session.schema)

    after, proof = on_database(look)
    if not as_json:
        for line in proof_lines(proof, after):
            echo(line)
        return 1 if proof.breaks else 0
    print_rows(proof.breaks, COLUMNS, as_json, "")
    summary = {
        "since": after,
        "schedules": proof.schedules,
        "instants": proof.instants,
        "breaks": len(proof.breaks),
        "is_cut": proof.is_cut,
        "other_tzdata": proof.other_tzdata,
    }
    print_json(summary)
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


def _instant(text: str, now: datetime) -> datetime:
    if text[:1].isdigit() and text[-1:].isalpha() and "T" not in text and " " not in text:
        ago = arguments.duration("--since", text)
        assert ago is not None
        return now - ago
    found = arguments.instant("--since", text)
    assert found is not None
    return found.astimezone(UTC)
