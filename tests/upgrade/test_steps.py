"""One step of the schema forth and back: by command, as printed, under a connection."""

from __future__ import annotations

import psycopg
import pytest

from pgcron_ha.db.link import Link
from pgcron_ha.db.revision import NEWEST
from pgcron_ha.db.statements import load
from pgcron_ha.db.variants import fitting
from pgcron_ha.errors import SchemaError
from tests.db.control import Connection
from tests.db.dump_schema import dump
from tests.upgrade.conftest import Pgcron
from tests.upgrade.later import REVISION

IS_AT = "schema 'pgcron' is at revision {}"


@pytest.mark.long
def test_the_last_step_is_shown_taken_back_and_brought_again(database: str, pgcron: Pgcron) -> None:
    before = dump(database)
    pending = pgcron("migrate", "--check", code=1)
    assert pending.stderr.startswith(f"error: {IS_AT.format(NEWEST)}\n")
    forth = pgcron("migrate", "--sql").stdout
    assert forth.startswith(f"-- from {NEWEST} to {REVISION}\n")

    assert pgcron("migrate").stdout == IS_AT.format(REVISION) + "\n"
    after = dump(database)
    assert "beats bigint" in after
    back = pgcron("migrate", "--back", "--sql").stdout
    assert "CREATE SCHEMA" not in forth + back

    assert pgcron("migrate", "--back", "--yes").stdout == IS_AT.format(NEWEST) + "\n"
    assert dump(database) == before

    for script, expected in ((forth, after), (back, before)):
        with psycopg.connect(database, autocommit=True) as session:
            session.execute(script.encode())
        assert dump(database) == expected


def test_a_step_back_is_refused_where_an_applications_history_would_not_see_it(
    database: str, pgcron: Pgcron
) -> None:
    pgcron("migrate")
    with psycopg.connect(database, autocommit=True) as session:
        session.execute("CREATE TABLE public.alembic_version (version_num varchar(32))")
        session.execute("INSERT INTO public.alembic_version VALUES (%s)", [REVISION])
        refused = pgcron("migrate", "--back", "--yes", code=1)
        assert f"alembic downgrade pgcron_ha@{NEWEST}" in refused.stderr

        session.execute("UPDATE public.alembic_version SET version_num = %s", [NEWEST])
        pgcron("migrate", "--back", "--yes")


@pytest.mark.usefixtures("later_statements")
async def test_a_link_follows_a_schema_that_is_migrated_under_it(
    database: str, pgcron: Pgcron
) -> None:
    link = Link(database, revision=NEWEST)
    with pytest.raises(SchemaError, match=f"at revision {NEWEST}") as refused:
        await link.value("count_beats")
    assert "pgcron-ha migrate" in str(refused.value.hint)

    pgcron("migrate")
    assert len(await link.rows("count_beats")) == 1
    assert link.revision == REVISION

    pgcron("migrate", "--back", "--yes")
    with pytest.raises(SchemaError, match=f"at revision {NEWEST}"):
        await link.value("count_beats")
    assert (link.revision, link.opened) == (NEWEST, 1)
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
