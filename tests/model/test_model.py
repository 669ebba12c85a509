"""The models say what the code says, and the checker finds what each guard is for."""

from __future__ import annotations

import re

import pytest

from tests.model.__main__ import check_all
from tests.model.checker import CLEAN, MODELS, CheckerFailed, check
from tests.model.matrix import SCHEDULE_TWICE, SKIPPED_BETWEEN, STUCK, Line, lines
from tests.model.moves import ENDS_OF_WAITING, TABLE, moves, sets_a_state_elsewhere

# They need spin and a C compiler; CI has them, `make test` does not ask for them.
pytestmark = pytest.mark.long

RUN = (MODELS / "run.pml").read_text()
OVERLAP_SLOT = (MODELS / "overlap_slot.pml").read_text()
KEY_SLOT = (MODELS / "key_slot.pml").read_text()
TEXTS = {path.stem: path.read_text() for path in MODELS.glob("*.pml")}
# A define that is either a guard (as built: on) or says how large a model is and what goes wrong.
GUARD = re.compile(r"^#ifndef (\w+) .*\n#define \1 [12]$", re.MULTILINE)
SIZES = {"RUNS", "ATTEMPTS", "SLOTS", "TIMELY", "EDIT", "CATCHUP", "EARLY"}
LINES = lines(2)


@pytest.mark.parametrize("line", lines(0), ids=lambda line: f"{line.model}: {line.name}")
def test_the_checker_finds_what_the_line_expects(line: Line) -> None:
    verdict = line.check()

    assert verdict.found == line.expected, "\n".join(verdict.steps)
    # As many states as that are no accident of a model in which nothing can happen.
    assert line.expected != CLEAN or verdict.states > 1000


# What a node finished while it was cut off counts when nobody has begun the run since. A blocked
# run ends as a ready one does.
NOT_MODELLED = frozenset(
    {
        ("ready", "succeeded"),
        ("ready", "blocked"),
        ("blocked", "ready"),
        ("running", "blocked"),  # a workflow becomes its steps
        *(("blocked", end) for end in ENDS_OF_WAITING if end != "cancelled"),
    }
)


def test_the_model_makes_the_transitions_of_the_table_and_no_others() -> None:
    assert moves(RUN) | NOT_MODELLED == TABLE
    assert not sets_a_state_elsewhere(RUN)
    for part in (OVERLAP_SLOT, KEY_SLOT):
        assert moves(part) < TABLE
        assert not sets_a_state_elsewhere(part)


@pytest.mark.parametrize(
    ("written", "mutated"),
    [
        ("END(r, running, lost, why)", "END(r, running, dead, why)"),
        ("MOVE(r, running, ready, why)", "MOVE(r, running, blocked, why)"),
        ("END(1, blocked, cancelled, cancel)", "END(1, ready, cancelled, cancel)"),
        ("END(0, ready, superseded, supersede)", "skip"),
    ],
)
def test_a_model_with_another_transition_is_told_apart(written: str, mutated: str) -> None:
    assert RUN.count(written) == 1

    assert moves(RUN.replace(written, mutated)) != TABLE


def test_a_state_that_is_set_past_the_labels_is_seen() -> None:
    assert sets_a_state_elsewhere(RUN.replace("row[r].attempt--;", "row[r].state = ready;", 1))
    with pytest.raises(ValueError, match="in words"):
        moves(RUN.replace("MOVE(r, ready, running, claim)", "MOVE(r, ready, now(r), claim)"))


@pytest.mark.parametrize("model", TEXTS)
def test_each_guard_is_removed_by_a_line_that_expects_a_counterexample(model: str) -> None:
    guards = set(GUARD.findall(TEXTS[model])) - SIZES
    removed = {
        name
        for line in LINES
        if line.model == model and line.expected != CLEAN
        for name, value in line.defines.items()
        if name in guards and value in (0, 1)
    }

    assert guards
    assert guards - removed == set()


def test_a_line_defines_only_what_its_model_knows() -> None:
    for line in LINES:
        known = set(re.findall(r"^#ifndef (\w+)|^#define (FROM|TO) ", TEXTS[line.model], re.M))
        names = {name for pair in known for name in pair}
        assert set(line.defines) - names == set(), line.name


def test_every_promise_of_the_models_is_broken_by_some_line() -> None:
    """A promise that nothing breaks may be one that nothing checks."""
    said = {
        sentence
        for text in TEXTS.values()
        for sentence in re.findall(r'MUST\(.*?, "([^"]+)\\n"\)', text, re.DOTALL)
    }

    assert said - {line.expected for line in LINES} == UNBROKEN


# Broken only together with another guard, or the counterexample is found earlier by another one.
UNBROKEN = {"a fire is run that the schedule no longer named", "a run has not ended"}


def test_a_fault_in_the_model_changes_the_verdict() -> None:
    """The reaper's end of an attempt taken away: a dead node's run never ends."""
    reaps = "row[0].state == running && !OWNED(0) -> ends_attempt(0, lapse)"
    assert RUN.count(reaps) == 1

    verdict = check("run", {"DEATHS": 1}, text=RUN.replace(reaps, "false -> skip"))

    assert verdict.found == STUCK
    assert "node 1: killed for ever" in verdict.steps


def test_a_model_that_can_not_be_read_is_no_verdict() -> None:
    with pytest.raises(CheckerFailed, match="spin can't read"):
        check("overlap_slot", {}, text=OVERLAP_SLOT.replace("proctype Owner", "proctyp Owner"))


def test_a_verdict_that_differs_is_shown_with_its_counterexample(
    capsys: pytest.CaptureFixture[str],
) -> None:
    wrong = Line("as built", "overlap_slot", SCHEDULE_TWICE)
    broken = Line("without KEEP_SLOT", "overlap_slot", CLEAN, {"KEEP_SLOT": 0})

    assert not check_all([wrong, broken], with_trails=False)

    printed = capsys.readouterr().out
    assert f"clean   EXPECTED: {SCHEDULE_TWICE}" in printed
    assert f"{SKIPPED_BETWEEN}   EXPECTED: clean" in printed
    assert f"    BROKEN: {SKIPPED_BETWEEN}\n" in printed
    assert "2 lines, 2 not as expected" in printed
