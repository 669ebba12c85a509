"""Workflows at random: definitions, failures, answers, clears, stops and open transactions in any
order, on the real SQL; a simple model says what each state may be, and how all ends.

The sequences are the same each time; other ones, and as many as there is time for:
``PGCRON_HA_TEST_SEQUENCES=5000 python -m pytest tests/simulation/test_workflows.py -k begins``.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import pytest

from tests.simulation.playing import play
from tests.simulation.workflow_real import RealWorkflows
from tests.simulation.workflow_steps import Workflows

MORE: Final = os.environ.get("PGCRON_HA_TEST_SEQUENCES")
FEW, MANY, STEPS = 30, int(MORE or 300), 40


@pytest.fixture
def real(database: str) -> Iterator[RealWorkflows]:
    made = RealWorkflows(database)
    yield made
    made.close()


@pytest.mark.timeout(0 if MORE else 600)
@pytest.mark.parametrize(
    "sequences", [MANY if MORE else FEW, pytest.param(MANY, marks=pytest.mark.long)]
)
def test_each_step_begins_and_ends_as_the_model_says(real: RealWorkflows, sequences: int) -> None:
    play(Workflows, real, sequences, STEPS, same=MORE is None)
