from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, Execute

WRONG = {
    "kind": (["Ftp:x"], "Ftp:x"),
    "args": (["py:x", "--args", "[1]"], "array"),
    "args no JSON": (["py:x", "--args", "day=1"], "day=1"),
    "args NaN": (["py:x", "--args", '{"a": NaN}'], "NaN"),
    "args too large": (["py:x", "--args", f'{{"x": "{"x" * 262144}"}}'], "bytes"),
    "queue": (["py:x", "--queue", "two words"], "two words"),
    "priority": (["py:x", "--priority", "10"], "10"),
    "naive due": (["py:x", "--due-at", "2026-01-01T10:00"], "2026-01-01T10:00"),
    "due": (["py:x", "--due-at", "tomorrow"], "tomorrow"),
    "timeout": (["py:x", "--timeout", "forever"], "forever"),
    "zero timeout": (["py:x", "--timeout", "0s"], "timeout"),
    "attempts": (["py:x", "--max-attempts", "0"], "0"),
    "delivery": (["py:x", "--delivery", "exactly_once"], "exactly_once"),
    "once": (["py:x", "--delivery", "at_most_once", "--max-attempts", "2"], "at_most_once"),
    "key": (["py:x", "--idempotency-key", "k" * 501], "key"),
}


def insert_ended(execute: Execute, run_id: int, outcome: str = "dead") -> None:
    execute(
        "WITH h AS (INSERT INTO pgcron.history (id, uuid, origin, queue, priority, handler, args, "
        "delivery, outcome, attempt, due_at, created_at, created_by, started_at, node, error, "
        "result) VALUES (%s, gen_random_uuid(), 'enqueued', 'default', 5, 'py:x', '{\"a\": 1}', "
        "'at_least_once', %s, 2, now(), now(), 'me', now(), 'n1', 'it broke', '[1]') RETURNING *) "
        "INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, queue, priority, handler, args, "
        "delivery, timeout, attempts, error_class, error) SELECT id, uuid, "
        "outcome, queue, priority, handler, args, delivery, '1 hour', attempt, 'E', "
        "error FROM h WHERE outcome = 'dead'",
        run_id,
        outcome,
    )


def test_enqueue_prints_the_id_of_the_run(cli: Cli, execute: Execute) -> None:
    options = ["--queue", "slow", "--priority", "1", "--due-at", "2030-01-01T10:00+01:00"]
    words = [*options, "--timeout", "1h30m", "--max-attempts", "2", "--args", '{"n": 1.10}']
    run_id = int(cli("enqueue", "shell:backup", *words).out)

    rows = execute(
        "SELECT id, handler, queue, priority, due_at, extract(epoch FROM timeout)::int, "
        "max_attempts, args::text FROM pgcron.run"
    )
    due_at = datetime(2030, 1, 1, 9, tzinfo=UTC)
    assert rows == [(run_id, "shell:backup", "slow", 1, due_at, 5400, 2, '{"n": 1.10}')]


def test_args_are_pairs_of_keys_and_values_too(cli: Cli, execute: Execute) -> None:
    cli("enqueue", "py:x", "day=monday", "shop=7", 'tags=["a"]', "note=a=b", "empty=", "name=NaN")

    assert execute("SELECT args FROM pgcron.run") == [
        ({"day": "monday", "shop": 7, "tags": ["a"], "note": "a=b", "empty": "", "name": "NaN"},)
    ]
    assert cli("enqueue", "py:x", "monday").code == 1
    assert cli("enqueue", "py:x", "day=1", "--args", "{}").code == 2


