"""``pgcron-ha next``: tables, JSON lines, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pgcron_ha.errors import InvalidInput, InvalidSpec, UnknownZone
from tests.product.cli import next_command


def run(*arguments: str) -> Result:
    return CliRunner().invoke(next_command, arguments)


def test_fires_are_shown_in_local_time_and_in_utc() -> None:
    result = run("0 9 * * mon-fri", "--tz", "Europe/Berlin", "--from", "2026-03-27", "--limit", "2")
    assert result.stdout.splitlines() == [
        "At 09:00 on Monday to Friday, in Europe/Berlin.",
        "Europe/Berlin                   UTC",
        "Fri 2026-03-27 09:00:00 +0100   2026-03-27T08:00:00Z",
        "Mon 2026-03-30 09:00:00 +0200   2026-03-30T07:00:00Z",
    ]


def test_a_calendar_needs_a_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("PGCRON_HA_DSN", raising=False)
    # A demo or a node that runs on this machine is found otherwise.
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    result = run("0 9 * * *\nnot in days")
    assert isinstance(result.exception, InvalidSpec)
    assert 'calendar "days" is not known' in str(result.exception)


def test_json_is_one_object_a_line() -> None:
    result = run(
        "30 2 * * *", "--tz=Europe/Berlin", "--from=2026-03-28T12:00Z", "--limit=1", "--json"
    )  # fmt: skip
    assert json.loads(result.stdout) == {
        "fire_at": "2026-03-29T01:00:00Z",
        "local": "2026-03-29T03:00:00+02:00",
        "note": "02:30 does not exist on 2026-03-29 in Europe/Berlin: fires at 03:00",
    }


def test_what_the_clock_does_to_a_fire_stands_beside_it() -> None:
    result = run("30 2 * * *", "--tz=Europe/Berlin", "--from=2026-10-24T12:00Z", "--limit=2")
    assert result.stdout.splitlines()[2:] == [
        "Sun 2026-10-25 02:30:00 +0200   2026-10-25T00:30:00Z   02:30 occurs twice on 2026-10-25 in"
        " Europe/Berlin: first pass, the second is left out",
        "Mon 2026-10-26 02:30:00 +0100   2026-10-26T01:30:00Z",
    ]
    back = run("30 2 * * *", "--tz=Europe/Berlin", "--from=2026-03-30", "--prev", "--limit=1")
    assert back.stdout.endswith(
        "Z   02:30 does not exist on 2026-03-29 in Europe/Berlin: fires at 03:00\n"
    )


def test_the_policy_and_its_alias_are_obeyed() -> None:
    for policy in ("robfig", "Kubernetes", "skip"):
        result = run(
            "30 2 * * *", "--tz=Europe/Berlin", "--from=2026-03-28T12:00Z", "--limit=1",
            "--json", "--dst", policy,
        )  # fmt: skip
        assert json.loads(result.stdout)["fire_at"] == "2026-03-30T00:30:00Z"


def test_prev_looks_back_newest_first() -> None:
    result = run("every 90m", "--from", "2026-01-01T00:00Z", "--prev", "--json", "--limit", "2")
    fires = [json.loads(line)["fire_at"] for line in result.stdout.splitlines()]
    assert fires == ["2025-12-31T22:30:00Z", "2025-12-31T21:00:00Z"]


def test_without_a_start_the_next_fires_from_now_are_shown() -> None:
    result = run("* * * * *", "--json")
    assert len(result.stdout.splitlines()) == 5


def test_a_start_without_offset_is_local_time_of_the_zone() -> None:
    result = run("0 9 * * *", "--tz", "Asia/Tokyo", "--from", "2026-01-01T08:59", "--json")
    first = json.loads(result.stdout.splitlines()[0])
    assert first["local"] == "2026-01-01T09:00:00+09:00"


def test_notes_go_to_stderr() -> None:
    result = run("0 0 */2 * 1-5")
    assert "Kubernetes" in result.stderr
    assert "Kubernetes" not in result.stdout


def test_the_end_of_all_fires_is_said() -> None:
    result = run("0 0 1 1 *", "--from", "9997-06-01T00:00Z")
    assert result.stdout.splitlines()[-2:] == [
        "Thu 9998-01-01 00:00:00 +0000   9998-01-01T00:00:00Z",
        "no fires after that",
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["61 * * * *"], InvalidSpec),
        (["0 0 30 2 *"], InvalidSpec),
        (["* * * * *", "--tz", "Berlin"], UnknownZone),
        (["* * * * *", "--dst", "utc"], InvalidInput),
        (["* * * * *", "--from", "tomorrow"], InvalidInput),
    ],
)
def test_what_cannot_be_is_raised_with_all_three_sentences(
    arguments: list[str], error: type[InvalidInput]
) -> None:
    result = run(*arguments)
    assert isinstance(result.exception, error)
    assert result.exception.detail
    assert result.exception.hint
    assert result.stdout == ""


@pytest.mark.parametrize(
    "arguments", [[], ["* * * * *", "--limit", "0"], ["* * * * *", "--limit", "10001"]]
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_instants_at_the_ends_of_time_are_answered() -> None:
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles", "UTC"):
        for start in ("0001-01-01", "9999-12-31T23:59:59", "0001-01-01T00:00+14:00"):
            for back in ([], ["--prev"]):
                for spec in ("* * * * *", "every 1d"):
                    result = run(spec, "--tz", zone, "--from", start, "--limit=1", *back)
                    assert result.exit_code == 0, (spec, zone, start, back)
