from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute
from tests.product.cli import BATCH

GOOD = '{"handler": "py:a"}\n'
WRONG = {
    "no JSON": ("handler=py:a", "line 3: 'handler=py:a' is not JSON"),
    "no object": ("[1]", "line 3: it is a list"),
    "handler": ('{"handler": "report"}', "line 3: handler 'report'"),
    "no handler": ("{}", "line 3: handler ''"),
    "handler is a number": ('{"handler": 7}', "line 3: handler '7'"),
    "key": ('{"handler": "py:a", "due": "x"}', "line 3: enqueue has no argument 'due'"),
    "due": ('{"handler": "py:a", "due_at": "2026-01-01T10:00"}', "line 3: due_at"),
    "timeout": ('{"handler": "py:a", "timeout": "forever"}', "line 3: timeout"),
    "timeout 0": ('{"handler": "py:a", "timeout": 0}', "line 3: timeout"),
    "priority": ('{"handler": "py:a", "priority": 10}', "line 3: priority 10"),
    "args": ('{"handler": "py:a", "args": [1]}', "line 3: args is a JSON array"),
    "NaN": ('{"handler": "py:a", "args": {"x": NaN}}', 'line 3: \'{"handler": "py:a"'),
    "deep": ("[" * 100_000, "line 3: '[["),
}


