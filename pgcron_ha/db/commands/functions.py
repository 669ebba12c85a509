"""What people do to runs, schedules and single fires: the SQL functions of ``sql/functions.sql``
and ``sql/control.sql`` from Python. Instants are aware.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.rows import Row, Rows

KEY_LIFETIME: Final = timedelta(days=1)
# Dead letters of one call: each is locked until all are redriven or archived.
MOST_AT_ONCE: Final = 1000
JSON_COLUMNS: Final = frozenset({"args", "retry", "links"})


enqueue: Final = Call[int](
    "enqueue",
    "handler",
    args="{}",
    queue="default",
    priority=5,
    key_lifetime=KEY_LIFETIME,
    delivery="at_least_once",
)
"""The id of the new run, or of the run that a living idempotency key already named."""

enqueue_plain: Final = Call[int]("enqueue_plain", "handler", "args")
"""The same for a run with no other options."""

enqueue_many: Final = Call[list[int]]("enqueue_many", "runs")
"""The ids of the runs that a JSON array asks for, in its order: all of them, or an error.

Its objects have what `enqueue` takes, by the names of the SQL function's arguments.
"""

put_schedule: Final = Call[int]("put_schedule", "schedule", "spec", "handler")
"""Creates or changes the schedule of that name; its id. One that is so is not touched.

Its options are `pgcron_ha.client.options.POLICIES`; None is unchanged. VersionConflict when it
has not the `expected_version` (0: when there is one) any more.
"""

_pause_schedule: Final = Call[None]("pause_schedule", "name", note=None)

resume_schedule: Final = Call[None]("resume_schedule", "schedule")
"""Fires again from now on. NotFound."""

rename_schedule: Final = Call[None]("rename_schedule", "schedule", "new_name")
"""The same schedule under another name, with its history. NotFound; Conflict: it is taken."""

delete_schedule: Final = Call[None]("delete_schedule", "schedule")
"""Ends what has not started and removes the schedule; its history stays. NotFound."""

run_now: Final = Call[int]("run_now", "schedule", args=None)
"""The id of a run beside the schedule's fires; `args` None means the schedule's, and so does
`overlap`. NotFound, InvalidInput.

`fire_time` (aware) is the instant that it is for, whenever it runs; None: now.
"""

cancel_run: Final = Call[str]("cancel_run", "run_id", note=None)
"""``cancelled`` (had not begun), ``requested`` (its node stops it), ``finished``. NotFound."""

kill_run: Final = Call[str]("kill_run", "run_id", note=None)
"""As `cancel_run`; its node kills what can be killed, without grace."""

retry_run: Final = Call[int]("retry_run", "run_id", note=None)
"""A waiting run is due now (same id), an ended one runs again (new id). NotFound, Conflict."""

redrive: Final = Call[int]("redrive", "run_id", args=None, note=None)
"""The id of the new run of a dead letter; once for each letter. NotFound, Conflict.

`args` None means the letter's own.
"""

redrive_many: Final = Rows(
    "redrive_many", also_lost=False, per=timedelta(minutes=1), at_most=MOST_AT_ONCE
)
"""Runs the oldest open letters again that fit all filters, each once; up to `at_most` of them: of
each the `dead_letter`, its new `run_id`, and when that is due (`due_at`).

Filters are fingerprint, handler, queue, error_class, schedule, tags, owner, since and until. With
`rate` so many become due in each interval `per`, the first at `starting` (now). Lost ones, which
may have taken effect, only if `also_lost`. InvalidInput without any filter.
"""

archive_dead_letters: Final = Rows("archive_dead_letters", at_most=MOST_AT_ONCE)
"""Closes the oldest open ones, up to `at_most`: the `dead_letter` of each.

Those of `run_ids` (None: any) that fit all filters, which are those of `redrive_many`. `note` says
why nobody sends them again. InvalidInput without ids and any filter.
"""


async def in_batches(
    act: Callable[..., Awaitable[list[Row]]], command: Rows, most: int | None, **options: Any
) -> AsyncIterator[list[Row]]:
    """What `redrive_many` or `archive_dead_letters` gives, batch after batch, each by `act` in a
    transaction of its own: until no open letter is left that fits, or `most` are done. With a
    `rate` and `per` the runs of all batches become due one after the other.
    """
    done = 0
    while most is None or done < most:
        at_most = MOST_AT_ONCE if most is None else min(MOST_AT_ONCE, most - done)
        batch = await act(command, **options, at_most=at_most)
        yield batch
        done += len(batch)
        if len(batch) < at_most:
            break
        if options.get("rate"):
            options["starting"] = batch[-1]["due_at"] + options["per"] / options["rate"]


_begin_operation: Final = Call["int | None"]("begin_operation", "key", "lifetime")
_end_operation: Final = Call[None]("end_operation", "key", "run_id")


async def pause_schedule(
    connection: Any, *values: Any, until: datetime | timedelta | None = None, **options: Any
) -> None:
    """No fires of the schedule `name` from now on; those that pass meanwhile are missed with this
    `note`.

    `until`: an instant, or how long from now by the database's clock; a node resumes it then.
    NotFound, InvalidInput for an end that is over.
    """
    end: dict[str, Any] = {"pause" if isinstance(until, timedelta) else "until": until}
    await _pause_schedule(connection, *values, **end, **options)


async def once(
    connection: Any, operation: str, verb: Callable[[], Awaitable[int]], **options: Any
) -> tuple[int, bool]:
    """The run that `verb` gives in the same transaction, and whether it was called.

    It was not, when a committed transaction has done this operation within `KEY_LIFETIME`: then the
    run is the one that it gave. `operation` has 1 to 500 characters and shares its names with the
    idempotency keys. A twin at the same moment waits. Raises what `verb` raises; the transaction is
    then to be rolled back, and the operation is not done.
    """
    lifetime = KEY_LIFETIME.total_seconds()
    known = await _begin_operation(connection, operation, lifetime=lifetime, **options)
    if known is not None:
        return known, False
    run = await verb()
    await _end_operation(connection, operation, run, **options)
    return run, True


def as_json(columns: Mapping[str, Any]) -> dict[str, Any]:
    """A schedule, or what `enqueue` takes, as functions that get several at once read it."""
    return {name: _value(name, value) for name, value in columns.items()}


def _value(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):  # in hours, so that no time zone changes its length
        hours, rest = divmod(value, timedelta(hours=1))
        return f"{hours} hours {rest.seconds} seconds {rest.microseconds} microseconds"
    if isinstance(value, datetime):
        return value.isoformat()
    if name in JSON_COLUMNS and isinstance(value, str):
        return json.loads(value)
    return list(value) if isinstance(value, tuple) else value


skip_occurrence: Final = Call[None]("skip_occurrence", "schedule", "fire_time", note=None)
"""The fire does not run. NotFound; Conflict when it has begun or is over; InvalidInput."""

move_occurrence: Final = Call[None]("move_occurrence", "schedule", "fire_time", "due_at", note=None)
"""The fire is due at another instant to come, before or after. Raises as `skip_occurrence`."""

edit_occurrence: Final = Call[None]("edit_occurrence", "schedule", "fire_time", "args", note=None)
"""The fire gets other args (JSON text). Raises as `skip_occurrence`, and TooLarge."""

restore_occurrence: Final = Call[None]("restore_occurrence", "schedule", "fire_time")
"""The fire is as the schedule says. Raises as `skip_occurrence`; NotFound if it was so."""

changed_occurrences: Final = Rows("changed_occurrences", "schedule_id", at_most=100)
"""The first hundred fires to come that somebody has changed, by their time."""
