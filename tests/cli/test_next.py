"""``pgcron-ha next``: tables, JSON lines, batches, refusals."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pgcron_ha.errors import InvalidInput, InvalidSpec, UnknownZone
from tests.product.cli import MOST_BYTES_A_LINE, next_command

# A test of a process that answers nothing must end.
PATIENCE_SECONDS = 30


def run(*arguments: str, questions: bytes = b"") -> Result:
    return CliRunner().invoke(next_command, arguments, input=questions)


def batch(*questions: object) -> list[dict[str, object]]:
    lines = [q if isinstance(q, bytes) else json.dumps(q).encode() for q in questions]
    result = run("--batch", questions=b"\n".join(lines) + b"\n")
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_fires_are_shown_in_local_time_and_in_utc() -> None:
    result = run("0 9 * * mon-fri", "--tz", "Europe/Berlin", "--from", "2026-03-27", "--count", "2")
    assert result.stdout.splitlines() == [
        "At 09:00 on Monday to Friday, in Europe/Berlin.",
        "Europe/Berlin                   UTC",
        "Fri 2026-03-27 09:00:00 +0100   2026-03-27T08:00:00Z",
        "Mon 2026-03-30 09:00:00 +0200   2026-03-30T07:00:00Z",
    ]


def test_calendars_come_from_files_without_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGCRON_HA_DSN", raising=False)
    (tmp_path / "days").write_text("2026-03-28\n")
    spec = "0 9 * * *\nnot in days"
    result = run(
        spec, "--from=2026-03-27T12:00Z", "--count=1", "--calendar", f"days={tmp_path}/days"
    )
    assert result.stdout.endswith("2026-03-29T09:00:00Z\n")
    assert isinstance(run(spec).exception, InvalidSpec)
    for wrong in ("days", f"days={tmp_path}/none", f"a b={tmp_path}/days"):
        assert isinstance(run(spec, "--calendar", wrong).exception, InvalidInput)
    assert run("--batch", "--calendar", f"days={tmp_path}/days").exit_code == 2


def test_json_is_one_object_a_line() -> None:
    result = run(
        "30 2 * * *", "--tz=Europe/Berlin", "--from=2026-03-28T12:00Z", "--count=1", "--json"
    )  # fmt: skip
    assert json.loads(result.stdout) == {
        "fire_at": "2026-03-29T01:00:00Z",
        "local": "2026-03-29T03:00:00+02:00",
        "note": "02:30 does not exist on 2026-03-29 in Europe/Berlin: fires at 03:00",
    }


def test_what_the_clock_does_to_a_fire_stands_beside_it() -> None:
    result = run("30 2 * * *", "--tz=Europe/Berlin", "--from=2026-10-24T12:00Z", "--count=2")
    assert result.stdout.splitlines()[2:] == [
        "Sun 2026-10-25 02:30:00 +0200   2026-10-25T00:30:00Z   02:30 occurs twice on 2026-10-25 in"
        " Europe/Berlin: first pass, the second is left out",
        "Mon 2026-10-26 02:30:00 +0100   2026-10-26T01:30:00Z",
    ]
    back = run("30 2 * * *", "--tz=Europe/Berlin", "--from=2026-03-30", "--prev", "--count=1")
    assert back.stdout.endswith(
        "Z   02:30 does not exist on 2026-03-29 in Europe/Berlin: fires at 03:00\n"
    )


def test_the_policy_and_its_alias_are_obeyed() -> None:
    for policy in ("robfig", "Kubernetes", "skip"):
        result = run(
            "30 2 * * *", "--tz=Europe/Berlin", "--from=2026-03-28T12:00Z", "--count=1",
            "--json", "--dst", policy,
        )  # fmt: skip
        assert json.loads(result.stdout)["fire_at"] == "2026-03-30T00:30:00Z"


def test_prev_looks_back_newest_first() -> None:
    result = run("every 90m", "--from", "2026-01-01T00:00Z", "--prev", "--json", "--count", "2")
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
    "arguments",
    [
        [],
        ["* * * * *", "--count", "0"],
        ["* * * * *", "--count", "10001"],
        ["* * * * *", "--batch"],
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_a_batch_is_answered_in_order_and_bad_lines_stop_nothing() -> None:
    berlin = {"expr": "30 2 * * *", "tz": "Europe/Berlin", "from": "2026-10-24T12:00:00Z"}
    answers = batch(
        {"id": 1, **berlin, "count": 2},
        b"nonsense",
        {"id": "two", **berlin, "count": 2, "dst": "robfig"},
        b"",
        b"\xff\xfe",
        b"[1]",
        b"[" * 50_000,
        b'{"id": ' + b"9" * 5000 + b"}",
        b'{"id": NaN, "expr": "* * * * *"}',
        b'{"id": 1e999, "expr": "* * * * *"}',
        b'{"id": 5, "expr": "' + b"*" * MOST_BYTES_A_LINE + b'"}',
        {"id": None, **berlin, "count": 1, "prev": True},
    )
    assert answers[0] == {"id": 1, "fires": ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]}
    assert answers[2] == {"id": "two", "fires": ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"]}
    assert answers[-1] == {"id": None, "fires": ["2026-10-24T00:30:00Z"]}
    refused = [answer for answer in answers if "error" in answer]
    assert len(refused) == len(answers) - 3
    for answer in refused:
        assert answer["id"] is None
        assert isinstance(answer["error"], dict)
        assert list(answer["error"]) == ["message", "detail", "hint"]
        assert all(answer["error"].values())


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({}, '"expr" is missing'),
        ({"expr": 5}, '"expr" is not text'),
        ({"expr": "* * * * *", "tz": 1}, '"tz" is not text'),
        ({"expr": "* * * * *", "from": 1.5}, '"from" is not text'),
        ({"expr": "* * * * *", "count": True}, '"count" is not a number of fires'),
        ({"expr": "* * * * *", "count": 10_001}, '"count" is not a number of fires'),
        ({"expr": "* * * * *", "prev": "yes"}, '"prev" is not true or false'),
        ({"expr": "* * * * *", "timezone": "UTC"}, 'a question has no key "timezone"'),
        ({"expr": "60 * * * *"}, 'the minute field does not allow "60"'),
        ({"expr": "* * * * *", "tz": "Mars"}, '"Mars" is not a time zone'),
        ({"expr": "* * * * *", "from": "2026-02-30"}, "is not an ISO 8601 date and time"),
    ],
)
def test_a_question_that_cannot_be_keeps_its_id(question: dict[str, object], message: str) -> None:
    [answer] = batch({"id": 7, **question})
    assert answer["id"] == 7
    assert isinstance(answer["error"], dict)
    assert message in answer["error"]["message"]


def test_absent_and_null_keys_mean_the_defaults() -> None:
    start = {"expr": "@daily", "from": "2026-01-01T00:00Z"}
    nulls = {"tz": None, "count": None, "dst": None, "prev": None}
    assert batch({"id": 1, **start}) == batch({"id": 1, **start, **nulls})
    assert len(str(batch({"id": 1, **start})[0]["fires"]).split(",")) == 5


def test_instants_at_the_ends_of_time_are_answered() -> None:
    for zone in ("Pacific/Kiritimati", "America/Los_Angeles", "UTC"):
        for start in ("0001-01-01", "9999-12-31T23:59:59", "0001-01-01T00:00+14:00"):
            for prev in (True, False):
                for expr in ("* * * * *", "every 1d"):
                    question = {"expr": expr, "tz": zone, "from": start, "prev": prev, "count": 1}
                    [answer] = batch(question)
                    assert "fires" in answer, question


def test_a_batch_answers_each_line_before_it_reads_the_next() -> None:
    command = [sys.executable, "-m", "pgcron_ha", "next", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for identity in range(3):
            question = {"id": identity, "expr": "@daily", "count": 1}
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == identity
        process.stdin.close()
        assert process.wait(PATIENCE_SECONDS) == 0
