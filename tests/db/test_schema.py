from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest
from alembic.script import ScriptDirectory

from pgcron_ha.assets import MIGRATIONS
from pgcron_ha.errors import DatabaseUnavailable, SchemaError
from tests.db.control import Connection, call
from tests.db.dump_schema import COMMAND, REVIEWED, dump
from tests.house.checkout import ROOT
from tests.product.db import (
    MIGRATION_KEY,
    NEWEST,
    REQUIRED,
    as_sql,
    check,
    connect,
    load,
    migrate,
    read_revision,
    require_revision,
    schema_locks,
    schema_steps,
    uninstall,
)
from tests.servers import PASSWORD, USER, ThrowAwayServer
from tests.waiting import COMMAND_SECONDS, until

ROLE = "owner_of_one_database"
VERSION_REVIEWED = 18


@pytest.fixture
async def role(server: ThrowAwayServer) -> str:
    """A role that may log in and nothing more."""
    connection = await asyncpg.connect(server.dsn())
    await connection.execute(f"DROP ROLE IF EXISTS {ROLE}; CREATE ROLE {ROLE} LOGIN")
    await connection.close()
    return ROLE


def as_role(dsn: str, role: str) -> str:
    return dsn.replace(f"{USER}:{PASSWORD}", role)


@pytest.fixture
def reviewed(server: ThrowAwayServer, database: str) -> str:
    """The schema as it was reviewed; on an older server, which prints views otherwise, as it was
    migrated.
    """
    is_newest = server.binaries.major == VERSION_REVIEWED
    return REVIEWED.read_text() if is_newest else dump(database)


def test_the_reviewed_schema_is_what_the_migrations_make(database: str) -> None:
    assert dump(database) == REVIEWED.read_text(), f"review and run: {COMMAND}"


async def test_migrating_again_changes_nothing(database: str) -> None:
    before = dump(database)

    await migrate(database)

    assert dump(database) == before


def test_three_migrations_at_once_make_one_schema(empty_database: str, reviewed: str) -> None:
    program = "import asyncio, sys; from pgcron_ha.db.schema.migrate import migrate as m; " + (
        "asyncio.run(m(sys.argv[1]))"
    )
    command = [sys.executable, "-c", program, empty_database]
    processes = [subprocess.Popen(command, cwd=ROOT) for _ in range(3)]

    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert dump(empty_database) == reviewed
    assert asyncio.run(check(empty_database)) == NEWEST


