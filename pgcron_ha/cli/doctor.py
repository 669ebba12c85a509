"""``pgcron-ha doctor``: problems of the database, the schema and the settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Final

import click

from pgcron_ha.cli import arguments, doctor_checks
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.doctor_checks import Diagnosis, Finding, problem
from pgcron_ha.cli.output import echo, echo_state, report
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client.verifying import prove
from pgcron_ha.config.settings import Settings
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.pooling import was_pooled
from pgcron_ha.db.driver.revision import require_revision, require_supported
from pgcron_ha.db.driver.session_settings import LOOK
from pgcron_ha.db.queries import health, overview
from pgcron_ha.db.queries.blocking import blocking_sessions
from pgcron_ha.errors import Conflict, Refused, SchemaError

CHECKS: Final[list[tuple[str, Callable[[Diagnosis], Iterator[Finding]]]]] = [
    (name.removeprefix("check_").replace("_", " "), check)
    for name, check in vars(doctor_checks).items()
    if name.startswith("check_")
]
"""Each ``check_NAME``, in their order."""

_HOUR: Final = timedelta(hours=1)
_MAY_NOT_LOOK: Final = (
    "Use the role that nodes connect as, or give this one what `pgcron-ha grants viewer ROLE`"
    " prints."
)


@click.command("doctor", cls=arguments.JsonCommand)
def doctor_command() -> int:
    """Check the database, the schema, the settings.

    Exit code 1 if there is a problem; advice alone is 0. What runs and what fails is for "status".
    """
    settings = command_context().load()
    findings = on_database(
        partial(examine, settings), needs_schema=False, settings=settings, of_session=LOOK
    )
    for check, finding in findings:
        report({"check": check, **finding._asdict()})
        echo_state(f"{finding.level:<8} {check:<14} {finding.message}")
        if finding.hint:
            echo(f"{'':<24}{finding.hint}")
    return 1 if any(finding.level == "problem" for _, finding in findings) else 0


async def examine(settings: Settings, session: Session) -> list[tuple[str, Finding]]:
    """What every check found, in order; one finding if the schema is missing or does not fit."""
    server = await session.call(health.server)
    try:
        await require_supported(session.connection, session.schema)
        revision = await require_revision(session.connection, session.schema)
    except SchemaError as error:
        return [("schema", problem(error.message, error.hint))]
    blocking = await session.call(blocking_sessions)
    try:
        with answers():
            diagnosis = Diagnosis(
                settings=settings,
                server=server,
                revision=revision,
                blocking=blocking,
                # A look, not a proof: `schedules verify` looks at all of it.
                ledger=await session.call(
                    prove, server["now"] - _HOUR, schedules=200, instants=2000, seconds=2
                ),
                is_pooled=was_pooled(settings.required_dsn()),
                nodes=await session.call(overview.nodes, limit=arguments.MOST_ROWS),
                **await session.call(health.readings),
            )
    except Refused as error:
        return [("role", problem(error.message, _MAY_NOT_LOOK))]
    except Conflict as error:
        found = doctor_checks.locking(await session.call(blocking_sessions))
        said = [("locks", finding) for finding in found]
        return [*said, ("database", problem(error.message, error.hint))]
    return [(name, finding) for name, check in CHECKS for finding in check(diagnosis)]
