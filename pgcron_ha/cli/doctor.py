"""``pgcron-ha doctor``: what the database, the schema and the settings would cost or lose."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import click

from pgcron_ha.cli.doctor_checks import BASICS, CHECKS, Diagnosis, Finding
from pgcron_ha.cli.doctor_nodes import NODES, blocked
from pgcron_ha.cli.doctor_notifications import check_pooler, listen_past
from pgcron_ha.cli.doctor_rights import RIGHTS
from pgcron_ha.cli.doctor_upkeep import UPKEEP
from pgcron_ha.cli.output import echo, json_option, print_json
from pgcron_ha.cli.session import Session, on_database
from pgcron_ha.client.verifying import prove
from pgcron_ha.db.driver.answers import answers
from pgcron_ha.db.driver.pooling import was_pooled
from pgcron_ha.db.driver.revision import require_revision, require_supported
from pgcron_ha.db.queries import health, overview
from pgcron_ha.db.queries.blocking import blocking_sessions
from pgcron_ha.errors import Conflict, Refused, SchemaError

# A look, not a proof: `schedules verify` looks at all of it.
LEDGER_WINDOW: Final = timedelta(hours=1)
LEDGER_SCHEDULES: Final = 200
LEDGER_INSTANTS: Final = 2000
LEDGER_SECONDS: Final = 2.0
_MAY_NOT_LOOK: Final = (
    "Ask as the role that nodes connect as, or give this one what `pgcron-ha grants viewer ROLE`"
    " prints."
)


@dataclass(frozen=True)
class Examination:
    """What was found, and whether anything of it is a problem rather than advice."""

    findings: tuple[Finding, ...]

    @property
    def is_well(self) -> bool:
        """No finding is a problem."""
        return all(finding.level != "problem" for finding in self.findings)


@click.command("doctor")
@json_option
def doctor_command(as_json: bool) -> int:
    """Check the database, the schema, the settings.

    Exit code 1 if there is a problem; advice alone is 0.
    """
    examination = on_database(examine, needs_schema=False)
    for finding in examination.findings:
        if as_json:
            print_json(finding._asdict())
            continue
        echo(f"{finding.level:<8} {finding.check:<14} {finding.message}")
        if finding.hint:
            echo(f"{'':<24}{finding.hint}")
    return 0 if examination.is_well else 1


async def examine(session: Session) -> Examination:
    """Every check, in its order; one finding alone when the schema is not there, or not for us."""
    connection, schema = session.connection, session.schema
    asked = datetime.now(UTC)
    server = await health.server(connection, schema=schema)
    answered = datetime.now(UTC)
    try:
        await require_supported(connection, schema)
        revision = await require_revision(connection, schema)
    except SchemaError as error:
        return Examination((Finding("schema", "problem", error.message, error.hint),))
    blocking = await blocking_sessions(connection, schema=schema)
    await connection.execute("SET lock_timeout = '1s'")  # who locks is said, not waited for
    middle = asked + (answered - asked) / 2  # it read its clock somewhere between the two
    try:
        with answers():
            diagnosis = await _read(
                session, server=server, revision=revision, asked=middle, blocking=blocking
            )
    except Refused as error:
        return Examination((Finding("role", "problem", error.message, _MAY_NOT_LOOK),))
    except Conflict as error:
        found = tuple(blocked(await blocking_sessions(connection, schema=schema)))
        return Examination((*found, Finding("database", "problem", error.message, error.hint)))
    checks = (*BASICS, *UPKEEP, *CHECKS, *NODES, check_pooler, *RIGHTS)
    return Examination(tuple(finding for check in checks for finding in check(diagnosis)))


async def _read(
    session: Session,
    *,
    server: dict[str, Any],
    revision: str,
    asked: datetime,
    blocking: list[dict[str, Any]],
) -> Diagnosis:
    connection, schema = session.connection, session.schema
    return Diagnosis(
        settings=session.settings,
        server=server,
        revision=revision,
        clock_difference=(server["now"] - asked).total_seconds(),
        snapshot_holders=await health.snapshot_holders(connection, schema=schema),
        idle_slots=await health.idle_slots(connection, schema=schema),
        without_autovacuum=await health.tables_without_autovacuum(connection, schema=schema),
        risks=await health.risks(connection, schema=schema),
        zones=await health.zones(connection, schema=schema),
        parked=await overview.parked(connection, schema=schema),
        invalid=await overview.invalid_schedules(connection, schema=schema),
        unaccounted=await health.unaccounted(connection, schema=schema),
        ledger=await prove(
            connection,
            server["now"] - LEDGER_WINDOW,
            schedules=LEDGER_SCHEDULES,
            instants=LEDGER_INSTANTS,
            seconds=LEDGER_SECONDS,
            schema=schema,
        ),
        broken_indexes=await health.broken_indexes(connection, schema=schema),
        dead_rows=await health.dead_rows(connection, schema=schema),
        spent_days=await health.spent_days(connection, schema=schema),
        swollen_indexes=await health.swollen_indexes(connection, schema=schema),
        is_pooled=was_pooled(session.settings.required_dsn()),
        wraparound=await health.wraparound(connection, schema=schema),
        never_vacuumed=await health.never_vacuumed(connection, schema=schema),
        partition_gaps=await health.partition_gaps(connection, schema=schema),
        stray_partitions=await health.stray_partitions(connection, schema=schema),
        excess_privileges=await health.excess_privileges(connection, schema=schema),
        role=await health.role(connection, schema=schema),
        lock_holders=await health.lock_holders(connection, schema=schema),
        blocking=blocking,
        notification_queue=await health.notification_queue(connection, schema=schema),
        nodes=await overview.nodes(connection, schema=schema),
        heard=await listen_past(session),
    )
