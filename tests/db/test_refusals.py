from __future__ import annotations

import json
import uuid
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connect, Connection, claim, enqueue, join, put_schedule

MOST_BYTES = 262_144
EVERYTHING = ("schedule", "cursor", "schedule_version", "run", "idempotency", "occurrence_override")

RUN = [
    ("handler = 'report'", "PC001"),
    ("handler = 'Java:report'", "PC001"),
    ("handler = 'py:'", "PC001"),
    ("handler = 'py:a b'", "PC001"),
    ("handler = 'shell:../../bin/sh'", "PC001"),
    ("queue = ''", "PC001"),
    ("queue = 'a b'", "PC001"),
    ("priority = -1", "PC001"),
    ("priority = 10", "PC001"),
    ("args = '[]'", "PC001"),
    ("args = '1'", "PC001"),
    ("args = 'null'", "PC001"),
    ("delivery = 'exactly_once'", "PC001"),
    ("max_attempts = 0", "PC001"),
    ("max_attempts = 101", "PC001"),
    ("timeout = '0'", "PC001"),
    ("timeout = '-1 hour'", "PC001"),
    ("timeout = '31 days'", "PC001"),
    ('retry = \'{"base": "-1 s"}\'', "PC001"),
    ("retry = '{\"cap\": 0}'", "PC001"),
    ("delivery = 'at_most_once'; max_attempts = 2", "PC001"),
    ("tags = '{}'", "PC001"),
    ("tags = '{a,b,a}'", "PC001"),
    ("tags = '{a b}'", "PC001"),
    ("tags = '{NULL}'", "PC001"),
    ("tags = ARRAY(SELECT 't' || n FROM generate_series(1, 21) n)", "PC001"),
]
INSTANTS = [
    ("due_at = '4000-01-01 BC'", "PC001"),
    ("due_at = '200000-01-01'", "PC001"),
    ("due_at = '1899-12-31Z'", "PC001"),
    ("expire_at = '9999-01-01Z'", "PC001"),
]
SCHEDULE = [
    *RUN,
    ("catchup_window = '290000 years'", "PC001"),
    ("start_deadline = '102 years'", "PC001"),
    ("enabled = false; paused_until = '10000-01-01'", "PC001"),
    ("enabled = false; paused_until = '200000-01-01'", "PC001"),
    ("owner = ' '", "PC001"),
    ("owner = repeat('x', 201)", "PC001"),
    ("description = ''", "PC001"),
    ("description = E'a\\tb'", "PC001"),
    ("description = repeat('x', 2001)", "PC001"),
    ("links = '{}'", "PC001"),
    ("links = '[]'", "PC001"),
    ("""links = '{"a": "javascript:alert(1)"}'""", "PC001"),
    ("""links = '{"a": "https://a b"}'""", "PC001"),
    ("""links = '{" ": "https://a"}'""", "PC001"),
    ("""links = '{"a": 1}'""", "PC001"),
    ("spec = ''", "PC002"),
    ("spec = repeat(E'* * * * *\\n', 33)", "PC002"),
    ("spec = repeat(' * * * * *', 26)", "PC002"),
    ("spec = E' \\n'", "PC002"),
    ("spec = '0 9 * * fr\u00fc'", "PC002"),
    ("spec = repeat('* * * * *\\n', 500)", "PC002"),
    ("timezone = 'Mars/Olympus'", "PC003"),
    ("timezone = 'europe/berlin'", "PC003"),
    ("timezone = 'localtime'", "PC003"),
    ("timezone = '+02:00'", "PC003"),
    ("dst = 'sometimes'", "PC001"),
    ("overlap = 'wait'", "PC001"),
    ("max_running = 0", "PC001"),
    ("max_running = 1001", "PC001"),
    ("overlap = 'replace'; max_running = 3", "PC001"),
    ("overlap = 'terminate'; max_running = 2", "PC001"),
    ("overlap = 'queue'; max_queued = 0", "PC001"),
    ("overlap = 'queue'; max_queued = 1001", "PC001"),
    ("overlap = 'queue'; queue_drops = 'all'", "PC001"),
    ("max_queued = 5", "PC001"),
    ("queue_drops = 'oldest'", "PC001"),
    ("catchup = 'all'; overlap = 'replace'", "PC001"),
    ("catchup = 'latest 2'; max_running = 3", "PC001"),
    ("catchup = 'some'", "PC001"),
    ("catchup = 'latest 1'", "PC001"),
    ("catchup = 'all'", "PC001"),
    ("catchup = 'latest 5'; overlap = 'skip'", "PC001"),
    ("catchup = 'all'; overlap = 'allow'; catchup_window = '32 days'", "PC001"),
    ("catchup_window = '-1 hour'", "PC001"),
    ("start_deadline = '0'", "PC001"),
    ("name = ''", "PC001"),
    ("name = '   '", "PC001"),
    ("name = repeat('n', 201)", "PC001"),
    ("name = E'a\\nb'", "PC001"),
    ("name = E'\\x1b]0;title'", "PC001"),
    ("name = U&'\\009b31m'", "PC001"),
    ("concurrency_key = E'a\\x1b[2J'", "PC001"),
]


