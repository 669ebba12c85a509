"""Mistakes of definitions in code: raised where they are made; while a module is loaded for a node
they are kept until it has been read, so that all of them are reported.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from typing import Final

from pgcron_ha.errors import ConfigError, Mistakes, PgcronError

_MOST_SEEN: Final = 1000
_log: Final = logging.getLogger(__name__)
_COLLECTED: ContextVar[Mistakes | None] = ContextVar("mistakes of definitions", default=None)


@contextmanager
def all_of_them() -> Iterator[None]:
    """Raises one error for all the mistakes inside."""
    mistakes = Mistakes()
    token = _COLLECTED.set(mistakes)
    try:
        with mistakes.kept():
            yield
    finally:
        _COLLECTED.reset(token)
    mistakes.raise_any()


def are_collected() -> bool:
    """Whether `defining` keeps errors instead of passing them on."""
    return _COLLECTED.get() is not None


@contextmanager
def defining(what: str) -> Iterator[None]:
    """An error inside names what is being defined if it is one of several."""
    try:
        yield
    except PgcronError as error:
        collected = _COLLECTED.get()
        if collected is None:
            raise
        collected.found += error.about(what).parts


def refuse_bare(decorator: str, name: object) -> None:
    """Raises ConfigError for ``@app.handler`` where ``@app.handler()`` is meant."""
    if callable(name):
        raise ConfigError(
            f"@app.{decorator} is used without parentheses",
            f"It takes the {decorator}'s name, or nothing.",
            f"Write @app.{decorator}() or @app.{decorator}('report').",
        )


class Misspellings:
    """Warns in the log, once, of a handler's name that is nearly one of those that are known."""

    def __init__(self, known: Mapping[str, object]) -> None:
        self._known = known
        self._seen: set[str] = set()

    def warn_of(self, handler: str) -> None:
        """If it is none of them; a name that is like none may be another program's."""
        if handler in self._known or handler in self._seen:
            return
        if len(self._seen) < _MOST_SEEN:
            self._seen.add(handler)
        if near := get_close_matches(handler, self._known, n=1):
            _log.warning("%s is no handler of this App. Did you mean %s?", handler, near[0])
