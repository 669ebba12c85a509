"""A named statement as a caller's own cursor takes it, whatever the driver's placeholders are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
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
    dictionary for the others. Parameters that `values` does not have are NULL.

    Durations become seconds and tuples lists, which each driver knows. Raises InvalidInput.
    """
    if style not in get_args(Style):
        raise InvalidInput(
            f"style '{style!s:.50}' is not known",
            f"A statement's placeholders are written as {', '.join(get_args(Style))}.",
            "Cursors of psycopg and Django take format (%s), SQLAlchemy's text() named (:name).",
        )
    statement = load(schema)[name]
    given = {each: _plain(values.get(each)) for each in statement.parameters}
    order: list[str] = []
    sql = _written(statement, style, order)
    if style == "format":
        return sql, [given[each] for each in order]
    return sql, list(given.values()) if style == "numeric_dollar" else given


def _written(statement: Statement, style: Style, order: list[str]) -> str:
    """`order` gets the names of the parameters as they come."""

    def place(match: re.Match[str]) -> str:
        name = statement.parameters[int(match[1]) - 1]
        order.append(name)
        written = {
            "format": "%s",
            "pyformat": f"%({name})s",
            "named": f":{name}",
            "numeric_dollar": f"${match[1]}",
        }[style]
        # After :name, SQLAlchemy's text() does not understand a cast by colons.
        for kind in match[2].split("::")[1:]:
            written = f"CAST({written} AS {kind})"
        return written

    sql = statement.sql.replace("%", "%%") if style in ("format", "pyformat") else statement.sql
    return _USE.sub(place, sql)


def _plain(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value.total_seconds()
    return list(value) if isinstance(value, tuple) else value
