"""References to secrets: read when they are needed, refused without showing anything."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from pgcron_ha.errors import ConfigError
from tests.product.config import parse_secret_reference, secret_references


def printing(program: str) -> str:
    return f"command:{shlex.join([sys.executable, '-I', '-S', '-c', program])}"


def test_a_credential_of_systemd_is_a_file_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").write_text("s3cret\n")
    reference = parse_secret_reference("credential:token")

    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert reference.read() == "s3cret"
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    with pytest.raises(ConfigError, match="can't be read") as refused:
        reference.read()
    assert "systemd sets it" in (refused.value.detail or "")


def test_what_a_command_prints_is_used_for_a_while(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("first")
    reference = parse_secret_reference(printing(f"print(open({str(file)!r}).read())"))

    assert reference.read() == "first"
    file.write_text("second")
    assert reference.read() == "first"
    assert reference.read(age=0) == "second"


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("import sys; print('hunter2'); sys.exit('no login')", "it ended with 1: no login"),
        ("print('hunter2' * 20_000)", "more than 65536 bytes"),
        ("import sys; sys.stdout.buffer.write(b'hunter2\\xff')", "it is not UTF-8"),
    ],
)
def test_a_command_that_fails_says_so_and_not_what_it_printed(program: str, why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse_secret_reference(printing(program)).read()

    error = refused.value
    assert why in (error.detail or "")
    assert "hunter2" not in f"{error.message} {error.detail} {error.hint}"


@pytest.mark.parametrize(
    "raw", ["credential:../x", "credential:", "command:", "command:a 'b", "vault:x", "hunter2"]
)
def test_what_is_no_reference_is_refused_and_not_shown(raw: str) -> None:
    with pytest.raises(ValueError, match="expected env:NAME") as refused:
        parse_secret_reference(raw)
    assert "hunter2" not in str(refused.value)


def test_several_are_a_list_or_have_commas_between_them() -> None:
    assert secret_references("env:A, file:/b") == secret_references(["env:A", "file:/b"])
    with pytest.raises(ValueError, match="a list such as"):
        secret_references(5)
