"""What the product reads in a DSN, and what the driver makes of the rest."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from pgcron_ha.errors import DatabaseUnavailable
from tests.product.db import ClientPool, connect, driver_dsn, each_host, unprotected_hosts
from tests.servers import PASSWORD, USER, ThrowAwayServer
from tests.waiting import slowness


@pytest.fixture(scope="module")
def guarded() -> Iterator[ThrowAwayServer]:
    """A server that asks for passwords at its port, with a database `shop`."""
    with ThrowAwayServer(tcp=True) as server:
        server.execute("CREATE DATABASE shop")
        yield server


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The file of PGSERVICEFILE, which is empty."""
    path = tmp_path / "services"
    path.touch()
    monkeypatch.setenv("PGSERVICEFILE", str(path))
    return path


def section(server: ThrowAwayServer, more: str = "") -> str:
    return (
        f"# ours\n[other]\nhost=nowhere\n[shop]\nhost=127.0.0.1\nport = {server.port}\n"
        f"user={USER}\npassword={PASSWORD}\ndbname=shop\n{more}[last]\nhost=nowhere\n"
    )


async def database_of(dsn: str) -> str:
    connection = await connect(dsn, timeout=5)
    try:
        name: str = await connection.fetchval("SELECT current_database()")
        return name
    finally:
        await connection.close()


async def refusal(dsn: str) -> DatabaseUnavailable:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connect(dsn, timeout=5)
    return refused.value


@pytest.mark.parametrize("dsn", ["postgresql:///?service=shop", "postgresql://?service=shop"])
async def test_a_service_names_server_and_database(
    guarded: ThrowAwayServer, services: Path, dsn: str
) -> None:
    services.write_text(section(guarded))

    assert await database_of(dsn) == "shop"
    pool = ClientPool(dsn)
    async with pool.connection() as connection:
        assert await connection.fetchval("SELECT current_database()") == "shop"
    await pool.close()
    assert await database_of(dsn.replace("?", "?dbname=postgres&")) == "postgres"
    assert await database_of("postgresql:///postgres?service=shop") == "postgres"


async def test_several_hosts_of_a_service_are_all_tried(
    guarded: ThrowAwayServer, services: Path
) -> None:
    text = section(guarded).replace("port = ", "port=1,")
    services.write_text(text.replace("host=127.0.0.1", "host=127.0.0.1,127.0.0.1"))

    assert await database_of("postgresql://?service=shop") == "shop"