async def refusal(connection: Connection, statement: str, *values: Any) -> Any:
    with pytest.raises(asyncpg.PostgresError) as refused:
        async with connection.transaction():
            await connection.execute(statement, *values)
    return refused.value


def is_explained(error: Any) -> bool:
    """Message, rule, and what to do now, each a sentence for people."""
    return all(text and len(text) > 8 for text in (str(error), error.detail, error.hint))


async def rows_everywhere(connection: Connection) -> int:
    counts = [await connection.fetchval(f"SELECT count(*) FROM pgcron.{t}") for t in EVERYTHING]
    return sum(counts)


def as_insert(table: str, good: str, bad: str) -> str:
    """INSERT with good columns, of which the bad ones replace some."""
    given = dict(column.split(" = ") for column in f"{good}; {bad}".split("; "))
    return f"INSERT INTO pgcron.{table} ({', '.join(given)}) VALUES ({', '.join(given.values())})"


@pytest.mark.parametrize(
    "asked",
    [
        "enqueue('py:work', actor => {})",
        "pause_schedule('job', 'deploy', {})",
        "pause_queue('default', {})",
        "pause_queue('default', 'deploy', {})",
        "skip_occurrence('job', now() + interval '1 day', 'holiday', {})",
        "backfill('job', now() - interval '3 days', actor => {})",
        "set_concurrency('l', 3, actor => {})",
        "put_calendar('c', '2026-01-01', {})",
        "put_calendar('c', '2026-01-01', actor => {})",
        "put_schedule('job', '@hourly', 'py:work', actor => {})",
        "rename_schedule('job', 'other', {})",
    ],
)
async def test_names_of_who_acts_are_a_few_words(rolled_back: Connection, asked: str) -> None:
    await put_schedule(rolled_back, spec="@daily")
    await rolled_back.execute("SELECT pgcron.enqueue('py:work')")
    before = await rows_everywhere(rolled_back)

    error = await refusal(rolled_back, "SELECT pgcron." + asked.format("repeat('word ', 500000)"))

    assert error.sqlstate == "PC001"
    assert is_explained(error)
    assert await rows_everywhere(rolled_back) == before


async def test_a_long_note_is_cut(rolled_back: Connection) -> None:
    schedule = await put_schedule(rolled_back, spec="@daily")
    run = await rolled_back.fetchval("SELECT pgcron.enqueue('py:work')")
    long = "word " * 100_000
    await rolled_back.execute("SELECT pgcron.pause_schedule('job', $1)", long)
    await rolled_back.execute("SELECT pgcron.cancel_run($1, $2, $2)", run, long)

    note = await rolled_back.fetchval("SELECT pause_note FROM pgcron.cursor")
    reason = await rolled_back.fetchval("SELECT error FROM pgcron.history")
    assert schedule
    assert 400 < len(note) < 1_000
    assert 700 < len(reason) < 1_000


@pytest.mark.parametrize(
    "asked",
    [
        "skip_occurrence('job', '12000-01-01')",
        "move_occurrence('job', now() + interval '1 hour', '12000-01-01')",
        "edit_occurrence('job', '1700-01-01', '{}')",
    ],
)
async def test_a_fire_outside_of_the_calendar_is_refused(
    rolled_back: Connection, asked: str
) -> None:
    await put_schedule(rolled_back)

    error = await refusal(rolled_back, f"SELECT pgcron.{asked}")

    assert error.sqlstate.startswith("PC0")
    assert is_explained(error)


@pytest.mark.parametrize(("bad", "sqlstate"), RUN + INSTANTS)
async def test_a_bad_run_is_refused_and_explained(
    rolled_back: Connection, bad: str, sqlstate: str
) -> None:
    error = await refusal(rolled_back, as_insert("run", "handler = 'py:work'", bad))

    assert error.sqlstate == sqlstate
    assert is_explained(error)
    assert await rows_everywhere(rolled_back) == 0


