"""Our revisions as a branch of the shop's history: what either side must not do to the other."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from alembic.config import Config

from pgcron_ha.assets import MIGRATIONS
from pgcron_ha.errors import SchemaError
from tests.house.checkout import ROOT
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
    "options",
    [
        {"version_table_schema": "pgcron"},
        {"pgcron_ha_schema": "public"},
    ],
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
