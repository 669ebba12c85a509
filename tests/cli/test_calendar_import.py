from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Cli

FILE = """BEGIN:VCALENDAR
VERSION:2.0
BEGIN:VEVENT
DTSTART;VALUE=DATE:20201225
RRULE:FREQ=YEARLY
SUMMARY:Christmas Day
END:VEVENT
BEGIN:VEVENT
DTSTART;VALUE=DATE:20261231
STATUS:CANCELLED
SUMMARY:Party
END:VEVENT
END:VCALENDAR
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "public holidays.ics"
    path.write_text(FILE.replace("\n", "\r\n"))
    return path


def test_an_import_prints_the_calendar_and_what_is_lost_or_writes_it(cli: Cli, file: Path) -> None:
    printed = cli("calendars", "import", str(file))
    assert printed.out == "yearly 12-25 # Christmas Day\n"
    assert printed.err == (
        'public holidays.ics, 2 "Party": not carried over: it is cancelled\n1 event carried over\n'
    )
    assert cli("calendars", "list").out == "no calendars\n"

    applied = cli("calendars", "import", str(file), "--apply")
    assert applied.out == "calendar public-holidays is written\n"
    (shown,) = cli("calendars", "show", "public-holidays", "--json").rows
    assert shown["content"] == printed.out
    cli("calendars", "import", str(file), "--apply", "--name", "other")
    rows = cli("calendars", "list", "--json").rows
    assert [(row["name"], row["version"]) for row in rows] == [("other", 1), ("public-holidays", 1)]
