"""Ways into a server that speaks TLS and asks for client certificates. Run by the matrix, since the
embedded server speaks none.

The folder `certificates` has (until 2126, by ``openssl req`` and ``openssl x509``) two authorities.
Of the first are the server's for the name localhost, one that has expired, and a client's for the
role `app`; of the other is one for the same role. Each ``.pem`` is a key with its certificate.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pgcron_ha.errors import DatabaseUnavailable
from tests.product.db import NEWEST, ClientPool, Link, check, connect, migrate
from tests.servers import ThrowAwayServer
from tests.waiting import until

CERTIFICATES: Final = Path(__file__).with_name("certificates")
HBA: Final = "local all all trust\nhostssl all app 127.0.0.1/32 cert\n"
CHECK_HINT: Final = "Check sslmode, sslrootcert, sslcert and sslkey"
# asyncio leaves the socket of a handshake that was refused to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(scope="module")
def guarded() -> Iterator[ThrowAwayServer]:
    """A server that lets the role `app` in with its certificate, and nobody else."""
    server = ThrowAwayServer(tcp=True)
    present(server, "server")
    server.settings |= {
        "ssl": "on",
        "ssl_cert_file": str(server.folder / "shown.pem"),
        "ssl_key_file": str(server.folder / "shown.pem"),
        "ssl_ca_file": str(CERTIFICATES / "authority.crt"),
    }
    with server:
        (server.pgdata / "pg_hba.conf").write_text(HBA)
        server.execute("CREATE ROLE app LOGIN SUPERUSER")
        server.execute("SELECT pg_reload_conf()")
        yield server


def present(server: ThrowAwayServer, name: str) -> None:
    """What the server shows from its next reload on."""
    shown = server.folder / "shown.pem"
    shutil.copy(CERTIFICATES / f"{name}.pem", shown)
    shown.chmod(0o600)
    owner = server.folder.stat()
    os.chown(shown, owner.st_uid, owner.st_gid)


@pytest.fixture
def key(tmp_path: Path) -> Path:
    """The client's, which others may not read."""
    path = tmp_path / "client.pem"
    shutil.copy(CERTIFICATES / "client.pem", path)
    path.chmod(0o600)
    return path


def dsn_of(
    server: ThrowAwayServer,
    key: Path | None,
    *,
    host: str = "localhost",
    authority: str = "authority.crt",
    mode: str = "verify-full",
) -> str:
    own = "" if key is None else f"&sslcert={key}&sslkey={key}"
    root = f"&sslrootcert={CERTIFICATES / authority}"
    return f"postgresql://app@{host}:{server.port}/postgres?sslmode={mode}{root}{own}"


async def refusal(dsn: str) -> DatabaseUnavailable:
    with pytest.raises(DatabaseUnavailable) as refused:
        await connect(dsn, timeout=5)
    print(refused.value.message, refused.value.detail, refused.value.hint, sep="\n")
    return refused.value


async def subject_of(dsn: str) -> str:
    """Who the server takes us for, by our certificate."""
    connection = await connect(dsn)
    try:
        subject: str = await connection.fetchval(
            "SELECT client_dn FROM pg_stat_ssl WHERE ssl AND pid = pg_backend_pid()"
        )
        return subject
    finally:
        await connection.close()


