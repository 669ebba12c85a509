"""Real processes that serve: where they listen, what they refuse, and how they stop."""

from __future__ import annotations

import io
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cli.conftest import Cli
from tests.entering import cookies, entered
from tests.house.checkout import ROOT
from tests.waiting import wait_for

# Its run ends when the test says so.
JOBS = """
import asyncio
import pathlib
from pgcron_ha import App

app = App()


@app.handler()
async def waits():
    while not pathlib.Path("go on").exists():
        await asyncio.sleep(0.02)
"""

Start = Callable[..., tuple["subprocess.Popen[str]", str]]


@pytest.fixture
def start(database: str, tmp_path: Path) -> Iterator[Start]:
    """Starts a command that serves; the process and the address it printed."""
    started: list[subprocess.Popen[str]] = []
    own = {
        "PGCRON_HA_DSN": database,
        "PYTHONPATH": str(ROOT),
        "PGCRON_HA_NODE_STATE_DIRECTORY": str(tmp_path / "state"),
    }

    def call(*arguments: str, says: str = "serving") -> tuple[subprocess.Popen[str], str]:
        output = tmp_path / "output"
        with output.open("w") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "pgcron_ha", *arguments],
                cwd=tmp_path,
                env={**own, **os.environ},
                stdout=file,
                stderr=subprocess.STDOUT,
                text=True,
            )
        started.append(process)

        def address() -> str | None:
            if says == "serving":
                return entered(output.read_text())
            found = re.search(rf"{says} (http://\S+)", output.read_text())
            return found[1] if found else None

        url = wait_for("it serves", address)
        assert url is not None
        return process, url

    yield call
    for process in started:
        process.kill()
        process.wait(10)


@pytest.mark.parametrize(
    "command", [("web", "--listen", "127.0.0.1:0"), ("node", "--web", "127.0.0.1:0")]
)
def test_it_serves_until_it_is_told_to_stop(start: Start, command: tuple[str, ...]) -> None:
    process, url = start(*command)

    wait_for("it is ready", lambda: httpx.get(url + "readyz").text == "ok\n")
    page = httpx.get(url, cookies=cookies(url))
    process.terminate()

    assert page.status_code == 200
    assert process.wait(30) == 0


def test_a_node_shows_itself_on_its_own_pages(start: Start) -> None:
    _, url = start("node", "--name", "mirror", "--web", "127.0.0.1:0")

    assert wait_for("it is alive", lambda: "mirror" in httpx.get(url, cookies=cookies(url)).text)


@pytest.mark.long
def test_a_node_that_drains_is_not_ready_and_stays_alive_until_its_runs_have_ended(
    start: Start, database: str, tmp_path: Path
) -> None:
    (tmp_path / "jobs.py").write_text(JOBS)
    process, url = start("node", "--name", "n1", "--app", "jobs:app", "--web", "127.0.0.1:0")
    wait_for("it is ready", lambda: httpx.get(url + "readyz").status_code == 200)
    with psycopg.connect(database) as connection:
        connection.execute("INSERT INTO pgcron.run (handler) VALUES ('py:waits')")

    def status() -> Any:
        return httpx.get(url + "statusz", cookies=cookies(url)).json()

    wait_for("it runs", lambda: status()["node"]["executing"] == 1)

    process.terminate()

    wait_for("it is not ready", lambda: httpx.get(url + "readyz").status_code == 503)
    live = httpx.get(url + "livez")
    now = status()
    metrics = httpx.get(url + "metrics", cookies=cookies(url)).text
    assert process.poll() is None
    assert (live.status_code, live.text) == (200, "ok\n")
    assert now["role"] == "node"
    assert now["node"]["is_draining"]
    assert "drains" in now["node"]["not_ready_because"]
    assert (now["node"]["executing"], len(now["node"]["held"])) == (1, 1)
    assert now["node"]["lease_seconds"] > 0
    assert "\npgcron_draining 1.0\n" in metrics
    (tmp_path / "go on").touch()
    assert process.wait(30) == 0
    with psycopg.connect(database) as connection:
        outcomes = connection.execute("SELECT outcome, attempt FROM pgcron.history").fetchall()
    assert outcomes == [("succeeded", 1)]


@pytest.mark.parametrize("address", ["0.0.0.0:8420", "[::]:8420", "10.1.2.3:80"])
def test_it_refuses_to_be_reached_from_elsewhere(cli: Cli, address: str) -> None:
    answer = cli("web", "--listen", address)

    assert answer.code == 1
    assert f"the web can't listen on '{address}'" in answer.err
    assert "Without login" in answer.err


