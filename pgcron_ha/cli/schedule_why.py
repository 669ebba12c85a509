"""``schedules why``: one instant of a schedule, and the one answer there is."""

from __future__ import annotations

from typing import Any

import click

from pgcron_ha.cli import arguments
from pgcron_ha.cli.output import instant_text, json_option, print_fields
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client.fires import Explained, explain
from pgcron_ha.db.commands.schedule_versions import last_definition
from pgcron_ha.db.queries import reasons
from pgcron_ha.spec.cron.fires import load_zone


@click.command("why")
@click.argument("name")
@click.argument("instant")
@json_option
def why_command(name: str, instant: str, as_json: bool) -> None:
    """Say why a schedule ran, or did not run, at INSTANT.

    INSTANT is ISO 8601; without an offset it is local time in the schedule's zone. A deleted
    schedule is found by its last name.
    """
    arguments.instant("INSTANT", instant, load_zone("UTC"))  # before anybody is asked

    async def ask(session: Session) -> Explained:
        row = await last_definition(session.connection, name, schema=session.schema)
        moment = arguments.instant("INSTANT", instant, load_zone(row["timezone"]))
        assert moment is not None
        reported = await reasons.why(session.connection, name, moment, schema=session.schema)
        return explain(row, moment, reported)

    found = on_database(ask)
    fields = _fields(name, found)
    if found.reported.run is not None and found.reported.outcome is None and not as_json:
        fields["outcome"] = "retention has removed it"
    print_fields(fields, as_json)


def _fields(name: str, found: Explained) -> dict[str, Any]:
    answer = {"schedule": name, "instant": instant_text(found.instant), **found.reported._asdict()}
    near = (
        {}
        if found.reported.decision != "not an instant"
        else {"fires_before": found.before, "fires_after": found.after}
    )
    return {**answer, **near}
