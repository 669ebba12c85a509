"""What each part may not: asked for once, by a role that has what `pgcron-ha grants` prints."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connection, put_schedule
from tests.db.roles import Become, verdict, verdicts
from tests.product.cli import PARTS, statements

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
    "SELECT pgcron.confine_producer('postgres')",
    "SELECT pgcron.delete_producer('postgres')",
    "SELECT pgcron.end_waiting_runs('{1}', 'cancelled', 'x')",
    "SELECT pgcron.stop_workflow(1, 'abort', 'x') FROM pgcron.workflow_run",
    "INSERT INTO pgcron.run (id, handler) VALUES (1, 'py:x')",
    "INSERT INTO pgcron.run (handler, unique_key) VALUES ('py:x', 'k')",
    "INSERT INTO pgcron.run (handler, namespace) VALUES ('py:x', 'n')",
    "INSERT INTO pgcron.run (handler, created_login) VALUES ('py:x', 'n')",
    "SELECT nextval('pgcron.run_id_seq')",
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
CALLS = "SELECT pgcron.enqueue('py:x', idempotency_key => 'k')"
OPERATES = "SELECT pgcron.begin_operation('k', '1 hour'), pgcron.end_operation('k', 1)"
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
AUDITS = "SELECT * FROM pgcron.audit"
ROLES = "SELECT g.role, t.name FROM pgcron.role_grant g, pgcron.api_token t, pgcron.owned"
SETTLES = "SELECT pgcron.settle_audit()"
ERASES = "SELECT pgcron.erase(run_ids => '{1}', dry_run => true)"
REVEALS = "SELECT pgcron.reveal(1)"
LOCKS = "SELECT id FROM pgcron.run FOR UPDATE"
LOCKS_ALL = "LOCK TABLE pgcron.run IN SHARE MODE"
DELETES = "DELETE FROM pgcron.schedule WHERE name = 'nobody'"
EVERYTHING = {
    *(ENQUEUES, DEFINES, LOOKS, CANCELS, PAUSES, CALENDAR, BACKFILLS, SKIPS, ASSERTS, ANSWERS),
    *(UPDATES, DEMAND, DELETES, KNOWS, LOCKS, LOCKS_ALL, LIMITS, CALLS, OPERATES),
    *(UPDATES, DEMAND, DELETES, KNOWS, LOCKS, LOCKS_ALL, LIMITS, AUDITS, SETTLES),
    *(UPDATES, DEMAND, DELETES, KNOWS, LOCKS, LOCKS_ALL, LIMITS, ERASES, REVEALS),
    *(UPDATES, DEMAND, DELETES, KNOWS, LOCKS, LOCKS_ALL, LIMITS, LOGS_IN),
    *(SESSIONS, ROLES),
}
MAY = {
    "producer": {ENQUEUES, CALLS},
    "scheduler": {DEFINES, LOOKS, CALENDAR, SKIPS, DEMAND, DELETES},
    "operator": {CALLS, OPERATES, LOOKS, CANCELS, PAUSES, BACKFILLS, SKIPS, DEMAND, LIMITS},
    "viewer": {LOOKS, DEMAND},
    "auditor": {AUDITS, SETTLES, ROLES},
    "service": {ASSERTS},
    "updater": {UPDATES},
    "eraser": {ERASES},
    "revealer": {REVEALS},
    "login": {LOGS_IN, SESSIONS},
    "callbacks": {ANSWERS, KNOWS},
    "autoscaler": {DEMAND},
}
NO_AFFAIR_OF_NODES = {
    *("role_grant", "web_user", "web_session", "api_token", "login_failure"),
    "producer_backlog",
}
"""Tables of which a node has no right at all."""

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


# A node works with all rows of a run. What it may not: say who may do what and how long records are
# kept, and change what the tables and functions are.
NOT_FOR_NODES = tuple(
    statement
    for statement in FOR_NOBODY
    if any(
        word in statement
        for word in (
            *("producer", "retention ", "retention_rule", "set_retention", "set_table_retention"),
            *("alembic", "setval", "CREATE", "ALTER", "DROP", "COMMENT", "SET session_replication"),
        )
    )
)


async def test_a_node_works_and_changes_neither_rights_nor_rules_nor_tables(
    connection: Connection, become: Become
) -> None:
    session = await become("node")

    assert len(NOT_FOR_NODES) > 15
    got = await verdicts(
        session,
        *NOT_FOR_NODES,
        "DROP TABLE pgcron.history",
        "TRUNCATE pgcron.history",
        "ALTER TABLE pgcron.log DETACH PARTITION pgcron.log_before",
        "SELECT pgcron.add_partition('log', '2020-01-02Z', '2020-01-03Z')",
        "SELECT pgcron.put_calendar('days', 'sat')",
        "GRANT SELECT ON pgcron.run TO PUBLIC",
        f"GRANT pg_read_all_data TO {await session.fetchval('SELECT session_user')}",
    )
    done = {statement for statement, code in got.items() if code != "42501"}
    assert done == {"GRANT SELECT ON pgcron.run TO PUBLIC"}, "which grants nothing, with a warning"
    readable = "SELECT has_table_privilege('public', 'pgcron.run', 'SELECT')"
    assert not await connection.fetchval(readable)


async def test_a_node_drops_only_partitions_that_are_outlived(
    connection: Connection, become: Become
) -> None:
    session = await become("node")
    await connection.execute(
        "DROP TABLE pgcron.log_before; CREATE TABLE pgcron.mine ();"
        " SELECT pgcron.add_partition('log', '2020-01-02Z', '2020-01-03Z')"
    )
    drop, there = "SELECT pgcron.drop_outlived($1)", "SELECT to_regclass('pgcron.' || $1) NOTNULL"
    today = await connection.fetchval(
        "SELECT name FROM pgcron.partitions_of('log') WHERE now() >= low AND now() < high"
    )

    for name in (today, "mine", "run", "log", "log_20200102"):
        await session.execute(drop, name)
        assert await connection.fetchval(there, name) == (name != "log_20200102"), name


async def test_what_a_node_may_do_with_each_table_was_decided(connection: Connection) -> None:
    printed = " ".join(statements("node", "n", "pgcron"))
    tables = await connection.fetch(
        "SELECT relname FROM pg_class WHERE relnamespace = 'pgcron'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition"
    )
    named = {row[0] for row in tables if re.search(rf"pgcron\.{row[0]}\b", printed)}

    assert {row[0] for row in tables} - named == NO_AFFAIR_OF_NODES


@pytest.mark.parametrize("part", [part for part in PARTS if part != "node"])
async def test_a_part_may_what_it_is_for_and_nothing_else(
    part: str, connection: Connection, become: Become
) -> None:
    await put_schedule(connection, "s")
    await connection.execute("SELECT pgcron.enqueue('py:x')")
    session = await become(part)

    got = await verdicts(session, *FOR_NOBODY)
    assert {statement: code for statement, code in got.items() if code != "42501"} == {}
    assert MAY.keys() == set(PARTS) - {"node"}
    refused = await verdicts(session, *(EVERYTHING - MAY[part]))
    assert {statement: code for statement, code in refused.items() if code != "42501"} == {}
    allowed = await verdicts(session, *MAY[part])
    assert "42501" not in allowed.values(), allowed


@pytest.mark.parametrize("part", sorted(MAY.keys() - {"scheduler", "operator", "viewer"}))
async def test_who_need_not_look_reads_no_table(part: str, become: Become) -> None:
    session = await become(part)

    for relation in READS:
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
        "INSERT INTO pgcron.run (handler) VALUES ('py:x') RETURNING handler",
        "SELECT unique_key FROM pgcron.run",
        "SELECT FROM pgcron.idempotency",
        "UPDATE pgcron.idempotency SET run_id = 7",
        "UPDATE pgcron.unique_period SET until = now()",
        "SELECT id FROM pgcron.run FOR KEY SHARE",
        "INSERT INTO pgcron.run (id, handler) VALUES (-1, 'py:x')",
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
        "INSERT INTO pgcron.run (handler, created_by) VALUES ('py:x', 'ann')",
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
    await session.execute("SELECT pgcron.enqueue('py:for.ann', actor => 'ann')")
    await session.copy_records_to_table(
        "run", schema_name="pgcron", columns=["handler"], records=[("py:copied",)]
    )
    many = await session.fetchval('SELECT pgcron.enqueue_many(\'[{"handler": "py:m"}]\')')

    owned = await session.fetch("SELECT id, handler, args, state FROM pgcron.own_runs ORDER BY id")
    assert [row["handler"] for row in owned] == ["py:x", "py:for.ann", "py:copied", "py:m"]
    assert json.loads(owned[0]["args"]) == {"of": "me"}
    said = await session.fetchrow(
        "SELECT created_by, created_login = session_user FROM pgcron.own_runs WHERE id = $1",
        owned[1]["id"],
    )
    assert tuple(said or ()) == ("ann", True)
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
    assert error.detail == "It may enqueue: py:mail.* into mail, py:mail.* into post-*."

    allowed = (
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail')",
        "INSERT INTO pgcron.run (handler, queue) VALUES ('py:mail.b', 'post-7') RETURNING id",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', unique_key => 'own')",
        "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', unique_key => 'own',"
        " on_conflict => 'replace')",
    )
    for statement in allowed:
        assert await session.fetchval(statement)
    # A key of others is not its own, whoever has it.
    met = "SELECT pgcron.enqueue('py:mail.a', queue => 'mail', unique_key => 'k')"
    mine = await session.fetchval(met)
    assert mine > theirs

    # Who has the role's rights is confined as it is, and is the same producer; an owner never is.
    member = await become()
    await connection.execute(f"GRANT {name} TO {await member.fetchval('SELECT session_user')}")
    assert await verdict(member, "SELECT pgcron.enqueue('shell:x')") == "PC013"
    assert await member.fetchval(met) == mine
    await connection.execute("SELECT pgcron.enqueue('shell:x')")
    # What is taken away is taken from all of them.
    await connection.execute("SELECT pgcron.delete_producer($1)", name)
    for one in (session, member):
        got = await verdicts(one, *allowed)
        assert {*got.values()} == {"PC013"}


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
        ("confine_producer('postgres', '{mail}', '{mail}')", "PC001"),
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


async def test_who_acts_for_others_is_recorded_beside_them(
    connection: Connection, become: Become
) -> None:
    producer, operator = await become("producer"), await become("operator")
    name, login = [await one.fetchval("SELECT session_user::text") for one in (producer, operator)]
    mine = await producer.fetchval("SELECT pgcron.enqueue('py:x')")
    await producer.execute("SELECT pgcron.cancel_own_run($1)", mine)

    made = [
        await operator.fetchval("SELECT pgcron.enqueue('py:x', actor => $1)", name),
        await operator.fetchval("SELECT pgcron.retry_run($1, actor => $2)", mine, name),
    ]
    recorded = "SELECT created_by, created_login FROM pgcron.runs WHERE id = $1"
    for run in made:
        assert tuple(await connection.fetchrow(recorded, run) or ()) == (name, login)
        await operator.execute("SELECT pgcron.cancel_run($1)", run)
        assert tuple(await connection.fetchrow(recorded, run) or ()) == (name, login)
    # It has made one of them, whatever is said of the others.
    assert [row["id"] for row in await producer.fetch("SELECT id FROM pgcron.own_runs")] == [mine]
    assert await verdict(producer, f"SELECT pgcron.enqueue('py:x', actor => '{login}')") == "PC013"
