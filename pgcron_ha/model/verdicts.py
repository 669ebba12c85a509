"""What is said of a state and its reason, in the same words everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

OPEN_STEPS: Final = ("waiting", "ready", "running")
"""States of a step that is not over."""


def state_words(state: str) -> str:
    """A state, an outcome or a decision as people read it: ``upstream failed``."""
    return state.replace("_", " ")


def step_sentence(step: Mapping[str, Any]) -> str:
    """What an open step waits for, or how it ended; ``waits_detail`` and ``reason`` may be None."""
    state, reason = step["state"], step["reason"]
    if state not in OPEN_STEPS:
        ended = f"it has ended: {state_words(state)}"
        return f"{ended} ({reason})" if reason else ended
    if step["waits_detail"]:
        return str(step["waits_detail"])
    if state == "running" and step["step_run"] is not None:
        return f"run {step['step_run']} executes"
    return str(reason or state)
