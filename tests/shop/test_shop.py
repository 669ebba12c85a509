"""A shop with SQLAlchemy and an alembic history of its own puts pgcron_ha into its database."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from pgcron_ha.assets import MIGRATIONS
from tests.db.dump_schema import REVIEWED, dump
from tests.e2e.nodes import Cluster
from tests.house.checkout import ROOT
from tests.product.db import NEWEST
from tests.shop.counter import INTERFACES, POINTS
from tests.waiting import COMMAND_SECONDS, wait_for

Alembic = Callable[..., subprocess.CompletedProcess[str]]
Sql = Callable[[str], list[Any]]

CONFIG = """
[alembic]
script_location = {migrations}
path_separator = newline
version_locations =
    {migrations}/versions
    {ours}/versions
"""
UNANSWERED = """
    SELECT coalesce(o.id, i.order_id) FROM orders o FULL JOIN invoices i ON i.order_id = o.id
    WHERE o.id IS NULL OR i.id IS NULL"""


def environment(dsn: str) -> dict[str, str]:
    words = conninfo_to_dict(dsn)
    url = "postgresql+psycopg://{user}:{password}@/{dbname}?host={host}&port={port}"
    return os.environ | {"SHOP_URL": url.format(**words), "PYTHONPATH": str(ROOT)}


@pytest.fixture
def alembic(empty_database: str, tmp_path: Path) -> Alembic:
    """The shop's alembic on a database with nothing in it."""
    config = tmp_path / "alembic.ini"
    config.write_text(CONFIG.format(migrations=ROOT / "tests/shop/migrations", ours=MIGRATIONS))

    def call(*words: str, option: str = "", code: int = 0) -> subprocess.CompletedProcess[str]:
        if option:
            config.write_text(config.read_text() + option + "\n")
        answer = subprocess.run(
            [sys.executable, "-m", "alembic", "-c", str(config), *words],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env=environment(empty_database),
            timeout=COMMAND_SECONDS,
        )
        assert answer.returncode == code, answer.stdout + answer.stderr
        return answer

    return call


@pytest.fixture
def sql(empty_database: str) -> Iterator[Sql]:
    with psycopg.connect(empty_database, autocommit=True) as connection:

        def call(query: str) -> list[Any]:
            cursor = connection.execute(query.encode())
            return cursor.fetchall() if cursor.description else []

        yield call


def own(*words: str, dsn: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pgcron_ha", *words],
        env=os.environ | {"PGCRON_HA_DSN": dsn},
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        timeout=COMMAND_SECONDS,
    )


@pytest.mark.long
def test_one_upgrade_brings_up_both_and_autogenerate_sees_only_the_shop(
    alembic: Alembic, sql: Sql, empty_database: str
) -> None:
    alembic("upgrade", "0001")
    sql("INSERT INTO orders (customer) VALUES ('before there were invoices')")
    alembic("upgrade", "heads")

    assert dump(empty_database) == REVIEWED.read_text()
    due_index = sql("SELECT version_num FROM public.alembic_version ORDER BY 1")
    assert due_index == [("0002",)]  # which depends on ours
    assert sql("SELECT version_num FROM pgcron.alembic_version") == [(NEWEST,)]
    assert sql("SELECT handler, state::text FROM pgcron.run") == [("py:send_invoice", "ready")]
    assert "No new upgrade operations" in alembic("check").stdout
    assert own("migrate", "--check", dsn=empty_database).returncode == 0
    assert own("migrate", dsn=empty_database).returncode == 0
    assert dump(empty_database) == REVIEWED.read_text()


@pytest.mark.long
def test_what_our_own_command_made_is_not_made_again(
    alembic: Alembic, sql: Sql, empty_database: str
) -> None:
    assert own("migrate", dsn=empty_database).returncode == 0
    sql("SELECT pgcron.enqueue('py:x')")

    alembic("upgrade", "heads")

    assert dump(empty_database) == REVIEWED.read_text()
    assert sql("SELECT count(*) FROM pgcron.run") == [(1,)]


