"""Mistakes of definitions in code: raised where they are made; while a module is loaded for a node
they are kept until it has been read, so that all of them are reported.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from pgcron_ha.errors import ConfigError, Mistakes, PgcronError

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


def refuse_second(kind: str, name: str, known: Container[str], where: str, form: str) -> None:
    """Raises ConfigError for a name that is taken."""
    if name in known:
        raise ConfigError(
            f"{kind} '{name}' is defined twice",
            f"{where} a name is one {kind}'s.",
            f"Give one of them another name: @app.{kind}({form}).",
        )


def refuse_bare(decorator: str, name: object) -> None:
    """Raises ConfigError for ``@app.handler`` where ``@app.handler()`` is meant."""
    if callable(name):
        raise ConfigError(
            f"@app.{decorator} is used without parentheses",
            f"It takes the {decorator}'s name, or nothing.",
            f"Write @app.{decorator}() or @app.{decorator}('report').",
        )
