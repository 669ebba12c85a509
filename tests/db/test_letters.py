"""What a locale takes for a letter, a digit and its other case changes no meaning."""

from __future__ import annotations

import asyncpg
import pytest

from tests.db.control import Connection

# In a Turkish locale the other case of I is ı, in most of them \d is a digit of any script. The
# matrix has a server that knows the former.
LOCALES = ("C", "pg_c_utf8", "C.utf8", "tr-x-icu", "lt-x-icu")

SPECS = (
    *("0 9 * * FRI", "@MIDNIGHT", "@DAILY", "@DAILY~", "0 9 * APR-JUN TUE#2", "0 9 L * FRIL"),
    *("rrule freq=daily;interval=2", "RRULE FREQ=WEEKLY;BYDAY=FR,MO;UNTIL=20300101"),
    *("0 9 * * *\nUNTIL 2030-01-01T00:00", "EVERY 2ND OF 0 9 * * FRI", "EVERY 1H30M"),
    *("0 9 * * *\nNOT IN holidays", "0 9 * * *\nONLY IN holidays, MOVE NEXT"),
    *("0 9 * * *\nnot * * * * FRI", "0 9 * * *\nNOT AT 2026-12-24T09:00"),
)
CALENDARS = ("FRI,SUN", "YEARLY 12-25", "YEARLY 12-FRI#1", "NOT FRI\n2026-12-25", "CALENDAR office")
UNREADABLE = ("٢٠٢٦-12-25", "yearly ١٢-25", "2026-12-25..２０２７-01-01", "frı", "yearly 12-frı#1")


@pytest.fixture(params=LOCALES)
async def locale(request: pytest.FixtureRequest, connection: Connection) -> str:
    """One of those that this server has; the first, which each has, instead of another."""
    name: str = await connection.fetchval(
        "SELECT min(collname) FROM pg_collation WHERE collname = $1"
        " AND collencoding IN (-1, pg_char_to_encoding('UTF8'))",
        request.param,
    )
    return name or LOCALES[0]


@pytest.mark.long
@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.replace("\n", "|"))
async def test_a_spec_means_the_same_in_each_locale(
    connection: Connection, locale: str, spec: str
) -> None:
    assert await connection.fetchval(f'SELECT pgcron.spec_is_fine($1 COLLATE "{locale}")', spec)


async def test_calendars_that_a_spec_names_are_found_in_each_locale(
    connection: Connection, locale: str
) -> None:
    named = f'SELECT pgcron.calendars_named($1 COLLATE "{locale}")'
    assert await connection.fetchval(named, "0 9 * * *\nNOT IN Holidays") == "Holidays"


async def test_a_calendar_means_the_same_in_each_locale(
    connection: Connection, locale: str
) -> None:
    judge = f'SELECT pgcron.calendar_is_fine($1 COLLATE "{locale}")'
    for content in CALENDARS:
        assert await connection.fetchval(judge, content), content
    for content in UNREADABLE:
        with pytest.raises(asyncpg.PostgresError, match="does not name days") as refused:
            await connection.fetchval(judge, content)
        assert refused.value.sqlstate == "PC005"
