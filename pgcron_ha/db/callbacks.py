"""The door of services that call back."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

from pgcron_ha.db.foreign import fetch_row
from pgcron_ha.db.statements import DEFAULT_SCHEMA, load

End: TypeAlias = Literal["succeeded", "failed", "discarded", "retry"]
Taken: TypeAlias = Literal["taken", "again", "other", "gone", "unknown"]


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


async def answer_callback(
    connection: Any,
    run: int,
    fence: int,
    token: str,
    answer: CallbackAnswer,
    *,
    schema: str = DEFAULT_SCHEMA,
) -> Taken:
    """What became of it: ``taken``, ``again`` (it was said before), ``other`` (another end was),
    ``gone`` (the attempt is over), ``unknown`` (no such token).
    """
    values = {**asdict(answer), "run_id": run, "fence": fence, "token_hash": hash_of_token(token)}
    row = await fetch_row(connection, load(schema)["answer_callback"], values)
    found: Taken = row[0]
    return found
