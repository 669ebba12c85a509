"""Each command that controls writes one row of the audit, in its own transaction."""

from __future__ import annotations

import json
from typing import Any, Final, NamedTuple

import asyncpg
import pytest

from tests.db.audited import FIRE, make_world
from tests.db.control import Connection, call, enqueue, put_schedule
from tests.db.roles import Become, verdict
from tests.product.db import Session, record_refusal
from tests.waiting import until

ACTOR: Final = "ui:alice"


class Case(NamedTuple):
    """A call, with the numbers of a `world`, and what is recorded of it."""

    call: str
    verb: str
    kind: str
    name: str | None
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    note: str | None = None
    rows: int = 1
    is_for_owner: bool = False


# By the function of the contract; what these take as `actor` is written to their run, or is no
# command that controls.
NOT_RECORDED: Final = {"enqueue", "enqueue_many", "start_workflow", "update_asset"}
FIRE_TIME: Final = {"fire_time": "2031-05-01T12:00:00+00:00"}
CASES: Final[dict[str, Case]] = {
    # Schedules.
    "put_schedule": Case(
        "put_schedule('job', '@hourly', 'py:work', actor => $1)",
        *("edit", "schedule", "job", {"spec": "@daily"}, {"spec": "@hourly"}),
    ),
    "edit_schedule": Case(
        "edit_schedule('job', '{\"priority\": 2}', note => 'urgent', actor => $1)",
        *("edit", "schedule", "job", {"priority": 5}, {"priority": 2}, "urgent"),
    ),
    "pause_schedule": Case(
        "pause_schedule('job', 'too slow', actor => $1)",
        *("pause", "schedule", "job", {"enabled": True, "paused_note": None}),
        *({"enabled": False, "paused_note": "too slow"}, "too slow"),
    ),
    "resume_schedule": Case(
        "resume_schedule('held', actor => $1)",
        *("resume", "schedule", "held", {"enabled": False}, {"enabled": True}),
    ),
    "rename_schedule": Case(
        "rename_schedule('job', 'work', actor => $1)",
        *("rename", "schedule", "job", {"name": "job"}, {"name": "work"}),
    ),
    "restore_schedule": Case(
        "restore_schedule('held', 1, actor => $1)",
        *("edit", "schedule", "held", {"priority": 3}, {"priority": 5}),
        "restored from version 1",
    ),
    "delete_schedule": Case(
        "delete_schedule('job', actor => $1)",
        *("delete", "schedule", "job", {"spec": "@daily", "handler": "py:work"}),
    ),
    "apply_schedules": Case(
        'apply_schedules(\'[{"name": "new", "spec": "@daily", "handler": "py:x"}]\', \'f\','
        " actor => $1)",
        *("create", "schedule", "new", None, {"spec": "@daily", "source": "f"}),
    ),
    "run_now": Case(
        "run_now('job', '{\"a\": 1}', actor => $1)",
        *("run", "schedule", "job", None, {"args": ["a"]}),
    ),
    "skip_occurrence": Case(
        f"skip_occurrence('job', {FIRE}, 'a holiday', actor => $1)",
        *("skip", "occurrence", "job", FIRE_TIME, {**FIRE_TIME, "action": "skip"}, "a holiday"),
    ),
    "move_occurrence": Case(
        f"move_occurrence('job', {FIRE}, '2031-05-01 13:00Z', actor => $1)",
        *("move", "occurrence", "job", FIRE_TIME, {"due_at": "2031-05-01T13:00:00+00:00"}),
    ),
    "edit_occurrence": Case(
        f"edit_occurrence('job', {FIRE}, '{{\"a\": 2}}', actor => $1)",
        *("edit", "occurrence", "job", FIRE_TIME, {"args": ["a"]}),
    ),
    "restore_occurrence": Case(
        f"restore_occurrence('held', {FIRE}, actor => $1)",
        *("restore", "occurrence", "held", {"action": "skip", **FIRE_TIME}, FIRE_TIME),
    ),
    "backfill": Case(
        "backfill('job', '2026-01-01 00:00Z', '2026-01-02 00:00Z', note => 'lost', actor => $1)",
        *("start", "backfill", "2", None, {"schedule": "job", "parallelism": 1}, "lost"),
    ),
    "pause_backfill": Case(
        "pause_backfill(1, actor => $1)",
        *("pause", "backfill", "1", {"state": "open"}, {"state": "paused"}),
    ),
    "resume_backfill": Case(
        "pause_backfill(1); SELECT pgcron.resume_backfill(1, actor => $1)",
        *("resume", "backfill", "1", {"state": "paused"}, {"state": "open"}),
    ),
    "stop_backfill": Case(
        "stop_backfill(1, 'wrong range', actor => $1)",
        *("stop", "backfill", "1", {"state": "open"}, {"state": "stopping"}, "wrong range"),
    ),
    "put_calendar": Case(
        "put_calendar('days', 'sun', actor => $1)",
        *("edit", "calendar", "days", {"content": "sat"}, {"content": "sun"}),
    ),
    "delete_calendar": Case(
        "delete_calendar('spare', actor => $1)",
        *("delete", "calendar", "spare", {"content": "mon"}),
    ),
    "apply_calendars": Case(
        "apply_calendars('{\"more\": \"tue\"}', 'f', actor => $1)",
        *("create", "calendar", "more", None, {"content": "tue", "source": "f"}),
    ),
    "prune_calendars": Case(
        "prune_calendars('files', '{}', actor => $1)",
        *("delete", "calendar", "filed", {"content": "wed"}),
    ),
    # Runs.
    "cancel_run": Case(
        "cancel_run({waiting}, 'not wanted', actor => $1)",
        *("cancel", "run", "{waiting}", {"state": "ready"}, None, "not wanted"),
    ),
    "kill_run": Case(
        "kill_run({waiting}, actor => $1)", "kill", "run", "{waiting}", {"state": "ready"}
    ),
    "retry_run": Case(
        "retry_run({ended}, 'data is there', actor => $1)",
        *("retry", "run", "{ended}", None, None, "data is there"),
    ),
    "redrive": Case(
        "redrive({dead}, '{\"a\": 3}', 'mended', actor => $1)",
        *("redrive", "run", "{dead}", None, {"args": ["a"]}, "mended"),
    ),
    "redrive_many": Case(
        "redrive_many(handler => 'py:work', note => 'mended', actor => $1)",
        *("redrive", "run", None, None, {"count": 4, "handler": "py:work"}, "mended"),
    ),
    "archive_dead_letters": Case(
        "archive_dead_letters(ARRAY[{dead}]::bigint[], 'known', actor => $1)",
        *("archive", "run", "{dead}", None, {"count": 1}, "known"),
    ),
    # Workflows.
    "put_workflow": Case(
        'put_workflow(\'w\', \'{"steps": [{"name": "only", "handler": "py:x"}]}\', actor => $1)',
        *("put", "workflow", "w"),
    ),
    "delete_workflow": Case("delete_workflow('w', actor => $1)", "delete", "workflow", "w"),
    "apply_workflows": Case(
        'apply_workflows(\'{"v": {"steps": [{"name": "only", "handler": "py:x"}]}}\', \'f\','
        " actor => $1)",
        *("put", "workflow", "v", None, {"source": "f"}),
    ),
    "prune_workflows": Case(
        "prune_workflows('files', '{}', actor => $1)", "delete", "workflow", "filed"
    ),
    "signal": Case(
        "signal({flow}, 'paid', '{\"sum\": 7}', 'by bank', actor => $1)",
        *("signal", "step", "{flow}", {"step": "paid", "state": "running"}),
        *({"step": "paid", "payload": ["sum"]}, "by bank"),
    ),
    "approve_step": Case(
        "approve_step({flow}, 'boss', false, 'too dear', actor => $1)",
        *("reject", "step", "{flow}", {"step": "boss"}, {"step": "boss"}, "too dear"),
    ),
    "skip_step": Case(
        "skip_step({flow}, 'paid', 'free', actor => $1)",
        *("skip", "step", "{flow}", {"state": "running"}, {"state": "skipped"}, "free"),
    ),
    "succeed_step": Case(
        "succeed_step({flow}, 'paid', '1', actor => $1)",
        *("succeed", "step", "{flow}", {"state": "running"}, {"result": "number"}),
    ),
    "clear_step": Case(
        "clear_step({flow}, 'paid', 'again', actor => $1)",
        *("clear", "step", "{flow}", {"step": "paid"}, {"step": "paid"}, "again"),
    ),
    "set_step_args": Case(
        "set_step_args({flow}, 'last', '{\"a\": 4}', 'wrong', actor => $1)",
        *("set_args", "step", "{flow}", {"step": "last"}, {"args": ["a"]}, "wrong"),
    ),
    "pause_workflow": Case(
        "pause_workflow({flow}, 'wait', actor => $1)",
        *("pause", "run", "{flow}", None, None, "wait"),
    ),
    "resume_workflow": Case(
        "resume_workflow({flow}, 'fixed', actor => $1)",
        *("resume", "run", "{flow}", None, None, "fixed"),
    ),
    # The cluster.
    "pause_cluster": Case(
        "pause_cluster('a move', actor => $1)",
        *("pause", "cluster", None, {"paused_note": None}, {"paused_note": "a move"}, "a move"),
    ),
    "resume_cluster": Case(
        "pause_cluster(); SELECT pgcron.resume_cluster(actor => $1)",
        *("resume", "cluster", None, None, {"paused_at": None}),
    ),
    "set_queue": Case(
        "set_queue('mail', 3, actor => $1)", *("set", "queue", "mail", None, {"max_running": 3})
    ),
    "pause_queue": Case(
        "pause_queue('mail', 'full', actor => $1)",
        *("pause", "queue", "mail", None, {"paused_note": "full"}, "full"),
    ),
    "resume_queue": Case(
        "resume_queue('slow', actor => $1)",
        *("resume", "queue", "slow", {"paused_note": "why"}, {"paused_at": None}),
    ),
    "set_concurrency": Case(
        "set_concurrency('limited', 5, actor => $1)",
        *("set", "concurrency", "limited", {"slots": 2}, {"slots": 5}),
    ),
    "delete_concurrency": Case(
        "delete_concurrency('limited', actor => $1)",
        *("delete", "concurrency", "limited", {"slots": 2}),
    ),
    "set_breaker": Case(
        "set_breaker('py:b', 9, actor => $1)",
        *("set", "breaker", "py:b", {"failures": 5}, {"failures": 9}),
    ),
    "reset_breaker": Case(
        "reset_breaker('py:b', actor => $1)",
        *("reset", "breaker", "py:b", {"state": "open"}, {"state": "closed"}),
    ),
    "delete_breaker": Case(
        "delete_breaker('py:b', actor => $1)", "delete", "breaker", "py:b", {"failures": 5}
    ),
    "cordon_node": Case(
        "cordon_node('n1', 'a disk', actor => $1)",
        *("cordon", "node", "n1", None, {"note": "a disk"}, "a disk"),
    ),
    "uncordon_node": Case("uncordon_node('n2', actor => $1)", "uncordon", "node", "n2"),
    "set_retention": Case(
        "set_retention('2 days', 'mail', actor => $1)",
        *("set", "retention", "mail", None, {"keep": "2 days"}),
        is_for_owner=True,
    ),
    "delete_retention": Case(
        "delete_retention('slow', 'dead', actor => $1)",
        *("delete", "retention", "slow dead", {"keep": "3 days"}),
        is_for_owner=True,
    ),
    "set_table_retention": Case(
        "set_table_retention('log', '9 days', actor => $1)",
        *("set", "table_retention", "log", {"keep": "7 days"}, {"keep": "9 days"}),
        is_for_owner=True,
    ),
    "confine_producer": Case(
        "confine_producer('postgres', '{a,b}', actor => $1)",
        *("confine", "producer", "postgres", None, {"largest_weight": 1}),
        is_for_owner=True,
    ),
    "delete_producer": Case(
        "confine_producer('postgres'); SELECT pgcron.delete_producer('postgres', actor => $1)",
        *("delete", "producer", "postgres", {"largest_weight": 1}),
        is_for_owner=True,
    ),
    # People.
    "grant_role": Case(
        "grant_role('user', 'ann', 'viewer', actor => $1)",
        *("grant", "role", "user ann", None, {"role": "viewer"}),
        is_for_owner=True,
    ),
    "revoke_role": Case(
        "grant_role('user', 'ann', 'viewer');"
        " SELECT pgcron.revoke_role('user', 'ann', 'viewer', actor => $1)",
        *("revoke", "role", "user ann", {"role": "viewer"}),
        is_for_owner=True,
    ),
    "set_team": Case(
        "set_team('queue', 'mail', 'billing', actor => $1)",
        *("give", "queue", "mail", None, {"team": "billing"}),
        is_for_owner=True,
    ),
    "reveal": Case("reveal({ended}, actor => $1)", "reveal", "run", "{ended}", is_for_owner=True),
    "erase": Case(
        "erase(ARRAY[{ended}]::bigint[], actor => $1)",
        *("erase", "run", None, None, {"runs": 1}, "by run"),
        is_for_owner=True,
    ),
}


