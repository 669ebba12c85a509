from __future__ import annotations

from tests.db.control import Connection
from tests.product.db import health

_PAGE = 8192


async def test_an_index_that_is_mostly_empty_is_found(connection: Connection) -> None:
    assert await health.READINGS["swollen_indexes"](connection, least=4 * _PAGE) == []
    await connection.execute(
        "INSERT INTO pgcron.idempotency (key, run_id, expires_at)"
        " SELECT n, 1, now() FROM generate_series(1, 2000) n"
    )
    await connection.execute("DELETE FROM pgcron.idempotency")
    await connection.execute("VACUUM pgcron.idempotency")

    swollen = await health.READINGS["swollen_indexes"](connection, least=4 * _PAGE)

    names = {row["name"] for row in swollen}
    assert "pgcron.idempotency_pkey" in names
    assert {row["entries"] for row in swollen} == {0}

    for name in names:
        await connection.execute(f"REINDEX INDEX CONCURRENTLY {name}")
    assert await health.READINGS["swollen_indexes"](connection, least=4 * _PAGE) == []
