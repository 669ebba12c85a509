"""Claims of runs as parameters of statements: each is guarded by its token."""

from __future__ import annotations

from collections.abc import Iterable
from time import monotonic
from typing import Any

from pgcron_ha.executors.contract.attempt import Attempt
from pgcron_ha.executors.contract.base import Context


def claims_of(contexts: Iterable[Attempt]) -> dict[str, list[Any]]:
    """The runs, and the tokens and fence numbers of their claims, as parameters of statements; each
    takes what it has a use for.
    """
    contexts = list(contexts)
    return {
        "run_ids": [context.run_id for context in contexts],
        "tokens": [context.token for context in contexts],
        "fences": [context.fence for context in contexts],
    }


def started_claims_of(contexts: Iterable[Context]) -> dict[str, list[Any]]:
    """As `claims_of`, with the seconds since their handlers began."""
    contexts = list(contexts)
    now = monotonic()
    elapsed = [now - (context.started_monotonic or now) for context in contexts]
    return claims_of(contexts) | {"elapsed_seconds": elapsed}
