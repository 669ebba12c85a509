"""What computing a spec may cost: steps, each some microseconds, counted and never timed, so that
the same text costs the same on a busy machine.

Loops over what somebody wrote call `spend`; `search` bounds them. A search inside another shares
its bound.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from pgcron_ha.errors import InvalidSpec, PgcronError

MOST_STEPS: Final = 4_000
"""Of one search: some ten milliseconds. The fires of sensible specs take a few steps each."""

FEW_STEPS: Final = 500
"""What an event loop computes without a break."""


class _Counter(threading.local):
    spent = 0
    limit: int | None = None
    patience: int | None = None


_counter = _Counter()


class TakesLong(Exception):
    """What is computed inside `quickly` takes more than a few steps."""


class TooManySteps(InvalidSpec):
    """The spec's fires take too long to find."""


def too_many_steps() -> TooManySteps:
    """The error, with what to do."""
    return TooManySteps(
        "the spec never fires, or too rarely to be found",
        f"looking for a fire ends after {MOST_STEPS} steps of what is named and left out",
        "write fewer exclusions, or leave `move` out; `pgcron-ha next` shows what is left",
    )


@contextmanager
def search(times: int = 1) -> Iterator[None]:
    """Inside, `spend` raises `TooManySteps` after `MOST_STEPS` in each of ``times`` searches. Other
    exceptions than `PgcronError` become `InvalidSpec`: a spec that can't be evaluated must only
    affect its own schedule.
    """
    is_outermost = _counter.limit is None
    if is_outermost:
        _counter.limit = _counter.spent + times * MOST_STEPS
    try:
        yield
    except (PgcronError, TakesLong, MemoryError):
        raise
    except Exception as error:
        raise InvalidSpec(
            f"the spec can't be evaluated: {type(error).__name__}: {error}"[:200],
            "it was read, but finding its fires fails: a defect of pgcron_ha",
            "write it in another way, and report it with its text",
        ) from error
    finally:
        if is_outermost:
            _counter.limit = None


@contextmanager
def quickly() -> Iterator[None]:
    """Inside, what takes more than `FEW_STEPS` raises `TakesLong`: it is for a thread."""
    _counter.patience = _counter.spent + FEW_STEPS
    try:
        yield
    finally:
        _counter.patience = None


def spend(steps: int = 1) -> None:
    """Counts steps, before they are done. Raises `TooManySteps` when a search has fewer left, which
    uses them up: what is refused is not done, and nothing more is done in this search.
    """
    if _counter.limit is not None and _counter.spent + steps > _counter.limit:
        _counter.spent = _counter.limit
        raise too_many_steps()
    _counter.spent += steps
    if _counter.patience is not None and _counter.spent > _counter.patience:
        raise TakesLong


def spent() -> int:
    """All steps that this thread has counted: differences say what something cost."""
    return _counter.spent
