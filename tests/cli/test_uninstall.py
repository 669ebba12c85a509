"""``migrate --uninstall`` takes out what ``migrate`` made, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from tests.cli.conftest import Cli
from tests.product.db import known_names

Owner = psycopg.Connection[Any]
# Each catalog that names things of a database; statistics and the like follow them.
CATALOGS = {
    "class": "oid::regclass::text FROM pg_class",
    "function": "oid::regprocedure::text FROM pg_proc",
    "type": "oid::regtype::text FROM pg_type",
    "schema": "nspname || coalesce(nspacl::text, '') FROM pg_namespace",
    "constraint": "conname FROM pg_constraint",
    "trigger": "tgname FROM pg_trigger",
    "role": "rolname FROM pg_roles",
    "comment": "description FROM pg_description",
    "default": "adrelid::regclass::text FROM pg_attrdef",
    "extension": "extname FROM pg_extension",
    "default privileges": "defaclacl::text FROM pg_default_acl",
    "event trigger": "evtname FROM pg_event_trigger",
    "setting": "setconfig::text FROM pg_db_role_setting",
    "dependencies": "count(*)::text FROM pg_depend",
}


@pytest.fixture
def owner(empty_database: str) -> Iterator[Owner]:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        yield connection


@pytest.fixture
def bare(cli: Cli, empty_database: str) -> Cli:
    """The command line on a database without anything of ours."""
    return lambda *words, **options: cli(*words, dsn=empty_database, **options)


def catalogs(owner: Owner) -> list[Any]:
    each = (f"SELECT '{kind}', {names}" for kind, names in CATALOGS.items())
    return owner.execute(f"{' UNION ALL '.join(each)} ORDER BY 1, 2".encode()).fetchall()


@pytest.mark.parametrize("schema", ["pgcron", "jobs"])
def test_what_migrate_made_is_gone_to_the_last_entry(bare: Cli, owner: Owner, schema: str) -> None:
    owner.execute("CREATE SCHEMA shop; CREATE TABLE shop.article (id int PRIMARY KEY)")
    before = catalogs(owner)
    assert bare("--schema", schema, "migrate").code == 0
    assert bare("--schema", schema, "schedules", "put", "s", "@daily", "py:x").code == 0
    assert bare("--schema", schema, "enqueue", "py:x").code == 0

    refused = bare("--schema", schema, "migrate", "--uninstall")
    assert refused.code == 1
    assert "--yes" in refused.err
    assert bare("--schema", schema, "migrate", "--check").code == 0

    done = bare("--schema", schema, "migrate", "--uninstall", "--yes")
    assert (done.code, done.out) == (0, f"schema '{schema}' is removed\n")
    assert catalogs(owner) == before

    again = bare("--schema", schema, "migrate", "--uninstall", "--yes")
    assert (again.code, again.out) == (0, f"schema '{schema}' is not in this database\n")
    assert bare("--schema", schema, "migrate").code == 0


def test_what_the_printed_sql_made_goes_too_and_a_schema_of_somebody_else_stays(
    bare: Cli, owner: Owner
) -> None:
    before = catalogs(owner)
    owner.execute(bare("migrate", "--sql").out.encode())
    assert bare("migrate", "--uninstall", "--yes").code == 0
    assert catalogs(owner) == before

    owner.execute("CREATE SCHEMA pgcron")
    before = catalogs(owner)
    assert bare("migrate").code == 0
    assert bare("migrate", "--uninstall", "--yes").code == 0
    assert catalogs(owner) == before


def test_it_is_refused_while_nodes_are_alive(bare: Cli, owner: Owner) -> None:
    bare("migrate")
    owner.execute(
        "INSERT INTO pgcron.node (incarnation, name, host, process_id, version, lease_until, "
        "lease_ttl, slots, queues) VALUES (gen_random_uuid(), 'n1', 'h', 1, '1', "
        "now() + interval '1 hour', interval '15 s', 1, '{default}')"
    )
    refused = bare("migrate", "--uninstall", "--yes")

    assert refused.code == 1
    assert "nodes are alive: n1" in refused.err
    assert "--force, and stop them then" in refused.err
    assert bare("migrate", "--check").code == 0
    assert bare("migrate", "--uninstall", "--yes", "--force").code == 0


def test_what_others_have_built_on_it_is_named_and_goes_by_force_only(
    bare: Cli, owner: Owner
) -> None:
    bare("migrate")
    owner.execute("""
        CREATE VIEW mine AS SELECT id, state FROM pgcron.runs;
        CREATE TABLE article (id int, run bigint REFERENCES pgcron.run, kind pgcron.run);
        CREATE FUNCTION count_runs() RETURNS bigint RETURN (SELECT count(*) FROM pgcron.run);
    """)
    refused = bare("migrate", "--uninstall", "--yes")

    assert refused.code == 1
    for name in ("view public.mine", "table public.article", "function public.count_runs"):
        assert name in refused.err
    assert bare("migrate", "--check").code == 0
    assert bare("migrate", "--uninstall", "--yes", "--force").code == 0
    assert owner.execute("SELECT to_regclass('article'), to_regclass('mine')").fetchone() == (
        "article",
        None,
    )


def test_a_schema_with_more_than_ours_is_left_alone(bare: Cli, owner: Owner) -> None:
    bare("migrate")
    owner.execute("CREATE TABLE pgcron.orders (id int); CREATE TYPE pgcron.mood AS ENUM ('fine')")

    refused = bare("migrate", "--uninstall", "--yes", "--force")
    assert refused.code == 1
    assert "mood, orders" in refused.err
    assert bare("migrate", "--check").code == 0


def test_the_names_that_migrations_make_are_those_in_the_database(bare: Cli, owner: Owner) -> None:
    bare("migrate")
    rows = owner.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = 'pgcron'::regnamespace "
        "AND relkind IN ('r', 'p', 'v') AND NOT relispartition "
        "UNION SELECT proname FROM pg_proc WHERE pronamespace = 'pgcron'::regnamespace"
    ).fetchall()

    assert {row[0] for row in rows} - known_names() == set()


def test_flags_that_make_no_sense_together_are_a_wrong_usage(bare: Cli) -> None:
    for words in (("--uninstall", "--sql"), ("--uninstall", "--check"), ("--yes",), ("--force",)):
        assert bare("migrate", *words).code == 2


@pytest.mark.parametrize("contents", ["x int", "version_num text DEFAULT '1a2b3c_shop'"])
def test_a_version_table_of_somebody_else_is_an_error_in_our_words(
    bare: Cli, owner: Owner, contents: str
) -> None:
    owner.execute("CREATE SCHEMA pgcron")
    owner.execute(f"CREATE TABLE pgcron.alembic_version ({contents})".encode())
    owner.execute("INSERT INTO pgcron.alembic_version DEFAULT VALUES")

    for words in ((), ("--check",), ("--uninstall", "--yes", "--force")):
        refused = bare("migrate", *words)
        assert refused.code == 1
        assert "pgcron.alembic_version is not the version table of pgcron_ha" in refused.err
    assert owner.execute("SELECT count(*) FROM pgcron.alembic_version").fetchone() == (1,)
