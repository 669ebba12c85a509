"""Instants beyond Python's range are read as the last it has: else one row with such a value would
keep all others of its statement from being read.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

_EPOCH: Final = datetime(2000, 1, 1, tzinfo=UTC)
_EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
_LATEST: Final = datetime.max.replace(tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_INFINITY: Final = 2**63 - 1


async def read_far_values(connection: Any) -> None:
    """From here on a session of asyncpg reads them so, and infinity as the last instant, which it
    writes as infinity. No statement is sent.
    """
    await connection.set_type_codec(
        "timestamptz",
        schema="pg_catalog",
        encoder=_written_instant,
        decoder=_read_instant,
        format="tuple",
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
