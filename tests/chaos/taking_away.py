"""A guard that is taken away: from statements and methods of a node, or from its database."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import asyncpg

from tests.chaos.failpoints import Failpoints
from tests.product.db import NEWEST, Link, statements
from tests.replacing import replaced

Replacements = tuple[tuple[str, str], ...]


class StaleMutant(Exception):
    """What a mutant takes away is not there any more: the mutant must be written anew."""


@dataclass(frozen=True)
class Mutant:
    """`texts`: by statement, `functions`: by function of the database, what becomes of what."""

    name: str
    guard: str
    texts: Mapping[str, Replacements] = field(default_factory=dict)
    functions: Mapping[str, Replacements] = field(default_factory=dict)
    commands: tuple[str, ...] = ()
    in_node: Callable[[], None] | None = None
    needs: tuple[str, ...] = ()
    points: Failpoints = field(default_factory=Failpoints)
    survives: str | None = None
    """Why no fault of this harness can show it."""

    def change_node(self) -> None:
        """In the node's process, before the node is made."""
        # As links ask for them, before and after they know the schema's revision: what is asked for
        # in another way is loaded a second time.
        for revision in (None, NEWEST):
            link = Link("postgresql://", statements.DEFAULT_SCHEMA, revision=revision)
            for statement in self.statements(link._statements):
                link._statements[statement.name] = statement
        if self.in_node is not None:
            self.in_node()

    def statements(self, loaded: Mapping[str, statements.Statement]) -> list[statements.Statement]:
        """The named statements as this mutant sends them."""
        return [
            dataclasses.replace(loaded[name], sql=_replaced(loaded[name], replacements))
            for name, replacements in self.texts.items()
        ]

    async def change_database(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        """On a migrated database."""
        for name, replacements in self.functions.items():
            text = await connection.fetchval(
                "SELECT pg_get_functiondef(p.oid) FROM pg_proc p WHERE p.proname = $1"
                " AND p.pronamespace = 'pgcron'::regnamespace",
                name,
            )
            await connection.execute(replace(name, text or "", replacements))
        for command in self.commands:
            await connection.execute(command)


def _replaced(statement: statements.Statement, replacements: Replacements) -> str:
    """Replacements name parameters (``:token``), a statement has numbers (``$2``)."""
    numbers = {name: f"${number}" for number, name in enumerate(statement.parameters, 1)}

    def numbered(text: str) -> str:
        for name in sorted(numbers, key=len, reverse=True):
            text = text.replace(f":{name}", numbers[name])
        return text

    return replace(
        statement.name, statement.sql, tuple((numbered(a), numbered(b)) for a, b in replacements)
    )


def replace(name: str, text: str, replacements: Replacements) -> str:
    """The text with each of them made; StaleMutant when one does not fit."""
    for old, new in replacements:
        try:
            text = replaced(text, old, new)
        except LookupError as error:
            raise StaleMutant(f"{name}: {error}") from None
    return text
