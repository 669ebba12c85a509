"""``pgcron-ha calendars``, and what a schedule that uses one shows."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli, Execute

HOLIDAYS = "yearly 12-25 # Christmas Day\nyearly easter+1 # Easter Monday\n"


def put(cli: Cli, tmp_path: Path, name: str, content: str) -> str:
    file = tmp_path / f"{name}.txt"
    file.write_text(content)
    answer = cli("calendars", "put", name, file)
    assert answer.code == 0, answer.err
    return answer.out


def test_a_calendar_is_put_shown_listed_and_deleted(cli: Cli, tmp_path: Path) -> None:
    reported = put(cli, tmp_path, "holidays", HOLIDAYS)
    assert reported == "calendar 'holidays' is version 1, no schedule uses it\n"
    put(cli, tmp_path, "closed", "calendar holidays\nsat,sun\n")
    cli("schedules", "put", "nightly", "0 3 * * *\nnot in closed", "py:x")

    reported = put(cli, tmp_path, "holidays", f"{HOLIDAYS}yearly 12-26\n")

    assert reported == "calendar 'holidays' is version 2, used by 1 schedule\n"
    rows = cli("calendars", "list", "--json").rows
    assert [(row["name"], row["schedules"]) for row in rows] == [("closed", 1), ("holidays", 1)]
    [shown] = cli("calendars", "show", "holidays", "--json").rows
    assert shown["used_by"] == ["nightly"]
    notes = {day["day"][5:]: day["note"] for day in shown["next_days"]}
    assert notes["12-25"] == "Christmas Day"
    assert notes["12-26"] == ""
    assert "Christmas Day" in cli("calendars", "show", "closed").out
    refused = cli("calendars", "delete", "holidays")
    assert refused.code == 1
    assert "schedule nightly, calendar closed" in refused.err
    cli("schedules", "delete", "nightly")
    assert cli("calendars", "delete", "closed").out == "calendar 'closed' is deleted\n"
    assert cli("calendars", "delete", "holidays").code == 0
    assert cli("calendars", "show", "holidays").code == 1


def test_a_spec_with_calendars_is_looked_at_before_it_is_a_schedule(
    cli: Cli, tmp_path: Path
) -> None:
    put(cli, tmp_path, "holidays", HOLIDAYS)
    put(cli, tmp_path, "open", "mon-fri\nnot calendar holidays\n")
    asked = ("next", "0 9 * * *\nonly in open", "--from", "2026-12-24", "--limit", "3", "--json")

    assert [row["fire_at"][5:10] for row in cli(*asked).rows] == ["12-24", "12-28", "12-29"]
    unknown = cli("next", "0 9 * * *\nnot in Holidays")
    assert unknown.code == 1
    assert unknown.err.splitlines()[0] == 'error: calendar "Holidays" is not known'
    assert "hint: `pgcron-ha calendars list` shows them" in unknown.err


def test_what_is_no_calendar_is_told_with_its_line(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bad.txt"
    file.write_text("sat\nsunday\n")

    answer = cli("calendars", "put", "closed", file)

    assert answer.code == 1
    assert 'line 2: "sunday" does not name days' in answer.err
    assert "hint: " in answer.err


def test_what_is_no_text_or_too_long_is_no_calendar(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "bad.txt"
    file.write_bytes(b"sat # S\xe1bado\n")
    assert cli("calendars", "put", "bad", file).err.splitlines() == [
        "error: the file can't be read",
        "detail: 'utf-8' codec can't decode byte 0xe1 in position 7: invalid continuation byte.",
        "hint: Write the file as UTF-8 text.",
    ]
    file.write_text("sat\n" * 100_000)
    assert "error: the calendar is too long" in cli("calendars", "put", "bad", file).err


def test_dates_that_are_far_away_are_shown(cli: Cli, tmp_path: Path) -> None:
    put(cli, tmp_path, "closed", "2099-12-24..2099-12-25 # the shops\n")
    [shown] = cli("calendars", "show", "closed", "--json").rows
    assert shown["next_days"] == [
        {"day": "2099-12-24", "note": "the shops"},
        {"day": "2099-12-25", "note": "the shops"},
    ]


def test_why_names_the_calendar_and_its_note(cli: Cli, tmp_path: Path) -> None:
    put(cli, tmp_path, "holidays", HOLIDAYS)
    cli("schedules", "put", "nightly", "0 3 * * *\nnot in holidays", "py:x")

    [reported] = cli("schedules", "why", "nightly", "2098-12-25T03:00Z", "--json").rows

    assert reported["decision"] == "not an instant"
    assert reported["reason"] == "left out by calendar holidays: 2098-12-25 Christmas Day"
    assert reported["fires_before"] == "2098-12-24T03:00:00Z"
    shown = cli("schedules", "show", "nightly").out
    assert "not on days of calendar holidays" in shown
    assert "holidays" in shown


def test_what_plain_sql_wrote_and_is_no_calendar_is_shown(cli: Cli, execute: Execute) -> None:
    execute("SELECT pgcron.put_calendar('odd', E'sat\\nsome day')")

    shown = cli("calendars", "show", "odd")

    assert shown.code == 0
    assert "\nsat\nsome day\n" in shown.out
    assert shown.err == 'note: line 2: "some day" does not name days\n'