def filled(text: str | None, world: dict[str, int]) -> Any:
    """With the numbers of the world in their places, and the actor."""
    for name, number in world.items():
        text = text and text.replace(f"{{{name}}}", str(number))
    return text and text.replace("$1", f"'{ACTOR}'")


async def recorded(session: Connection, after: int = 0) -> list[asyncpg.Record]:
    return await session.fetch("SELECT * FROM pgcron.audit WHERE id > $1 ORDER BY id", after)


def has(whole: str | None, part: dict[str, Any] | None) -> bool:
    """Whether a JSON object has these values."""
    return part is None or part.items() <= json.loads(whole or "{}").items()


async def test_each_command_writes_what_it_did_in_its_transaction(
    connection: Connection, become: Become
) -> None:
    world = await make_world(connection)
    session = await become("scheduler", "operator", "auditor")
    last = await connection.fetchval("SELECT max(id) FROM pgcron.audit")
    wrong = {}

    for function, case in CASES.items():
        caller = connection if case.is_for_owner else session
        *before, command = filled(case.call, world).split("; SELECT pgcron.")
        transaction = caller.transaction()
        await transaction.start()
        for each in before:
            await caller.execute(f"SELECT pgcron.{each}")
        since = max([last, *(row["id"] for row in await recorded(caller, last))])
        await caller.execute(f"SELECT pgcron.{command}")
        rows = await recorded(caller, since)
        login = await caller.fetchval("SELECT session_user::text")
        await transaction.rollback()
        interface = "file" if function.startswith(("apply_", "prune_")) else "sql"
        row = rows[0] if rows else None
        is_right = (
            row is not None
            and len(rows) == case.rows
            and (row["verb"], row["kind"], row["note"]) == (case.verb, case.kind, case.note)
            and row["name"] == filled(case.name, world)
            and (row["actor"], row["login"], row["interface"]) == (ACTOR, login, interface)
            and row["outcome"] == "done"
            and has(row["before"], case.before)
            and has(row["after"], case.after)
        )
        if not is_right or await recorded(caller, last):
            wrong[function] = rows

    assert wrong == {}