def test_one_key_names_one_run(cli: Cli) -> None:
    first = cli("enqueue", "py:x", "--idempotency-key", "k", "--json").rows

    assert first == cli("enqueue", "py:x", "--idempotency-key", "k", "--json").rows
    assert len(cli("runs", "list", "--json").rows) == 1


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_run_is_refused_with_nothing_written(case: str, cli: Cli, execute: Execute) -> None:
    words, named = WRONG[case]
    answer = cli("enqueue", *words)

    assert (answer.code, answer.out) == (1, "")
    message, detail, hint = answer.err.splitlines()
    assert message.startswith("error: ")
    assert named in message + detail
    assert detail.startswith("detail: ")
    assert hint.startswith("hint: ")
    assert execute("SELECT count(*) FROM pgcron.run") == [(0,)]


def test_runs_live_and_ended_are_listed_newest_first(cli: Cli, execute: Execute) -> None:
    assert cli("runs", "list").out == "no runs\n"
    ready = int(cli("enqueue", "py:y", "--queue", "slow").out)
    insert_ended(execute, 900)
    insert_ended(execute, 901, "succeeded")

    rows = cli("runs", "list", "--json").rows
    assert [(row["id"], row["state"]) for row in rows] == [
        (901, "succeeded"),
        (900, "dead"),
        (ready, "ready"),
    ]
    assert rows[0]["due_at"].endswith("Z")
    assert {row["max_attempts"] for row in rows} == {5}

    def ids(*options: str) -> list[int]:
        return [row["id"] for row in cli("runs", "list", "--json", *options).rows]

    assert ids("--state", "dead") == [900]
    assert ids("--state", "ended") == [901, 900]
    assert ids("--state", "attention") == [900]
    assert ids("--state", "running", "--state", "waiting") == [ready]
    assert ids("--handler", "py:y") == ids("--queue", "slow") == [ready]
    assert ids("--limit", "2") == [901, 900]
    later = int(cli("enqueue", "py:y", "--due-at", "2h").out)
    assert later not in ids()
    assert ids("--state", "scheduled") == [later]
    assert ids("--state", "scheduled", "--state", "ready") == [later, ready]
    assert cli("runs", "list", "--state", "happy").code == 2
    table = cli("runs", "list").out.splitlines()
    assert "it broke" in table[2]
    assert max(map(len, table)) <= 120


def test_a_list_says_what_runs_wait_for_in_the_words_of_sql(cli: Cli, execute: Execute) -> None:
    run = int(cli("enqueue", "py:nowhere").out)

    said = execute("SELECT waits_for, waits_detail FROM pgcron.runs WHERE id = %s", run)
    (listed,) = cli("runs", "list", "--json").rows
    table = cli("runs", "list").out

    assert said == [("no_node", "no live node offers 'py:nowhere' for queue 'default'")]
    assert [(listed["waits_for"], listed["waits_detail"])] == said
    assert "ready (no node)" in table
    assert "no live node offers" in table


def test_of_a_schedule_no_more_are_listed_than_asked_for(cli: Cli) -> None:
    cli("schedules", "put", "job", "@yearly", "py:x", "--overlap", "allow")
    made = [int(cli("schedules", "run-now", "job").out) for _ in range(7)]

    listed = cli("runs", "list", "--json", "--schedule", "job", "--limit", "3").rows
    shown = cli("schedules", "show", "job", "--json").rows[0]["runs"]

    assert [row["id"] for row in listed] == made[:3:-1]
    assert [row["id"] for row in shown] == made[:1:-1]