@pytest.mark.long
def test_the_shop_goes_back_and_forth_over_our_revisions(
    alembic: Alembic, sql: Sql, empty_database: str
) -> None:
    alembic("upgrade", "heads")
    alembic("downgrade", "shop@0001")
    alembic("downgrade", "pgcron_ha@base")

    there = "SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'pgcron'::regnamespace"
    assert {name for (name,) in sql(there)} == {"alembic_version", "alembic_version_pkc"}
    assert sql("SELECT * FROM pgcron.alembic_version") == []
    assert own("migrate", "--check", dsn=empty_database).returncode == 1
    assert sql("SELECT count(*) FROM orders") == [(0,)]

    alembic("upgrade", "heads")
    assert dump(empty_database) == REVIEWED.read_text()


@pytest.mark.long
def test_three_upgrades_at_once_make_one_schema(alembic: Alembic, empty_database: str) -> None:
    alembic("upgrade", "0001")
    with ThreadPoolExecutor(2) as threads:
        commands = [threads.submit(own, "migrate", dsn=empty_database) for _ in range(2)]
        alembic("upgrade", "pgcron_ha@head")
        assert [command.result().returncode for command in commands] == [0, 0]

    assert dump(empty_database) == REVIEWED.read_text()


@pytest.mark.long
def test_the_schema_may_have_another_name(alembic: Alembic, sql: Sql, empty_database: str) -> None:
    alembic("upgrade", "pgcron_ha@head", option="pgcron_ha_schema = jobs")

    assert sql("SELECT version_num FROM jobs.alembic_version") == [(NEWEST,)]
    assert sql("SELECT to_regnamespace('pgcron')") == [(None,)]
    assert own("--schema", "jobs", "migrate", "--check", dsn=empty_database).returncode == 0


@pytest.mark.long
def test_the_shops_dba_may_have_it_printed(alembic: Alembic, sql: Sql, empty_database: str) -> None:
    script = alembic("upgrade", "pgcron_ha@head", "--sql").stdout
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute(script.encode())

    assert dump(empty_database) == REVIEWED.read_text()
    assert sql("SELECT version_num FROM pgcron.alembic_version") == [(NEWEST,)]


def test_a_database_that_is_not_supported_is_refused_by_the_shops_alembic(
    alembic: Alembic, sql: Sql
) -> None:
    (name,) = sql("SELECT current_database()")[0]
    sql(f"ALTER DATABASE {name} SET standard_conforming_strings = off")

    refused = alembic("upgrade", "pgcron_ha@head", code=1)

    assert "does not work here: standard_conforming_strings is off" in refused.stderr
    assert sql("SELECT to_regnamespace('pgcron')") == [(None,)]


def test_no_order_without_invoice_and_no_invoice_without_order(
    alembic: Alembic, sql: Sql, empty_database: str, tmp_path: Path
) -> None:
    alembic("upgrade", "heads")
    counters = subprocess.run(
        [sys.executable, "-m", "tests.shop.counter", "4"],
        env=environment(empty_database),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=COMMAND_SECONDS,
    )
    assert counters.stdout.split() == [str(-signal.SIGKILL)]

    # Three of each are complete, and the fourth where the kill came after the commit.
    assert sql("SELECT count(*) FROM orders") == [(len(INTERFACES) * (3 * len(POINTS) + 1),)]
    lonely = """SELECT o.id FROM orders o FULL JOIN pgcron.run r ON r.args ->> 'order' = o.id::text
                WHERE o.id IS NULL OR r.id IS NULL"""
    assert sql(lonely) == []

    with Cluster(empty_database, tmp_path) as cluster:
        first = cluster.start("a", app="tests.shop.handlers:app", slots=2)
        wait_for("some invoices are sent", lambda: cluster.evidence.count("end") > 3)
        first.kill9()
        cluster.start("b", app="tests.shop.handlers:app", slots=2)
        wait_for("each order has its invoice", lambda: not sql(UNANSWERED))
        wait_for("no run is left", lambda: sql("SELECT count(*) FROM pgcron.run") == [(0,)])
    assert sql("SELECT DISTINCT outcome::text FROM pgcron.history") == [("succeeded",)]
    assert sql("SELECT i.id FROM invoices i JOIN orders o ON o.id = i.order_id") != []
