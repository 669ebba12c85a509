"""What each part may not: asked for once, by a role that has what `pgcron-ha grants` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connection, put_schedule
from tests.db.roles import Become, verdict, verdicts
from tests.product.cli import PARTS

# Nobody but the owner; all of these are refused with 42501.
FOR_NOBODY = (
    "TRUNCATE pgcron.run",
    "DELETE FROM pgcron.history",
    "UPDATE pgcron.run SET state = 'ready'",
    "UPDATE pgcron.run SET args = '{}'",
    "UPDATE pgcron.run SET created_by = 'me'",
    "UPDATE pgcron.run SET token = NULL, owner = NULL",
    "INSERT INTO pgcron.run (handler, state) VALUES ('py:x', 'running')",
    "INSERT INTO pgcron.run (handler, attempt) VALUES ('py:x', 1)",
    "INSERT INTO pgcron.run (handler, owner) VALUES ('py:x', gen_random_uuid())",
    "INSERT INTO pgcron.run (handler, token) VALUES ('py:x', gen_random_uuid())",
    "INSERT INTO pgcron.run (handler, fence) VALUES ('py:x', 1)",
    "INSERT INTO pgcron.run (handler, uuid) VALUES ('py:x', gen_random_uuid())",
    "INSERT INTO pgcron.run (handler, scheduled_for) VALUES ('py:x', now())",
    "INSERT INTO pgcron.run (handler, overlap_slot) VALUES ('py:x', 1)",
    "INSERT INTO pgcron.run (handler, created_at) VALUES ('py:x', now())",
    "INSERT INTO pgcron.run (handler, awaited) VALUES ('py:x', true)",
    "INSERT INTO pgcron.node SELECT * FROM pgcron.node",
    "INSERT INTO pgcron.producer_rule VALUES ('postgres'::regrole, '*', '*')",
    "DELETE FROM pgcron.producer_rule",
    "SELECT pgcron.confine_producer('postgres')",
    "SELECT pgcron.unconfine_producer('postgres')",
    "UPDATE pgcron.cluster SET quarantine_until = now()",
    "UPDATE pgcron.retention SET keep = '1 second'",
    "INSERT INTO pgcron.retention_rule (keep) VALUES ('2 days')",
    "SELECT pgcron.set_retention('2 days')",
    "SELECT pgcron.set_table_retention('history', '2 days')",
    "UPDATE pgcron.retention_sweep SET page = 0",
    "UPDATE pgcron.alembic_version SET version_num = 'x'",
    "SELECT setval('pgcron.run_id_seq', 1)",
    "SELECT nextval('pgcron.fence')",
    "SELECT pgcron.finish_run(1, gen_random_uuid(), 1, NULL, NULL) FROM pgcron.callback",
    "SELECT token_hash FROM pgcron.callback",
    "SELECT pgcron.apply_edit(1, true)",
    "SELECT pgcron.lock_occurrence('s', now())",
    "CREATE TABLE pgcron.mine ()",
    "CREATE FUNCTION pgcron.now() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    "CREATE FUNCTION pgcron.enqueue(text) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
    "CREATE TRIGGER mine BEFORE INSERT ON pgcron.run EXECUTE FUNCTION pgcron.wake_idle_nodes()",
    "CREATE INDEX ON pgcron.run (args)",
    "ALTER TABLE pgcron.run DISABLE TRIGGER ALL",
    "ALTER FUNCTION pgcron.judge_run(pgcron.run) COST 1",
    "DROP TABLE pgcron.dead_letter",
    "COMMENT ON TABLE pgcron.run IS 'mine'",
    "SELECT password_hash FROM pgcron.web_user",
    "SELECT key FROM pgcron.login_failure",
    "INSERT INTO pgcron.role_grant (subject_kind, subject, role) VALUES ('user', 'me', 'admin')",
    "SELECT pgcron.add_user('mallory', NULL, 'admin')",
    "SELECT pgcron.remove_user('alice')",
    "SET session_replication_role = 'replica'",
)
ENQUEUES = "INSERT INTO pgcron.run (handler) VALUES ('py:x')"
DEFINES = "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('t', '@daily', 'py:x')"
LOOKS = "SELECT args FROM pgcron.run"
CANCELS = "SELECT pgcron.cancel_run(1)"
PAUSES = "SELECT pgcron.pause_queue('default'), pgcron.pause_cluster()"
CALENDAR = "SELECT pgcron.put_calendar('days', 'sat')"
LIMITS = "SELECT pgcron.set_queue('q', 3), pgcron.set_concurrency('l', 2)"
BACKFILLS = "SELECT pgcron.backfill('s', now() - interval '1 day')"
SKIPS = "SELECT pgcron.skip_occurrence('s', now() + interval '1 day')"
ASSERTS = "SELECT pgcron.assert_token(1, gen_random_uuid())"
ANSWERS = "SELECT pgcron.answer_callback(1, 1, sha256('x'), 'succeeded')"
KNOWS = "SELECT pgcron.known_callbacks('{1}', '{1}', ARRAY[sha256('x')])"
UPDATES = "SELECT pgcron.update_asset('sales')"
LOGS_IN = "SELECT pgcron.begin_login('alice', '::1'), pgcron.user_of_session(sha256('x'))"
SESSIONS = "SELECT id FROM pgcron.web_session"
DEMAND = "SELECT pgcron.scale_demand()"
LOCKS = "SELECT id FROM pgcron.run FOR UPDATE"
LOCKS_ALL = "LOCK TABLE pgcron.run IN SHARE MODE"
DELETES = "DELETE FROM pgcron.schedule WHERE name = 'nobody'"
EVERYTHING = {
    *(ENQUEUES, DEFINES, LOOKS, CANCELS, PAUSES, CALENDAR, BACKFILLS, SKIPS, ASSERTS, ANSWERS),
    *(UPDATES, DEMAND, DELETES, KNOWS, LOCKS, LOCKS_ALL, LIMITS, LOGS_IN),
    SESSIONS,
}
MAY = {
    "producer": {ENQUEUES},
    "scheduler": {DEFINES, LOOKS, CALENDAR, SKIPS, DEMAND, DELETES},
    "operator": {
        ENQUEUES,
        LOOKS,
        CANCELS,
        PAUSES,
        BACKFILLS,
        SKIPS,
        DEMAND,
        LOCKS,
        LIMITS,
    },
    "viewer": {LOOKS, DEMAND},
    "service": {ASSERTS},
    "updater": {UPDATES},
    "login": {LOGS_IN, SESSIONS},
    "callbacks": {ANSWERS, KNOWS},
    "autoscaler": {DEMAND},
}
READS = (
    *("runs", "schedules", "occurrences", "nodes", "queues", "dead_letters", "error_groups"),
    *(
        "backfills",
        "assets",
        "history",
        "attempt",
        "log",
        "node",
        "schedule",
        "callback",
        "unique_period",
    ),
)


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_may_what_it_is_for_and_nothing_else(
    part: str, connection: Connection, become: Become
) -> None:
    await put_schedule(connection, "s")
    await connection.execute("SELECT pgcron.enqueue('py:x')")
    session = await become(part)

    got = await verdicts(session, *FOR_NOBODY)
    assert {statement: code for statement, code in got.items() if code != "42501"} == {}
    assert MAY.keys() == set(PARTS)
    refused = await verdicts(session, *(EVERYTHING - MAY[part]))
    assert {statement: code for statement, code in refused.items() if code != "42501"} == {}
    allowed = await verdicts(session, *MAY[part])
    assert "42501" not in allowed.values(), allowed


@pytest.mark.parametrize("part", ["producer", "service", "updater", "callbacks", "autoscaler"])
async def test_who_need_not_look_reads_no_table(part: str, become: Become) -> None:
    session = await become(part)

    for relation in set(READS) - ({"unique_period"} if part == "producer" else set()):
        assert await verdict(session, f"SELECT FROM pgcron.{relation}") == "42501", relation


async def test_a_producer_is_not_let_beyond_its_columns(
    connection: Connection, become: Become
) -> None:
    secret = await connection.fetchval(
        "SELECT pgcron.enqueue('py:x', '{\"card\": 4242}', idempotency_key => 'k')"
    )
    await connection.execute("ANALYZE pgcron.run")
    other = await become("producer")
    name = await other.fetchval("SELECT session_user")
    session = await become("producer")

    got = await verdicts(
        session,
        "SELECT * FROM pgcron.run",
        "SELECT run FROM pgcron.run",
        "SELECT created_by FROM pgcron.run",
        "SELECT id FROM pgcron.run ORDER BY args",
        "SELECT count(*) FROM pgcron.run WHERE args @> '{\"card\": 4242}'",
        "EXPLAIN SELECT id FROM pgcron.run WHERE args @> '{}'",
        "INSERT INTO pgcron.run (handler) VALUES ('py:x') RETURNING args",
        "INSERT INTO pgcron.run (handler) VALUES ('py:x') RETURNING *",
        "DELETE FROM pgcron.idempotency",
        "UPDATE pgcron.idempotency SET key = 'other'",
        f"INSERT INTO pgcron.run (id, handler) VALUES ({secret}, 'py:x') "
        "ON CONFLICT (id) DO UPDATE SET args = EXCLUDED.args",
        "SELECT pgcron.run_now('s')",
        f"SELECT pgcron.retry_run({secret})",
    )
    assert {statement: code for statement, code in got.items() if code != "42501"} == {}
    got = await verdicts(
        session,
        f"INSERT INTO pgcron.run (handler, created_by) VALUES ('py:x', '{name}')",
        f"SELECT pgcron.enqueue('py:x', actor => '{name}')",
        f"SELECT pgcron.enqueue('py:x', unique_key => 'u', actor => '{name}')",
        f"SELECT pgcron.enqueue_many('[{{\"handler\": \"py:x\"}}]', actor => '{name}')",
        "INSERT INTO pgcron.run (id, handler) VALUES (1000000, 'py:x')",
        "INSERT INTO pgcron.run (id, handler) VALUES (-1, 'py:x')",
        "UPDATE pgcron.idempotency SET run_id = 7",
        "UPDATE pgcron.idempotency SET expires_at = now()",
    )
    assert {statement: code for statement, code in got.items() if code != "PC013"} == {}
    assert await verdict(session, f"SELECT pgcron.cancel_own_run({secret})") == "PC010"
    seen = "SELECT count(*) FROM pg_stats WHERE schemaname = 'pgcron' AND attname = 'args'"
    assert await session.fetchval(seen) == 0
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await session.copy_records_to_table(
            "run", schema_name="pgcron", columns=["handler", "state"], records=[("py:x", "ready")]
        )
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await session.copy_from_table("run", schema_name="pgcron", output=Path("/dev/null"))


async def test_a_producer_sees_and_touches_its_own(connection: Connection, become: Become) -> None:
    theirs = await connection.fetchval("SELECT pgcron.enqueue('py:x', '{\"of\": \"others\"}')")
    other, session = await become("producer"), await become("producer")
    await other.execute("SELECT pgcron.enqueue('py:x', '{\"of\": \"others\"}')")

    mine = await session.fetchval("SELECT pgcron.enqueue('py:x', '{\"of\": \"me\"}')")
    await session.execute("INSERT INTO pgcron.run (handler, created_by) VALUES ('py:x', 'ann')")
    await session.copy_records_to_table(
        "run", schema_name="pgcron", columns=["handler"], records=[("py:copied",)]
    )
    many = await session.fetchval('SELECT pgcron.enqueue_many(\'[{"handler": "py:m"}]\')')
    drawn = await session.fetchval("SELECT nextval('pgcron.run_id_seq')")
    await session.execute("INSERT INTO pgcron.run (id, handler) VALUES ($1, 'py:d')", drawn)

    owned = await session.fetch("SELECT id, handler, args, state FROM pgcron.own_runs ORDER BY id")
    assert [row["handler"] for row in owned] == ["py:x", "py:copied", "py:m", "py:d"]
    assert json.loads(owned[0]["args"]) == {"of": "me"}
    assert await session.fetchval("SELECT state FROM pgcron.run_status($1)", mine) == "ready"
    assert await session.fetchval("SELECT state FROM pgcron.run_status($1)", theirs) is None
    assert await session.fetchval("SELECT pgcron.cancel_own_run($1)", mine) == "cancelled"
    ended = "SELECT state FROM pgcron.own_runs WHERE id = $1"
    assert await session.fetchval(ended, mine) == "cancelled"
    assert await session.fetchval("SELECT state FROM pgcron.wait($1, '0')", many[0]) == "ready"


async def test_no_function_and_no_operator_of_a_reader_sees_the_rows_of_others(
    connection: Connection, become: Become
) -> None:
    await connection.execute("SELECT pgcron.enqueue('py:x', '{\"of\": \"others\"}')")
    session = await become("producer")
    await session.execute("SELECT pgcron.enqueue('py:x', '{\"of\": \"me\"}')")
    await session.execute("""
        CREATE FUNCTION pg_temp.leak(args jsonb, wanted jsonb) RETURNS boolean COST 0.0000000001
        LANGUAGE plpgsql AS $$ BEGIN RAISE NOTICE 'leaked %', args; RETURN true; END $$;
        CREATE OPERATOR pg_temp.<<< (
          LEFTARG = jsonb, RIGHTARG = jsonb, FUNCTION = pg_temp.leak, RESTRICT = contsel)""")
    reported: list[str] = []
    session.add_log_listener(lambda _, message: reported.append(str(message)))

    for condition in ("pg_temp.leak(args, '{}')", "args OPERATOR(pg_temp.<<<) '{}'"):
        assert len(await session.fetch(f"SELECT id FROM pgcron.own_runs WHERE {condition}")) == 1
    assert len(reported) == 2
    assert "others" not in "".join(reported)


async def test_a_confined_producer_keeps_to_its_queues_and_handlers(
    connection: Connection, become: Become
) -> None:
    theirs = await connection.fetchval(
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', unique_key => 'k')"
    )
    session = await become("producer", queues=["mail", "post-*"], handlers=["py:mail.*"])
    name = await session.fetchval("SELECT session_user")

    got = await verdicts(
        session,
        "SELECT pgcron.enqueue('py:mail.a', queue => 'billing')",
        "SELECT pgcron.enqueue('shell:rm', queue => 'mail')",
        "SELECT pgcron.enqueue('py:other', queue => 'mail')",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mailing')",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'billing', unique_key => 'other')",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'billing', idempotency_key => 'other')",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', actor => 'ann')",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', unique_key => 'k',"
        " on_conflict => 'replace')",
        "INSERT INTO pgcron.run (handler) VALUES ('py:mail.a')",
        "INSERT INTO pgcron.run (handler, queue) VALUES ('py:mail.a', 'mail'), ('sql:x', 'mail')",
        'SELECT pgcron.enqueue_many(\'[{"handler": "py:mail.a", "queue": "billing"}]\')',
    )
    assert {statement: code for statement, code in got.items() if code != "PC013"} == {}
    with pytest.raises(asyncpg.PostgresError) as refused:
        await session.copy_records_to_table(
            "run", schema_name="pgcron", columns=["handler"], records=[("shell:rm",)]
        )
    error: Any = refused.value
    assert error.sqlstate == "PC013"
    assert error.as_dict()["message"] == (
        f"role {name} may not enqueue handler 'shell:rm' into queue 'default'"
    )
    assert error.detail == "It may enqueue: py:mail.* into mail; py:mail.* into post-*."

    allowed = (
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail')",
        "INSERT INTO pgcron.run (handler, queue) VALUES ('py:mail.b', 'post-7') RETURNING id",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', unique_key => 'own')",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', unique_key => 'own',"
        " on_conflict => 'replace')",
    )
    for statement in allowed:
        assert await session.fetchval(statement)
    met = "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', unique_key => 'k')"
    assert await session.fetchval(met) == theirs

    # Who has the role's rights is confined as it is, and an owner never; freed, it may again.
    member = await become("producer")
    await connection.execute(f"GRANT {name} TO {await member.fetchval('SELECT session_user')}")
    assert await verdict(member, "SELECT pgcron.enqueue('shell:x')") == "PC013"
    await connection.execute("SELECT pgcron.enqueue('shell:x')")
    assert await connection.fetchval("SELECT pgcron.unconfine_producer($1)", name) == 2
    assert await verdict(session, "SELECT pgcron.enqueue('shell:x')") == "00000"
    assert await verdict(member, "SELECT pgcron.enqueue('shell:x')") == "00000"


async def test_an_attacker_s_path_changes_no_judgement(
    connection: Connection, become: Become
) -> None:
    session = await become("producer", queues=["mail"])
    name = await session.fetchval("SELECT session_user")
    await connection.execute(f"""
        CREATE SCHEMA {name} AUTHORIZATION {name}; SET ROLE {name};
        CREATE FUNCTION {name}.yes(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION {name}.yes(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION {name}.has_table_privilege(regclass, text) RETURNS boolean
          LANGUAGE sql AS 'SELECT true';
        CREATE FUNCTION {name}.has_table_privilege(oid, text) RETURNS boolean
          LANGUAGE sql AS 'SELECT true';
        CREATE OPERATOR {name}.~ (LEFTARG = text, RIGHTARG = text, FUNCTION = {name}.yes);
        CREATE OPERATOR {name}.= (LEFTARG = text, RIGHTARG = text, FUNCTION = {name}.yes);
        CREATE OPERATOR {name}.> (LEFTARG = int, RIGHTARG = int, FUNCTION = {name}.yes);
        CREATE OPERATOR {name}.<= (LEFTARG = int, RIGHTARG = int, FUNCTION = {name}.yes);
        CREATE OPERATOR {name}.>= (LEFTARG = int, RIGHTARG = int, FUNCTION = {name}.yes);
        RESET ROLE""")
    await session.execute(f"SET search_path = {name}, pg_catalog")

    for handler, queue, sqlstate in (
        ("no handler", "mail", "PC001"),
        ("py:x", "no queue", "PC013"),
        ("py:x", "default", "PC013"),
        ("py:x", "mail", "00000"),
    ):
        said = f"INSERT INTO pgcron.run (handler, queue) VALUES ('{handler}', '{queue}')"
        assert await verdict(session, said) == sqlstate
    assert await verdict(session, "INSERT INTO pgcron.run (handler, queue, max_attempts)"
                                  " VALUES ('py:x', 'mail', 4000)") == "PC001"  # fmt: skip


@pytest.mark.parametrize(
    ("call", "sqlstate"),
    [
        ("confine_producer('no such role')", "PC010"),
        ("confine_producer('postgres', '{a b}')", "PC001"),
        ("confine_producer('postgres', '{*x}')", "PC001"),
        ("confine_producer('postgres', '{mail}', '{\"\"}')", "PC001"),
        ("confine_producer('postgres', '{}', '{}')", "PC001"),
        ("confine_producer('postgres', handlers => '{}')", "PC001"),
        ("confine_producer('postgres', NULL, NULL)", "PC001"),
        ("confine_producer('postgres', ARRAY['mail', NULL])", "PC001"),
    ],
)
async def test_a_rule_that_can_not_be_is_refused(
    connection: Connection, call: str, sqlstate: str
) -> None:
    assert await verdict(connection, f"SELECT pgcron.{call}") == sqlstate


async def test_an_operator_makes_runs_for_others(connection: Connection, become: Become) -> None:
    producer, operator = await become("producer"), await become("operator")
    name = await producer.fetchval("SELECT session_user")
    mine = await producer.fetchval("SELECT pgcron.enqueue('py:x', due_at => '2099-01-01Z')")

    asked = "SELECT pgcron.enqueue('py:x', actor => $1)"
    for_them = await operator.fetchval(asked, name)
    assert await operator.fetchval("SELECT pgcron.retry_run($1)", mine) == mine
    seen = await producer.fetch("SELECT id FROM pgcron.own_runs ORDER BY id")
    assert [row["id"] for row in seen] == [mine, for_them]
