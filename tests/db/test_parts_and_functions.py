"""Every function of the contract, called as every part: which are refused is written in
``may_call.txt``. A function that comes later fails here until it has its line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.db.control import Connection, Node, join
from tests.db.roles import Become, verdict
from tests.db.workflows import Stage
from tests.product.cli import PARTS

TABLE: Final = Path(__file__).parent / "may_call.txt"
# What a function is called with, by the names of its arguments; those with a default have that.
VALUES: Final[Mapping[str, str]] = {
    "actor": "'me'",
    "asset": "'sales'",
    "approved": "true",
    "args": "'{}'",
    "backfill_id": "1",
    "breaker": "'py:x'",
    "calendar": "'days'",
    "changes": "'{}'",
    "concurrency_key": "'k'",
    "content": "'sat'",
    "count": "1",
    "definition": '\'{"steps": [{"name": "a", "handler": "py:x"}]}\'',
    "due_at": "date_trunc('hour', now()) + interval '49 hours'",
    "elapsed": "1",
    "expected_version": "1",
    "fire_time": "date_trunc('hour', now()) + interval '2 days'",
    "handler": "'py:x'",
    "handlers": "'{py:x}'",
    "instant": "now()",
    "keep": "'1 day'",
    "kind": "'queue'",
    "new_name": "'t'",
    "node": "'n'",
    "object": "'default'",
    "queue": "'default'",
    "relation": "'history'",
    "result": "NULL",
    "role": "'viewer'",
    "confine_producer.role": "session_user",
    "delete_producer.role": "session_user",
    "run_id": "1",
    "run_ids": "'{1}'",
    "runs": '\'[{"handler": "py:x"}]\'',
    "schedule": "'s'",
    "since": "now() - interval '1 day'",
    "spec": "'@daily'",
    "step": "'check'",
    "subject": "'ann'",
    "subject_kind": "'user'",
    "team": "'billing'",
    "token": "gen_random_uuid()",
    "until": "now()",
    "version": "1",
    "workflow": "'w'",
}
# Without any the call is refused before it does anything; of a workflow, where it is about one.
MORE: Final = {"redrive_many": ["handler"]}
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


async def calls(connection: Connection) -> dict[str, str]:
    """A call of each function, by its name and the arguments that it needs."""
    found = {}
    for row in await connection.fetch(_FUNCTIONS):
        function, values = row["function"], dict(VALUES)
        if function in OF_WORKFLOW:
            values["run_id"] = "2"
        needed = [*row["arguments"], *MORE.get(function, ())]
        given = ", ".join(
            f"{name} => {values.get(f'{function}.{name}', values[name])}" for name in needed
        )
        found[row["name"]] = f"{row['verb']} pgcron.{function}({given})"
    return found


@pytest.fixture
async def connection_with_work(connection: Connection) -> Connection:
    """A database with one of each thing that functions are about."""
    node = await join(connection, name="n")
    await connection.execute("""
        SELECT pgcron.enqueue('py:x');
        SELECT pgcron.put_schedule('s', '@hourly', 'py:x');
        SELECT pgcron.put_calendar('days', 'sat');
        SELECT pgcron.set_breaker('py:x');
        SELECT pgcron.backfill('s', now() - interval '1 day');
        SELECT pgcron.put_workflow('w', '{"steps": [{"name": "check", "wait_for": "approval"}]}');
    """)
    await connection.execute("UPDATE pgcron.schedule SET spec = '@daily' WHERE name = 's'")
    stage = Stage(connection, Node(node.incarnation, ["workflow:w"], ["default"]))
    assert await stage.start("w") == 2
    return connection


@pytest.mark.parametrize("part", PARTS)
async def test_a_part_may_call_what_the_table_says(
    part: str, connection_with_work: Connection, become: Become
) -> None:
    session = await become(part)
    found = []
    for name, call in (await calls(connection_with_work)).items():
        code = await verdict(session, call)
        assert code not in ("42883", "42601", "22P02"), f"{call}: {code}"
        if code != "42501":
            found.append(name)
    assert found == [name for name, parts in table().items() if part in parts]


async def test_the_table_has_every_function(connection: Connection) -> None:
    assert list(table()) == list(await calls(connection))


def table() -> dict[str, list[str]]:
    """The parts that may call each function."""
    lines = (line.partition(":") for line in TABLE.read_text().splitlines())
    return {name: parts.split() for name, _, parts in lines if not name.startswith("#")}