@pytest.mark.parametrize(("bad", "sqlstate"), SCHEDULE)
async def test_a_bad_schedule_is_refused_and_explained(
    rolled_back: Connection, bad: str, sqlstate: str
) -> None:
    good = "name = 'job'; spec = '@daily'; handler = 'py:work'"
    error = await refusal(rolled_back, as_insert("schedule", good, bad))

    assert error.sqlstate == sqlstate
    assert is_explained(error)
    assert await rows_everywhere(rolled_back) == 0


@pytest.mark.parametrize(("bad", "sqlstate"), SCHEDULE)
async def test_a_bad_edit_leaves_the_schedule_as_it_was(
    rolled_back: Connection, bad: str, sqlstate: str
) -> None:
    await put_schedule(rolled_back)
    before = [await rolled_back.fetch(f"SELECT * FROM pgcron.{t}") for t in EVERYTHING]

    error = await refusal(rolled_back, f"UPDATE pgcron.schedule SET {bad.replace(';', ',')}")

    assert error.sqlstate == sqlstate
    assert [await rolled_back.fetch(f"SELECT * FROM pgcron.{t}") for t in EVERYTHING] == before


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("enqueue('report')", "PC001"),
        ("enqueue('py:work', '[]')", "PC001"),
        ("enqueue('py:work', queue => 'a b', idempotency_key => 'k')", "PC001"),
        ("enqueue('py:work', priority => 10)", "PC001"),
        ("enqueue('py:work', idempotency_key => '')", "PC001"),
        ("enqueue('py:work', idempotency_key => repeat('k', 501))", "PC001"),
        ("enqueue('py:work', idempotency_key => 'k', key_lifetime => '-1 day')", "PC001"),
        ("enqueue('py:work', timeout => '-1 s')", "PC001"),
        ("put_schedule('job', '', 'py:work')", "PC002"),
        ("put_schedule('job', '@daily', 'py:work', timezone => 'Nowhere')", "PC003"),
        ("pause_schedule('nobody')", "PC010"),
        ("resume_schedule('nobody')", "PC010"),
        ("delete_schedule('nobody')", "PC010"),
        ("run_now('nobody')", "PC010"),
        ("why('nobody', now())", "PC010"),
        ("cancel_run(4711)", "PC010"),
        ("retry_run(4711)", "PC010"),
        ("redrive(4711)", "PC010"),
        ("pause_queue('a b')", "PC001"),
    ],
)
async def test_a_bad_call_is_refused_and_explained(
    rolled_back: Connection, call: str, sqlstate: str
) -> None:
    error = await refusal(rolled_back, f"SELECT pgcron.{call}")

    assert error.sqlstate == sqlstate
    assert is_explained(error)
    assert await rows_everywhere(rolled_back) == 0


async def test_a_zone_s_refusal_names_similar_ones(rolled_back: Connection) -> None:
    error = await refusal(
        rolled_back, "SELECT pgcron.put_schedule('job', '@daily', 'py:work', timezone => 'berlin')"
    )

    assert "Europe/Berlin" in error.hint


def args_of(size: int) -> str:
    """A JSON object whose text, as PostgreSQL writes it, has exactly so many bytes."""
    return json.dumps({"text": "x" * (size - len('{"text": ""}'))})


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO pgcron.run (handler, args) VALUES ('py:work', $1)",
        "INSERT INTO pgcron.schedule (name, spec, handler, args) "
        "VALUES ('job', '@daily', 'py:work', $1)",
        "SELECT pgcron.enqueue('py:work', $1)",
    ],
)
async def test_args_have_256_kib_and_not_a_byte_more(
    rolled_back: Connection, statement: str
) -> None:
    error = await refusal(rolled_back, statement, args_of(MOST_BYTES + 1))
    assert error.sqlstate == "PC004"
    assert is_explained(error)
    assert await rows_everywhere(rolled_back) == 0

    await rolled_back.execute(statement, args_of(MOST_BYTES))


async def test_one_bad_row_refuses_the_whole_copy(connection: Connection) -> None:
    with pytest.raises(asyncpg.PostgresError) as refused:
        await connection.copy_records_to_table(
            "run",
            schema_name="pgcron",
            columns=["handler", "args"],
            records=[("py:work", "{}"), ("work", "{}")],
        )

    error: Any = refused.value
    assert error.sqlstate == "PC001"
    assert is_explained(error)
    assert await rows_everywhere(connection) == 0


