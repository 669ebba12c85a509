"""Two producers: neither sees, delays nor changes what the other does, by whatever it calls."""

from __future__ import annotations

import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest

from tests.db.control import Connect, Connection, claim, join
from tests.db.roles import Become, verdict
from tests.db.workflows import Stage
from tests.product.cli import granting

Call = Callable[["Producer"], Awaitable[Any]]
PAIR = {"queues": ["shared"], "handlers": ["py:*"], "backlog": 30}


class Producer:
    """A session of a producer, the runs it has got, and those of the other one."""

    def __init__(self, session: Connection) -> None:
        self.session = session
        self.runs: list[int] = []
        self.foreign: list[int] = []

    async def answer(self, call: Call) -> Any:
        """What the call gives: an id as its place among the producer's own, an error as its code.

        Whoever it would have to wait for, it waits for in vain.
        """
        try:
            async with self.session.transaction():
                given = await call(self)
        except asyncpg.PostgresError as error:
            return str(error.sqlstate)
        if isinstance(given, list):
            return [self._place(one) for one in given]
        return self._place(given)

    def _place(self, given: Any) -> Any:
        if not isinstance(given, int) or isinstance(given, bool):
            return given
        if given not in self.runs:
            self.runs.append(given)
        return self.runs.index(given)

    @property
    def own(self) -> int:
        return self.runs[-1] if self.runs else -1

    @property
    def other(self) -> int:
        return self.foreign[-1] if self.foreign else -2


def enqueue(options: str = "") -> Call:
    asked = f"SELECT pgcron.enqueue('py:x', queue => 'shared'{options and ', ' + options})"
    return lambda producer: producer.session.fetchval(asked)


def many(**options: Any) -> Call:
    runs = json.dumps([{"handler": "py:x", "queue": "shared", **options}] * 2)
    return lambda producer: producer.session.fetchval("SELECT pgcron.enqueue_many($1)", runs)


def insert(columns: str = "", values: str = "", then: str = "RETURNING id") -> Call:
    asked = (
        f"INSERT INTO pgcron.run (handler, queue{columns and ', ' + columns})"
        f" VALUES ('py:x', 'shared'{values and ', ' + values}) {then}"
    )
    return lambda producer: producer.session.fetchval(asked)


async def copy(producer: Producer) -> str:
    return await producer.session.copy_records_to_table(
        "run", schema_name="pgcron", columns=["handler", "queue"], records=[("py:x", "shared")]
    )


def of_run(function: str, which: str) -> Call:
    return lambda producer: producer.session.fetchval(
        f"SELECT {function}", getattr(producer, which)
    )


async def own_runs(producer: Producer) -> list[str]:
    rows = await producer.session.fetch(
        "SELECT handler, args, priority, state, weight FROM pgcron.own_runs ORDER BY id"
    )
    return [str(tuple(row)) for row in rows]