def test_runs_have_tags_and_are_listed_by_them(cli: Cli, execute: Execute, tmp_path: Path) -> None:
    first = int(cli("enqueue", "py:x", "--tag", "x", "--tag", "team:y").out)
    file = tmp_path / "runs.jsonl"
    file.write_text('{"handler": "py:x"}\n{"handler": "py:x", "tags": ["z"]}\n')
    second, third = map(int, cli("enqueue", "--file", file, "--tag", "x").out.split())
    insert_ended(execute, 900)
    insert_ended(execute, 901, "succeeded")
    for table in ("history", "dead_letter"):
        execute(f"UPDATE pgcron.{table} SET tags = '{{x}}'")

    def ids(*options: str) -> list[int]:
        return [row["id"] for row in cli("runs", "list", "--json", *options).rows]

    assert ids("--tag", "x") == [901, 900, second, first]
    assert ids("--tag", "x", "--tag", "team:y") == [first]
    assert ids("--tag", "z", "--state", "ready") == [third]
    assert ids("--tag", "x", "--state", "dead") == [900]
    assert ids("--tag", "x", "--error", "it broke", "--state", "ready") == []
    assert ids("--tag", "other") == []
    listed = {row["id"]: row["tags"] for row in cli("runs", "list", "--json").rows}
    assert (listed[first], listed[900]) == (["x", "team:y"], ["x"])
    assert cli("runs", "show", first, "--json").rows[0]["tags"] == ["x", "team:y"]
    assert re.search(r"tags +x, team:y", cli("runs", "show", first).out)
    assert "is not a list of tags" in cli("enqueue", "py:x", "--tag", "two words").err


def test_runs_are_listed_by_time_node_and_error(cli: Cli, execute: Execute) -> None:
    for run_id, hours, node, error in (
        (900, 30, "n1", "Connection refused by smtp"),
        (901, 3, "n2", "connection refused by ftp"),
        (902, 1, "n1", None),
    ):
        insert_ended(execute, run_id, "dead" if error else "succeeded")
        ended = f"now() - interval '{hours} hours'"
        execute(
            f"UPDATE pgcron.history SET finished_at = {ended}, started_at = {ended} - "
            "interval '90 s', node = %s, error = %s WHERE id = %s",
            node,
            error,
            run_id,
        )
        execute(
            f"UPDATE pgcron.dead_letter SET died_at = {ended}, error = %s WHERE run_id = %s",
            error,
            run_id,
        )
    waiting = int(cli("enqueue", "py:y", "--due-at", "2030-01-01T10:00Z").out)

    def ids(*options: str) -> list[int]:
        return [row["id"] for row in cli("runs", "list", "--json", *options).rows]

    assert ids("--since", "4h") == [902, 901]
    assert ids("--since", "4h", "--state", "scheduled") == [waiting]
    assert ids("--since", "31h", "--until", "2h") == [901, 900]
    within = ("--since", "2029-12-31T00:00Z", "--until", "2030-01-02T00:00Z")
    assert ids(*within, "--state", "scheduled") == [waiting]
    assert ids("--node", "n1") == [902, 900]
    assert ids("--error", "connection REFUSED") == [901, 900]
    assert ids("--error", "smtp", "--node", "n1", "--state", "dead") == [900]
    assert ids("--state", "succeeded") == [902]
    assert ids("--error", "timed out") == []
    refused = cli("runs", "list", "--since", "2030-01-01T10:00")
    assert (refused.code, "has no offset" in refused.err) == (1, True)

    durations = [row["duration"] for row in cli("runs", "list", "--json").rows]
    assert durations == [90, 90, 90]
    heading, *table = cli("runs", "list").out.splitlines()
    assert "  STARTED  " in heading
    assert all("  1m30s " in line for line in table)
    assert "due 2030-01-01T10:00:00Z  -  " in cli("runs", "list", "--state", "scheduled").out


def test_a_run_is_shown_with_its_attempts(cli: Cli, execute: Execute) -> None:
    insert_ended(execute, 900)
    execute(
        "INSERT INTO pgcron.attempt (run_id, attempt, outcome, owner, node, fence, claimed_at, "
        "error_class, error, traceback) VALUES (900, 1, 'failed', gen_random_uuid(), 'n1', 1, "
        "now(), 'OSError', 'first', 'Traceback: here')"
    )

    (row,) = cli("runs", "show", 900, "--json").rows
    assert (row["state"], row["args"], row["result"]) == ("dead", {"a": 1}, [1])
    assert [(a["attempt"], a["error"]) for a in row["attempts"]] == [(1, "first")]
    text = cli("runs", "show", 900).out
    assert "attempt 1 failed on n1" in text
    assert ": OSError: first\n" in text
    assert "Traceback: here" in text


