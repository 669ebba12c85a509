"""What a locale takes for a letter, a digit and its other case changes no meaning."""

from __future__ import annotations

import pytest

from tests.db.control import Connection

# In a Turkish locale the other case of I is ı, in most of them \d is a digit of any script. The
# matrix has a server that knows the former.
LOCALES = ("C", "pg_c_utf8", "C.utf8", "tr-x-icu", "lt-x-icu")


@pytest.fixture(params=LOCALES)
async def locale(request: pytest.FixtureRequest, connection: Connection) -> str:
    """One of those that this server has; the first, which each has, instead of another."""
    name: str = await connection.fetchval(
        "SELECT min(collname) FROM pg_collation WHERE collname = $1"
        " AND collencoding IN (-1, pg_char_to_encoding('UTF8'))",
        request.param,
    )
    return name or LOCALES[0]


async def test_calendars_that_a_spec_names_are_found_in_each_locale(
    connection: Connection, locale: str
) -> None:
    named = f'SELECT pgcron.calendars_named($1 COLLATE "{locale}")'
    assert await connection.fetchval(named, "0 9 * * *\nNOT IN Holidays") == "Holidays"