def test_the_printed_sql_makes_the_same_schema(
    server: ThrowAwayServer, empty_database: str, reviewed: str, tmp_path: Path
) -> None:
    script = tmp_path / "migrate.sql"
    script.write_text(as_sql())

    answer = subprocess.run(
        [
            server.binaries.tool("psql"),
            *("-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", script, "-d", empty_database),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=server.binaries.environment(),
        timeout=COMMAND_SECONDS,
    )

    assert (answer.returncode, answer.stderr) == (0, "")
    assert dump(empty_database) == reviewed
    assert asyncio.run(check(empty_database)) == NEWEST


async def test_what_is_uninstalled_is_made_again(empty_database: str, reviewed: str) -> None:
    await migrate(empty_database)
    await uninstall(empty_database)
    await migrate(empty_database)

    assert dump(empty_database) == reviewed


async def test_a_migration_gives_way_to_a_lock_and_comes_again(empty_database: str) -> None:
    waits = "SELECT pid FROM pg_locks WHERE NOT granted AND relation = $1::regclass"
    tries: set[int] = set()

    async def has_come_again() -> bool:
        tries.update(row["pid"] for row in await other.fetch(waits, table))
        return len(tries) > 1

    table = "pgcron.alembic_version"
    holder, other = [await asyncpg.connect(empty_database) for _ in range(2)]
    await holder.execute("CREATE SCHEMA pgcron")
    await holder.execute(f"CREATE TABLE {table} (version_num varchar(32) PRIMARY KEY)")
    async with holder.transaction():
        await holder.execute(f"LOCK TABLE {table} IN SHARE MODE")
        migrating = asyncio.create_task(migrate(empty_database))
        await until("a second try waits", has_come_again)
    await migrating

    assert await check(empty_database) == NEWEST
    await other.close()
    await holder.close()


async def test_a_migration_that_is_cancelled_while_it_waits_holds_up_no_other(
    empty_database: str,
) -> None:
    waits = (
        "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database"
        " WHERE d.datname = current_database() AND l.locktype = 'advisory' AND NOT l.granted"
    )
    holder = await asyncpg.connect(empty_database)
    await holder.execute(f"SELECT pg_advisory_lock({MIGRATION_KEY})")
    first = asyncio.create_task(migrate(empty_database))
    await until("the first waits for the lock", lambda: holder.fetchval(waits))
    second = asyncio.create_task(migrate(empty_database))
    assert await holder.fetchval(waits) == 1  # meanwhile the second waits in this process
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    await holder.close(timeout=5)
    await first

    await asyncio.wait_for(migrate(empty_database), COMMAND_SECONDS)


async def test_a_removal_that_gets_no_lock_says_so_and_removes_nothing(
    database: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_locks, "LOCK_TRIES", 1)
    backup = await asyncpg.connect(database)
    async with backup.transaction():
        await backup.execute("LOCK TABLE pgcron.history IN ACCESS SHARE MODE")
        with pytest.raises(SchemaError, match="the removal got no lock") as refused:
            await asyncio.wait_for(uninstall(database), COMMAND_SECONDS)
    await backup.close()

    assert "nothing was changed" in str(refused.value.detail)
    assert await check(database) == NEWEST
    assert await uninstall(database)


async def test_two_schemas_live_in_one_database(database: str, reviewed: str) -> None:
    await migrate(database, "jobs_two")

    renamed = dump(database, "jobs_two").replace("jobs_two", "pgcron")
    # What is sorted or quoted by the schema's name apart, every command is the same.
    assert sorted(renamed.split("\n\n")) == sorted(reviewed.split("\n\n"))


def test_the_revision_a_node_knows_is_the_newest_and_needs_no_later_one() -> None:
    scripts = ScriptDirectory(str(MIGRATIONS))
    assert scripts.get_current_head() == NEWEST
    assert REQUIRED in {script.revision for script in scripts.walk_revisions()}


async def test_a_role_that_owns_the_database_migrates_without_being_superuser(
    server: ThrowAwayServer, empty_database: str, reviewed: str, role: str
) -> None:
    owner = await asyncpg.connect(empty_database)
    name = await owner.fetchval("SELECT current_database()")
    await owner.execute(f"ALTER DATABASE {name} OWNER TO {role}")
    await owner.close()
    dsn = as_role(empty_database, role)

    await migrate(dsn)

    assert dump(empty_database) == reviewed
    connection = await connect(dsn)
    assert await connection.fetchval("SELECT pgcron.enqueue('py:work')") == 1
    assert len(await connection.fetch(load()["note_timeline"].sql)) == 1
    await connection.execute(
        "INSERT INTO pgcron.schedule (name, spec, handler) VALUES ('job', '* * * * *', 'py:work')"
    )
    await connection.close()


async def test_a_role_without_rights_is_told_what_it_needs(empty_database: str, role: str) -> None:
    with pytest.raises(SchemaError) as refused:
        await migrate(as_role(empty_database, role))

    assert "may not migrate" in refused.value.message
    assert refused.value.hint is not None
    assert "migrate --sql" in refused.value.hint


async def test_a_role_without_rights_on_the_schema_is_told_so(
    connection: Connection, database: str, role: str
) -> None:
    await connection.execute(f"GRANT USAGE ON SCHEMA pgcron TO {role}")
    limited = await connect(as_role(database, role))
    with pytest.raises(SchemaError, match="may not use the schema"):
        await require_revision(limited)
    await limited.close()


async def test_a_missing_schema_and_an_old_one_are_told_apart(
    connection: Connection, empty_database: str
) -> None:
    empty = await connect(empty_database)
    assert await read_revision(empty) is None
    with pytest.raises(SchemaError, match="is not in this database"):
        await require_revision(empty)
    await empty.close()

    await require_revision(connection)
    await connection.execute("UPDATE pgcron.alembic_version SET version_num = 'pgcron_0000'")
    with pytest.raises(SchemaError, match="is at revision pgcron_0000"):
        await require_revision(connection)


async def test_a_revision_this_program_does_not_carry_is_refused(
    database: str, connection: Connection
) -> None:
    await connection.execute("UPDATE pgcron.alembic_version SET version_num = 'pgcron_0000'")

    with pytest.raises(SchemaError, match="can't be migrated"):
        await migrate(database)


async def test_a_database_that_is_not_there_is_one_clear_error(server: ThrowAwayServer) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        await migrate(server.dsn("nowhere"))

    assert refused.value.hint == "Create the database, or name another one in the DSN."


@pytest.mark.long
@pytest.mark.parametrize(
    ("zone", "datestyle"),
    [("Europe/Berlin", "German"), ("America/New_York", "ISO"), ("Australia/Lord_Howe", "SQL, DMY")],
)
async def test_partitions_are_made_from_any_zone_over_every_change_of_the_clock(
    connection: Connection, zone: str, datestyle: str
) -> None:
    await connection.execute(f"SET timezone = '{zone}'; SET datestyle = '{datestyle}'")
    await connection.execute(
        "UPDATE pgcron.retention SET ahead = '1 year' WHERE relation IN ('occurrence', 'history')"
    )

    made = 0
    while some := await connection.fetchval("SELECT pgcron.ensure_partitions()"):
        made += some

    assert made > 365
    starts = await connection.fetch("""
        SELECT (regexp_match(pg_get_expr(relpartbound, c.oid), 'FROM \\(''([^'']+)'))[1]
          FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
         WHERE inhparent IN ('pgcron.history'::regclass, 'pgcron.occurrence'::regclass)
    """)
    assert len(starts) > 365
    await connection.execute("SET timezone = 'UTC'; SET datestyle = 'ISO'")
    uneven = await connection.fetch("""
        SELECT relname FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid
         WHERE inhparent = 'pgcron.history'::regclass AND relname <> 'history_before'
           AND pg_get_expr(relpartbound, c.oid) NOT LIKE '% 00:00:00+00'') TO % 00:00:00+00'')'
    """)
    assert uneven == []


async def test_partitions_made_by_many_at_once_are_made_once(
    connection: Connection, database: str
) -> None:
    await connection.execute("UPDATE pgcron.retention SET ahead = '20 days' WHERE period = 'day'")
    nodes = await asyncio.gather(*(connect(database) for _ in range(4)))

    made = await asyncio.gather(
        *(node.fetchval("SELECT pgcron.ensure_partitions()") for node in nodes)
    )

    assert sorted(made)[:3] == [0, 0, 0]
    assert max(made) == 39
    for node in nodes:
        await node.close()


async def test_only_partitions_past_their_retention_are_outlived(connection: Connection) -> None:
    assert await call(connection, "outlived_partitions") == []
    await connection.execute("DROP TABLE pgcron.history_before")
    await connection.execute("SELECT pgcron.add_partition('history', '2020-01-02Z', '2020-01-03Z')")

    outlived = await call(connection, "outlived_partitions")

    assert [tuple(row) for row in outlived] == [("history", "history_20200102")]
    await connection.execute("UPDATE pgcron.retention SET keep = '100 years'")
    assert await call(connection, "outlived_partitions") == []


async def test_a_migration_says_for_whom_it_waits_and_ends(
    empty_database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(schema_steps, "TURN_SECONDS", 1)
    holder = await asyncpg.connect(
        empty_database, server_settings={"application_name": "somebody else"}
    )
    await holder.execute(f"SELECT pg_advisory_lock({MIGRATION_KEY})")

    with pytest.raises(SchemaError, match=r"somebody else.*has waited for 1 s"):
        await migrate(empty_database)
    assert f"session {holder.get_server_pid()} " in caplog.text

    await holder.close(timeout=5)
    await migrate(empty_database)
