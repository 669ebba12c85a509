from __future__ import annotations

import re

import pytest

from pgcron_ha.db.connecting import connect
from pgcron_ha.db.schema import migrate
from pgcron_ha.db.statements import Statement, load
from pgcron_ha.errors import ConfigError

_LITERAL = re.compile(r"'(?:[^']|'')*'")


def highest_number(statement: Statement) -> int:
    numbers = re.findall(r"\$(\d+)", _LITERAL.sub("", statement.sql))
    return max(map(int, numbers), default=0)


async def prepare_all(dsn: str, schema: str) -> list[str]:
    """The names of statements that prepare with as many parameters as they name."""
    connection = await connect(dsn)
    try:
        prepared = []
        for statement in load(schema).values():
            found = await connection.prepare(statement.sql)
            if len(found.get_parameters()) == len(statement.parameters):
                prepared.append(statement.name)
        return prepared
    finally:
        await connection.close(timeout=5)


async def test_every_statement_prepares(database: str) -> None:
    assert await prepare_all(database, "pgcron") == list(load())


async def test_every_statement_prepares_in_a_schema_of_another_name(database: str) -> None:
    await migrate(database, "jobs_two")

    assert await prepare_all(database, "jobs_two") == list(load("jobs_two"))
    assert [s.name for s in load("jobs_two").values() if "pgcron." in s.sql] == []


@pytest.mark.parametrize("name", load())
def test_the_parameters_named_are_those_used(name: str) -> None:
    statement = load()[name]

    assert len(set(statement.parameters)) == len(statement.parameters)
    assert highest_number(statement) == len(statement.parameters)
    assert not re.search(r"(?<![:\w]):[a-z]", _LITERAL.sub("", statement.sql))


@pytest.mark.parametrize("name", ["", "Jobs", "pg_jobs", "jobs;drop", "a b", "j" * 41, "1st"])
def test_a_schema_that_is_no_plain_name_never_gets_into_sql(name: str) -> None:
    with pytest.raises(ConfigError, match="not a plain name"):
        load(name)
