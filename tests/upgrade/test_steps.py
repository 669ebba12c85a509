"""One step of the schema: by command, as printed, under a connection."""

from __future__ import annotations

import psycopg
import pytest

from pgcron_ha.errors import SchemaError
from tests.db.control import Connection
from tests.db.dump_schema import dump
from tests.product.db import NEWEST, Link, fitting, load
from tests.upgrade.conftest import Pgcron
from tests.upgrade.later import REVISION

IS_AT = "schema 'pgcron' is at revision {}"


@pytest.mark.long
def test_the_next_step_is_shown_and_brought(database: str, pgcron: Pgcron) -> None:
    pending = pgcron("migrate", "--check", code=1)
    assert pending.stderr.startswith(f"error: the {IS_AT.format(NEWEST)}\n")
    printed = pgcron("migrate", "--sql").stdout
    assert printed.startswith(f"-- from {NEWEST} to {REVISION}\n")
    assert "CREATE TABLE" not in printed

    with psycopg.connect(database, autocommit=True) as session:
        session.execute(printed.encode())
        by_hand = dump(database)
        assert "beats bigint" in by_hand
        session.execute("ALTER TABLE pgcron.node DROP beats")
        session.execute("UPDATE pgcron.alembic_version SET version_num = %s", [NEWEST])
    assert pgcron("migrate").stdout == IS_AT.format(REVISION) + "\n"
    assert dump(database) == by_hand


@pytest.mark.usefixtures("later_statements")
async def test_a_link_sends_what_the_revision_takes_that_it_has_heard_of(
    database: str, pgcron: Pgcron
) -> None:
    link = Link(database, revision=NEWEST)
    with pytest.raises(SchemaError, match=f"at revision {NEWEST}") as refused:
        await link.value("count_beats")
    assert "pgcron-ha migrate" in str(refused.value.hint)

    pgcron("migrate")
    link.use_revision(REVISION)
    assert len(await link.rows("count_beats")) == 1
    await link.close()


@pytest.mark.usefixtures("later_statements")
async def test_who_does_not_know_the_revision_gets_what_the_database_takes(
    database: str, pgcron: Pgcron, connection: Connection
) -> None:
    for revision in (NEWEST, REVISION):
        for statement in load(revision=revision).values():
            await connection.prepare(statement.sql)
        async with await psycopg.AsyncConnection.connect(database) as session:
            found = await fitting(session, "beat", "pgcron")
            assert found.since == (None if revision == NEWEST else REVISION)
            assert await fitting("nobody asks it", "enqueue", "pgcron") == load()["enqueue"]
        if revision == NEWEST:
            pgcron("migrate")
