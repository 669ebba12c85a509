"""Instants and intervals beyond Python's range are read as the last it has: else one row with such
a value would keep all others of its statement from being read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_LONGEST: Final = timedelta(999_999_999)
_MICROSECOND: Final = timedelta(microseconds=1)
_INFINITY: Final = 2**63 - 1


async def read_far_values(connection: Any) -> None:
    """From here on a session of asyncpg reads them so, and infinity as the last instant, which it
    writes as infinity. No statement is sent.
    """
    own = {"schema": "pg_catalog", "format": "tuple"}
    await connection.set_type_codec(
        "timestamptz", encoder=_written_instant, decoder=_read_instant, **own
    )
    await connection.set_type_codec(
        "interval", encoder=_written_interval, decoder=_read_interval, **own
    )


def _read_instant(written: tuple[int]) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=written[0])
    except OverflowError:
        return _LATEST if written[0] > 0 else _EARLIEST


def _written_instant(instant: datetime) -> tuple[int]:
    if instant == _LATEST:
        return (_INFINITY,)
    return (-_INFINITY - 1 if instant == _EARLIEST else (instant - _EPOCH) // _MICROSECOND,)


def _read_interval(written: tuple[int, int, int]) -> timedelta:
    """A month has 30 days, a year 365, as in asyncpg's own reading."""
    months, days, microseconds = written
    years, months = divmod(abs(months), 12)
    days += (365 * years + 30 * months) * (1 if written[0] >= 0 else -1)
    try:
        return timedelta(days, microseconds=microseconds)
    except OverflowError:
        return _LONGEST if days > 0 else -_LONGEST


def _written_interval(interval: timedelta) -> tuple[int, int, int]:
    return 0, interval.days, (interval - timedelta(interval.days)) // _MICROSECOND
