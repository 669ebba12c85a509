"""The plug-in of pytest: what the fixture ``pgcron`` needs, each part of which may be overridden.

pytest finds it by itself once the package is installed. It imports nothing of the product before a
test asks for a fixture.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pgcron_ha.client.app import App
    from pgcron_ha.testing.running import Pgcron

DSN_VARIABLE: Final = "PGCRON_HA_TEST_DSN"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The settings in pytest's configuration."""
    parser.addini("pgcron_app", "The App whose handlers tests run: module:attribute.", default="")


@pytest.fixture(scope="session")
def pgcron_app(request: pytest.FixtureRequest) -> App:
    """The App under test: the one that `pgcron_app` of pytest's configuration names."""
    from pgcron_ha.client.loading import load_app

    place = _place(request)
    if not place:
        raise pytest.UsageError(
            "the App under test is not known: write `pgcron_app = shop.jobs:app` into pytest's"
            " configuration, or define a session fixture `pgcron_app` that returns it"
        )
    return load_app(place)


@pytest.fixture(scope="session")
def pgcron_dsn() -> Iterator[str]:
    """The database: that of PGCRON_HA_TEST_DSN, or an embedded server for this session."""
    given = os.environ.get(DSN_VARIABLE)
    if given:
        yield given
        return
    from pgcron_ha.embedded import EmbeddedPostgres

    # Not pytest's own folder: as root the server may run as somebody else, and must reach it.
    with tempfile.TemporaryDirectory(prefix="pgcron-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        with EmbeddedPostgres(Path(folder, "server")) as server:
            yield server.dsn()


@pytest.fixture(scope="session")
def pgcron_schema() -> str:
    """The name of the schema, which the tests make and remove. Of the workers of pytest-xdist each
    has one of its own where they share a database.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    return f"pgcron_{worker}" if worker and os.environ.get(DSN_VARIABLE) else "pgcron"


@pytest.fixture(scope="session")
def pgcron_database(pgcron_dsn: str, pgcron_schema: str, pgcron_app: App) -> Iterator[str]:
    """The DSN of the database with the schema in it; the App leads there."""
    from pgcron_ha.errors import ConfigError
    from pgcron_ha.testing.running import make_schema, remove_schema

    pgcron_app.attach(pgcron_dsn, pgcron_schema)
    if pgcron_app._dsn != pgcron_dsn:
        raise ConfigError(
            "the App under test has another DSN than the tests",
            "What its handlers enqueue would go there, not into the database for tests.",
            "Leave dsn out of App(): elsewhere it is that of the configuration (PGCRON_HA_DSN, "
            "pgcron-ha.toml). Or let the App have the DSN of the fixture pgcron_dsn in tests.",
        )
    if pgcron_app.schema != pgcron_schema:
        raise ConfigError(
            f"the App under test has the schema '{pgcron_app.schema}'",
            f"The tests work in '{pgcron_schema}'.",
            "Let the fixture pgcron_schema return the App's.",
        )
    _apart(make_schema(pgcron_dsn, pgcron_schema))
    yield pgcron_dsn
    _apart(remove_schema(pgcron_dsn, pgcron_schema))


@pytest.fixture
def pgcron(
    pgcron_app: App,
    pgcron_database: str,
    pgcron_schema: str,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Pgcron:
    """Runs handlers and schedules of the App, in an empty schema."""
    from pgcron_ha.testing.running import Pgcron

    folder = tmp_path / "pgcron"
    made = Pgcron(pgcron_app, pgcron_database, pgcron_schema, folder, _place(request))
    _apart(made.prepare())
    return made


def _place(request: pytest.FixtureRequest) -> str:
    return str(request.config.getini("pgcron_app"))


def _apart(work: Coroutine[Any, Any, None]) -> None:
    """In another thread: this one may already run an event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
