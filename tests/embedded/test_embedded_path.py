"""Where names without a schema stand in a database of the embedded server."""

from __future__ import annotations

import psycopg

from pgcron_ha.embedded import EmbeddedPostgres


def test_what_is_made_without_a_schema_stands_in_public(embedded: EmbeddedPostgres) -> None:
    with embedded, psycopg.connect(embedded.dsn(), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA pgcron; CREATE TABLE customer ()")
        found = connection.execute("SELECT 'public.customer'::regclass::oid IS NOT NULL")

        assert found.fetchone() == (True,)