def test_how_far_a_run_is_is_shown_while_it_executes(cli: Cli, execute: Execute) -> None:
    run = int(cli("enqueue", "py:x").out)
    execute(
        "INSERT INTO pgcron.progress (run_id, attempt, at, done, total, note) "
        "VALUES (%s, 1, now(), 3, 8, 'copying')",
        run,
    )
    assert cli("runs", "show", run, "--json").rows[0]["progress"] is None

    execute(
        "UPDATE pgcron.run SET state = 'running', attempt = 1, owner = gen_random_uuid(), "
        "token = gen_random_uuid(), fence = 1, claimed_at = now(), started_at = now()"
    )

    progress = {"done": 3.0, "total": 8.0, "note": "copying"}
    assert cli("runs", "show", run, "--json").rows[0]["progress"] == progress
    assert "progress         38 % (3 of 8) copying" in cli("runs", "show", run).out


def test_a_run_is_watched_until_it_ends(cli: Cli, execute: Execute) -> None:
    insert_ended(execute, 900, "succeeded")
    insert_ended(execute, 901)

    assert cli("runs", "watch", 900).out == "[1]\n"
    (row,) = cli("runs", "watch", 900, "--json").rows
    assert (row["state"], row["result"]) == ("succeeded", [1])
    answer = cli("runs", "watch", 901)
    assert (answer.code, answer.out) == (1, "")
    assert "run 901 ended dead" in answer.err
    assert "it broke" in answer.err

    waiting = int(cli("enqueue", "py:x").out)
    answer = cli("runs", "watch", waiting, "--timeout", "50ms")
    assert answer.code == 1
    reason = "no live node offers 'py:x' for queue 'default'"
    assert f"run {waiting} ready: {reason}" in answer.err
    assert f"run {waiting} is not over after 0.05 s" in answer.err
    assert cli("runs", "watch", waiting + 1).code == 1

    assert cli("schedules", "put", "nightly", "@daily", "py:x", "--overlap", "skip").code == 0
    blocked = int(cli("schedules", "run-now", "nightly").out)
    answer = cli("runs", "watch", blocked, "--timeout", "50ms")
    assert f"run {blocked} blocked: {reason}" in answer.err


def test_a_watched_run_that_a_node_can_take_or_that_is_not_due_has_no_complaint(
    cli: Cli, execute: Execute
) -> None:
    offered, later = int(cli("enqueue", "py:x").out), int(cli("enqueue", "py:y").out)
    execute("UPDATE pgcron.run SET due_at = now() + interval '1 hour' WHERE handler = 'py:y'")
    execute(
        "WITH joined AS (INSERT INTO pgcron.node (incarnation, name, host, process_id, version, "
        "lease_until, lease_ttl, slots, queues) VALUES (gen_random_uuid(), 'n', 'h', 1, '1', "
        "now() + interval '1 hour', '15 s', 1, '{default}') RETURNING incarnation) "
        "INSERT INTO pgcron.offer (incarnation, handler) SELECT incarnation, 'py:x' FROM joined"
    )
    for waiting, word in ((offered, "ready"), (later, "scheduled")):
        answer = cli("runs", "watch", waiting, "--timeout", "50ms")
        assert f"run {waiting} {word}\n" in answer.err
        assert "no live node" not in answer.err


def test_an_enqueued_run_is_followed_to_its_result(cli: Cli, execute: Execute) -> None:
    insert_ended(execute, 900, "succeeded")
    execute("INSERT INTO pgcron.idempotency VALUES ('k', 900, now() + interval '1 day')")

    assert cli("enqueue", "py:x", "--idempotency-key", "k", "--wait").out == "900\n[1]\n"
    assert cli("enqueue", "--file", "-", "--wait").code == 2


