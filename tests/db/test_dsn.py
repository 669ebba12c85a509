"""What a DSN asks for in the words of libpq: services, and parameters that the driver lacks."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from pgcron_ha.db.clients import ClientPools
from pgcron_ha.db.connecting import connect
from pgcron_ha.db.dsn import plain_dsn
from pgcron_ha.db.pooling import is_pooled
from pgcron_ha.errors import DatabaseUnavailable
from tests.servers import PASSWORD, USER, ThrowAwayServer


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
    pools = ClientPools()
    async with pools.connection(dsn) as connection:
        assert await connection.fetchval("SELECT current_database()") == "shop"
    await pools.close()
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
        told = await refusal(dsn)
        assert told.message == 'definition of service "nosuch" not found'
        assert str(services) in (told.detail or "")
        assert "PGSERVICEFILE" in (told.hint or "")
    with pytest.raises(DatabaseUnavailable, match="nosuch"):
        await is_pooled("postgresql:///?service=nosuch", timeout=5)
    monkeypatch.setenv("PGSERVICE", "neither")
    assert "neither" in (await refusal("postgresql:///shop")).message
    services.unlink()
    assert "No such file" in ((await refusal("postgresql://?service=shop")).detail or "")


async def test_a_service_of_the_system_and_of_the_environment(
    guarded: ThrowAwayServer, services: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "pg_service.conf").write_text(section(guarded))
    monkeypatch.setenv("PGSYSCONFDIR", str(tmp_path))
    monkeypatch.setenv("PGSERVICE", "shop")

    assert await database_of("postgresql:///") == "shop"


async def test_a_line_of_a_service_that_says_nothing(
    guarded: ThrowAwayServer, services: Path
) -> None:
    services.write_text(section(guarded, more="sslmode\n"))

    told = await refusal("postgresql://?service=shop")
    assert "Line 10 of" in (told.detail or "")


@pytest.mark.parametrize(
    ("dsn", "plain"),
    [
        ("postgresql://ann:p%40@db1:5432,db2/shop", "postgresql://ann:p%40@db1:5432,db2/shop"),
        ("postgresql://ann@db1/?port=5433", "postgresql://ann@db1:5433?port=5433"),
        ("postgresql://[::1],db2/x?port=5,6", "postgresql://[::1]:5,db2:6/x?port=5%2C6"),
        ("postgresql:///shop?host=/run/pg", "postgresql:///shop?host=%2Frun%2Fpg"),
        ("mysql://a/b", "mysql://a/b"),
    ],
)
def test_a_dsn_as_the_driver_takes_it(dsn: str, plain: str) -> None:
    assert plain_dsn(dsn).text == plain


HARMLESS = (
    "channel_binding=prefer&gssencmode=disable&keepalives=1&keepalives_idle=30"
    "&keepalives_interval=5&keepalives_count=3&load_balance_hosts=random&replication=false"
    "&fallback_application_name=shop&tcp_user_timeout=9000&sslcompression=0&connect_timeout=9"
)


async def test_what_asks_nothing_of_the_driver_does_no_harm(guarded: ThrowAwayServer) -> None:
    dsn = f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{guarded.port}/shop?{HARMLESS}"
    own = dsn.replace(f"127.0.0.1:{guarded.port}", "")

    assert await database_of(dsn) == "shop"
    assert await database_of(f"{own}&hostaddr=127.0.0.1&port={guarded.port}") == "shop"
    pools = ClientPools()
    async with pools.connection(dsn) as connection:
        assert await connection.fetchval("SHOW statement_timeout") == "30s"
    await pools.close()


async def test_connect_timeout_bounds_a_silent_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        dsn = f"postgresql://a@127.0.0.1:{silent.getsockname()[1]}/b?connect_timeout=1"
        began = monotonic()
        assert "TimeoutError" in ((await refusal(dsn)).detail or "")
    assert monotonic() - began < 4


@pytest.mark.parametrize(
    "asked",
    ["channel_binding=require", "gssencmode=require", "requirepeer=root", "require_auth=md5"],
)
async def test_safety_that_the_driver_lacks_is_refused_by_name(
    guarded: ThrowAwayServer, services: Path, asked: str
) -> None:
    services.write_text(section(guarded, more=f"{asked}\n"))
    name = asked.partition("=")[0]

    for dsn in (f"postgresql:///x?host=/nowhere&{asked}", "postgresql://?service=shop"):
        told = await refusal(dsn)
        assert told.message == f"the DSN asks for {name}, which can't be kept"
        assert f"Take {name} out" in (told.hint or "")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ("connect_timeout=soon", "connect_timeout=soon is no number"),
        ("hostaddr=127.0.0.1", "a host and a hostaddr"),
        ("sslrootcert=system&sslmode=require", "sslmode=require does not go"),
    ],
)
async def test_what_can_not_be_meant_is_told(asked: str, words: str) -> None:
    assert words in (await refusal(f"postgresql://a@127.0.0.1:1/b?{asked}")).message


async def test_a_parameter_that_nobody_knows_is_no_wrong_port(guarded: ThrowAwayServer) -> None:
    told = await refusal(
        f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{guarded.port}/shop?conect_timeout=3"
    )

    assert "conect_timeout" in (told.detail or "")
    assert "A parameter of the DSN" in (told.hint or "")


def test_the_authorities_of_the_system_check_the_name_of_the_host() -> None:
    context = plain_dsn(
        "postgresql://a@b/c?sslrootcert=system&ssl_min_protocol_version=TLSv1.3"
    ).options["ssl"]

    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
