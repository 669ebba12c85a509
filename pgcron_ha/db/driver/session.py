"""A connection with the schema that is meant, and who uses it: for commands and pages alike."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pgcron_ha.db.driver.calls import Call

Result = TypeVar("Result")
Statement = Callable[..., Awaitable[Result]]
"""A statement of `pgcron_ha.db`: it takes a connection first and a schema by name."""

_act_as: Final = Call[None]("act_as", "actor", "interface", "address")


@dataclass(frozen=True)
class Session:
    """The caller opens the connection (asyncpg's), and closes it."""

    connection: Any
    schema: str
    actor: str | None = None
    interface: str | None = None
    """cli, ui, …; None is sql."""
    address: str | None = None
    """Where the actor is; None is where the connection comes from."""

    async def call(self, statement: Statement[Result], *values: Any, **options: Any) -> Result:
        """The result of `statement` on this connection, in this schema."""
        return await statement(self.connection, *values, **options, schema=self.schema)

    async def act(self, statement: Statement[Result], *values: Any, **options: Any) -> Result:
        """As `call`, for a change that is recorded with its author: in one transaction."""
        async with self.connection.transaction():
            await self.call(_act_as, self.actor, self.interface, self.address)
            return await self.call(statement, *values, **options, actor=self.actor)