def test_what_a_run_printed_comes_in_order(cli: Cli, execute: Execute) -> None:
    run_id = int(cli("enqueue", "py:x").out)
    execute(
        "INSERT INTO pgcron.log (run_id, attempt, sequence, at, stream, line) "
        "SELECT %s, a, s, '2026-01-01T00:00Z', 'stdout', format('line %%s.%%s', a, s) "
        "FROM generate_series(1, 2) a, generate_series(0, 2) s ORDER BY random()",
        run_id,
    )

    lines = cli("runs", "logs", run_id).out.splitlines()
    assert lines[0] == "2026-01-01T00:00:00Z 1 stdout line 1.0"
    assert [line.split()[-1] for line in lines] == ["1.0", "1.1", "1.2", "2.0", "2.1", "2.2"]
    only = cli("runs", "logs", run_id, "--attempt", 2, "--limit", 2, "--json").rows
    assert [(row["sequence"], row["line"]) for row in only] == [(0, "line 2.0"), (1, "line 2.1")]


def test_cancel_and_retry_say_what_became_of_the_run(cli: Cli, execute: Execute) -> None:
    run_id = int(cli("enqueue", "py:x", "--due-at", "2090-01-01T00:00Z").out)

    assert cli("runs", "retry", run_id).out == f"{run_id}\n"
    assert execute("SELECT due_at <= now() FROM pgcron.run") == [(True,)]
    assert cli("runs", "cancel", run_id, "--note", "no").out == f"run {run_id} is cancelled\n"
    assert cli("runs", "cancel", run_id, "--json").rows == [
        {"run_id": run_id, "verdict": "finished"}
    ]
    again = cli("runs", "retry", run_id, "--json").rows[0]["run_id"]
    assert execute("SELECT id, parent_run, origin FROM pgcron.run") == [(again, run_id, "rerun")]


def test_several_runs_are_cancelled_and_retried_by_one_command(cli: Cli, execute: Execute) -> None:
    first, second = (int(cli("enqueue", "py:x").out) for _ in range(2))

    cancelled = [f"run {run_id} is cancelled" for run_id in (first, second)]
    assert cli("runs", "cancel", first, second).out.splitlines() == cancelled
    again = [row["run_id"] for row in cli("runs", "retry", first, second, "--json").rows]
    assert execute("SELECT id, parent_run FROM pgcron.run ORDER BY id") == list(
        zip(again, (first, second), strict=True)
    )
    assert "does not exist" in cli("runs", "cancel", again[0], 10**9, again[1]).err
    assert execute("SELECT id FROM pgcron.run") == [(again[1],)]
    assert cli("runs", "cancel").code == 2


@pytest.mark.parametrize("verb", ["show", "logs", "cancel", "retry"])
def test_an_unknown_run_is_not_found(verb: str, cli: Cli) -> None:
    answer = cli("runs", verb, 404)

    assert answer.code == 1
    assert answer.err.startswith("error: run 404 does not exist\ndetail: ")
    assert cli("runs", verb, "x").code == 2


def test_dead_letters_are_listed_and_sent_again_once(cli: Cli, execute: Execute) -> None:
    assert cli("dead", "list").out == "no dead letters\n"
    insert_ended(execute, 900)
    insert_ended(execute, 901)
    assert [row["run_id"] for row in cli("dead", "list", "--json").rows] == [901, 900]
    assert "E: it broke" in cli("dead", "list").out

    refused = cli("dead", "redrive", 900, 902)
    assert (refused.code, refused.out) == (1, "")
    assert "dead letter 902 does not exist" in refused.err
    assert execute("SELECT count(*) FROM pgcron.run") == [(0,)]

    sent = cli("dead", "redrive", 900, "--json").rows[0]
    assert execute("SELECT id, parent_run FROM pgcron.run") == [(sent["run_id"], 900)]
    assert [row["run_id"] for row in cli("dead", "list", "--json").rows] == [901]
    assert len(cli("dead", "list", "--all", "--json").rows) == 2
    assert "give a filter" in cli("dead", "redrive").err
    twice = cli("dead", "redrive", 900)
    assert twice.code == 1
    assert f"as run {sent['run_id']}" in twice.err
    table = cli("dead", "list", "--all").out.splitlines()
    assert max(map(len, table)) <= 100


