"""Which server of a DSN that names several: all are tried at once, and the newest primary wins.

A driver tries one host after the other within one time limit, so a first host that is frozen or
swallows packets costs all of it. And a primary that was frozen, replaced and thawed still takes
itself for one: its timeline is older than that of its successor, and who has seen the newer one
never goes back.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import parse_qs, unquote

import asyncpg

from pgcron_ha.db.dsn import plain_dsn, split_dsn, without_places
from pgcron_ha.db.passwords import command_in_use
from pgcron_ha.db.statements import load
from pgcron_ha.errors import DatabaseUnavailable

_GRACE_SECONDS: Final = 0.05
"""After the first answer; a second primary that answers so late is told apart by the timeline."""

_MOST_HOSTS: Final = 16

# A standby refuses what a database may have as its default: SERIALIZABLE.
ASKING: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

_KINDS: Final[Mapping[str, str]] = {
    "any": "any server",
    "read-write": "a server that takes writes",
    "read-only": "a server that takes no writes",
    "primary": "a primary",
    "standby": "a standby",
    "prefer-standby": "a standby, or else any server",
}
"""What target_session_attrs may ask for."""

_newest: dict[int, int] = {}
"""The highest timeline that this process has seen, by the identifier of the database system."""


class Host(NamedTuple):
    """One place of a DSN; None: as the DSN has it for all."""

    name: str
    port: int | None

    def __str__(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"


class _Answer(NamedTuple):
    connection: Any
    system: int
    timeline: int


_Try: TypeAlias = "asyncio.Task[_Answer]"
_Tries: TypeAlias = dict[_Try, str]


def hosts_of(dsn: str) -> list[Host]:
    """The places that a DSN names: ``@db1:5432,db2/shop`` or ``?host=db1,db2&port=5432,5433``.

    Raises ValueError for a port that is no number, and for more than 16 hosts.
    """
    parts = split_dsn(dsn)
    places = parts.netloc.rpartition("@")[2]
    asked = parse_qs(parts.query)
    if places:
        found = [_host(place) for place in places.split(",")]
    else:
        names = asked.get("host", [""])[-1].split(",")
        ports = asked.get("port", [""])[-1].split(",")
        each = ports if len(ports) == len(names) else ports[-1:] * len(names)
        pairs = zip(names, each, strict=True)
        found = [Host(name, int(port) if port else None) for name, port in pairs]
    if len(found) > _MOST_HOSTS:
        raise ValueError(f"a DSN names at most {_MOST_HOSTS} hosts")
    return found


async def open_connection(dsn: str, *, timeout: float = 10.0, **options: Any) -> Any:
    """A connection as asyncpg makes it, to the only host of `dsn`, or to the newest primary among
    several (or to what ``target_session_attrs`` of the DSN asks for). `timeout` in seconds, for
    all of them together; ``connect_timeout`` of the DSN may shorten it.

    Raises what asyncpg raises for one host, DatabaseUnavailable with what each said for several.
    """
    dsn, bound, more = plain_dsn(dsn)
    hosts = hosts_of(dsn)
    timeout = min(timeout, bound or timeout)
    options = {**more, **options}
    command = command_in_use()
    if command is None or options.get("password") is not None or _has_password(dsn):
        return await _open(dsn, hosts, timeout, options)
    password = await command()
    try:
        return await _open(dsn, hosts, timeout, {**options, "password": password})
    except asyncpg.InvalidAuthorizationSpecificationError:  # PAM's refusals are of this kind
        another = await command(refused=password)
        if another == password:
            raise
        return await _open(dsn, hosts, timeout, {**options, "password": another})


async def _open(dsn: str, hosts: list[Host], timeout: float, options: dict[str, Any]) -> Any:
    wanted = wanted_of(dsn)
    if len(hosts) < 2:
        try:
            return await asyncpg.connect(dsn, timeout=timeout, **options)
        except asyncpg.TargetServerAttributeNotMatched as error:
            told = f"{str(hosts[0]) or 'the server'}: answers, but is another"
            raise _other_kind(told, wanted) from error
    wanted = wanted or "read-write"
    options["target_session_attrs"] = wanted
    tries = {asyncio.create_task(_try(dsn, host, timeout, options)): str(host) for host in hosts}
    chosen = None
    try:
        chosen = await _choose(tries, wanted)
        return chosen
    finally:
        await _let_go(tries, chosen)


CONNECT: Final[Any] = open_connection
"""The same as pools want it; asyncpg's protocol for it names what nobody needs."""


