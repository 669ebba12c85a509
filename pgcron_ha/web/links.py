"""Addresses of routes by their names, and names as segments of addresses.

Pages hold hundreds of links, so a link costs a look-up and no search.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

from starlette.convertors import Convertor, register_url_convertor

_DOTS: Final = (".", "..")
_SIGN: Final = "~"


class Segment(Convertor[str]):
    """One segment of a path as a name: any characters, even ``/``, ``..`` and quotes.

    Browsers take ``.`` and ``..`` for folders however they are escaped, so such names (and those
    that begin with the same sign) get a ``~`` in front.
    """

    regex = "[^/]+"

    def convert(self, value: str) -> str:
        """The name in a segment; `value` is still percent-encoded (see `app.RawPath`)."""
        return unquote(value.removeprefix(_SIGN))

    def to_string(self, value: object) -> str:
        """The segment of a name (or a number)."""
        name = str(value)
        if isinstance(value, int):
            return name
        escaped = quote(name, safe=_SIGN)
        return _SIGN + escaped if name in _DOTS or name.startswith(_SIGN) else escaped


_SEGMENT: Final = Segment()
register_url_convertor("segment", _SEGMENT)


def starlette_path(path: str) -> str:
    """``/schedules/{name}`` as Starlette's router reads it, each parameter a `Segment`."""
    return path.replace("}", ":segment}")


class Links:
    """The paths of all routes, by name."""

    def __init__(self, paths: Mapping[str, str]) -> None:
        """`paths` maps a name to its pattern, such as ``/schedules/{name}``."""
        self._paths = dict(paths)

    def path(self, route: str, segments: Mapping[str, Any]) -> str:
        """The path of a route. A KeyError, for its name or a segment, is a bug of a page."""
        pattern = self._paths[route]
        escaped = {key: _SEGMENT.to_string(value) for key, value in segments.items()}
        return pattern.format_map(escaped) if escaped else pattern
