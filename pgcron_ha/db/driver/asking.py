"""One named statement through any driver's connection, as the interfaces send it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from pgcron_ha.db.driver.foreign import fetch_row
from pgcron_ha.db.driver.variants import fitting


async def row(connection: Any, schema: str, name: str, /, **values: Any) -> Sequence[Any]:
    """The statement's only row; durations may be given as `timedelta`."""
    for given, value in values.items():
        if isinstance(value, timedelta):
            values[given] = value.total_seconds()
    return await fetch_row(connection, await fitting(connection, name, schema), values)


async def value(connection: Any, schema: str, name: str, /, **values: Any) -> Any:
    """The first column of `row`."""
    return (await row(connection, schema, name, **values))[0]
