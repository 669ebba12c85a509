"""No spec raises anything but a refusal, contradicts itself or takes more steps than it may."""

from __future__ import annotations

import pytest

from tests.fuzz_specs.__main__ import run_part


@pytest.mark.parametrize(
    ("seed", "cases"),
    [(0, 100), *(pytest.param(seed, 300, marks=pytest.mark.long) for seed in range(2))],
)
def test_random_specs_are_decided_or_refused_within_their_steps(seed: int, cases: int) -> None:
    found = run_part(seed, cases)
    assert found.errors == []
    assert found.over == []
    assert found.cases - found.refused > cases / 3
