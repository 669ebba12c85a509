"""The servers that the other tests are made with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest

from tests.embedded.processes import CHECKOUT, rows, shows, write_row
from tests.servers import ThrowAwayServer, remove_leftovers
from tests.waiting import until


@pytest.fixture(scope="module")
def durable() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer(durable=True, tcp=True) as running:
        yield running


def test_a_durable_server_keeps_committed_rows_when_it_is_killed(durable: ThrowAwayServer) -> None:
    assert shows(durable.dsn(), "fsync") == "on"
    write_row(durable.dsn(), "committed")
    killed = durable.pid

    durable.kill9()
    durable.start()

    assert durable.pid != killed
    assert rows(durable.dsn()) == ["committed"]


def test_the_port_stays_and_its_password_is_checked(durable: ThrowAwayServer) -> None:
    before = durable.tcp_dsn()
    durable.stop("immediate")
    durable.start()

    assert durable.tcp_dsn() == before
    assert shows(before, "port") == str(durable.port)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(durable.tcp_dsn(password="wrong"))


def test_a_copy_of_a_sealed_template_has_its_rows(durable: ThrowAwayServer) -> None:
    write_row(durable.create_database("original"), "copied")
    durable.seal_template("original")

    assert rows(durable.create_database("copy", "original")) == ["copied"]
    with pytest.raises(psycopg.OperationalError, match="not currently accepting connections"):
        psycopg.connect(durable.dsn("original"))


def test_the_server_of_a_killed_test_run_is_removed_by_the_next() -> None:
    program = (
        "import os, signal\n"
        "from tests.servers import ThrowAwayServer\n"
        "print(ThrowAwayServer().start().folder, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    killed = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        cwd=CHECKOUT,
        env=dict(os.environ, PYTHONPATH=str(CHECKOUT)),
    )
    folder = Path(killed.stdout.strip())
    assert folder.is_dir()

    remove_leftovers()

    assert not folder.exists()


async def test_waiting_returns_the_answer_of_a_function_or_a_coroutine() -> None:
    answers = iter([0, None, "ready"])

    async def ready() -> bool:
        return True

    assert await until("it is ready", lambda: next(answers)) == "ready"
    assert await until("it is ready", ready) is True


async def test_waiting_in_vain_fails_and_says_for_what() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"not within 0\.1 s: pigs fly.*ValueError"):
        await until("pigs fly", lambda: int("pig"), deadline=0.1, ignoring=(ValueError,))


async def test_each_test_has_a_migrated_database_of_its_own(
    server: ThrowAwayServer, database: str, connection: asyncpg.Connection[asyncpg.Record]
) -> None:
    name = await connection.fetchval("SELECT current_database()")

    assert database == server.dsn(name)
    assert await connection.fetchval("SELECT to_regclass('pgcron.run') IS NOT NULL")