async def test_a_certificate_opens_the_door_everywhere(guarded: ThrowAwayServer, key: Path) -> None:
    dsn = dsn_of(guarded, key)
    assert await subject_of(dsn) == "/CN=app"
    assert await subject_of(dsn.replace("@localhost", "@localhost:1,localhost")) == "/CN=app"

    await migrate(dsn)
    assert await check(dsn) == NEWEST
    link, pool = Link(dsn), ClientPool(dsn)
    assert await link.rows("expired_runs", at_most=5) == []
    async with pool.connection() as connection:
        assert await connection.fetchval("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    await link.close()
    await pool.close()


async def test_a_server_of_another_name_is_none(guarded: ThrowAwayServer, key: Path) -> None:
    reported = await refusal(dsn_of(guarded, key, host="127.0.0.1"))

    assert "IP address mismatch" in (reported.detail or "")
    assert "whom the server's certificate names" in (reported.hint or "")
    assert await subject_of(dsn_of(guarded, key, host="127.0.0.1", mode="verify-ca")) == "/CN=app"


async def test_a_server_of_another_authority_is_none(guarded: ThrowAwayServer, key: Path) -> None:
    reported = await refusal(dsn_of(guarded, key, authority="stranger.crt"))

    assert "CERTIFICATE_VERIFY_FAILED" in (reported.detail or "")
    assert CHECK_HINT in (reported.hint or "")


async def test_an_expired_certificate_is_none(guarded: ThrowAwayServer, key: Path) -> None:
    dsn = dsn_of(guarded, key)

    async def answer() -> tuple[str, str]:
        try:
            return await subject_of(dsn), ""
        except DatabaseUnavailable as error:
            return error.detail or "", error.hint or ""

    async def is_refused() -> bool:
        said, hint = await answer()
        return "certificate has expired" in said and "renewed" in hint

    async def is_let_in() -> bool:
        return await answer() == ("/CN=app", "")

    for name, shows in (("expired", is_refused), ("server", is_let_in)):
        present(guarded, name)
        guarded.execute("SELECT pg_reload_conf()")
        await until(f"it shows the certificate {name!r}", shows)


async def test_no_certificate_of_ours_is_told_as_such(guarded: ThrowAwayServer) -> None:
    reported = await refusal(dsn_of(guarded, None))

    assert "client certificate" in (reported.detail or "")
    assert "sslcert and sslkey" in (reported.hint or "")


async def test_a_certificate_that_the_server_does_not_know_is_told_as_such(
    guarded: ThrowAwayServer, tmp_path: Path
) -> None:
    unknown = tmp_path / "unknown.pem"
    shutil.copy(CERTIFICATES / "unknown.pem", unknown)
    unknown.chmod(0o600)

    reported = await refusal(dsn_of(guarded, unknown))

    assert "may not accept sslcert" in (reported.hint or "")


async def test_files_that_are_not_there_are_told_as_such(
    guarded: ThrowAwayServer, key: Path
) -> None:
    for dsn in (dsn_of(guarded, key, authority="none.crt"), dsn_of(guarded, key.with_name("none"))):
        reported = await refusal(dsn)

        assert "No such file" in (reported.detail or "")
        assert "the files sslrootcert, sslcert and sslkey" in (reported.hint or "")


async def test_plain_text_is_refused_by_the_server(guarded: ThrowAwayServer, key: Path) -> None:
    reported = await refusal(dsn_of(guarded, key, mode="disable"))

    assert "no encryption" in (reported.detail or "")
    assert "sslmode" in (reported.hint or "")


async def test_the_environment_and_service_files_say_it_as_well(
    guarded: ThrowAwayServer, key: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = tmp_path / "services"
    services.write_text(
        f"[shop]\nhost=localhost\nport={guarded.port}\nuser=app\ndbname=postgres\n"
        f"sslmode=verify-full\nsslrootcert={CERTIFICATES / 'authority.crt'}\n"
        f"sslcert={key}\nsslkey={key}\n"
    )
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    assert await subject_of("postgresql://?service=shop") == "/CN=app"
    monkeypatch.delenv("PGSERVICEFILE")

    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(CERTIFICATES / "authority.crt"))
    monkeypatch.setenv("PGSSLCERT", str(key))
    monkeypatch.setenv("PGSSLKEY", str(key))
    plain = f"postgresql://app@localhost:{guarded.port}/postgres"
    assert await subject_of(plain) == "/CN=app"
    reported = await refusal(plain.replace("localhost", "127.0.0.1"))
    assert "IP address mismatch" in (reported.detail or "")