async def _try(dsn: str, host: Host, timeout: float, options: dict[str, Any]) -> _Answer:
    connection = await asyncpg.connect(
        without_places(dsn), host=host.name, port=host.port, timeout=timeout, **options
    )
    try:
        await connection.execute(ASKING, timeout=timeout)
        try:
            row = await connection.fetchrow(load()["read_timeline"].sql, timeout=timeout)
        except asyncpg.InsufficientPrivilegeError:
            row = {"timeline": None}
        await connection.execute("ROLLBACK", timeout=timeout)
    except BaseException:
        connection.terminate()
        raise
    if row["timeline"] is None:  # a standby; or there is nothing to tell an old primary by
        return _Answer(connection, 0, 0)
    return _Answer(connection, row["system_identifier"], row["timeline"])


async def _choose(tries: _Tries, wanted: str) -> Any:
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
    errors = [task.exception() for task in tries]
    for error in errors:
        if isinstance(error, asyncpg.InvalidPasswordError):
            raise error
    told = "; ".join(f"{host}: {_why(task)}" for task, host in tries.items())
    if any(isinstance(error, asyncpg.TargetServerAttributeNotMatched) for error in errors):
        raise _other_kind(told, wanted)
    raise DatabaseUnavailable(
        "none of the database's hosts can be used",
        told,
        "Check the hosts and ports of the DSN (PGCRON_HA_DSN); one of them must be a primary.",
    )


def _why(task: _Try) -> str:
    error = task.exception()
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return "answers, but is another"
    if error is not None:
        return f"{type(error).__name__}: {error}"
    answer = task.result()
    return (
        f"a primary of timeline {answer.timeline}, but one of {_newest[answer.system]} has been"
        " seen: it was replaced and must not be written to"
    )


def _other_kind(told: str, wanted: str | None) -> DatabaseUnavailable:
    return DatabaseUnavailable(
        f"none of the database's hosts is what target_session_attrs={wanted} asks for",
        told,
        f"That is {_KINDS[wanted or 'any']}: check the hosts and ports of the DSN (PGCRON_HA_DSN),"
        " or mend target_session_attrs.",
    )


async def _let_go(tries: _Tries, chosen: Any) -> None:
    for task in tries:
        task.cancel()
    for answer in await asyncio.gather(*tries, return_exceptions=True):
        if isinstance(answer, _Answer) and answer.connection is not chosen:
            answer.connection.terminate()


def wanted_of(dsn: str) -> str | None:
    """The target_session_attrs of a DSN, or of PGTARGETSESSIONATTRS. Raises DatabaseUnavailable
    for a word that is none.
    """
    asked = parse_qs(split_dsn(dsn).query).get("target_session_attrs", [""])[-1]
    word = asked or os.environ.get("PGTARGETSESSIONATTRS")
    if word and word not in _KINDS:
        raise DatabaseUnavailable(
            f"target_session_attrs={word} is none of its values",
            f"They are {', '.join(_KINDS)}.",
            "Mend target_session_attrs of the DSN (or PGTARGETSESSIONATTRS); a node needs"
            " read-write.",
        )
    return word or None


def _has_password(dsn: str) -> bool:
    parts = split_dsn(dsn)
    return parts.password is not None or "password" in parse_qs(parts.query)


def _host(place: str) -> Host:
    """``db1``, ``db1:5432``, ``[::1]:5432``."""
    name, bracket, rest = place.rpartition("]")
    if bracket:
        return Host(unquote(name.lstrip("[")), int(rest[1:]) if rest[1:] else None)
    name, _, port = place.partition(":")
    return Host(unquote(name), int(port) if port else None)
