"""No spec raises anything but a refusal, contradicts itself or takes more steps than it may."""

from __future__ import annotations

import pytest

from tests.fuzz_specs.__main__ import run_part


@pytest.mark.parametrize("seed", range(2))
def test_random_specs_are_decided_or_refused_within_their_steps(seed: int) -> None:
    found = run_part(seed, cases=300)
    assert found.errors == []
    assert found.over == []
    assert found.cases - found.refused > 100