CALLS: dict[str, Call] = {
    "plain": enqueue(),
    "as another": enqueue("actor => 'postgres'"),
    "with a key": enqueue("idempotency_key => 'k'"),
    "with a key for ever": enqueue("idempotency_key => 'k', key_lifetime => '1000 years'"),
    "with a key for a moment": enqueue("idempotency_key => 'm', key_lifetime => '1 us'"),
    "unique": enqueue("unique_key => 'k', args => '{\"a\": 1}'"),
    "unique while it waits": enqueue("unique_key => 'w', unique_scope => 'waiting'"),
    "or refused": enqueue("unique_key => 'k', on_conflict => 'refuse'"),
    "replacing": enqueue("unique_key => 'w', on_conflict => 'replace', args => '{\"a\": 2}'"),
    "for a time": enqueue("unique_key => 'k', unique_for => '366 days'"),
    "for a time, replacing": enqueue(
        "unique_key => 'k', unique_for => '1 hour', on_conflict => 'replace'"
    ),
    "debounced": enqueue("unique_key => 'd', debounce => '1 hour'"),
    "first": enqueue("priority => 0"),
    "last": enqueue("priority => 9"),
    "heavy": enqueue("weight => 2"),
    "in a key of all": enqueue("concurrency_key => 'bank'"),
    "elsewhere": lambda producer: producer.session.fetchval(
        "SELECT pgcron.enqueue('py:x', queue => 'mail')"
    ),
    "many": many(),
    "many with keys": many(idempotency_key="k"),
    "many unique": many(unique_key="k"),
    "a row": insert(),
    "a row with an id": insert("id", "1"),
    "a row with a unique key": insert("unique_key", "'k'"),
    "a row of another": insert("created_by", "'postgres'"),
    "a row or nothing": insert(then="ON CONFLICT DO NOTHING"),
    "copied": copy,
    "cancelling": of_run("pgcron.cancel_own_run($1)", "own"),
    "cancelling another's": of_run("pgcron.cancel_own_run($1)", "other"),
    "its status": of_run("state FROM pgcron.run_status($1)", "own"),
    "another's status": of_run("state FROM pgcron.run_status($1)", "other"),
    "another's state": of_run("state FROM pgcron.look_for_end($1)", "other"),
    "waiting for another's": of_run("state FROM pgcron.wait($1, '0')", "other"),
    "awaiting another's": of_run(
        "ended = ARRAY[$1::bigint] FROM pgcron.await_runs(ARRAY[$1])", "other"
    ),
    "awaiting": of_run("cardinality(ended)::text FROM pgcron.await_runs(ARRAY[$1::bigint])", "own"),
    "locking": of_run("id FROM pgcron.run WHERE id = $1 FOR KEY SHARE", "other"),
    "looking": own_runs,
}
# What executes with its owner's rights, and what else a producer may: all of it is called above.
DEFINERS = {
    *("enqueue", "enqueue_many", "cancel_own_run", "run_status", "await_runs", "look_for_end"),
    "judge_start",  # only looks for a workflow that it may start
    "judge_guest",  # only judges a row that is given, by what is not secret
}
LEFT = """
    SELECT handler, args::text, priority, state, unique_key, unique_scope, weight, concurrency_key
      FROM pgcron.run WHERE coalesce(created_login, created_by) = $1 ORDER BY id"""


@pytest.fixture
async def pair(become: Become) -> tuple[Producer, Producer]:
    made = [Producer(await become("producer", **PAIR)) for _ in range(2)]
    for one in made:
        await one.session.execute("SET lock_timeout = '1ms'")
    return made[0], made[1]


async def forget(connection: Connection, pair: tuple[Producer, Producer]) -> None:
    await connection.execute(
        "DELETE FROM pgcron.run; DELETE FROM pgcron.history;"
        "DELETE FROM pgcron.idempotency; DELETE FROM pgcron.unique_period;"
        "UPDATE pgcron.producer_backlog SET live = NULL"
    )
    for one in pair:
        one.runs.clear()
        one.foreign.clear()


async def left(connection: Connection, producer: Producer) -> list[tuple[Any, ...]]:
    login = await producer.session.fetchval("SELECT session_user::text")
    return [tuple(row) for row in await connection.fetch(LEFT, login)]


async def test_a_producer_calls_nothing_else_with_the_owners_rights(
    connection: Connection, pair: tuple[Producer, Producer]
) -> None:
    may = await pair[0].session.fetch(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'pgcron'::regnamespace AND prosecdef"
        " AND has_function_privilege(oid, 'EXECUTE')"
    )

    assert {row["proname"] for row in may} == DEFINERS


@pytest.mark.parametrize("is_open", [False, True], ids=["committed", "open"])
async def test_no_call_changes_what_another_producer_s_call_does(
    is_open: bool, connection: Connection, pair: tuple[Producer, Producer]
) -> None:
    attacker, honest = pair

    async def after(first: str | None) -> tuple[Any, ...]:
        """What the honest one gets of each call, and what is left of it."""
        await forget(connection, pair)
        await honest.answer(enqueue())
        attacker.foreign, honest.foreign = honest.runs, attacker.runs
        transaction = attacker.session.transaction()
        await transaction.start()
        for _ in range(2 if first else 0):
            await attacker.answer(CALLS[first or ""])
        if not is_open:
            await transaction.commit()
        answers = {name: await honest.answer(call) for name, call in CALLS.items()}
        rows = await left(connection, honest)
        if is_open:
            await transaction.rollback()
        return answers, rows

    alone = await after(None)
    assert len({str(answer) for answer in alone[0].values()}) > 10
    for first in CALLS:
        assert await after(first) == alone, first


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_they_call_each_gets_what_it_gets_alone(
    seed: int, connection: Connection, pair: tuple[Producer, Producer]
) -> None:
    chance = random.Random(seed)
    names = [(chance.randrange(2), chance.choice([*CALLS])) for _ in range(120)]
    got = []
    for only in (None, 0, 1):
        await forget(connection, pair)
        pair[0].foreign, pair[1].foreign = pair[1].runs, pair[0].runs
        answers: tuple[list[Any], list[Any]] = ([], [])
        for who, name in names:
            if only in (None, who):
                answers[who].append((name, await pair[who].answer(CALLS[name])))
        got.append((answers, [await left(connection, one) for one in pair]))
        pair[0].foreign, pair[1].foreign = [], []
    (both, rows), (one, one_rows), (two, two_rows) = got

    assert both == (one[0], two[1])
    assert rows == [one_rows[0], two_rows[1]]
    assert len({str(answer) for _, answer in both[0]}) > 5


