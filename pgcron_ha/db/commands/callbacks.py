"""Statements for the callbacks of services."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from pgcron_ha.db.driver.calls import Call

End: TypeAlias = Literal["succeeded", "failed", "discarded", "retry"]
Taken: TypeAlias = Literal["taken", "again", "other", "gone", "unknown"]


class CallbackKey(NamedTuple):
    """One attempt, and the hash of the token that a caller presents."""

    run: int
    fence: int
    token_hash: bytes


_known_callbacks: Final = Call[list[int]]("known_callbacks", "runs", "fences", "token_hashes")

answer_callback: Final = Call[Taken]("answer_callback", "run", "fence", "token_hash")
"""What a callback reports. ``status`` None: the work goes on; ``discarded`` is failed and not to be
retried. ``result`` is JSON text; ``retry_after`` are seconds.

``taken``, ``again`` (the same end was reported before), ``other`` (another one was), ``gone`` (the
attempt is over), or ``unknown`` (no such token).
"""


async def known_callbacks(connection: Any, keys: Sequence[CallbackKey], **options: Any) -> set[int]:
    """The positions of the keys whose token is their attempt's."""
    columns = ([key[column] for key in keys] for column in range(len(CallbackKey._fields)))
    return {position - 1 for position in await _known_callbacks(connection, *columns, **options)}
