"""Every batch of the engine goes on without a row that is refused, locked or too slow.

`isolate` sends a batch in one statement. If the database refuses it, or does not finish it in time,
the batch is halved until each faulty row is alone; the others get done. The service then handles
the faulty rows: it marks a refused row with the server's reason; a locked or slow one waits in
`SetAside` and is tried again with back-off.
"""

from __future__ import annotations

import random
import traceback
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Final, TypeVar
from uuid import UUID

from pgcron_ha.db.driver.link import IMPATIENT, Busy, Link, Row, TableBusy, Unanswered
from pgcron_ha.errors import DatabaseUnavailable, InvalidSpec, PgcronError, Refused, SchemaError
from pgcron_ha.telemetry.events import IsNoLongerAside, RunRefused, WasSetAside
from pgcron_ha.telemetry.log import emit

Item = TypeVar("Item")
Answer = TypeVar("Answer")
Key = TypeVar("Key", bound=Hashable)

MOST_ASIDE: Final = 1000
"""Keys that a register usually holds; more than that are tried again with everything else."""

MOST_LOGGED: Final = 20
"""Beyond this number of keys, the log does not name new ones."""

FIRST_PAUSE_SECONDS: Final = 1.0
LONGEST_PAUSE_SECONDS: Final = 300.0

BATCH_CHARACTERS: Final = 1024 * 1024
"""Characters in one statement, or one item."""

_SYSTEMIC: Final = (Refused, SchemaError)
_SYSTEMIC_AFTER: Final = 16
"""After this many refusals for a missing privilege or table, and no success, no row is at fault."""


async def isolate(
    batch: Sequence[Item],
    send: Callable[[Sequence[Item]], Awaitable[Answer]],
    refused: Callable[[Item, PgcronError], Awaitable[None]] | None,
    delayed: Callable[[Item, PgcronError], None],
) -> list[Answer]:
    """The answers to the parts of `batch` that went through: one, unless something was wrong.

    `send` makes one statement of a part. `refused` gets an item that the database refuses even
    alone; `delayed` one whose statement waits for a lock, is too slow or is not answered, and
    refused ones, too, if `refused` is None.

    Raises DatabaseUnavailable when there is no database, and Refused or SchemaError when nothing
    of the batch went through because a privilege or a table is missing: then no row is at fault.
    Likewise TableBusy, for a lock of a whole table.
    """
    answers: list[Answer] = []
    waiting: list[tuple[Item, PgcronError]] = []
    refusals: list[tuple[Item, PgcronError]] = []
    table_lock: TableBusy | None = None
    problem: PgcronError
    met_locks = 0
    parts = [batch] if batch else []
    while parts:
        part = parts.pop()
        try:
            with impatience(part is not batch):
                answers.append(await send(part))
            continue
        except (Busy, Unanswered) as error:
            aside, problem = waiting, error
            met_locks += 1
            if isinstance(error, TableBusy):
                table_lock = table_lock or error
            # Not at once: it may be the lock of one partition.
            if table_lock and not answers and met_locks >= _SYSTEMIC_AFTER:
                raise table_lock from None
        except DatabaseUnavailable:
            raise
        except PgcronError as error:
            aside, problem = refusals, error
        if len(part) > 1:
            middle = len(part) // 2
            parts += [part[middle:], part[:middle]]
            continue
        aside.append((part[0], problem))
        if not answers and (not parts or len(refusals) >= _SYSTEMIC_AFTER):
            if table_lock and len(waiting) > 1:
                raise table_lock
            if refusals and all(isinstance(each, _SYSTEMIC) for _, each in refusals):
                raise refusals[-1][1]
    for item, problem in waiting:
        delayed(item, problem)
    for item, problem in refusals:
        if refused is None:
            delayed(item, problem)
        else:
            await refused(item, problem)
    return answers


def first_batch(
    items: Iterable[Item], most: int, characters_of: Callable[[Item], int]
) -> list[Item]:
    """The first items, for one statement: `most` of them and `BATCH_CHARACTERS` at most, but one at
    least.
    """
    batch: list[Item] = []
    characters = 0
    for item in items:
        characters += characters_of(item)
        if batch and (characters > BATCH_CHARACTERS or len(batch) == most):
            break
        batch.append(item)
    return batch


async def one_by_one(
    items: Sequence[Item],
    act: Callable[[Item], Awaitable[object]],
    failed: Callable[[Item, PgcronError], None],
) -> None:
    """`act` on each item, one after the other: `failed` gets those where it raises, whatever it
    raises (as `known`), and the others get done.

    After the first that waits for a lock, the others wait a fifth of a second only. Raises
    DatabaseUnavailable when there is no database.
    """
    is_impatient = False
    for item in items:
        try:
            with impatience(is_impatient):
                await act(item)
        except (Busy, Unanswered) as error:
            is_impatient = True
            failed(item, error)
        except DatabaseUnavailable:
            raise
        except Exception as error:
            failed(item, known(error))


def known(error: Exception) -> PgcronError:
    """The error itself; for one that is no `PgcronError`, an error that names where it arose."""
    return error if isinstance(error, PgcronError) else InvalidSpec(unforeseen(error))


