"""What is nothing, or of the wrong kind, is refused as all else: with the rule and what to do."""

from __future__ import annotations

import pytest

from tests.db.control import Connection, put_schedule
from tests.db.test_refusals import is_explained, refusal

REFUSED = [
    ("rename_schedule('job', NULL)", "PC001"),
    ("skip_occurrence('job', NULL)", "PC001"),
    ("edit_occurrence('job', NULL, '{}')", "PC001"),
    ("restore_occurrence('job', NULL)", "PC001"),
    ("put_calendar(NULL, 'sat')", "PC005"),
    ("put_calendar('days', NULL)", "PC005"),
    ("pause_backfill(NULL)", "PC010"),
    ("preview('job', NULL)", "PC001"),
    ("edit_schedule('job', '[]')", "PC001"),
    ("edit_schedule('job', '{\"max_running\": \"x\"}')", "PC001"),
    ("edit_schedule('job', '{\"timeout\": \"long\"}')", "PC001"),
    ('apply_schedules(\'[{"name": "a", "handler": "py:x"}]\', \'s\')', "PC001"),
]
OF_FILES = ['"max_running": "x"', '"queue": null']


@pytest.mark.parametrize(("asked", "code"), REFUSED)
async def test_it_is_refused_by_functions(connection: Connection, asked: str, code: str) -> None:
    await put_schedule(connection)

    error = await refusal(connection, f"SELECT pgcron.{asked}")

    assert (error.sqlstate, is_explained(error)) == (code, True), error


@pytest.mark.parametrize("column", OF_FILES)
async def test_it_is_refused_in_files(connection: Connection, column: str) -> None:
    definition = f'{{"name": "a", "spec": "@daily", "handler": "py:x", {column}}}'

    error = await refusal(
        connection, "SELECT pgcron.apply_schedules($1::text::jsonb, 's')", f"[{definition}]"
    )

    assert (error.sqlstate, is_explained(error)) == ("PC001", True), error


async def test_the_note_of_a_pause_is_bounded(connection: Connection) -> None:
    await put_schedule(connection)
    await connection.execute("SELECT pgcron.pause_schedule('job', repeat('n', 100000))")

    kept = "SELECT length(s.paused_note), length(c.pause_note) < 600"
    tables = "pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id"
    assert tuple(await connection.fetchrow(f"{kept} FROM {tables}") or ()) == (500, True)
