from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.checkout import ROOT
from tests.matrix.columns import NOT_HERE, NOT_POOLED, VERSIONS, columns
from tests.product.embedded import OLDEST_MAJOR

CHOSEN = sorted({tests for column in columns() for tests in column.tests})
TESTS = sorted({tests.partition("::")[0] for tests in CHOSEN})


def test_every_supported_version_is_in_the_matrix_and_locked() -> None:
    locked = sorted(int(lock.stem) for lock in (ROOT / ".requirements/postgresql").glob("*.txt"))

    assert list(VERSIONS) == locked == list(range(OLDEST_MAJOR, max(VERSIONS) + 1))
    assert {column.major for column in columns()} == set(VERSIONS)


@pytest.mark.parametrize("tests", CHOSEN)
def test_the_tests_of_the_matrix_are_there(tests: str) -> None:
    file, _, name = tests.partition("::")

    assert (ROOT / file).exists()
    assert not name or f"def {name}(" in Path(ROOT, file).read_text()


@pytest.mark.parametrize("name", [*NOT_HERE, *NOT_POOLED])
def test_what_the_matrix_leaves_out_is_there(name: str) -> None:
    files = [test for test in TESTS if test.endswith(".py")]
    assert [test for test in files if f"def {name}" in Path(ROOT, test).read_text()]
