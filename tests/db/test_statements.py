from __future__ import annotations

import re

import pytest

from pgcron_ha.errors import ConfigError, SchemaError
from tests.db.control import Connection
from tests.house.checkout import ROOT
from tests.product.db import (
    NEWEST,
    Statement,
    Statements,
    connect,
    every_variant,
    load,
    migrate,
    varying,
)

_LITERAL = re.compile(r"'(?:[^']|'')*'")


def highest_number(statement: Statement) -> int:
    numbers = re.findall(r"\$(\d+)", _LITERAL.sub("", statement.sql))
    return max(map(int, numbers), default=0)


async def prepare_all(dsn: str, schema: str, revision: str | None = NEWEST) -> list[str]:
    """The names of statements that prepare with as many parameters as they name."""
    connection = await connect(dsn)
    try:
        prepared = []
        for statement in load(schema, revision).values():
            found = await connection.prepare(statement.sql)
            if len(found.get_parameters()) == len(statement.parameters):
                prepared.append(statement.name)
        return prepared
    finally:
        await connection.close(timeout=5)


async def test_every_statement_prepares(database: str) -> None:
    assert await prepare_all(database, "pgcron") == list(load(revision=NEWEST))


def test_no_statement_is_written_twice() -> None:
    written = [(each.name, each.since) for each in every_variant()]
    assert len(set(written)) == len(written)


async def test_variants_of_a_statement_are_called_and_answer_alike(connection: Connection) -> None:
    newest = load(revision=NEWEST)
    for older in every_variant():
        one = newest[older.name]
        assert set(older.parameters) <= set(one.parameters), older.name
        if older != one:
            columns = [
                (await connection.prepare(each.sql)).get_attributes() for each in (older, one)
            ]
            named = [[(each.name, each.type.name) for each in found] for found in columns]
            assert named[0] == named[1], older.name


async def test_every_statement_prepares_in_a_schema_of_another_name(database: str) -> None:
    await migrate(database, "jobs_two")

    assert await prepare_all(database, "jobs_two") == list(load("jobs_two", NEWEST))
    assert [s.name for s in every_variant("jobs_two") if "pgcron." in s.sql] == []


@pytest.mark.parametrize("statement", every_variant(), ids=lambda each: f"{each.name}-{each.since}")
def test_the_parameters_named_are_those_used(statement: Statement) -> None:
    assert len(set(statement.parameters)) == len(statement.parameters)
    assert highest_number(statement) == len(statement.parameters)
    assert not re.search(r"(?<![:\w]):[a-z]", _LITERAL.sub("", statement.sql))


@pytest.mark.parametrize("name", ["", "Jobs", "pg_jobs", "jobs;drop", "a b", "j" * 41, "1st"])
def test_a_schema_that_is_no_plain_name_never_gets_into_sql(name: str) -> None:
    with pytest.raises(ConfigError, match="not a plain name"):
        load(name)


def test_of_variants_the_newest_is_sent_that_the_schema_takes() -> None:
    old = Statement("one", "SELECT 1", ())
    new = Statement("one", "SELECT 2", (), "pgcron_0002")
    late = Statement("late", "SELECT 3", (), "pgcron_0003")
    for order in ((old, new, late), (late, new, old)):
        found = {
            revision: Statements(order, revision)
            for revision in (None, "pgcron_0001", "pgcron_0002")
        }
        assert found[None] == {"one": old, "late": late}
        assert found["pgcron_0001"] == {"one": old}
        assert found["pgcron_0002"] == {"one": new}
        with pytest.raises(SchemaError, match="at revision pgcron_0002") as refused:
            found["pgcron_0002"]["late"]
        assert refused.value.detail == "What was asked for needs pgcron_0003."
        with pytest.raises(KeyError):
            found["pgcron_0002"]["unheard of"]


def test_nobody_takes_a_statement_by_name_that_depends_on_the_revision() -> None:
    """But where the revision is known: a `Link`, or `fitting`."""
    sources = {path.name: path.read_text() for path in (ROOT / "pgcron_ha").rglob("*.py")}
    taken = {
        (name, file)
        for name in varying()
        for file, text in sources.items()
        if re.search(rf"\bload\(\w+\)\[\"{name}\"\]|\bstatements\[\"{name}\"\]", text)
    }

    assert taken == set()