async def test_a_service_that_is_not_there_is_refused_whatever_else_is_set(
    guarded: ThrowAwayServer, services: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.write_text(section(guarded))
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    for dsn in ("postgresql:///?service=nosuch", "postgresql://a@b/c?service=nosuch"):
        reported = await refusal(dsn)
        assert reported.message == f"the service 'nosuch' can't be read from {services}"
        assert "PGSERVICEFILE" in (reported.hint or "")
    monkeypatch.setenv("PGSERVICE", "neither")
    assert "'neither'" in (await refusal("postgresql:///shop")).message
    services.unlink()
    assert str(services) in (await refusal("postgresql://?service=shop")).message


async def test_the_environment_names_a_service(
    guarded: ThrowAwayServer, services: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services.write_text(section(guarded))
    monkeypatch.setenv("PGSERVICE", "shop")

    assert await database_of("postgresql:///") == "shop"


@pytest.mark.parametrize("line", ["sslmode", "password=p%secret"])
async def test_a_line_of_a_service_that_says_nothing(
    guarded: ThrowAwayServer, services: Path, line: str
) -> None:
    services.write_text(section(guarded).replace(f"password={PASSWORD}", line))

    reported = await refusal("postgresql://?service=shop")
    assert "lines name=value; a % is written as %%" in (reported.detail or "")
    assert "secret" not in f"{reported.message}{reported.detail}{reported.hint}"


@pytest.mark.parametrize(
    ("dsn", "sent"),
    [
        ("postgresql://ann:p%40@db1:5432,db2/shop", "postgresql://ann:p%40@db1:5432,db2/shop"),
        ("postgresql:///?service=shop", "postgresql://?service=shop"),
        ("postgresql://a@b/?keepalives=1&sslmode=require", "postgresql://a@b?sslmode=require"),
        ("postgresql://a@b/c?connect_timeout=9&keepalives_idle=30", "postgresql://a@b/c"),
        ("mysql://a/b", "mysql://a/b"),
    ],
)
def test_a_dsn_as_the_driver_takes_it(dsn: str, sent: str) -> None:
    assert driver_dsn(dsn) == sent


@pytest.mark.parametrize(
    ("dsn", "hosts"),
    [
        ("postgresql://ann:s@db1:5432,127.0.0.1,[2001:db8::1]:5433/shop", ["db1", "2001:db8::1"]),
        ("postgresql://ann@10.1.2.3/shop?application_name=x", ["10.1.2.3"]),
        ("postgresql:///shop?host=db1,/run/postgresql", ["db1"]),
        ("postgresql://%2Frun%2Fpostgresql/shop", []),
        ("postgresql://ann@localhost:5432,[::1]:5433/shop", []),
        ("postgresql://ann@db1/shop?sslmode=verify-full", []),
        ("postgresql://ann@db1/shop?sslmode=disable", []),
        ("postgresql://?service=shop", []),
        ("postgresql:///shop", []),
    ],
)
def test_the_hosts_that_may_be_reached_unencrypted(
    dsn: str, hosts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert unprotected_hosts(dsn) == hosts
    monkeypatch.setenv("PGHOST", "db9")
    assert unprotected_hosts("postgresql:///shop") == ["db9"]
    monkeypatch.setenv("PGSSLMODE", "require")
    assert unprotected_hosts("postgresql://db1/shop") == []


@pytest.mark.parametrize(
    ("dsn", "hosts"),
    [
        ("postgresql://ann:s@db1:5432,db2/shop", ["db1:5432", "db2"]),
        ("postgresql://[::1]:5433,db2:5?a=b", ["[::1]:5433", "db2:5"]),
        ("postgresql://ann@/shop?host=/run/pg", [""]),
        ("postgresql:///shop", [""]),
    ],
)
def test_the_hosts_of_a_dsn(dsn: str, hosts: list[str]) -> None:
    every = ",".join(hosts)

    assert each_host(dsn) == {host: dsn.replace(every, host) if every else dsn for host in hosts}


async def test_what_asks_nothing_of_the_driver_does_no_harm(guarded: ThrowAwayServer) -> None:
    asked = "connect_timeout=9&keepalives=1&keepalives_idle=30&keepalives_interval=5"
    more = "keepalives_count=3&application_name=shop&options=-c%20lock_timeout%3D7s"
    dsn = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{guarded.port}/shop?{asked}&{more}"

    assert await database_of(dsn) == "shop"
    pool = ClientPool(dsn)
    async with pool.connection() as connection:
        assert await connection.fetchval("SHOW statement_timeout") == "30s"
    await pool.close()


async def test_connect_timeout_bounds_a_silent_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://a@127.0.0.1:{silent.getsockname()[1]}/b?connect_timeout=1"
        began = monotonic()
        assert "TimeoutError" in ((await refusal(dsn)).detail or "")
    assert monotonic() - began < 4 * slowness()


@pytest.mark.parametrize("asked", ["conect_timeout=3", "channel_binding=require"])
async def test_a_parameter_that_nobody_knows_is_no_wrong_port(
    guarded: ThrowAwayServer, asked: str
) -> None:
    reported = await refusal(
        f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{guarded.port}/shop?{asked}"
    )

    assert asked.partition("=")[0] in (reported.detail or "")
    assert "A parameter of the DSN" in (reported.hint or "")


async def test_what_can_not_be_meant_is_told() -> None:
    reported = await refusal("postgresql://a@127.0.0.1:1/b?connect_timeout=soon")

    assert "'soon'" in (reported.detail or "")
    assert "Write it as postgresql://" in (reported.hint or "")
