"""The door of services that call back."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from pgcron_ha.db.driver.foreign import fetch_row
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, load

End: TypeAlias = Literal["succeeded", "failed", "discarded", "retry"]
Taken: TypeAlias = Literal["taken", "again", "other", "gone", "unknown"]


class CallbackKey(NamedTuple):
    """One attempt, and what somebody takes for the hash of its token."""

    run: int
    fence: int
    token_hash: bytes


@dataclass(frozen=True, slots=True)
class CallbackAnswer:
    """What one callback says. ``status`` None: the work goes on; ``discarded`` is failed and not to
    be retried. ``result`` is JSON text; ``retry_after`` are seconds.
    """

    status: End | None
    result: str | None = None
    error: str | None = None
    retry_after: float | None = None
    done: float | None = None
    total: float | None = None
    note: str | None = None
    lines: tuple[str, ...] = ()


def hash_of_token(token: str) -> bytes:
    """What is kept in a token's place."""
    return hashlib.sha256(token.encode()).digest()


async def known_callbacks(
    connection: Any, keys: Sequence[CallbackKey], *, schema: str = DEFAULT_SCHEMA
) -> set[int]:
    """The positions of the keys whose token is that of their attempt."""
    values = {
        "run_ids": [key.run for key in keys],
        "fences": [key.fence for key in keys],
        "token_hashes": [key.token_hash for key in keys],
    }
    row = await fetch_row(connection, load(schema)["known_callbacks"], values)
    return {position - 1 for position in row[0]}


async def answer_callback(
    connection: Any, key: CallbackKey, answer: CallbackAnswer, *, schema: str = DEFAULT_SCHEMA
) -> Taken:
    """What became of it: ``taken``, ``again`` (it was said before), ``other`` (another end was),
    ``gone`` (the attempt is over), ``unknown`` (no such token).
    """
    values = {
        **asdict(answer),
        "run_id": key.run,
        "fence": key.fence,
        "token_hash": key.token_hash,
    }
    row = await fetch_row(connection, load(schema)["answer_callback"], values)
    found: Taken = row[0]
    return found
