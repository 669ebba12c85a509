"""Every function of the contract, called as every part, about what is one's own and what is not:
which are refused is written in ``may_call.txt``. A function that comes later fails here until it
has its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.db.control import Connection, Node, join
from tests.db.roles import Become, verdict
from tests.db.workflows import Stage
from tests.product.cli import PARTS

TABLE: Final = Path(__file__).parent / "may_call.txt"
# Who works within scopes, as pages do for a person of the team ``own``: with these parts.
PERSON: Final = "person"
OF_PERSON: Final = ("scheduler", "operator")
# What a function is called with, by the names of its arguments; those with a default have that.
# {whose} is ``own`` or ``foreign``: a team, and what it has.
VALUES: Final[Mapping[str, str]] = {
    "actor": "'me'",
    "asset": "'sales'",
    "approved": "true",
    "args": "'{}'",
    "backfill_id": "{backfill}",
    "breaker": "'py:{whose}.x'",
    "calendar": "'{whose}'",
    "changes": "'{\"priority\": 3}'",
    "concurrency_key": "'{whose}'",
    "content": "'sat'",
    "count": "1",
    "definition": '\'{"steps": [{"name": "a", "handler": "py:x"}]}\'',
    "due_at": "date_trunc('hour', now()) + interval '49 hours'",
    "elapsed": "1",
    "expected_version": "1",
    "fire_time": "date_trunc('hour', now()) + interval '2 days'",
    "handler": "'py:{whose}.x'",
    "handlers": "ARRAY['py:{whose}.x']",
    "instant": "now()",
    "keep": "'1 day'",
    "kind": "'queue'",
    "new_name": "'{whose}-t'",
    "node": "'n'",
    "object": "'{whose}'",
    "owner": "'{whose}'",
    "queue": "'{whose}'",
    "relation": "'history'",
    "result": "NULL",
    "role": "'viewer'",
    "confine_producer.role": "session_user",
    "delete_producer.role": "session_user",
    "run_id": "{run}",
    "run_ids": "ARRAY[{run}]",
    "runs": "jsonb_build_array(jsonb_build_object('handler', 'py:{whose}.x', 'queue', '{whose}'))",
    "schedule": "'{whose}'",
    "since": "now() - interval '1 day'",
    "spec": "'@weekly'",
    "step": "'check'",
    "subject": "'ann'",
    "subject_kind": "'user'",
    "team": "'{whose}'",
    "token": "gen_random_uuid()",
    "until": "now()",
    "version": "1",
    "workflow": "'{whose}'",
}
# Without any the call is refused before it does anything; of a workflow, where it is about one.
MORE: Final = {
    "redrive_many": ["handler"],
    "enqueue": ["queue"],
    "start_workflow": ["queue"],
    "put_schedule": ["queue", "owner"],
}
OF_WORKFLOW: Final = frozenset(
    {
        *("approve_step", "clear_step", "skip_step", "succeed_step", "set_step_args"),
        *("pause_workflow", "resume_workflow", "signal"),
    }
)
_FUNCTIONS: Final = """
    SELECT format('%s(%s)', p.proname, string_agg(a.name, ', ' ORDER BY a.place)) AS name,
           CASE p.prokind WHEN 'p' THEN 'CALL' ELSE 'SELECT' END AS verb, p.proname AS function,
           coalesce(array_agg(a.name ORDER BY a.place) FILTER (WHERE a.name IS NOT NULL), '{}')
             AS arguments
    FROM pg_proc p
    LEFT JOIN LATERAL (
      SELECT n.name, n.place FROM unnest(p.proargnames) WITH ORDINALITY n(name, place)
      WHERE n.place <= p.pronargs - p.pronargdefaults) a ON true
    WHERE p.pronamespace = 'pgcron'::regnamespace
      AND obj_description(p.oid, 'pg_proc') NOT LIKE 'Private%'
      AND p.proname NOT IN ('wait', 'wait_long', 'await_runs')  -- they wait
    GROUP BY p.oid ORDER BY 1
