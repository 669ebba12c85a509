"""Addresses of routes, and names as segments of addresses.

Pages hold hundreds of links, so a link costs a look-up and no search.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, IntegerConvertor, register_url_convertor

_DOTS: Final = (".", "..")
_SIGN: Final = "~"


class Segment(Convertor[str]):
    """One segment of a path as a name: any characters, even ``/``, ``..`` and quotes.

    Browsers take ``.`` and ``..`` for folders however they are escaped, so such names (and those
    that begin with the same sign) get a ``~`` in front. No name in a database has a NUL character.
    """

    regex = "(?:(?!%00)[^/])+"

    def convert(self, value: str) -> str:
        """The name in a segment; `value` is still percent-encoded (see `security.Guard`)."""
        return unquote(value.removeprefix(_SIGN))

    def to_string(self, value: object) -> str:
        """The segment of a name (or a number)."""
        name = str(value)
        if isinstance(value, int):
            return name
        escaped = quote(name, safe=_SIGN)
        return _SIGN + escaped if name in _DOTS or name.startswith(_SIGN) else escaped


class Number(IntegerConvertor):
    """A segment that is the number of a row: no other text has a page."""

    regex = "[0-9]{1,18}"


_SEGMENT: Final = Segment()
register_url_convertor("segment", _SEGMENT)
register_url_convertor("number", Number())


def starlette_path(path: str) -> str:
    """``/runs/{id}`` as Starlette's router reads it: ids are numbers, all else is a `Segment`."""
    return path.replace("}", ":segment}").replace("{id:segment}", "{id:number}")


def filled(path: str, segments: Mapping[str, Any]) -> str:
    """The path of a route, such as ``/schedules/{name}``, with its segments."""
    escaped = {key: _SEGMENT.to_string(value) for key, value in segments.items()}
    return path.format_map(escaped) if escaped else path