def insert_letters(execute: Execute, fingerprint: str, first: int, count: int) -> None:
    """Letters of one group that died one a minute, the first a day ago."""
    for run_id in range(first, first + count):
        insert_ended(execute, run_id)
        execute(
            "UPDATE pgcron.dead_letter SET fingerprint = %s, handler = %s, "
            "died_at = now() - interval '1 day' + %s * interval '1 minute' WHERE run_id = %s",
            *(fingerprint, f"py:{fingerprint}", run_id - first, run_id),
        )


def test_dead_letters_are_grouped_by_what_they_died_of(cli: Cli, execute: Execute) -> None:
    assert cli("dead", "groups").out == "no dead letters\n"
    insert_letters(execute, "aa", 900, 3)
    insert_letters(execute, "bb", 910, 2)

    rows = cli("dead", "groups", "--json").rows

    assert [(row["fingerprint"], row["letters"], row["handler"]) for row in rows] == [
        ("aa", 3, "py:aa"),
        ("bb", 2, "py:bb"),
    ]
    assert max(map(len, cli("dead", "groups").out.splitlines())) <= 130
    listed = cli("dead", "list", "--group", "bb", "--json").rows
    assert [row["run_id"] for row in listed] == [911, 910]


def test_a_group_is_sent_again_at_a_rate_and_each_letter_once(cli: Cli, execute: Execute) -> None:
    insert_letters(execute, "aa", 900, 3)
    insert_letters(execute, "bb", 910, 2)
    execute("UPDATE pgcron.dead_letter SET outcome = 'lost' WHERE run_id = 902")

    words = ["--group", "aa", "--rate", "2/1m", "--args", '{"n": 2}', "--json"]
    sent = cli("dead", "redrive", *words).rows

    assert [row["dead_letter"] for row in sent] == [900, 901]
    due = execute(
        "SELECT parent_run, args->>'n', extract(epoch FROM due_at - min(due_at) OVER ())::int "
        "FROM pgcron.run ORDER BY due_at"
    )
    assert due == [(900, "2", 0), (901, "2", 30)]
    assert cli("dead", "redrive", "--group", "aa").out == "no open dead letter fits\n"
    assert len(cli("dead", "redrive", "--group", "aa", "--lost", "--json").rows) == 1
    assert [row["fingerprint"] for row in cli("dead", "groups", "--json").rows] == ["bb"]
    assert len(cli("dead", "redrive", "--until", "now", "--limit", "1", "--json").rows) == 1


def test_dead_letters_are_archived_by_name_and_by_filter(cli: Cli, execute: Execute) -> None:
    insert_letters(execute, "aa", 900, 3)
    insert_letters(execute, "bb", 910, 2)

    answer = cli("dead", "archive", 900, 404, "--note", "refunded")
    assert answer.out == "dead letter 900 is archived\n"
    assert (answer.code, "dead letter 404 is not open" in answer.err) == (1, True)
    rest = cli("dead", "archive", "--group", "aa", "--json").rows
    assert [row["dead_letter"] for row in rest] == [901, 902]
    assert cli("dead", "archive", "--group", "aa").out == "no open dead letter fits\n"

    assert [row["run_id"] for row in cli("dead", "list", "--json").rows] == [911, 910]
    closed = cli("dead", "list", "--group", "aa", "--all", "--json").rows
    assert [(row["note"], row["redriven_as"]) for row in closed] == [
        (None, None),
        (None, None),
        ("refunded", None),
    ]
    assert cli("dead", "archive").code == 2
    assert cli("dead", "archive", 910, "--group", "bb").code == 2
    assert execute("SELECT count(*) FROM pgcron.run") == [(0,)]