def unforeseen(error: BaseException) -> str:
    """An exception that is no `PgcronError`, with the place that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    place = "".join(f" at {frame.name}, line {frame.lineno} of {frame.filename}" for frame in last)
    return f"{type(error).__name__}: {error}{place}"[:1000]


async def end_refused_run(
    link: Link, run: int, reason: str, token: UUID | None = None, node: str | None = None
) -> bool:
    """End a run that the database refuses to write as usual; whether it was alive. `token` is that
    of its claim, None for a run that waits; `node` is this node's name.
    """
    parameters = {"run_id": run, "token": token, "reason": reason, "node": node}
    return bool(await link.value("end_refused_run", **parameters))


async def end_refused_runs(link: Link, refused: Sequence[Row]) -> int:
    """End waiting runs that can't be claimed, each with the server's error; returns how many were
    alive.
    """
    ended = 0
    for row in refused:
        reason = f"PostgreSQL refuses to let it be claimed: {row['error']}"
        if await end_refused_run(link, row["run_id"], reason):
            ended += 1
            emit(RunRefused(row["run_id"], row["error"]))
    return ended


@contextmanager
def impatience(is_impatient: bool = True) -> Iterator[None]:
    """Inside, a statement waits for locks for a fifth of a second only: the search for a locked row
    must not wait for it at every step.
    """
    token = IMPATIENT.set(is_impatient or IMPATIENT.get())
    try:
        yield
    finally:
        IMPATIENT.reset(token)


@dataclass(slots=True)
class Aside:
    """Something that a service goes on without. Instants are `time.monotonic` seconds."""

    what: str
    """For people: ``run 42``, ``schedule 'nightly'``."""
    error: str
    since: float
    again_at: float
    is_logged: bool
    is_of_table: bool
    """Whether it waits for the lock of a whole table."""
    tries: int = 1


class SetAside(dict[Key, Aside]):
    """What a service goes on without, by key; each is tried again, alone, with back-off. What has a
    key here did not go through the last time; it is sent alone then.
    """

    def __init__(
        self, service: str = "", longest: float = LONGEST_PAUSE_SECONDS, most: int = MOST_ASIDE
    ) -> None:
        """`service`: the owner's name, for the log. `longest`: most seconds between two tries.
        `most`: keys that are held.
        """
        self._service = service
        self._longest = longest
        self._most = most

    def put(self, key: Key, what: str, error: PgcronError | str) -> None:
        """Not this one for a while: a second at first, twice as long each time; never longer while
        a whole table is locked.
        """
        now, of_table = monotonic(), isinstance(error, TableBusy)
        is_lock = isinstance(error, Busy)
        error = error.message if isinstance(error, PgcronError) else error
        known = self.get(key)
        if known is None:
            if len(self) < self._most:
                is_logged = len(self) < MOST_LOGGED
                again_at = now + FIRST_PAUSE_SECONDS
                self[key] = Aside(what, error, now, again_at, is_logged, of_table)
                if is_logged:
                    emit(WasSetAside(self._service, what, error))
            return
        known.tries += 1
        # A statement with the short lock timeout does not learn what it waited for.
        known.is_of_table = of_table or (known.is_of_table and is_lock)
        doublings = 0 if known.is_of_table else min(known.tries, 20)
        longest = min(self._longest, FIRST_PAUSE_SECONDS * 2**doublings)
        known.error, known.again_at = error, now + longest * random.uniform(0.5, 1.0)

    def forget(self, *keys: Key) -> None:
        """They went through, or are gone."""
        for key in keys if self else ():
            entry = self.pop(key, None)
            if entry is not None and entry.is_logged:
                emit(IsNoLongerAside(self._service, entry.what, monotonic() - entry.since))

    def keep(self, keys: set[Key]) -> None:
        """Forgets all but these."""
        self.forget(*self.keys() - keys)

    def waits(self, key: Key) -> bool:
        """Whether its time to be tried again has not come yet."""
        return key in self and self[key].again_at > monotonic()

    def waiting(self) -> list[Key]:
        """Those that are to be left out now."""
        return list(filter(self.waits, self))

    def waiting_of(self: SetAside[tuple[str, Item]], duty: str) -> list[Item]:
        """Of what is held as (duty, item), the items to be left out now."""
        return [item for of, item in self.waiting() if of == duty]

    def forget_absent(self: SetAside[tuple[str, Item]], duty: str, present: set[Item]) -> None:
        """Forget items (duty, item) of the duty that are not `present` and wait no longer."""
        gone = [key for key in self if key[0] == duty and key[1] not in present]
        self.forget(*(key for key in gone if not self.waits(key)))

    def until_retry(self, key: Key) -> float:
        """Seconds until this one is tried again; infinite when it is not held."""
        return max(0.0, self[key].again_at - monotonic()) if key in self else inf

    def next_try(self) -> float | None:
        """Seconds until the first of them is tried again; None when there is none."""
        return min(map(self.until_retry, self), default=None)

    def entries(self) -> list[Aside]:
        """All of them, the oldest first."""
        return sorted(self.values(), key=lambda entry: entry.since)
