from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pgcron_ha.config import SETTINGS
from tests.house.checkout import ROOT

COMPOSE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / ".docker" / "Dockerfile"


def validate(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec"]
    return subprocess.run([*command, str(path)], capture_output=True, text=True, timeout=60)


def test_the_compose_file_follows_the_specification() -> None:
    run = validate(COMPOSE)

    assert run.returncode == 0, run.stdout + run.stderr


def test_the_validation_sees_a_misspelt_key(tmp_path: Path) -> None:
    broken = tmp_path / "docker-compose.yml"
    broken.write_text(COMPOSE.read_text().replace("healthcheck:", "healthchek:"))

    assert validate(broken).returncode != 0


def test_no_password_has_a_default() -> None:
    passwords = re.findall(r"PASSWORD: *(.+)|://[^:/]+:(\$\{[^}]+\})@", COMPOSE.read_text())

    assert len(passwords) == 2
    assert [
        p for pair in passwords for p in pair if p and not p.startswith("${PGCRON_HA_PASSWORD:?")
    ] == []


def test_the_variables_set_for_nodes_are_settings() -> None:
    known = {setting.variable for setting in SETTINGS}
    text = COMPOSE.read_text() + DOCKERFILE.read_text()

    assert set(re.findall(r"^[ A-Z]*(PGCRON_HA_\w+)[:=]", text, re.MULTILINE)) - known == set()


def test_the_image_runs_as_a_user_without_rights() -> None:
    users = re.findall(r"^USER (\S+)", DOCKERFILE.read_text(), re.MULTILINE)

    assert users
    assert users[-1] not in ("root", "0")
