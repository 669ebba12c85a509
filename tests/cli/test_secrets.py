"""``pgcron-ha secrets encrypt``; what needs a run is in the tests of whole nodes."""

from __future__ import annotations

import io

import pytest

from tests.cli.conftest import Cli


def test_a_value_that_is_no_json_is_refused_and_not_shown(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("hunter2\n"))

    answer = cli("secrets", "encrypt", "work", "word", "--as-json")

    assert answer.code == 1
    assert answer.err.startswith("error: the value is not JSON\n")
    assert "hunter2" not in answer.err + answer.out