def test_a_port_in_use_and_a_misspelt_address_are_said(cli: Cli, start: Start) -> None:
    _, url = start("web", "--listen", "127.0.0.1:0")
    taken = cli("web", "--listen", url.removeprefix("http://").rstrip("/"))
    misspelt = cli("web", "--listen", "8420")

    assert taken.code == misspelt.code == 1
    assert "Address already in use" in taken.err
    assert "an address HOST:PORT" in misspelt.err


def test_no_file_is_taken_for_a_socket(cli: Cli, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("precious")

    refused = cli("web", "--listen", f"unix:{kept}")

    assert refused.code == 1
    assert "Address already in use" in refused.err
    assert kept.read_text() == "precious"


def certificate(folder: Path) -> tuple[Path, Path]:
    """The files of a self-signed certificate for localhost, and of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    encoding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    files[1].write_bytes(key.private_bytes(*encoding, serialization.NoEncryption()))
    return files


def test_with_login_and_tls_the_pages_listen_anywhere(
    start: Start, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = certificate(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    assert cli("users", "add", "alice", "--role", "admin").code == 0
    monkeypatch.setenv("PGCRON_HA_AUTH_LOCAL", "true")
    without = cli("web", "--listen", "0.0.0.0:0")
    monkeypatch.setenv("PGCRON_HA_WEB_TLS_CERTIFICATE", str(files[0]))
    incomplete = cli("web", "--listen", "0.0.0.0:0")
    assert cli("users", "list").code == 0  # it serves no pages
    monkeypatch.setenv("PGCRON_HA_WEB_TLS_KEY", str(files[0]))
    unusable = cli("web", "--listen", "0.0.0.0:0")
    monkeypatch.setenv("PGCRON_HA_WEB_TLS_KEY", str(files[1]))

    _, url = start("web", "--listen", "0.0.0.0:0")
    port = httpx.URL(url).port
    context = ssl.create_default_context(cafile=str(files[0]))
    with httpx.Client(base_url=f"https://localhost:{port}", verify=context) as client:
        fields = {"name": "alice", "password": "correct horse battery"}
        origin = {"origin": f"https://localhost:{port}"}
        entered = client.post("/login", data=fields, headers=origin)
        page = client.get("/")
        foreign = client.get("/", headers={"host": "evil.example"})

    assert "the web can't listen on '0.0.0.0:0'" in without.err
    assert "without TLS" in without.err
    assert "TLS needs web.tls_certificate and web.tls_key" in incomplete.err
    assert "can't be used" in unusable.err
    assert url.startswith("https://0.0.0.0:")
    assert entered.headers["set-cookie"].startswith("__Host-pgcron=")
    assert "; Secure" in entered.headers["set-cookie"]
    assert "Path=/" in entered.headers["set-cookie"]
    assert (page.status_code, foreign.status_code) == (200, 421)
    assert "max-age=" in page.headers["strict-transport-security"]


def test_behind_a_named_proxy_with_tls_browsers_use_its_name(
    start: Start, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("correct horse battery\n"))
    assert cli("users", "add", "alice", "--role", "admin").code == 0
    monkeypatch.setenv("PGCRON_HA_AUTH_LOCAL", "true")
    monkeypatch.setenv("PGCRON_HA_WEB_PUBLIC_URL", "https://jobs.example.com")

    _, url = start("web", "--listen", "0.0.0.0:0")
    fields = {"name": "alice", "password": "correct horse battery"}
    public = {"host": "jobs.example.com"}
    with httpx.Client(base_url=f"http://127.0.0.1:{httpx.URL(url).port}") as client:
        own = {"origin": "https://jobs.example.com"}
        entered = client.post("/login", data=fields, headers=public | own)
        plain = {"origin": "http://jobs.example.com"}
        other = client.post("/login", data=fields, headers=public | plain)

    assert (entered.status_code, other.status_code) == (303, 403)
    assert entered.headers["set-cookie"].startswith("__Host-pgcron=")


def test_a_provider_needs_the_address_to_which_it_sends_browsers_back(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCRON_HA_AUTH_OIDC_ISSUER", "https://id.example.com")

    assert "auth.oidc_issuer needs auth.oidc_client_id" in cli("web", "--listen", "127.0.0.1:0").err
