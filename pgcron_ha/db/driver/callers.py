"""A named statement as other drivers take it: their placeholders, and their kinds of values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias, get_args

from pgcron_ha.db.driver.statements import Statement, load
from pgcron_ha.errors import InvalidInput

Style = Literal["format", "pyformat", "named", "numeric_dollar"]
"""``%s``; ``%(name)s``; ``:name``; ``$1``: the names of PEP 249, and SQLAlchemy's for the last."""

Parameters: TypeAlias = "list[Any] | dict[str, Any]"

_USE: Final = re.compile(r"\$(\d+)((?:::\w+(?:\[\])?)*)")


def in_style(
    name: str, values: Mapping[str, Any], style: Style, schema: str
) -> tuple[str, Parameters]:
    """The text of a statement and its parameters: a list for ``format`` and ``numeric_dollar``, a
    dictionary for the others. Parameters that `values` does not have are NULL. InvalidInput.
    """
    if style not in get_args(Style):
        raise InvalidInput(
            f"style '{style!s:.50}' is not known",
            f"A statement's placeholders are written as {', '.join(get_args(Style))}.",
            "Cursors of psycopg and Django take format (%s), SQLAlchemy's text() named (:name).",
        )
    return for_driver(load(schema)[name], values, style)


def for_driver(
    statement: Statement, values: Mapping[str, Any], style: Style
) -> tuple[str, Parameters]:
    """The same of a statement at hand. Durations become seconds and tuples lists, which each
    driver knows.
    """
    given = {each: plain(values.get(each)) for each in statement.parameters}
    if style == "numeric_dollar":
        return statement.sql, list(given.values())
    sql, order = _written(statement, style)
    return sql, [given[each] for each in order] if style == "format" else given


def plain(value: Any) -> Any:
    """A value as every driver takes it: durations are seconds, arrays are lists."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    return list(value) if isinstance(value, tuple) else value


@lru_cache(maxsize=256)
def _written(statement: Statement, style: Style) -> tuple[str, tuple[str, ...]]:
    """The text, and the names of the parameters as they come in it."""
    order: list[str] = []

    def place(match: re.Match[str]) -> str:
        name = statement.parameters[int(match[1]) - 1]
        order.append(name)
        written = {"format": "%s", "pyformat": f"%({name})s", "named": f":{name}"}[style]
        # After :name, SQLAlchemy's text() does not understand a cast by colons.
        for kind in match[2].split("::")[1:]:
            written = f"CAST({written} AS {kind})"
        return written

    sql = statement.sql if style == "named" else statement.sql.replace("%", "%%")
    return _USE.sub(place, sql), tuple(order)
