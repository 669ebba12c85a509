"""Transactions of the engine end before a lease does, where the server can see to it (from 17)."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

from pgcron_ha.errors import DatabaseUnavailable
from tests.db.control import Connect, Connection
from tests.product.db import CONTROL, Link
from tests.product.db import link as links

BOUND = "SELECT setting::int FROM pg_catalog.pg_settings WHERE name = 'transaction_timeout'"


async def test_the_bound_is_the_engine_s_where_the_server_has_one(
    connection: Connection, database: str, another: Connect
) -> None:
    has_bound = connection.get_server_version().major >= 17
    if has_bound:  # what the database sets for everybody would end statements of nodes
        name = urlsplit(database).path[1:]
        await connection.execute(f"ALTER DATABASE {name} SET transaction_timeout = '2 s'")

    control = await another()

    expected = CONTROL.transaction_timeout if has_bound else None
    assert await control.fetchval(BOUND) == expected


async def test_a_transaction_that_lasts_longer_is_over_and_the_next_one_works(
    connection: Connection, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    has_bound = connection.get_server_version().major >= 17
    monkeypatch.setattr(links, "CONTROL", CONTROL._replace(transaction_timeout=100))
    link = Link(database)
    try:
        await link.execute("SELECT 1")
        if has_bound:
            with pytest.raises(DatabaseUnavailable) as reported:
                await link.execute("SELECT pg_sleep(3)")
            assert "transaction timeout" in f"{reported.value.detail}"
        await link.execute("SELECT 1")
    finally:
        await link.close()