async def test_keys_of_a_producer_keep_no_other_s_work_from_being_done(
    connection: Connection, become: Become
) -> None:
    mallory = await become("producer", queues=["mail"], handlers=["py:*"])
    billing = await become("producer", queues=["billing"], handlers=["py:*"])
    ask = "SELECT pgcron.enqueue('py:invoice', queue => $1, idempotency_key => 'invoice ' || $2)"
    taken = [await mallory.fetchval(ask, "mail", str(number)) for number in range(20)]

    for number in (*range(20), *range(20)):
        assert await billing.fetchval(ask, "billing", str(number)) not in taken
        assert await connection.fetchval(ask, "default", str(number)) not in taken

    counted = "SELECT queue, count(*) FROM pgcron.run GROUP BY queue"
    assert {tuple(row) for row in await connection.fetch(counted)} == {
        ("mail", 20),
        ("billing", 20),
        ("default", 20),
    }
    for lifetime in ("367 days", "1000 years", "0", "-1 s"):
        given = f"idempotency_key => 'k', key_lifetime => '{lifetime}'"
        said = f"SELECT pgcron.enqueue('py:x', queue => 'mail', {given})"
        assert await verdict(mallory, said) == "PC001"
        runs = json.dumps([{"handler": "py:x", "idempotency_key": "k", "key_lifetime": lifetime}])
        assert await verdict(mallory, "SELECT pgcron.enqueue_many($1)", runs) in ("PC001", "PC013")


async def test_a_row_of_a_producer_has_the_next_id_whatever_was_granted_by_hand(
    connection: Connection, become: Become
) -> None:
    ended = await connection.fetchval("SELECT pgcron.enqueue('py:x')")
    await connection.execute("SELECT pgcron.cancel_run($1)", ended)
    session = await become("producer")
    name = await session.fetchval("SELECT session_user")
    await session.execute("SELECT pgcron.enqueue('py:x')")
    given = f"INSERT INTO pgcron.run (id, handler, due_at) VALUES ({ended}, 'py:x', '2100-01-01')"

    assert await verdict(session, given) == "42501"
    await connection.execute(f"GRANT INSERT ON pgcron.run TO {name}")
    assert await verdict(session, given) == "PC013"
    assert await verdict(session, "INSERT INTO pgcron.run (handler) VALUES ('py:x')") == "00000"
    for column in ("unique_key", "namespace", "created_login"):
        said = f"INSERT INTO pgcron.run (handler, {column}) VALUES ('py:x', 'a')"
        assert await verdict(session, said) in ("PC013", "PC001"), column


async def test_a_producer_has_limits(connection: Connection, become: Become) -> None:
    limits = {"largest_weight": 2, "highest_priority": 4, "largest_args": 100}
    keys = ["bank", "customer-*"]
    session = await become(
        "producer", queues=["*"], handlers=["*"], concurrency_keys=keys, **limits
    )
    for options, code in (
        ("weight => 2", "00000"),
        ("weight => 3", "PC013"),
        ("priority => 4", "00000"),
        ("priority => 3", "PC013"),
        ("concurrency_key => 'bank'", "00000"),
        ("concurrency_key => 'customer-7', weight => 2", "00000"),
        ("concurrency_key => 'bank-api'", "PC013"),
        ("concurrency_key => 'custom'", "PC013"),
        ("args => jsonb_build_object('a', repeat('a', 80))", "00000"),
        ("args => jsonb_build_object('a', repeat('a', 100))", "PC013"),
    ):
        assert await verdict(session, f"SELECT pgcron.enqueue('py:x', {options})") == code, options
        pairs = dict(pair.split(" => ", 1) for pair in options.split(", ", options.count("=>") - 1))
        values = ", ".join(pairs.values())
        row = f"INSERT INTO pgcron.run (handler, {', '.join(pairs)}) VALUES ('py:x', {values})"
        # A heavy run has a key, which the function chooses.
        heavy = "weight" in pairs and "concurrency_key" not in pairs and code == "00000"
        assert await verdict(session, row) == ("PC001" if heavy else code), row
    several = '[{"handler": "py:x"}, {"handler": "py:x", "weight": 9}]'
    assert await verdict(session, "SELECT pgcron.enqueue_many($1)", several) == "PC013"