def test_a_file_of_runs_is_enqueued_in_order(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    lines = [
        {"handler": "py:a", "args": {"day": "Möndäy"}, "idempotency_key": "k"},
        {"due_at": "2030-01-01T10:00+01:00", "timeout": "1h30m", "queue": None},
        {"handler": "py:b", "priority": 1, "timeout": 90, "args": None},
        {"handler": "py:c", "idempotency_key": "k", "key_lifetime": "1d"},
    ]
    file = tmp_path / "runs.ndjson"
    file.write_text("\n\n".join(json.dumps(line) for line in lines))

    answer = cli("enqueue", "shell:x", "--file", file, "--queue", "slow", "--args", '{"n": 1}')

    ids = [int(word) for word in answer.out.split()]
    assert ids == [*sorted(set(ids)), ids[0]]
    assert execute(
        "SELECT id, handler, args, queue, priority, extract(epoch FROM timeout)::int, "
        "due_at > created_at FROM pgcron.run ORDER BY id"
    ) == [
        (ids[0], "py:a", {"day": "Möndäy"}, "slow", 5, None, False),
        (ids[1], "shell:x", {"n": 1}, "slow", 5, 5400, True),
        (ids[2], "py:b", {"n": 1}, "slow", 1, 90, False),
    ]


def test_a_file_of_several_batches_comes_as_a_whole(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    file = tmp_path / "runs.ndjson"
    file.write_text(GOOD * (BATCH + 5))
    assert len(cli("enqueue", "--file", file, "--json").rows) == BATCH + 5

    file.write_text(GOOD * (BATCH + 5) + '{"handler": "no"}\n')
    answer = cli("enqueue", "--file", file)
    assert (answer.code, answer.out) == (1, "")
    assert f"line {BATCH + 6}: handler 'no'" in answer.err
    assert execute("SELECT count(*) FROM pgcron.run") == [(BATCH + 5,)]


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_line_is_named_and_nothing_is_written(
    case: str, cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    line, words = WRONG[case]
    file = tmp_path / "runs.ndjson"
    file.write_text(f"{GOOD}\n{line}\n{GOOD}")

    answer = cli("enqueue", "--file", file)

    assert (answer.code, answer.out) == (1, "")
    message, detail, hint = answer.err.splitlines()
    assert message.startswith(f"error: {words}")
    assert detail.startswith("detail: ")
    assert hint.startswith("hint: ")
    assert execute("SELECT count(*) FROM pgcron.run") == [(0,)]


def test_what_only_the_database_refuses_is_named_by_its_line_too(
    cli: Cli, execute: Execute, tmp_path: Path
) -> None:
    file = tmp_path / "runs.ndjson"
    file.write_text(f"{GOOD}\n" * BATCH + '{"handler": "py:x", "debounce": "5s"}\n')

    answer = cli("enqueue", "--file", file)

    assert answer.err.startswith(f"error: line {2 * BATCH + 1}: debounce is given without")
    assert execute("SELECT count(*) FROM pgcron.run") == [(0,)]


def test_no_transaction_is_open_while_lines_come(
    cli: Cli, execute: Execute, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = (
        "SELECT query FROM pg_stat_activity"
        " WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
    )
    seen: list[tuple[object, ...]] = []

    class Lines(io.StringIO):
        def __next__(self) -> str:  # type: ignore[override]
            seen.extend(execute(query))
            return super().__next__()

    monkeypatch.setattr("sys.stdin", Lines(GOOD * 3))

    assert len(cli("enqueue", "--file", "-", "--json").rows) == 3
    assert seen == []


def test_all_that_is_wrong_with_a_run_is_named_at_once(cli: Cli, tmp_path: Path) -> None:
    options = ["--due-at", "soon", "--timeout", "1", "--priority", "12", "--args", "7"]
    refused = cli("enqueue", "report", *options)

    assert (refused.code, refused.err.splitlines()[0]) == (1, "error: 5 mistakes")
    for each in ("--due-at 'soon'", "timeout '1'", "priority 12", "args is a", "handler 'report'"):
        assert each in refused.err

    file = tmp_path / "runs"
    file.write_text('{"handler": "py:x", "priority": 12, "weight": 0}\n')
    refused = cli("enqueue", "--file", file)
    assert refused.err.splitlines()[0] == "error: 2 mistakes"
    assert "line 1: priority 12" in refused.err
    assert "line 1: weight 0" in refused.err


def test_a_due_time_that_is_over_is_noted(cli: Cli) -> None:
    late = cli("enqueue", "py:x", "--due-at", "2026-01-02T03:00Z")

    assert (late.code, late.err) == (
        0,
        "note: --due-at 2026-01-02T03:00:00Z is over: it runs now\n",
    )
    for due in ("now", "2h"):
        assert cli("enqueue", "py:x", "--due-at", due).err == ""


def test_a_file_that_is_no_text_is_refused(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    file = tmp_path / "runs.ndjson"
    file.write_bytes(b"\xff\xfe\x00")
    answer = cli("enqueue", "--file", file)
    assert answer.code == 1
    assert "line 1 can't be read" in answer.err

    file.write_text("")
    assert cli("enqueue", "--file", file).out == ""
    assert cli("enqueue", "--file", tmp_path / "absent").code == 2
    assert cli("enqueue").code == 2
    assert cli("enqueue", "--file", file, "--idempotency-key", "k").code == 2


def test_args_come_from_a_file(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    file = tmp_path / "args.json"
    file.write_text('{\n  "n": 1.10\n}\n')

    cli("enqueue", "py:a", "--args", f"@{file}")
    cli("schedules", "put", "nightly", "@daily", "py:a", "--args", f"@{file}")
    cli("schedules", "run-now", "nightly", "--args", f"@{file}")

    assert execute("SELECT args::text FROM pgcron.run") == [('{"n": 1.10}',)] * 2
    assert execute("SELECT args::text FROM pgcron.schedule") == [('{"n": 1.10}',)]
    for wrong in (tmp_path / "absent", tmp_path):
        answer = cli("enqueue", "py:a", "--args", f"@{wrong}")
        assert answer.code == 1
        assert "can't be read" in answer.err
        assert "hint: " in answer.err

    file.write_bytes(b'{"x": "' + b"x" * 300_000 + b'"}')
    assert "bytes" in cli("enqueue", "py:a", "--args", f"@{file}").err


def test_runs_of_the_same_work_are_one(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    asked = ("enqueue", "py:x", "--unique-key", "k")
    first = cli(*asked).out
    assert cli(*asked).out == first
    refused = cli(*asked, "--on-conflict", "refuse")
    assert refused.code == 1
    assert f"run {first.strip()} has the unique key 'k'" in refused.err
    assert "is given without unique_key" in cli("enqueue", "py:x", "--debounce", "5s").err
    assert "debounce is given with unique_for" in (
        cli(*asked, "--debounce", "5s", "--unique-for", "1h").err
    )

    file = tmp_path / "runs.ndjson"
    line = {"handler": "py:x", "unique_key": "d", "debounce": "5s", "debounce_max": "1m"}
    file.write_text("\n".join(map(json.dumps, [line, line, {**line, "unique_key": "k2"}])))
    ids = cli("enqueue", "--file", file).out.split()
    assert ids[0] == ids[1] != ids[2]
    assert execute("SELECT count(*) FROM pgcron.run WHERE due_at > created_at") == [(2,)]
