"""A connection with the schema that is meant, and who uses it: for commands and pages alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Result = TypeVar("Result")
Statement = Callable[..., Awaitable[Result]]
"""A statement of `pgcron_ha.db`: it takes a connection first and a schema by name."""


@dataclass(frozen=True)
class Session:
    """The caller opens the connection, and closes it."""

    connection: Any
    schema: str
    actor: str | None = None

    async def call(self, statement: Statement[Result], *values: Any, **options: Any) -> Result:
        """The result of `statement` on this connection, in this schema."""
        return await statement(self.connection, *values, **options, schema=self.schema)

    async def act(self, statement: Statement[Result], *values: Any, **options: Any) -> Result:
        """As `call`, for a change that is recorded with its author."""
        return await self.call(statement, *values, **options, actor=self.actor)
