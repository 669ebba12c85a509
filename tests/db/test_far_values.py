"""What no Python can hold is read as the last it can, and written as it was."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone

import pytest

from tests.db.control import Connection
from tests.product.db import connect

LATEST = datetime.max.replace(tzinfo=UTC)
EARLIEST = datetime.min.replace(tzinfo=UTC)


@pytest.fixture
async def ours(database: str) -> AsyncIterator[Connection]:
    """A connection as the product opens them for itself."""
    connection = await connect(database)
    yield connection
    await connection.close()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("timestamptz '2026-02-03 04:05:06.789+00'", datetime(2026, 2, 3, 4, 5, 6, 789000, UTC)),
        ("timestamptz '1899-12-31 23:00-05'", datetime(1900, 1, 1, 4, tzinfo=UTC)),
        ("timestamptz '294276-12-30'", LATEST),
        ("timestamptz 'infinity'", LATEST),
        ("timestamptz '4713-01-01 BC'", EARLIEST),
        ("timestamptz '-infinity'", EARLIEST),
    ],
)
async def test_a_value_is_read_or_the_last_there_is(
    ours: Connection, written: str, read: datetime
) -> None:
    assert await ours.fetchval(f"SELECT {written}") == read
    assert await ours.fetchval(f"SELECT ARRAY[{written}, NULL]") == [read, None]


async def test_what_was_read_is_written_as_it_was(ours: Connection) -> None:
    instant = datetime(2026, 2, 3, 4, 5, 6, 789, UTC)
    given = [instant, LATEST, EARLIEST, instant.astimezone(timezone(timedelta(hours=5)))]
    assert await ours.fetchval("SELECT $1::timestamptz[]::text[]", given) == [
        "2026-02-03 04:05:06.000789+00",
        "infinity",
        "-infinity",
        "2026-02-03 04:05:06.000789+00",
    ]