async def test_each_function_that_takes_an_actor_has_a_case(connection: Connection) -> None:
    functions = await connection.fetch(
        "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'pgcron'::regnamespace"
        " AND 'actor' = ANY (proargnames[:pronargs]) AND obj_description(oid) NOT LIKE 'Private:%'"
    )

    assert {row["proname"] for row in functions} - NOT_RECORDED - CASES.keys() == {"act_as"}


async def test_plain_sql_is_recorded_as_its_columns_changed(
    connection: Connection, become: Become
) -> None:
    session = await become("scheduler", "auditor")

    await session.execute("""
        INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('s', '@daily', 'py:x');
        UPDATE pgcron.schedule SET queue = 'mail', priority = 1 WHERE name = 's';
        UPDATE pgcron.schedule SET queue = 'mail' WHERE name = 's';
        UPDATE pgcron.schedule SET enabled = false, paused_note = 'night' WHERE name = 's';
        UPDATE pgcron.schedule SET enabled = true WHERE name = 's';
        DELETE FROM pgcron.schedule WHERE name = 's'""")

    rows = await recorded(session)
    assert [row["verb"] for row in rows] == ["create", "edit", "pause", "resume", "delete"]
    assert {row["name"] for row in rows} == {"s"}
    assert json.loads(rows[1]["before"]) == {"queue": "default", "priority": 5}
    assert json.loads(rows[1]["after"]) == {"queue": "mail", "priority": 1}
    assert rows[2]["note"] == "night"
    assert {row["actor"] for row in rows} == {await session.fetchval("SELECT session_user::text")}