HOLDING = {"overlap": "skip", "schedule_id": 1, "overlap_slot": 1}
RUNNING = {
    "state": "running",
    "owner": uuid.UUID(int=1),
    "token": uuid.UUID(int=2),
    "fence": 1,
    "attempt": 1,
}


@pytest.mark.parametrize(
    ("columns", "constraint"),
    [
        ({"state": "done"}, "a_live_run_is_blocked_ready_or_running"),
        ({"state": "running"}, "a_running_run_has_owner"),
        ({**RUNNING, "token": None}, "a_running_run_has_owner"),
        ({**RUNNING, "fence": None}, "a_running_run_has_owner"),
        ({**RUNNING, "state": "ready"}, "a_running_run_has_owner"),
        ({"token": uuid.UUID(int=2)}, "a_running_run_has_owner"),
        ({**RUNNING, "attempt": 6}, "a_run_is_not_tried_more_than_allowed"),
        ({**RUNNING, "attempt": 2, "max_attempts": 1}, "a_run_is_not_tried_more_than_allowed"),
        ({**RUNNING, "attempt": 2, "delivery": "at_most_once"}, "tried_more|never_comes_back"),
        ({"attempt": 1, "delivery": "at_most_once"}, "at_most_once_never_comes_back"),
        ({**RUNNING, "gate": "no_node"}, "a_blocked_run_has_a_gate"),
        ({"state": "blocked", "gate": "no reason"}, "a_gate_is_known"),
        ({"state": "blocked"}, "a_blocked_run_has_a_gate"),
        ({"overlap": "skip"}, "an_overlap_policy_belongs_to_a_schedule"),
        ({"overlap": "wait", "schedule_id": 1}, "a_run_overlap_policy_is_known"),
        ({"overlap_slot": 1, "attempt": 1}, "an_overlap_slot_is_1_or_of_many_and_has_a_policy"),
        ({"state": "blocked", "gate": "overlap"}, "who_waits_for_a_slot_has_none"),
        ({**HOLDING, "overlap_slot": 2, "attempt": 1}, "an_overlap_slot_is_1"),
        ({**HOLDING, "state": "blocked", "gate": "no_node"}, "only_between_attempts"),
        ({**RUNNING, "overlap": "skip", "schedule_id": 1}, "holds_its_overlap_slot"),
        ({"origin": "schedule", "schedule_id": 1}, "only_fires_claim_an_occurrence"),
        ({"origin": "somewhere"}, "a_run_has_a_known_origin"),
    ],
)
async def test_an_impossible_run_can_not_be_written(
    rolled_back: Connection, columns: dict[str, Any], constraint: str
) -> None:
    if columns.get("owner"):
        columns = {**columns, "claimed_at": await rolled_back.fetchval("SELECT now()")}
    with pytest.raises(asyncpg.CheckViolationError, match=constraint):
        await enqueue(rolled_back, **columns)


async def test_a_broken_rule_is_named_as_a_constraint_is(rolled_back: Connection) -> None:
    error = await refusal(
        rolled_back,
        "INSERT INTO pgcron.run (handler, state, gate) SELECT 'py:work', 'blocked', 'x'",
    )

    assert (error.schema_name, error.table_name) == ("pgcron", "run")
    assert error.constraint_name == "a_gate_is_known"
    assert is_explained(error)


async def test_a_run_without_a_handler_is_told_how_one_is_written(rolled_back: Connection) -> None:
    error = await refusal(rolled_back, "INSERT INTO pgcron.run (priority) VALUES (5)")

    assert error.sqlstate == "PC001"
    assert "py:report" in error.hint


async def test_a_handler_without_its_kind_is_told_the_likely_name(rolled_back: Connection) -> None:
    error = await refusal(rolled_back, "SELECT pgcron.enqueue('nightly_export')")

    assert error.hint.startswith("Did you mean 'py:nightly_export'?")
    assert "Did you mean" not in (await refusal(rolled_back, "SELECT pgcron.enqueue('a b')")).hint


