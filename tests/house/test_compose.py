from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from ruamel.yaml import YAML

from pgcron_ha.embedded import find_binaries
from tests.house.checkout import ROOT
from tests.product.config import SETTINGS, address
from tests.product.web import require_loopback
from tests.servers import ThrowAwayServer
from tests.waiting import COMMAND_SECONDS

COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / ".docker" / "Dockerfile"


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    return subprocess.run(
        [*command, str(path)], capture_output=True, text=True, timeout=COMMAND_SECONDS
    )


def test_the_compose_file_follows_the_specification() -> None:
    run = validate(COMPOSE)

    assert run.returncode == 0, run.stdout + run.stderr


def test_the_validation_sees_a_misspelt_key(tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(COMPOSE.read_text().replace("healthcheck:", "healthchek:"))

    assert validate(broken).returncode != 0


def test_no_password_has_a_default() -> None:
    passwords = re.findall(r"PASSWORD: *(.+)|://[^:/]+:(\$\{[^}]+\})@", COMPOSE.read_text())

    assert len(passwords) == 4
    given = re.compile(r"\$\{(PGCRON_HA|POSTGRES)_PASSWORD:\?")
    assert [p for pair in passwords for p in pair if p and not given.match(p)] == []


def test_nothing_but_the_database_server_knows_the_superuser() -> None:
    knowing = {name for name, service in services().items() if "POSTGRES_PASSWORD" in str(service)}
    users = re.findall(r"postgresql://([^:/]+):", COMPOSE.read_text())

    assert knowing == {"postgres"}
    assert set(users) == {"pgcron_ha"}


def test_the_servers_first_start_makes_an_owner_that_is_no_superuser(
    server: ThrowAwayServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNER_PASSWORD", "it's $one")
    (file,) = [v for v in services()["postgres"]["volumes"] if "/docker-entrypoint-initdb.d/" in v]
    script = ROOT / file.partition(":")[0]
    psql = [str(find_binaries().tool("psql")), "--set=ON_ERROR_STOP=1", f"--file={script}"]
    try:
        run = subprocess.run([*psql, server.dsn()], capture_output=True, timeout=COMMAND_SECONDS)
        assert run.returncode == 0, run.stderr

        with psycopg.connect(server.dsn("pgcron_ha"), autocommit=True) as connection:
            found = connection.execute(
                "SELECT rolsuper, rolcreaterole, rolcreatedb, rolcanlogin, rolbypassrls,"
                " datdba = r.oid FROM pg_roles r, pg_database WHERE rolname = 'pgcron_ha'"
                " AND datname = current_database()"
            ).fetchone()
        assert found == (False, False, False, True, False, True)
    finally:
        server.drop_database("pgcron_ha")
        server.execute("DROP ROLE IF EXISTS pgcron_ha")


def test_every_way_to_the_database_asks_for_a_password() -> None:
    assert services()["postgres"]["environment"]["POSTGRES_INITDB_ARGS"] == "--auth=scram-sha-256"


def test_the_variables_set_for_nodes_are_settings() -> None:
    known = {setting.variable for setting in SETTINGS}
    text = COMPOSE.read_text() + DOCKERFILE.read_text()

    assert set(re.findall(r"^[ A-Z]*(PGCRON_HA_\w+)[:=]", text, re.MULTILINE)) - known == set()


def test_the_image_runs_as_a_user_without_rights() -> None:
    users = re.findall(r"^USER (\S+)", DOCKERFILE.read_text(), re.MULTILINE)

    assert users
    assert users[-1] not in ("root", "0")


def services() -> dict[str, dict[str, Any]]:
    """The services by name, with what anchors merge into them."""
    found: dict[str, dict[str, Any]] = YAML(typ="safe").load(COMPOSE.read_text())["services"]
    return found


PROBED = sorted(name for name, service in services().items() if "8422" in str(service))


def test_the_nodes_and_the_pages_are_probed() -> None:
    assert PROBED == ["node-1", "node-2", "web"]


@pytest.mark.parametrize("name", PROBED)
def test_pages_are_reached_from_their_own_machine_only(name: str) -> None:
    service = services()[name]
    program, *given = service["command"]
    listens = dict(zip(given[::2], given[1::2], strict=True))

    assert ("--listen" in listens) == (program == "web")
    assert "--web" not in listens
    for option in set(listens) - ({"--ops"} if program == "node" else set()):
        require_loopback(address(listens[option]))
    assert not {"PGCRON_HA_WEB_LISTEN", "PGCRON_HA_OPS_LISTEN"} & set(service["environment"])
    assert "ports" not in service


def test_the_pages_are_on_the_loopback_of_the_host_and_no_node_is_on_its_network() -> None:
    hosts = [name for name, service in services().items() if service.get("network_mode")]

    assert hosts == ["web"]
    assert services()["web"]["network_mode"] == "host"


def test_no_port_of_the_database_is_published() -> None:
    assert [name for name, service in services().items() if "ports" in service] == []
    dsn = services()["web"]["environment"]["PGCRON_HA_DSN"]
    (shared,) = [v for v in services()["postgres"]["volumes"] if v.startswith("socket:")]
    assert dsn.endswith("?host=" + shared.partition(":")[2])


@pytest.mark.parametrize(("status", "is_healthy"), [(200, True), (503, False)])
def test_the_health_of_a_container_is_what_readyz_says(status: int, is_healthy: bool) -> None:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 200)
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    commands = {tuple(services()[name]["healthcheck"]["test"]) for name in PROBED}
    ((kind, program, *arguments),) = commands
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        asked = [each.replace(":8422/", f":{server.server_port}/") for each in arguments]
        run = subprocess.run([sys.executable, *asked], capture_output=True, timeout=COMMAND_SECONDS)
        server.shutdown()

    assert (kind, program) == ("CMD", "python")
    assert (run.returncode == 0) == is_healthy, run.stderr


def test_the_image_is_built_from_all_that_the_wheel_is_made_of() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    wanted = {*wheel["packages"], *(each.split("/")[0] for each in wheel["force-include"])}
    copied = {words.split()[1] for words in DOCKERFILE.read_text().splitlines() if "COPY " in words}
    let_in = (ROOT / ".dockerignore").read_text().splitlines()

    assert wanted - copied == set()
    assert {f"!{each}" for each in wanted} - set(let_in) == set()