async def test_what_changes_nothing_is_not_recorded(connection: Connection) -> None:
    [run] = await enqueue(connection)
    await connection.execute("SELECT pgcron.cancel_run($1)", run)
    for _ in range(2):
        await connection.execute("SELECT pgcron.set_queue('q', 3), pgcron.pause_queue('q')")
        await connection.execute("SELECT pgcron.set_breaker('py:b'), pgcron.reset_breaker('py:b')")
    rows = await recorded(connection)

    assert await connection.fetchval("SELECT pgcron.cancel_run($1)", run) == "finished"
    assert await connection.fetchval("SELECT pgcron.retry_run($1)", (await enqueue(connection))[0])

    assert await recorded(connection) == rows
    assert [f"{row['verb']} {row['kind']}" for row in rows] == [
        *("cancel run", "set queue", "pause queue", "set breaker")
    ]


async def test_what_the_engine_does_to_a_schedule_has_its_name(connection: Connection) -> None:
    schedule = await put_schedule(connection, "s")
    await connection.execute(
        "SELECT pgcron.pause_schedule('s', until => clock_timestamp() + interval '1 s')"
    )

    await until(
        "the pause is over", lambda: call(connection, "resume_overdue", schedule_id=schedule)
    )

    row = (await recorded(connection))[-1]
    assert (row["verb"], row["actor"], row["interface"]) == ("resume", "pgcron_ha", "clock")
    assert row["login"] == "postgres"