"""


class World(NamedTuple):
    """Of a team: the numbers of what has no name."""

    whose: str
    run: int
    flow: int
    backfill: int


async def calls(connection: Connection, world: World) -> dict[str, str]:
    """A call of each function, by its name and the arguments that it needs, about the world."""
    found = {}
    for row in await connection.fetch(_FUNCTIONS):
        function = row["function"]
        of_world = world._asdict()
        if function in OF_WORKFLOW:
            of_world["run"] = world.flow
        needed = [*row["arguments"], *MORE.get(function, ())]
        values = {name: VALUES.get(f"{function}.{name}", VALUES[name]) for name in needed}
        for name, number in of_world.items():
            values = {key: text.replace(f"{{{name}}}", str(number)) for key, text in values.items()}
        given = ", ".join(f"{name} => {text}" for name, text in values.items())
        found[row["name"]] = f"{row['verb']} pgcron.{function}({given})"
    return found


async def add_world(connection: Connection, whose: str, node: Node) -> World:
    """One of each thing that functions are about."""
    await connection.execute(f"""
        SELECT pgcron.set_team('queue', '{whose}', '{whose}');
        SELECT pgcron.put_schedule('{whose}', '@hourly', 'py:{whose}.x', queue => '{whose}',
          owner => '{whose}');
        SELECT pgcron.put_calendar('{whose}', 'sat');
        SELECT pgcron.set_team('calendar', '{whose}', '{whose}');
        SELECT pgcron.set_breaker('py:{whose}.x');
        UPDATE pgcron.schedule SET spec = '@daily' WHERE name = '{whose}'
    """)
    steps = '{"steps": [{"name": "check", "wait_for": "approval"}]}'
    await connection.execute("SELECT pgcron.put_workflow($1, $2)", whose, steps)
    enqueue = "SELECT pgcron.enqueue($1::text, queue => $2)"
    run = await connection.fetchval(enqueue, f"py:{whose}.x", whose)
    backfill = "SELECT pgcron.backfill($1, now() - interval '1 day')"
    number = await connection.fetchval(backfill, whose)
    flow = await Stage(connection, node).start(whose)
    return World(whose, run, flow, number)


@pytest.fixture
async def worlds(connection: Connection) -> dict[str, World]:
    """A database with two teams."""
    joined = await join(connection, name="n")
    node = Node(joined.incarnation, ["workflow:own", "workflow:foreign"], ["default"])
    return {whose: await add_world(connection, whose, node) for whose in ("own", "foreign")}


async def session_of(caller: str, become: Become) -> Connection:
    """Of a part: a producer is one for the team ``own``; or of `PERSON`."""
    if caller == "producer":
        return await become(caller, queues=["own"], handlers=["py:own.*", "workflow:own"])
    session = await become(*OF_PERSON if caller == PERSON else (caller,))
    if caller == PERSON:
        await session.execute("SET pgcron_ha.scopes = '{team:own,handler:py:own.%}'")
    return session


@pytest.mark.parametrize("caller", [*PARTS, PERSON])
async def test_a_part_may_call_what_the_table_says(
    caller: str, connection: Connection, worlds: dict[str, World], become: Become
) -> None:
    session = await session_of(caller, become)
    if caller == "producer":  # what it has made is its own
        made = await session.fetchval("SELECT pgcron.enqueue('py:own.x', queue => 'own')")
        worlds["own"] = worlds["own"]._replace(run=made)
    of_foreign = await calls(connection, worlds["foreign"])
    found = {}
    for name, call in (await calls(connection, worlds["own"])).items():
        own, foreign = [await verdict(session, each) for each in (call, of_foreign[name])]
        assert not {own, foreign} & {"42883", "42601", "22P02"}, f"{call}: {own} {foreign}"
        if own not in ("42501", "PC013"):
            is_foreign_refused = foreign != own and foreign in ("PC010", "PC013")
            found[name] = f"{caller}:own" if is_foreign_refused else caller
    wanted = {
        name: entry
        for name, entries in table().items()
        for entry in entries
        if entry.partition(":")[0] == caller
    }
    assert found == wanted


async def test_the_table_has_every_function(
    connection: Connection, worlds: dict[str, World]
) -> None:
    assert list(table()) == list(await calls(connection, worlds["own"]))


def table() -> dict[str, list[str]]:
    """Who may call each function: a part, or ``part:own`` if about what is its own alone."""
    lines = (line.partition(": ") for line in TABLE.read_text().splitlines())
    return {name.rstrip(":"): who.split() for name, _, who in lines if not name.startswith("#")}
