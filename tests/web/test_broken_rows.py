"""Rows that break their rules, as a restored dump may have them: the pages show them, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

import pytest

from tests.db.control import Connection
from tests.sessions import own_session
from tests.web.conftest import Site

SCHEDULE = (
    "retry = '[1, 2]'",
    """retry = '{"base": {"x": []}, "cap": null}'""",
    "retry = '7'",
    "links = '[1]'",
    """links = '{"runbook": [7]}'""",
    "overlap = 'never'",
    "args = '[]'",
    "timeout = '200000 years'",
    "jitter = '-200000 years'",
    "paused_until = '200000-01-01', enabled = false",
    "created_at = '-infinity'",
    "tags = ARRAY['', ' ']",
)
RUN = (
    "args = '7'",
    "retry = '[1, 2]'",
    "due_at = '200000-01-01'",
    "created_at = '0044-03-15 BC'",
    "timeout = '200000 years'",
    "priority = -4",
    "time_limits = '[7]'",
    "requires = ARRAY['', ' ']",
)


@pytest.fixture
async def writer(database: str) -> AsyncIterator[Connection]:
    """With the checks of the tables gone."""
    connection = await own_session(database)
    for row in await connection.fetch(
        "SELECT conrelid::regclass::text AS name, conname FROM pg_constraint"
        " WHERE contype = 'c' AND coninhcount = 0"
        " AND conrelid IN ('pgcron.schedule'::regclass, 'pgcron.run'::regclass,"
        " 'pgcron.occurrence_override'::regclass)"
    ):
        await connection.execute(f'ALTER TABLE {row["name"]} DROP CONSTRAINT "{row["conname"]}"')
    yield connection
    await connection.close()


async def change_row(writer: Connection, statement: str, row: int) -> None:
    """With no trigger at work, as where a dump is restored."""
    async with writer.transaction():
        await writer.execute("SET LOCAL session_replication_role = replica")
        await writer.execute(statement, row)


async def broken_pages(site: Site, paths: Iterable[str]) -> list[str]:
    answers = [(path, await site.get(path)) for path in paths]
    return [f"{path}: {answer.status_code}" for path, answer in answers if answer.status_code > 299]


async def test_whatever_a_schedule_holds_its_pages_are_shown(
    site: Site, writer: Connection
) -> None:
    paths = ["/", "/schedules"]
    for number, change in enumerate(SCHEDULE):
        name = f"odd-{number}"
        schedule = await writer.fetchval(
            "SELECT pgcron.put_schedule($1, '@daily', 'py:work')", name
        )
        await change_row(writer, f"UPDATE pgcron.schedule SET {change} WHERE id = $1", schedule)
        paths += (f"/schedules/{name}{page}" for page in ("", "/edit", "/occurrences", "/versions"))
    await change_row(
        writer,
        "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, due_at)"
        " VALUES ($1, '200000-01-01', 'move', '200001-01-01')",
        schedule,
    )

    assert await broken_pages(site, paths) == []


async def test_whatever_a_run_holds_its_pages_are_shown(site: Site, writer: Connection) -> None:
    paths = ["/", "/runs", "/queues", "/queues/default"]
    for change in RUN:
        run = await writer.fetchval("SELECT pgcron.enqueue('py:work')")
        await change_row(writer, f"UPDATE pgcron.run SET {change} WHERE id = $1", run)
        paths.append(f"/runs/{run}")

    assert await broken_pages(site, paths) == []