async def test_a_calendar_that_changes_is_one_row_whoever_uses_it(connection: Connection) -> None:
    await connection.execute("SELECT pgcron.put_calendar('days', 'sat')")
    for number in range(3):
        await put_schedule(connection, f"s{number}", spec="in days at 09:00")
    last = await connection.fetchval("SELECT max(id) FROM pgcron.audit")

    await connection.execute("SELECT pgcron.put_calendar('days', 'sun', actor => 'anna')")

    (row,) = await recorded(connection, last)
    assert (row["verb"], row["kind"], row["name"], row["actor"]) == (
        *("edit", "calendar", "days", "anna"),
    )


async def test_who_acts_holds_for_the_transaction(connection: Connection) -> None:
    async with connection.transaction():
        await connection.execute("SELECT pgcron.act_as('anna', 'shop', 'desk 7')")
        await connection.execute("SELECT pgcron.set_queue('a', 1)")
        await connection.execute("SELECT pgcron.set_queue('b', 1, actor => 'bert')")
    await connection.execute("SELECT pgcron.set_queue('c', 1)")

    rows = [(row["actor"], row["interface"], row["address"]) for row in await recorded(connection)]
    assert rows[:2] == [("anna", "shop", "desk 7"), ("bert", "shop", "desk 7")]
    assert rows[2][:2] == ("postgres", "sql")