async def test_a_heavy_run_of_one_producer_waits_behind_nothing_of_another(
    connection: Connection, become: Become
) -> None:
    mallory = await become("producer", queues=["default"], handlers=["py:*"])
    node = await join(connection)
    for options in ("concurrency_key => 'bank-api'", "weight => 8", "priority => 0"):
        asked = f"SELECT pgcron.enqueue('py:work', {options}, timeout => '30 days')"
        assert await verdict(mallory, asked) == "PC013"
    await mallory.execute("SELECT pgcron.enqueue('py:work', priority => 9)")
    first = await connection.fetchval("SELECT pgcron.enqueue('py:work')")

    assert (await claim(connection, node, limit=1))[0]["id"] == first


async def test_a_backlog_has_an_end(
    connection: Connection, become: Become, another: Connect
) -> None:
    session = await become("producer", queues=["*"], handlers=["*"], backlog=3)
    free = await become("producer")
    ask = "SELECT pgcron.enqueue('py:x', idempotency_key => $1)"
    runs = [await session.fetchval(ask, str(number)) for number in range(3)]

    for refused in (
        "SELECT pgcron.enqueue('py:x')",
        "SELECT pgcron.enqueue('py:x', unique_key => 'k')",
        'SELECT pgcron.enqueue_many(\'[{"handler": "py:x"}]\')',
    ):
        assert await verdict(session, refused) == "PC011", refused
    assert await session.fetchval(ask, "0") == runs[0]  # not a new one  # fmt: skip
    assert await session.fetchval(ask, "0") == runs[0]
    assert await verdict(session, "INSERT INTO pgcron.run (handler) VALUES ('py:x')") == "PC013"
    for one in (free, connection):
        assert await verdict(one, "SELECT pgcron.enqueue('py:x')") == "00000"

    await session.execute("SELECT pgcron.cancel_own_run($1)", runs[0])
    two = '[{"handler": "py:x"}, {"handler": "py:x"}]'
    assert await verdict(session, "SELECT pgcron.enqueue_many($1)", two) == "PC011"
    assert await session.fetchval(ask, "next") > runs[2]
    # While others enqueue a lot, it is counted again.
    await connection.execute("SELECT pgcron.enqueue('py:x') FROM generate_series(1, 50)")
    assert await verdict(session, "SELECT pgcron.enqueue('py:x')") == "PC011"
    # Of another session of it, whose transaction is open and has counted, it does not wait.
    await session.execute("SELECT pgcron.cancel_own_run($1)", runs[1])
    name = await session.fetchval("SELECT session_user")
    twin = await another()
    await twin.execute(f"SET SESSION AUTHORIZATION {name}; SET lock_timeout = '1ms'")
    async with session.transaction():
        await session.execute("SELECT pgcron.enqueue('py:x')")
        assert await verdict(twin, "SELECT pgcron.enqueue('py:x')") == "00000"


async def test_steps_of_its_workflows_count_in_a_backlog(
    connection: Connection, become: Become
) -> None:
    session = await become("producer", queues=["*"], handlers=["*"], backlog=3)
    stage = Stage(connection, await join(connection, handlers=["py:x", "workflow:w"]))
    await stage.put("w", *({"name": name, "handler": "py:x"} for name in "abc"))
    await session.execute("SELECT pgcron.enqueue('workflow:w')")
    assert await verdict(session, "SELECT pgcron.enqueue('py:x')") == "00000"

    await stage.turn({})
    assert await verdict(session, "SELECT pgcron.enqueue('py:x')") == "PC011"
    await stage.work()
    assert await verdict(session, "SELECT pgcron.enqueue('py:x')") == "00000"


