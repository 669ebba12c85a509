from __future__ import annotations

from pathlib import Path

import pytest

from pgcron_ha.embedded.binaries import OLDEST_MAJOR
from tests.house.checkout import ROOT
from tests.matrix.columns import NOT_HERE, NOT_POOLED, VERSIONS, columns

TESTS = sorted({tests.partition("::")[0] for column in columns() for tests in column.tests})


def test_every_supported_version_is_in_the_matrix_and_locked() -> None:
    locked = sorted(int(lock.stem) for lock in (ROOT / ".requirements/postgresql").glob("*.txt"))

    assert list(VERSIONS) == locked == list(range(OLDEST_MAJOR, max(VERSIONS) + 1))
    assert {column.major for column in columns()} == set(VERSIONS)


@pytest.mark.parametrize("tests", TESTS)
def test_the_tests_of_the_matrix_are_there(tests: str) -> None:
    assert (ROOT / tests).exists()


@pytest.mark.parametrize("name", [*NOT_HERE, *NOT_POOLED])
def test_what_the_matrix_leaves_out_is_there(name: str) -> None:
    files = [test for test in TESTS if test.endswith(".py")]
    assert [test for test in files if f"def {name}" in Path(ROOT, test).read_text()]
