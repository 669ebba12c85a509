"""Cursors of programs without an event loop, each with the style of parameters that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import django  # type: ignore[import-untyped]
import django.conf  # type: ignore[import-untyped]
import psycopg
import sqlalchemy
import sqlalchemy.orm
from django.db.utils import ConnectionHandler  # type: ignore[import-untyped]
from psycopg.conninfo import conninfo_to_dict

from tests.product.client import EnqueueStatement
from tests.product.db import Style


@dataclass
class OwnCursor:
    """Executes in a transaction that has not ended."""

    style: Style
    execute: Callable[[EnqueueStatement], Any]
    """The one value of the one row."""
    commit: Callable[[], Any]
    rollback: Callable[[], Any]


Open = Callable[[str], AbstractContextManager[OwnCursor]]


@contextmanager
def psycopg_cursor(dsn: str, style: Style = "format") -> Iterator[OwnCursor]:
    with psycopg.connect(dsn) as connection, connection.cursor() as cursor:

        def execute(statement: EnqueueStatement) -> Any:
            row = cursor.execute(statement.sql.encode(), statement.parameters).fetchone()
            assert row is not None
            return row[0]

        yield OwnCursor(style, execute, connection.commit, connection.rollback)


def psycopg_cursor_with_names(dsn: str) -> AbstractContextManager[OwnCursor]:
    return psycopg_cursor(dsn, "pyformat")


@contextmanager
def django_cursor(dsn: str) -> Iterator[OwnCursor]:
    connection = django_connection(dsn)
    connection.set_autocommit(False)
    try:
        with connection.cursor() as cursor:

            def execute(statement: EnqueueStatement) -> Any:
                cursor.execute(*statement)
                return cursor.fetchone()[0]

            yield OwnCursor("format", execute, connection.commit, connection.rollback)
            connection.rollback()
    finally:
        connection.close()


def django_connection(dsn: str) -> Any:
    if not django.conf.settings.configured:
        django.conf.settings.configure(USE_TZ=True)
        django.setup()
    words = conninfo_to_dict(dsn)
    place = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": words["dbname"],
        "USER": words.get("user", ""),
        "PASSWORD": words.get("password", ""),
        "HOST": words.get("host", ""),
        "PORT": str(words.get("port", "")),
    }
    return ConnectionHandler({"default": place})["default"]


@contextmanager
def sqlalchemy_session(dsn: str) -> Iterator[OwnCursor]:
    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with sqlalchemy.orm.Session(engine) as session:

        def execute(statement: EnqueueStatement) -> Any:
            parameters: Any = statement.parameters
            return session.execute(sqlalchemy.text(statement.sql), parameters).scalar_one()

        yield OwnCursor("named", execute, session.commit, session.rollback)
    engine.dispose()


KINDS: dict[str, Open] = {
    "psycopg": psycopg_cursor,
    "psycopg-names": psycopg_cursor_with_names,
    "django": django_cursor,
    "sqlalchemy": sqlalchemy_session,
}
