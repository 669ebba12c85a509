"""A few seconds of everything at once, in `make test-long`; `make chaos` has more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.checking.coverage import CORE, uncovered
from tests.chaos.checking.history import load
from tests.chaos.checking.verdict import check
from tests.chaos.failpoints import Failpoints
from tests.chaos.playing import play
from tests.chaos.report import Summary, markdown
from tests.chaos.stage import Settings

SEEDS = (1, 2)
SECONDS = 18.0
NEMESES = ("N1", "N2", "N3", "N5", "N6", "N7", "N8", "N17", "N19")
POINTS = Failpoints(lost=0.04, frozen=0.005, slow=0.05, late=0.005)


@pytest.mark.long
async def test_every_promise_is_kept_whatever_happens(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    summary = Summary()
    for seed in SEEDS:
        folder = tmp_path / str(seed)
        folder.mkdir()
        settings = Settings(seed, SECONDS, 3, 2.0, POINTS, None, NEMESES, quiet=1.2)
        await play(settings, folder)
        history = load(folder)
        verdict = check(history)
        summary.add(settings, history, verdict)
        assert verdict.broken == [], f"seed {seed}"
        assert verdict.fires["owed"] > 100

    # A run in which nothing rare happened would have proved nothing.
    assert uncovered(summary.coverage, CORE) == []
    assert "green" in markdown(summary) or "inconclusive" in markdown(summary)