@pytest.mark.parametrize("verb", ["redrive", "archive"])
def test_what_dies_after_the_beginning_of_a_command_is_left(
    verb: str, cli: Cli, execute: Execute
) -> None:
    insert_letters(execute, "aa", 900, 2)
    later = "UPDATE pgcron.dead_letter SET died_at = now() + interval '1 hour' WHERE run_id = %s"
    execute(later, 901)

    closed = cli("dead", verb, "--group", "aa", "--json").rows

    assert [row["dead_letter"] for row in closed] == [900]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["900", "--handler", "py:x"], "or give filters"),
        (["900", "--rate", "1/1m"], "go with a filter"),
        (["--handler", "py:x", "--rate", "often"], "is not a rate"),
        (["--handler", "py:x", "--rate", "0/1m"], "out of range"),
        (["--handler", "py:x", "--args", "[]"], "must be a JSON object"),
        (["--since", "yesterday"], "is no date and time"),
    ],
)
def test_a_redrive_that_can_not_be_meant_is_refused(
    words: list[str], said: str, cli: Cli, execute: Execute
) -> None:
    insert_letters(execute, "aa", 900, 1)

    answer = cli("dead", "redrive", *words)

    assert answer.code != 0
    assert said in answer.err
    assert execute("SELECT count(*) FROM pgcron.run") == [(0,)]


def test_a_run_is_killed_and_limits_are_given(cli: Cli, execute: Execute) -> None:
    words = ["--start-within", "90s", "--give-up-after", "2h", "--silence-timeout", "5m"]
    run_id = int(cli("enqueue", "py:x", *words).out)
    assert (
        execute("SELECT extract(epoch FROM expire_at - due_at)::int, time_limits FROM pgcron.run")[
            0
        ][0]
        == 90
    )
    assert cli("enqueue", "py:x", "--silence-timeout", "10ms").code == 1

    assert cli("runs", "kill", str(run_id), "--note", "no").out == f"run {run_id} is cancelled\n"
    assert cli("runs", "kill", str(run_id), "--json").rows == [
        {"run_id": run_id, "verdict": "finished"}
    ]


def test_what_schedules_made_is_listed_by_tag_and_owner(cli: Cli, execute: Execute) -> None:
    for name, owner in (("a", "sales"), ("b", "ops")):
        cli("schedules", "put", name, "@daily", f"py:{name}", "--owner", owner, "--tag", name)
    cli("schedules", "put", "c", "@daily", "py:c", "--queue", "mail")
    execute("SELECT pgcron.set_team('queue', 'mail', 'post')")
    for name in "abc":
        cli("schedules", "run-now", name)
        cli("schedules", "backfill", name, "--since", "3d")
    execute(
        "INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, schedule_id, schedule, queue, tags,"
        " priority, handler, args, delivery, attempts) SELECT -s.id, gen_random_uuid(), 'dead',"
        " s.id, s.name, s.queue, s.tags, 5, s.handler, '{}', 'at_least_once', 1"
        " FROM pgcron.schedule s"
    )

    for words in ("runs list", "backfills list", "dead list", "dead groups", "schedules list"):
        for options in (["--tag", "a"], ["--owner", "sales"], ["--tag", "a", "--owner", "sales"]):
            rows = cli(*words.split(), *options, "--json").rows
            found = {row.get("name") or row["schedule"] for row in rows}
            assert (words, options, found) == (words, options, {"a"})
        assert cli(*words.split(), "--tag", "a", "--owner", "ops", "--json").rows == []
        (row,) = cli(*words.split(), "--owner", "post", "--json").rows
        assert "c" in (row.get("name"), row.get("schedule"))
    assert cli("dead", "archive", "--owner", "ops").code == 0
    assert cli("dead", "redrive", "--owner", "post").code == 0
    assert cli("dead", "redrive", "--tag", "a", "--owner", "sales").code == 0
    assert cli("dead", "list", "--json").rows == []
