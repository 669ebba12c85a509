"""The SQL interface from Python: one function for each statement of ``sql/functions.sql``.

Each takes a connection (asyncpg's, or one that `pgcron_ha.db.driver.foreign` knows), works in its
transaction, and raises the errors of `pgcron_ha.errors` with the sentences that SQL gave. Args and
retry policies are JSON text, durations `timedelta`; ``actor`` is who asks (None: the database's
session user) and ``interface`` how (``cli``, ``code``, …).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, Unpack

from pgcron_ha.db.commands.schedule_policies import SchedulePolicies
from pgcron_ha.db.driver.asking import row as _row
from pgcron_ha.db.driver.asking import value as _value
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA

KEY_LIFETIME: Final = timedelta(days=1)
# By one call of `redrive_many`: each is locked until all are.
MOST_REDRIVEN: Final = 1000


class Redriven(NamedTuple):
    """Dead letters, their new runs in the same order, and when a run after them would be due."""

    letters: list[int]
    runs: list[int]
    next_due: datetime | None


async def enqueue_many(
    connection: Any, runs: str, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> list[int]:
    """The ids of the runs that a JSON array asks for, in its order: all of them, or an error.

    Its objects have what `pgcron.enqueue` takes, by the names of its arguments.
    """
    found = await _value(connection, schema, "enqueue_many", runs=runs, actor=actor)
    return list(found)


async def put_schedule(
    connection: Any,
    name: str,
    spec: str,
    handler: str,
    *,
    actor: str | None = None,
    interface: str | None = None,
    schema: str = DEFAULT_SCHEMA,
    expected_version: int | None = None,
    **policies: Unpack[SchedulePolicies],
) -> int:
    """Creates or changes the schedule of that name; its id. One that is so is not touched.

    VersionConflict when it has not the `expected_version` (0: when there is one) any more.
    """
    values: dict[str, Any] = dict.fromkeys(SchedulePolicies.__annotations__)
    values.update(policies)
    if values["requires"] is not None:
        values["requires"] = list(values["requires"])  # what every driver takes as an array
    found: int = await _value(
        connection,
        schema,
        "put_schedule",
        name=name,
        spec=spec,
        handler=handler,
        actor=actor,
        interface=interface,
        expected_version=expected_version,
        **values,
    )
    return found


async def pause_schedule(
    connection: Any,
    name: str,
    note: str | None = None,
    *,
    until: datetime | timedelta | None = None,
    actor: str | None = None,
    interface: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """No fires from now on; those that pass meanwhile are missed with this note.

    `until`: an instant, or how long from now by the database's clock; a node resumes it then.
    NotFound, InvalidInput for an end that is over.
    """
    await _row(
        connection,
        schema,
        "pause_schedule",
        name=name,
        note=note,
        until=until if isinstance(until, datetime) else None,
        pause=until if isinstance(until, timedelta) else None,
        actor=actor,
        interface=interface,
    )


async def resume_schedule(
    connection: Any,
    name: str,
    *,
    actor: str | None = None,
    interface: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """Fires again from now on. NotFound."""
    await _row(connection, schema, "resume_schedule", name=name, actor=actor, interface=interface)


async def rename_schedule(
    connection: Any,
    name: str,
    new_name: str,
    *,
    actor: str | None = None,
    interface: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """The same schedule under another name, with its history. NotFound; Conflict: it is taken."""
    await _row(
        connection,
        schema,
        "rename_schedule",
        name=name,
        new_name=new_name,
        actor=actor,
        interface=interface,
    )


async def delete_schedule(
    connection: Any,
    name: str,
    *,
    actor: str | None = None,
    interface: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> None:
    """Ends what has not started and removes the schedule; its history stays. NotFound."""
    await _row(connection, schema, "delete_schedule", name=name, actor=actor, interface=interface)


async def run_now(
    connection: Any,
    name: str,
    args: str | None = None,
    *,
    fire_time: datetime | None = None,
    actor: str | None = None,
    overlap: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> int:
    """The id of a run beside the schedule's fires; `args` None means the schedule's, and so does
    `overlap`. NotFound, InvalidInput.

    `fire_time` (aware) is the instant that it is for, whenever it runs; None: now.
    """
    found: int = await _value(
        connection,
        schema,
        "run_now",
        name=name,
        args=args,
        actor=actor,
        overlap=overlap,
        fire_time=fire_time,
    )
    return found


async def cancel_run(
    connection: Any,
    run_id: int,
    reason: str | None = None,
    *,
    by_force: bool = False,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> str:
    """``cancelled`` (had not begun), ``requested`` (its node stops it), ``finished``. NotFound.

    `by_force`: its node kills what can be killed, without grace.
    """
    name = "kill_run" if by_force else "cancel_run"
    verdict: str = await _value(connection, schema, name, run_id=run_id, reason=reason, actor=actor)
    return verdict


async def retry_run(
    connection: Any, run_id: int, *, actor: str | None = None, schema: str = DEFAULT_SCHEMA
) -> int:
    """A waiting run is due now (same id), an ended one runs again (new id). NotFound, Conflict."""
    found: int = await _value(connection, schema, "retry_run", run_id=run_id, actor=actor)
    return found


async def redrive(
    connection: Any,
    run_id: int,
    args: str | None = None,
    *,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> int:
    """The id of the new run of a dead letter; once for each letter. NotFound, Conflict.

    `args` None means the letter's own.
    """
    found: int = await _value(connection, schema, "redrive", run_id=run_id, args=args, actor=actor)
    return found


async def redrive_many(
    connection: Any,
    *,
    fingerprint: str | None = None,
    handler: str | None = None,
    queue: str | None = None,
    error_class: str | None = None,
    schedule: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    also_lost: bool = False,
    args: str | None = None,
    rate: int | None = None,
    per: timedelta = timedelta(minutes=1),
    starting: datetime | None = None,
    at_most: int = MOST_REDRIVEN,
    actor: str | None = None,
    schema: str = DEFAULT_SCHEMA,
) -> Redriven:
    """Runs the oldest open letters again that fit all filters, each once; up to `at_most` of them.

    With `rate` so many become due in each interval `per`, the first at `starting` (now). Lost ones,
    which may have taken effect, only if `also_lost`. InvalidInput without any filter.
    """
    row = await _row(
        connection,
        schema,
        "redrive_many",
        fingerprint=fingerprint,
        handler=handler,
        queue=queue,
        error_class=error_class,
        schedule=schedule,
        since=since,
        until=until,
        also_lost=also_lost,
        args=args,
        rate=rate,
        per=per,
        starting=starting,
        at_most=at_most,
        actor=actor,
    )
    return Redriven(list(row[0]), list(row[1]), row[2])


async def once(
    connection: Any,
    operation: str,
    verb: Callable[[], Awaitable[int]],
    *,
    schema: str = DEFAULT_SCHEMA,
) -> tuple[int, bool]:
    """The run that `verb` gives in the same transaction, and whether it was called.

    It was not, when a committed transaction has done this operation within `KEY_LIFETIME`: then the
    run is the one that it gave. `operation` has 1 to 500 characters and shares its names with the
    idempotency keys. A twin at the same moment waits. Raises what `verb` raises; the transaction is
    then to be rolled back, and the operation is not done.
    """
    lifetime = KEY_LIFETIME.total_seconds()
    if await _row(connection, schema, "begin_operation", key=operation, lifetime=lifetime):
        run = await verb()
        await _row(connection, schema, "end_operation", key=operation, run_id=run)
        return run, True
    return await _value(connection, schema, "run_of_operation", key=operation), False
