"""Ways into a server that checks who comes: password commands, passfiles, TLS."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shlex
import ssl
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import psycopg
import pytest

from pgcron_ha.errors import DatabaseUnavailable
from pgcron_ha.executors.contract.base import Succeeded
from tests.executors.isolated_handlers import app
from tests.executors.running import Record, context
from tests.product.cli import CommandContext
from tests.product.client import child_program
from tests.product.config import parse_secret_reference
from tests.product.db import (
    PAUSE_SECONDS,
    Link,
    connect,
    connect_plainly,
    migrate,
    password_in_use,
    passwords,
    unavailable,
    use_password,
)
from tests.product.executors import ChildPool
from tests.servers import ThrowAwayServer


@pytest.fixture(scope="module")
def guarded() -> Iterator[ThrowAwayServer]:
    """A server that asks for passwords at its port."""
    with ThrowAwayServer(tcp=True) as server:
        yield server


@pytest.fixture
def role(guarded: ThrowAwayServer) -> Iterator[psycopg.Connection]:
    """What changes the password of the role `app`."""
    with psycopg.connect(guarded.dsn(), autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS app")
        connection.execute("CREATE ROLE app LOGIN PASSWORD 'token-1'")
        yield connection


@pytest.fixture
def printed(tmp_path: Path) -> Iterator[Path]:
    """A file whose text is what the password command prints; counts how often it was asked."""
    path = tmp_path / "token"
    path.write_text("token-1\n")
    counted = f"open({str(tmp_path / 'asked')!r}, 'a').write('x')"
    printing = f"print(open({str(path)!r}).read(), end='')"
    use_printed(sys.executable, "-I", "-S", "-c", f"{counted}; {printing}")
    yield path
    use_password(None)


def use_printed(*argv: str) -> None:
    use_password(parse_secret_reference(f"command:{shlex.join(argv)}"))


def dsn_of(server: ThrowAwayServer, more: str = "") -> str:
    return f"postgresql://app@127.0.0.1:{server.port}/postgres{more}"


async def user_of(dsn: str) -> str:
    connection = await connect(dsn)
    try:
        user: str = await connection.fetchval("SELECT current_user")
        return user
    finally:
        await connection.close()


async def test_a_password_that_rotates_is_asked_for_again(
    guarded: ThrowAwayServer, role: psycopg.Connection, printed: Path
) -> None:
    asked = printed.with_name("asked")
    assert [await user_of(dsn_of(guarded)) for _ in range(3)] == ["app"] * 3
    assert asked.read_text() == "x"

    role.execute("ALTER ROLE app PASSWORD 'token-2'")
    printed.write_text("token-2\n")
    assert [await user_of(dsn_of(guarded)) for _ in range(3)] == ["app"] * 3
    assert asked.read_text() == "xx"


async def test_a_command_whose_passwords_are_refused_is_asked_with_pauses(
    guarded: ThrowAwayServer,
    role: psycopg.Connection,
    printed: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = printed.with_name("asked")
    printed.write_text("wrong")
    for _ in range(2):
        reported = await asyncio.gather(
            *(user_of(dsn_of(guarded)) for _ in range(6)), return_exceptions=True
        )
        assert all(isinstance(one, DatabaseUnavailable) for one in reported)
        assert {str(one) for one in reported} == {"the database refuses the login"}
    assert asked.read_text() == "xx"

    printed.write_text("token-1")
    later = monotonic() + PAUSE_SECONDS
    monkeypatch.setattr(passwords, "monotonic", lambda: later)
    users = await asyncio.gather(*(user_of(dsn_of(guarded)) for _ in range(6)))
    assert set(users) == {"app"}
    assert asked.read_text() == "xxx"


async def test_a_command_that_fails_is_asked_with_pauses(
    guarded: ThrowAwayServer, printed: Path
) -> None:
    printed.unlink()
    for _ in range(3):
        with pytest.raises(DatabaseUnavailable, match="can't be read") as refused:
            await user_of(dsn_of(guarded))
        assert "ended with 1" in (refused.value.detail or "")
    assert printed.with_name("asked").read_text() == "x"


async def test_a_command_that_takes_longer_than_a_connection_may_is_run_once(
    guarded: ThrowAwayServer, role: psycopg.Connection, tmp_path: Path
) -> None:
    asked, gate = tmp_path / "asked", tmp_path / "gate"
    os.mkfifo(gate)
    program = f"print('x', file=open({str(asked)!r}, 'a')); print(open({str(gate)!r}).read())"
    use_printed(sys.executable, "-I", "-S", "-c", program)
    link = Link(dsn_of(guarded), answer_seconds=0.05)
    try:
        with pytest.raises(DatabaseUnavailable):
            await link.execute("SELECT 1")
        with pytest.raises(DatabaseUnavailable):
            await link.execute("SELECT 1")
        # Opened when the program reads.
        await asyncio.to_thread(gate.write_text, "token-1")
        link = Link(dsn_of(guarded))
        await link.execute("SELECT 1")
        await link.close()
    finally:
        use_password(None)
    assert asked.read_text() == "x\n"


async def test_a_password_of_the_dsn_comes_first(
    guarded: ThrowAwayServer, role: psycopg.Connection, printed: Path
) -> None:
    dsn = dsn_of(guarded).replace("app@", "app:token-1@")
    printed.unlink()

    assert await user_of(dsn) == "app"
    assert not printed.with_name("asked").exists()


async def test_several_hosts_take_the_command_too(
    guarded: ThrowAwayServer, role: psycopg.Connection, printed: Path
) -> None:
    dsn = dsn_of(guarded).replace("@", "@127.0.0.1:1,")

    assert await user_of(dsn) == "app"
    printed.write_text("wrong")
    role.execute("ALTER ROLE app PASSWORD 'token-2'")
    with pytest.raises(DatabaseUnavailable, match="refuses the login") as refused:
        await user_of(dsn)
    assert "user and password" in (refused.value.hint or "")


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; sys.exit('no role')", "ended with 1: no role"),
        ("pass", "is empty"),
        ("print('a\\nb')", "no printable text"),
        ("print('x' * 70_000)", "more than 65536 bytes"),
    ],
)
async def test_a_command_that_gives_none_says_so_and_not_what_it_printed(
    program: str, why: str, guarded: ThrowAwayServer
) -> None:
    use_printed(sys.executable, "-I", "-S", "-c", program)
    try:
        with pytest.raises(DatabaseUnavailable) as refused:
            await connect(dsn_of(guarded))
    finally:
        use_password(None)
    assert why in f"{refused.value.message} {refused.value.detail}"
    assert "xxx" not in f"{refused.value.message} {refused.value.detail}"


async def test_a_command_that_is_not_there(guarded: ThrowAwayServer) -> None:
    use_printed("/nowhere/tokens")
    try:
        with pytest.raises(DatabaseUnavailable, match="can't be read"):
            await connect(dsn_of(guarded))
    finally:
        use_password(None)


@pytest.mark.parametrize("kind", ["command", "env"])
async def test_a_handler_in_a_process_of_its_own_has_the_password(
    guarded: ThrowAwayServer,
    role: psycopg.Connection,
    printed: Path,
    kind: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind == "env":
        monkeypatch.setenv("PGCRON_HA_DATABASE_PASSWORD", printed.read_text().strip())
        use_password(parse_secret_reference("env:PGCRON_HA_DATABASE_PASSWORD"))
    await migrate(guarded.dsn())
    role.execute("ALTER ROLE app SUPERUSER")
    record, run = Record(), context(1, "py:enqueues")
    program = child_program(["tests.executors.isolated_handlers:app"], dsn_of(guarded), "pgcron")
    pool = ChildPool(app.handlers, program, record.services(1))
    try:
        pool.start([run])
        outcome = await asyncio.to_thread(record.outcome, run)
    finally:
        await pool.close(5)

    assert isinstance(outcome, Succeeded), outcome


def test_the_setting_is_a_reference(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGCRON_HA_PASSWORD_FROM", "command:tokens --for 'the app'")
    try:
        reference = CommandContext().load().password_from
        changing = password_in_use()
        assert changing is not None
        assert changing.reference == reference
        assert str(reference) == "command:tokens"  # the rest may hold a secret
    finally:
        use_password(None)


async def test_a_passfile_is_read_for_each_connection(
    guarded: ThrowAwayServer,
    role: psycopg.Connection,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passfile = tmp_path / "pgpass"
    monkeypatch.setenv("PGPASSFILE", str(passfile))
    for token in ("token-1", "token-2"):
        role.execute(f"ALTER ROLE app PASSWORD '{token}'".encode())
        passfile.write_text(f"127.0.0.1:{guarded.port}:*:app:{token}\n")
        passfile.chmod(stat.S_IRUSR | stat.S_IWUSR)
        assert await user_of(dsn_of(guarded)) == "app"


def test_a_certificate_that_does_not_fit_is_no_misspelt_dsn() -> None:
    reported = unavailable(ssl.SSLCertVerificationError(1, "certificate verify failed"))

    assert "sslrootcert" in (reported.hint or "")


async def test_tls_where_the_server_has_none_is_told(guarded: ThrowAwayServer) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connect(dsn_of(guarded, "?sslmode=require"))
    assert "Check sslmode" in (refused.value.hint or "")


async def test_a_unix_socket_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connect(f"postgresql://app@/postgres?host={tmp_path}")
    assert "folder of the unix socket" in (refused.value.hint or "")


async def test_what_the_setting_says_of_a_pooler_is_believed(
    database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PGCRON_HA_DSN", database)
    kept = []
    for word in ("transaction", "session", "auto"):
        monkeypatch.setenv("PGCRON_HA_POOLER", word)
        CommandContext().load()
        connection, is_pooled = await connect_plainly(database, timeout=5)
        for _ in range(2):
            found = await connection.fetchval("SELECT count(*) FROM pg_prepared_statements")
        await connection.close()
        kept.append((is_pooled, found))

    # The last one takes what is known.
    assert kept == [(True, 0), (False, 1), (False, 1)]


def test_a_password_is_read_in_a_forked_child_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORKED_SECRET", "open sesame")
    use_password(parse_secret_reference("env:FORKED_SECRET"))
    try:
        reader = password_in_use()
        assert reader is not None

        def read() -> None:
            assert asyncio.run(reader()) == "open sesame"

        read()
        child = multiprocessing.get_context("fork").Process(target=read)
        child.start()
        child.join(30)
        assert child.exitcode == 0
    finally:
        use_password(None)
