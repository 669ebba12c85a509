"""Time zones as the cluster has them, for who is no node and explains what nodes decide."""

from __future__ import annotations

import asyncio
from typing import Any

from pgcron_ha.db.overview import fetch_rows
from pgcron_ha.db.statements import DEFAULT_SCHEMA
from pgcron_ha.model.zone_data import package_digests, use_rules, version_in_force


async def use_cluster_zones(connection: Any, schema: str = DEFAULT_SCHEMA) -> None:
    """From now on this process computes with the rules that the nodes compute with; with its own
    where no node has brought any so far. One small question when they are the same.
    """
    theirs = (await fetch_rows(connection, "cluster_zones", schema))[0]["tzdata"]
    await take_cluster_zones(connection, theirs, schema)


async def take_cluster_zones(
    connection: Any, theirs: str | None, schema: str = DEFAULT_SCHEMA
) -> None:
    """As `use_cluster_zones`, for who knows which version the cluster has; asks if it is another
    than this process computes with.
    """
    if theirs is None or theirs == version_in_force():
        return
    own = await asyncio.to_thread(package_digests)
    differing = await fetch_rows(connection, "rules_that_differ", schema, **own)
    use_rules(theirs, {row["name"]: row["rules"] for row in differing if row["rules"]})