async def test_long_values_are_cut_and_say_so(connection: Connection) -> None:
    days = "\n".join(f"{2000 + day // 28}-01-{1 + day % 28:02}" for day in range(1_000))

    await connection.execute("SELECT pgcron.put_calendar('days', $1, actor => $2)", days, "a" * 300)

    (row,) = await recorded(connection)
    assert row["after"].count("-01-") < 200
    assert "… (cut, of 12000 characters)" in row["after"]
    assert len(row["after"]) < 4000


async def test_of_args_the_names_of_the_keys_are_kept(connection: Connection) -> None:
    await put_schedule(connection, "s")
    await connection.execute("""
        SELECT pgcron.edit_schedule('s', '{"args": {"customer": "a secret"}}');
        SELECT pgcron.run_now('s', '{"to": "a secret"}')""")

    rows = await connection.fetch("SELECT to_jsonb(a)::text AS text, after FROM pgcron.audit a")
    assert [json.loads(row["after"])["args"] for row in rows[-2:]] == [["customer"], ["to"]]
    assert not [row for row in rows if "a secret" in row["text"]]


@pytest.mark.parametrize(
    "part", ["producer", "scheduler", "operator", "viewer", "service", "updater", "auditor"]
)
async def test_no_part_writes_the_audit_and_one_reads_it(
    part: str, connection: Connection, become: Become
) -> None:
    await connection.execute("SELECT pgcron.set_queue('q', 3)")
    session = await become(part)

    for statement in (
        "INSERT INTO pgcron.audit (actor, interface, verb, kind) VALUES ('a', 'b', 'c', 'd')",
        "UPDATE pgcron.audit SET actor = 'somebody'",
        "DELETE FROM pgcron.audit",
        "TRUNCATE pgcron.audit",
        "UPDATE pgcron.audit_export SET sent = 0",
        "SELECT setval('pgcron.audit_id_seq', 1)",
        "SELECT pgcron.set_table_retention('audit', '1 day')",
    ):
        assert await verdict(session, statement) == "42501", statement
    reads = await verdict(session, "SELECT * FROM pgcron.audit")
    assert reads == ("00000" if part == "auditor" else "42501")


async def test_the_owner_does_not_change_a_row_either(connection: Connection) -> None:
    await connection.execute("SELECT pgcron.set_queue('q', 3)")
    partition = await connection.fetchval("SELECT tableoid::regclass::text FROM pgcron.audit")

    for statement in (
        "UPDATE pgcron.audit SET actor = 'somebody'",
        "DELETE FROM pgcron.audit",
        "TRUNCATE pgcron.audit",
        f"UPDATE {partition} SET actor = 'somebody'",
        f"DELETE FROM {partition}",
    ):
        assert await verdict(connection, statement) == "PC013", statement
    assert len(await recorded(connection)) == 1


async def test_a_refusal_is_recorded_by_who_may(connection: Connection, become: Become) -> None:
    page = Session(connection, "pgcron", "ui:eve", "ui", "192.0.2.1")

    await page.act(record_refusal, "pause", "queue", "mail", "no role")

    (row,) = await recorded(connection)
    assert (row["outcome"], row["actor"], row["verb"]) == ("refused", "ui:eve", "pause")
    assert (row["interface"], row["address"], row["note"]) == ("ui", "192.0.2.1", "no role")
    session = await become("scheduler", "viewer", "auditor")
    assert await verdict(session, "SELECT pgcron.record_audit('a', 'b', 'c')") == "42501"