async def test_runs_are_judged_when_they_come_and_not_again_when_they_are_claimed(
    rolled_back: Connection,
) -> None:
    await rolled_back.execute("SET track_functions = 'pl'")
    calls = "SELECT pg_stat_get_xact_function_calls('pgcron.judge_run(pgcron.run)'::regprocedure)"
    async with rolled_back.transaction():
        await enqueue(rolled_back, 3)
        assert await rolled_back.fetchval(calls) is None, "what most runs are needs no call"
        await enqueue(rolled_back, 2, delivery="at_most_once")
        assert await rolled_back.fetchval(calls) == 2

        claimed = await claim(rolled_back, await join(rolled_back))
        await rolled_back.execute(
            "UPDATE pgcron.run SET started_at = now(), cancel_at = now() WHERE state = 'running'"
        )
        assert len(claimed) == 5
        assert await rolled_back.fetchval(calls) == 2

        # What the constraint does not ask about breaks no rule.
        assert await rolled_back.fetchval("SELECT bool_and(pgcron.judge_run(r)) FROM pgcron.run r")


async def test_only_a_running_run_is_asked_to_stop(rolled_back: Connection) -> None:
    now = await rolled_back.fetchval("SELECT now()")
    with pytest.raises(asyncpg.CheckViolationError, match="only_a_running_run_is_asked_to_stop"):
        await enqueue(rolled_back, cancel_at=now)


async def test_a_fire_has_one_live_run(rolled_back: Connection) -> None:
    now = await rolled_back.fetchval("SELECT now()")
    fire = {"origin": "schedule", "schedule_id": 1, "scheduled_for": now}
    await enqueue(rolled_back, 1, **fire)

    with pytest.raises(asyncpg.UniqueViolationError, match="run_fire"):
        await enqueue(rolled_back, 1, **fire)


async def test_there_is_one_cluster_row(connection: Connection) -> None:
    with pytest.raises(asyncpg.UniqueViolationError):
        await connection.execute("INSERT INTO pgcron.cluster DEFAULT VALUES")
    with pytest.raises(asyncpg.CheckViolationError, match="there_is_one_cluster_row"):
        await connection.execute("INSERT INTO pgcron.cluster (one) VALUES (false)")


@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("UPDATE pgcron.node SET state = 'dead'", "a_dead_node_says_when_and_why"),
        ("UPDATE pgcron.node SET lease_ttl = '0.5 s'", "a_lease_lives_1_second"),
        ("UPDATE pgcron.cursor SET status = 'invalid'", "an_invalid_schedule_says_why"),
        (
            "INSERT INTO pgcron.missed VALUES (1, now(), now() - interval '1 s', 1, 'x')",
            "a_range_does_not_end_before_it_begins",
        ),
        (
            "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision) "
            "VALUES (1, now(), 'run')",
            "a_fire_that_runs_names_its_run",
        ),
        (
            "INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision) "
            "VALUES (1, now(), 'skipped')",
            "a_fire_that_does_not_run_says_why",
        ),
        (
            "INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action) "
            "SELECT id, now(), 'move' FROM pgcron.schedule",
            "a_move_says_where_to",
        ),
        ("UPDATE pgcron.retention SET ahead = '1 hour'", "partitions_are_made_a_day_to_a_year"),
    ],
)
async def test_other_impossible_rows_can_not_be_written(
    rolled_back: Connection, statement: str, constraint: str
) -> None:
    await join(rolled_back)
    await put_schedule(rolled_back)

    with pytest.raises(asyncpg.CheckViolationError, match=constraint):
        await rolled_back.execute(statement)


async def test_a_key_that_is_no_name_is_refused_by_a_plain_insert(rolled_back: Connection) -> None:
    error = await refusal(
        rolled_back, "INSERT INTO pgcron.run (handler, concurrency_key) VALUES ('py:work', 'a*')"
    )
    assert error.sqlstate == "PC001"
    assert "is not a concurrency key" in str(error)


async def test_a_refusal_spoils_no_other_transaction(
    connection: Connection, another: Connect
) -> None:
    other = await another()
    async with other.transaction():
        await enqueue(other)
        await refusal(connection, "SELECT pgcron.enqueue('work')")

    assert len(await claim(connection, await join(connection))) == 1


@pytest.mark.parametrize(
    ("zone", "near"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("Europe/berlin", "Europe/Berlin"),
        ("Kolkata", "Asia/Kolkata"),
        ("America/New York", "America/New_York"),
        ("Xy/Q", "none; write for example Europe/Berlin"),
    ],
)
async def test_a_zone_that_is_not_known_is_told_with_those_like_it(
    rolled_back: Connection, zone: str, near: str
) -> None:
    error = await refusal(
        rolled_back, "SELECT pgcron.put_schedule('s', '@daily', 'py:x', timezone => $1)", zone
    )
    assert error.sqlstate == "PC003"
    assert error.hint.startswith(f"Similar names: {near}")
