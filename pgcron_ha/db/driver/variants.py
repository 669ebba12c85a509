"""The variant of a statement that a caller's database takes, for those who do not know it."""

from __future__ import annotations

from typing import Any

from pgcron_ha.db.driver.foreign import fetch_row
from pgcron_ha.db.driver.statements import Statement, load, varying


async def fitting(connection: Any, name: str, schema: str) -> Statement:
    """The statement `name` as the database behind `connection` takes it, whatever its driver.

    The database is asked for its revision only if that matters. Raises SchemaError when it is too
    old for the statement.
    """
    if name not in varying(schema):
        return load(schema)[name]
    (revision,) = await fetch_row(connection, load(schema)["read_revision"], {})
    return load(schema, revision)[name]
