"""Chooses the server of a DSN with several hosts: all are tried at once, the newest primary wins.

A driver tries the hosts one after the other within one time limit, so a first host that is frozen
or drops packets uses up all of it. And a primary that was frozen, replaced and thawed still
believes that it is one. Its timeline is older than its successor's: a process that has seen the
newer timeline never goes back.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, Final, NamedTuple, TypeAlias

import asyncpg

from pgcron_ha.db.driver.dsn import driver_dsn, each_host, parameter, password_of, service_options
from pgcron_ha.db.driver.passwords import password_in_use
from pgcron_ha.db.driver.statements import load
from pgcron_ha.errors import DatabaseUnavailable

_GRACE_SECONDS: Final = 0.05
"""After the first answer; the timeline says which of two primaries is newer."""

# A standby refuses what a database may have as its default: SERIALIZABLE.
ASKING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_newest: dict[int, int] = {}
"""The highest timeline that this process has seen, by the identifier of the database system."""


class _Answer(NamedTuple):
    connection: Any
    system: int
    timeline: int


_Try: TypeAlias = "asyncio.Task[_Answer]"


async def open_connection(dsn: str, *, timeout: float = 10.0, **options: Any) -> Any:
    """A connection as asyncpg makes it, to the only host of `dsn`, or to the newest primary among
    several (or to what ``target_session_attrs`` of the DSN asks for). `timeout` in seconds, for
    all of them together; ``connect_timeout`` of the DSN may shorten it. `options` are the driver's.

    Raises what asyncpg raises for one host, DatabaseUnavailable with what each said for several
    and for a service that can't be read, ValueError for a connect_timeout that is no integer.
    """
    options |= service_options(dsn)
    asked = int(parameter(dsn, "connect_timeout") or 0)
    if asked > 0:  # to libpq, the others set no bound
        timeout = min(timeout, asked)
    changing = password_in_use()
    if changing is None or options.get("password") is not None or password_of(dsn) is not None:
        return await _open(dsn, timeout, options)
    password = await changing()
    try:
        return await _open(dsn, timeout, {**options, "password": password})
    except asyncpg.InvalidAuthorizationSpecificationError:  # PAM's refusals are of this kind
        another = await changing(refused=password)
        if another == password:
            raise
        return await _open(dsn, timeout, {**options, "password": another})


async def _open(dsn: str, timeout: float, options: dict[str, Any]) -> Any:
    hosts = each_host(driver_dsn(dsn))
    if len(hosts) < 2:
        return await asyncpg.connect(*hosts.values(), timeout=timeout, **options)
    given = parameter(dsn, "target_session_attrs") or os.environ.get("PGTARGETSESSIONATTRS")
    wanted = given or "read-write"
    options = {**options, "target_session_attrs": wanted}
    tries = {asyncio.create_task(_try(one, timeout, options)): host for host, one in hosts.items()}
    chosen = None
    try:
        chosen = await _choose(tries, wanted)
        return chosen
    finally:
        for task in tries:
            task.cancel()
        for answer in await asyncio.gather(*tries, return_exceptions=True):
            if isinstance(answer, _Answer) and answer.connection is not chosen:
                answer.connection.terminate()


async def _try(dsn: str, timeout: float, options: dict[str, Any]) -> _Answer:
    connection = await asyncpg.connect(dsn, timeout=timeout, **options)
    try:
        await connection.execute(ASKING, timeout=timeout)
        try:
            # Without a name: a pooler may give the session to others next.
            asking = await connection.prepare(load()["read_timeline"].sql, name="", timeout=timeout)
            row = await asking.fetchrow(timeout=timeout)
        except asyncpg.InsufficientPrivilegeError:
            row = {"timeline": None}
        await connection.execute("ROLLBACK", timeout=timeout)
    except BaseException:
        connection.terminate()
        raise
    if row["timeline"] is None:  # a standby; or an old primary can't be recognized
        return _Answer(connection, 0, 0)
    return _Answer(connection, row["system_identifier"], row["timeline"])


async def _choose(tries: dict[_Try, str], wanted: str) -> Any:
    """The connection to the newest of those that answer first. Raises DatabaseUnavailable."""
    waiting: set[_Try] = set(tries)
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        if any(not task.exception() for task in set(tries) - waiting) and waiting:
            _, waiting = await asyncio.wait(waiting, timeout=_GRACE_SECONDS)
        answers = [task.result() for task in set(tries) - waiting if not task.exception()]
        current = [one for one in answers if one.timeline >= _newest.get(one.system, 0)]
        if current:
            # A standby's is 0 here.
            choose = min if wanted == "prefer-standby" else max
            best = choose(current, key=lambda one: one.timeline)
            _newest[best.system] = best.timeline
            return best.connection
    for task in tries:
        if isinstance(error := task.exception(), asyncpg.InvalidPasswordError):
            raise error
    reported = "; ".join(f"{host}: {_why(task, wanted)}" for task, host in tries.items())
    raise DatabaseUnavailable(
        "none of the database's hosts can be used",
        reported,
        "Check the hosts and ports of the DSN (PGCRON_HA_DSN), and its target_session_attrs: a node"
        " needs read-write, which it is when it is not given.",
    )


def _why(task: _Try, wanted: str) -> str:
    error = task.exception()
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return f"it answers, but is not {wanted}"
    if error is not None:
        return f"{type(error).__name__}: {error}"
    answer = task.result()
    return (
        f"a primary of timeline {answer.timeline}, but one of {_newest[answer.system]} has been"
        " seen: it was replaced and must not be written to"
    )
