"""A DSN with several hosts: frozen ones, standbys, a primary that was replaced unknowingly."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pgcron_ha.errors import DatabaseUnavailable
from tests.product.db import HANDLER, ClientPool, HandlerPool, connect, open_connection
from tests.servers import PASSWORD, USER, ThrowAwayServer
from tests.sessions import USUAL


@pytest.fixture
def black_hole() -> Iterator[str]:
    """Takes connections and never says a word, as the machine of a frozen server does."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.fixture(scope="module")
def primary() -> Iterator[ThrowAwayServer]:
    with ThrowAwayServer(tcp=True) as server:
        yield server


@pytest.fixture
def standby(primary: ThrowAwayServer) -> Iterator[ThrowAwayServer]:
    server = ThrowAwayServer(tcp=True)
    try:
        yield server.follow(primary)
    finally:
        server.close()


def at(*places: ThrowAwayServer | str, more: str = "") -> str:
    """A DSN that names these in this order."""
    named = [one if isinstance(one, str) else f"127.0.0.1:{one.port}" for one in places]
    return f"postgresql://{USER}:{PASSWORD}@{','.join(named)}/postgres{more}"


async def port_of(dsn: str) -> int:
    """Where a connection of ours leads to."""
    connection = await connect(dsn, timeout=5)
    try:
        port: int = await connection.fetchval("SELECT inet_server_port()")
        return port
    finally:
        await connection.close()


async def test_a_frozen_host_before_the_primary_keeps_nobody(
    primary: ThrowAwayServer, black_hole: str
) -> None:
    dsn = at(black_hole, primary)
    assert await port_of(dsn) == primary.port
    pool = ClientPool(dsn)
    async with pool.connection() as connection:
        assert await connection.fetchval("SELECT inet_server_port()") == primary.port
    await pool.close()
    handlers = HandlerPool(lambda: dsn, 1, HANDLER)
    held = await handlers.acquire()
    assert await held.fetchval("SELECT inet_server_port()") == primary.port
    handlers.give_back(held)
    await handlers.close()


async def test_a_primary_is_found_behind_its_standby_and_a_standby_when_it_is_wanted(
    primary: ThrowAwayServer, standby: ThrowAwayServer
) -> None:
    assert await port_of(at(standby, primary)) == primary.port
    for kind in ("standby", "prefer-standby"):
        wanted = at(primary, standby, more=f"?target_session_attrs={kind}")
        connection = await open_connection(wanted)
        await connection.execute(USUAL)
        assert await connection.fetchval("SELECT inet_server_port()") == standby.port
        await connection.close()


async def test_a_primary_that_was_replaced_is_not_gone_back_to(
    primary: ThrowAwayServer, standby: ThrowAwayServer
) -> None:
    both = at(primary, standby)
    assert await port_of(both) == primary.port

    standby.execute("SELECT pg_promote(true, 30)")
    # The old one still takes writes: it does not know.
    assert await port_of(at(primary)) == primary.port
    assert await port_of(both) == standby.port

    standby.stop()
    with pytest.raises(DatabaseUnavailable) as refused:
        await port_of(both)
    assert "a primary of timeline 1, but one of 2 has been seen" in (refused.value.detail or "")
    standby.start()
    assert await port_of(both) == standby.port


async def test_each_host_says_why_it_is_none(black_hole: str) -> None:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connect(at(black_hole, "127.0.0.1:1"), timeout=0.3)

    assert "127.0.0.1:1: ConnectionRefusedError" in (refused.value.detail or "")
    assert f"{black_hole}: TimeoutError" in (refused.value.detail or "")


async def test_no_host_is_what_is_wanted(primary: ThrowAwayServer) -> None:
    standby = "?target_session_attrs=standby"
    with pytest.raises(DatabaseUnavailable) as refused:
        await connect(at(primary, "127.0.0.1:1", more=standby), timeout=5)
    reported = refused.value.detail or ""
    assert f"127.0.0.1:{primary.port}: it answers, but is not standby" in reported
    assert "target_session_attrs" in (refused.value.hint or "")

    with pytest.raises(DatabaseUnavailable) as refused:
        await connect(at(primary, more=standby), timeout=5)
    assert "target attribute requirement" in (refused.value.detail or "")
    assert "target_session_attrs" in (refused.value.hint or "")


async def test_a_kind_of_server_that_is_none_is_told() -> None:
    for dsn in ("postgresql://a@b/c", "postgresql://a@b,c/d"):
        with pytest.raises(DatabaseUnavailable) as refused:
            await connect(f"{dsn}?target_session_attrs=quux")
        assert "got 'quux'" in (refused.value.detail or "")


async def test_ports_that_are_none_are_told() -> None:
    for dsn in ("postgresql://ann@a:x/shop", "postgresql://ann@a:x,b/shop"):
        with pytest.raises(DatabaseUnavailable) as refused:
            await connect(dsn)
        assert "ValueError" in (refused.value.detail or "")
        assert "'x'" in (refused.value.detail or "")
