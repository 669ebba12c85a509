"""Our revisions as a branch of the shop's history: what either side must not do to the other."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config

from pgcron_ha.assets import MIGRATIONS
from pgcron_ha.errors import Conflict, SchemaError
from tests.db.dump_schema import REVIEWED, dump
from tests.house.checkout import ROOT
from tests.product.db import MIGRATION_KEY, as_sql, migrate, schema_steps, uninstall
from tests.shop.test_shop import CONFIG, environment

Owner = psycopg.Connection[Any]
History = Callable[..., Config]


@pytest.fixture
def history(
    empty_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Config]:
    """The shop's config with further options, in this process."""
    monkeypatch.setenv("SHOP_URL", environment(empty_database)["SHOP_URL"])

    def configured(**options: str) -> Config:
        path = tmp_path / "alembic.ini"
        path.write_text(CONFIG.format(migrations=ROOT / "tests/shop/migrations", ours=MIGRATIONS))
        config = Config(str(path), output_buffer=io.StringIO())
        for name, value in options.items():
            config.set_main_option(name, value)
        return config

    return configured


@pytest.fixture
def owner(empty_database: str) -> Iterator[Owner]:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        yield connection


def rows(owner: Owner, query: str) -> list[Any]:
    return owner.execute(query.encode()).fetchall()


@pytest.mark.parametrize(
    "options", [{"version_table_schema": "pgcron"}, {"pgcron_ha_schema": "public"}]
)
def test_two_histories_in_one_table_are_refused_before_anything_is_made(
    history: History, owner: Owner, options: dict[str, str]
) -> None:
    owner.execute("CREATE SCHEMA pgcron")
    place = options.get("version_table_schema", "public")
    command.upgrade(history(**options), "shop@0001")

    for is_printed in (False, True):
        with pytest.raises(SchemaError, match=f"{place}.alembic_version is not the") as refused:
            command.upgrade(history(**options), "heads", sql=is_printed)
        assert "version_table_schema" in str(refused.value.hint)
    with pytest.raises(SchemaError):
        command.downgrade(history(**options), "pgcron_0001:base", sql=True)

    assert rows(owner, f"SELECT version_num FROM {place}.alembic_version") == [("0001",)]
    assert rows(owner, "SELECT to_regclass('run'), to_regclass('pgcron.run')") == [(None, None)]


def test_the_shops_history_waits_for_another_migration_and_no_longer_than_a_minute(
    history: History, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema_steps, "TURN_SECONDS", 1)
    owner.execute(f"SELECT pg_advisory_lock({MIGRATION_KEY})".encode())

    with pytest.raises(SchemaError, match=r"has waited for 1 s") as refused:
        command.upgrade(history(), "pgcron_ha@head")
    assert f"session {owner.info.backend_pid} " in str(refused.value)

    owner.execute(f"SELECT pg_advisory_unlock({MIGRATION_KEY})".encode())
    command.upgrade(history(), "pgcron_ha@head")


def test_a_path_on_which_our_version_table_would_come_first_is_refused(
    history: History, owner: Owner
) -> None:
    # What "$user" is for a role that is called as the schema.
    name = owner.info.dbname
    owner.execute(f"ALTER DATABASE {name} SET search_path = pgcron, public".encode())
    command.upgrade(history(), "shop@0001")

    with pytest.raises(SchemaError, match="alembic_version is not the") as refused:
        command.upgrade(history(), "heads")
    assert "search_path" in str(refused.value.detail)
    assert rows(owner, "SELECT to_regnamespace('pgcron')") == [(None,)]
    assert rows(owner, "SELECT version_num FROM public.alembic_version") == [("0001",)]


def test_a_foreign_version_table_in_our_schema_is_left_alone(
    history: History, owner: Owner
) -> None:
    owner.execute("CREATE SCHEMA pgcron; CREATE TABLE pgcron.alembic_version (version_num text)")
    owner.execute("INSERT INTO pgcron.alembic_version VALUES ('zz_theirs')")

    with pytest.raises(SchemaError, match="is not the version table") as refused:
        command.upgrade(history(), "heads")
    assert "zz_theirs" in str(refused.value.detail)
    assert rows(owner, "TABLE pgcron.alembic_version") == [("zz_theirs",)]

    owner.execute("DROP TABLE pgcron.alembic_version; CREATE TABLE pgcron.alembic_version (x int)")
    with pytest.raises(SchemaError, match="is not the version table"):
        command.upgrade(history(), "heads")


