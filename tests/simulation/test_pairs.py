"""Every two statements on the same rows, each held at each of its borders while the other runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.simulation.acts import SCENES
from tests.simulation.pairs import Expected, Pairs, difference

EXPECTED = Expected()


@pytest.fixture
def pairs(database: str) -> Iterator[Pairs]:
    """A gate in a database of the test's own."""
    made = Pairs(database)
    yield made
    made.close()


@pytest.mark.long
@pytest.mark.parametrize("scene", SCENES)
def test_two_at_once_are_as_one_after_the_other(pairs: Pairs, scene: str) -> None:
    acts = SCENES[scene][1]
    wrong: list[str] = []
    for first in acts:
        for second in acts:
            allowed = EXPECTED.allowed(scene, first, second)
            states = {
                f"{second} while {first} stands at the gate": pairs.at_the_gate(
                    scene, first, second
                ),
                f"{second} before {first} commits": pairs.before_the_commit(
                    scene, first, second, commits=True
                ),
            }
            for how, state in states.items():
                if state not in allowed:
                    wrong.append(f"{how}\n{difference(state, allowed)}")

    assert not wrong, f"{len(wrong)} of {2 * len(acts) ** 2}\n" + "\n\n".join(wrong[:5])
    assert pairs.held > len(acts)


@pytest.mark.long
@pytest.mark.parametrize("scene", SCENES)
def test_what_is_rolled_back_leaves_no_trace(pairs: Pairs, scene: str) -> None:
    acts = SCENES[scene][1]
    wrong: list[str] = []
    for first in acts:
        for second in acts:
            state = pairs.before_the_commit(scene, first, second, commits=False)
            allowed = {EXPECTED.after(scene, (second,)), EXPECTED.after(scene, ())}
            if state not in allowed:
                wrong.append(f"{second} after {first} was undone\n{difference(state, allowed)}")

    assert not wrong, f"{len(wrong)} of {len(acts) ** 2}\n" + "\n\n".join(wrong[:5])


def test_a_run_asked_for_while_its_schedule_is_deleted_is_refused(pairs: Pairs) -> None:
    """It was left behind, and executed after the deletion."""
    deleted = EXPECTED.after("planned", ("delete",))

    assert pairs.before_the_commit("planned", "delete", "run now", commits=True) == deleted


def test_a_lock_that_is_gone_is_noticed(pairs: Pairs) -> None:
    pairs.rewrite("hold_schedule", "FOR KEY SHARE", "")
    allowed = EXPECTED.allowed("planned", "delete", "run now")

    assert pairs.before_the_commit("planned", "delete", "run now", commits=True) not in allowed