async def test_who_was_granted_no_part_enqueues_nothing(
    connection: Connection, become: Become
) -> None:
    session, producer = await become(), await become("producer")
    name, maker = [await one.fetchval("SELECT session_user") for one in (session, producer)]
    await connection.execute(f"""
        GRANT USAGE ON SCHEMA pgcron TO {name};
        GRANT EXECUTE ON FUNCTION pgcron.enqueue, pgcron.enqueue_many TO {name};
        GRANT INSERT (handler) ON pgcron.run TO {name}""")
    # A function with the rights of a producer doesn't lend them to who calls it.
    await connection.execute(f"""
        CREATE SCHEMA lent; GRANT USAGE ON SCHEMA lent TO {name};
        CREATE FUNCTION lent.enqueue() RETURNS bigint LANGUAGE sql SECURITY DEFINER
          AS $$ SELECT pgcron.enqueue('shell:x') $$;
        CREATE FUNCTION lent.insert() RETURNS bigint LANGUAGE sql SECURITY DEFINER
          AS $$ INSERT INTO pgcron.run (handler) VALUES ('py:x') RETURNING id $$;
        GRANT CREATE ON SCHEMA lent TO {maker};
        ALTER FUNCTION lent.enqueue OWNER TO {maker}; ALTER FUNCTION lent.insert OWNER TO {maker}
        """)

    for said in (
        "SELECT pgcron.enqueue('py:x')",
        "SELECT pgcron.enqueue('py:x', unique_key => 'k')",
        'SELECT pgcron.enqueue_many(\'[{"handler": "py:x"}]\')',
        "INSERT INTO pgcron.run (handler) VALUES ('py:x')",
        "SELECT lent.enqueue()",
    ):
        assert await verdict(session, said) == "PC013", said
    # By INSERT, which is judged by whose rights it has, the producer lets others enqueue.
    assert await session.fetchval("SELECT lent.insert()")
    await connection.execute("DROP SCHEMA lent CASCADE")


async def test_a_role_is_the_one_that_was_set(connection: Connection, become: Become) -> None:
    mail = await become("producer", queues=["mail"], handlers=["*"])
    name = await mail.fetchval("SELECT session_user")
    login = await become()
    await connection.execute(f"GRANT {name} TO {await login.fetchval('SELECT session_user')}")
    asked = "SELECT pgcron.enqueue('py:x', queue => 'mail', idempotency_key => 'k')"
    made = await mail.fetchval(asked)

    for session in (login, connection):
        await session.execute(f"SET ROLE {name}")
        assert await session.fetchval(asked) == made
        assert await verdict(session, "SELECT pgcron.enqueue('py:x')") == "PC013"
        await session.execute("RESET ROLE")
    assert await connection.fetchval(asked) > made


async def test_a_role_that_was_dropped_and_made_again_is_a_producer_again(
    connection: Connection,
) -> None:
    name = f"again_{await connection.fetchval('SELECT current_database()')}"
    for queue, other in (("mail", "bank"), ("bank", "mail")):
        await connection.execute(f"CREATE ROLE {name}")
        await connection.execute(granting("producer", name, queues=[queue], handlers=["py:*"]))
        await connection.execute(f"SET ROLE {name}")
        for asked, answer in ((queue, "00000"), (other, "PC013")):
            said = f"SELECT pgcron.enqueue('py:x', queue => '{asked}')"
            assert await verdict(connection, said) == answer
        await connection.execute(f"RESET ROLE; DROP OWNED BY {name}; DROP ROLE {name}")


async def test_a_role_with_the_name_that_a_producer_had_has_its_own_keys(
    connection: Connection, become: Become
) -> None:
    session = await become("producer")
    name = await session.fetchval("SELECT session_user")
    asked = "SELECT pgcron.enqueue('py:x', idempotency_key => 'k')"
    made = await session.fetchval(asked)
    await connection.execute(f"ALTER ROLE {name} RENAME TO {name}_2; CREATE ROLE {name}")
    for _ in range(2):
        await connection.execute(granting("producer", name))
    await connection.execute(f"SET ROLE {name}")

    assert await connection.fetchval(asked) > made
    assert await session.fetchval(asked) == made
    await connection.execute(f"RESET ROLE; DROP OWNED BY {name}; DROP ROLE {name}")
    await connection.execute(f"ALTER ROLE {name}_2 RENAME TO {name}")


async def test_a_producer_that_is_renamed_keeps_its_keys(
    connection: Connection, become: Become
) -> None:
    session = await become("producer")
    name = await session.fetchval("SELECT session_user")
    asked = "SELECT pgcron.enqueue('py:x', idempotency_key => 'k')"
    made = await session.fetchval(asked)
    await connection.execute(f"ALTER ROLE {name} RENAME TO {name}_2")
    await connection.execute(granting("producer", f"{name}_2"))

    assert await session.fetchval(asked) == made
    await connection.execute(f"ALTER ROLE {name}_2 RENAME TO {name}")