def test_a_step_back_to_nothing_takes_nothing_of_others(history: History, owner: Owner) -> None:
    command.upgrade(history(), "pgcron_ha@head")
    owner.execute("CREATE TABLE pgcron.mine (id int)")
    for is_printed in (False, True):
        with pytest.raises((Conflict, psycopg.Error), match="has objects of others: mine"):
            go_back(history(), owner, is_printed=is_printed)

    owner.execute("DROP TABLE pgcron.mine; CREATE VIEW others AS SELECT id FROM pgcron.run")
    for is_printed in (False, True):
        with pytest.raises(
            (Conflict, psycopg.Error), match=r"to be removed: .*view (public.)?others"
        ):
            go_back(history(), owner, is_printed=is_printed)
    assert rows(owner, "SELECT to_regclass('others')::text") == [("others",)]

    owner.execute("DROP VIEW others")
    go_back(history(), owner, is_printed=True)
    assert rows(owner, "SELECT to_regclass('pgcron.run')") == [(None,)]


def go_back(config: Config, owner: Owner, *, is_printed: bool) -> None:
    if not is_printed:
        return command.downgrade(config, "pgcron_ha@base")
    command.downgrade(config, "pgcron_0001:base", sql=True)
    with owner.transaction():
        owner.execute(config.output_buffer.getvalue().encode())  # type: ignore[union-attr]


def test_what_a_step_back_to_nothing_leaves_is_uninstalled(
    history: History, owner: Owner, empty_database: str
) -> None:
    command.upgrade(history(), "pgcron_ha@head")
    command.downgrade(history(), "pgcron_ha@base")
    assert asyncio.run(uninstall(empty_database)) is True
    assert rows(owner, "SELECT to_regnamespace('pgcron')") == [(None,)]
    assert asyncio.run(uninstall(empty_database)) is False
    assert asyncio.run(uninstall(empty_database, "public")) is True  # which is empty, too
    owner.execute("CREATE TABLE alembic_version (version_num text); CREATE TABLE theirs (id int)")
    assert asyncio.run(uninstall(empty_database, "public")) is False
    assert rows(owner, "SELECT to_regclass('alembic_version')::text") == [("alembic_version",)]


def test_a_schema_in_which_others_have_something_is_not_ours(
    history: History, owner: Owner, empty_database: str
) -> None:
    owner.execute("CREATE TABLE orders (id int)")
    config = history(version_table_schema="shop", pgcron_ha_schema="public")
    owner.execute("CREATE SCHEMA shop")

    with pytest.raises(Conflict, match=r"schema 'public' has objects of others: orders"):
        command.upgrade(config, "pgcron_ha@head")
    with pytest.raises(Conflict, match=r"schema 'public' has objects of others: orders"):
        asyncio.run(migrate(empty_database, "public"))
    with pytest.raises(psycopg.Error, match=r"schema 'public' has objects of others: orders"):
        owner.execute(as_sql("public").encode())
    owner.execute("ROLLBACK; DROP TABLE orders")
    command.upgrade(config, "pgcron_ha@head")
    assert rows(owner, "SELECT to_regclass('public.run')::text") == [("run",)]


def test_what_the_shops_history_made_and_uninstall_removed_can_be_made_again(
    history: History, owner: Owner, empty_database: str
) -> None:
    command.upgrade(history(), "pgcron_ha@head")

    assert asyncio.run(uninstall(empty_database)) is True
    command.upgrade(history(), "pgcron_0001")  # nothing to do, it says
    asyncio.run(migrate(empty_database))
    command.upgrade(history(), "heads")
    assert dump(empty_database) == REVIEWED.read_text()

    asyncio.run(uninstall(empty_database))
    command.downgrade(history(), "pgcron_ha@base")
    command.upgrade(history(), "pgcron_ha@head")
    assert rows(owner, "SELECT to_regclass('pgcron.run')::text") == [("pgcron.run",)]
