"""Time zones as the cluster has them, for who is no node and explains what nodes decide."""

from __future__ import annotations

from typing import Any

from pgcron_ha.db.overview import fetch_rows
from pgcron_ha.db.statements import DEFAULT_SCHEMA
from pgcron_ha.model.zone_data import digest, package_rules, use_rules, version_in_force


async def use_cluster_zones(connection: Any, schema: str = DEFAULT_SCHEMA) -> None:
    """From now on this process computes with the rules that the nodes compute with; with its own
    where no node has brought any so far. One small question when they are the same.
    """
    theirs = (await fetch_rows(connection, "cluster_zones", schema))[0]["tzdata"]
    if theirs is None or theirs == version_in_force():
        return
    own = package_rules()
    differing = await fetch_rows(
        connection,
        "rules_that_differ",
        schema,
        names=list(own),
        digests=[digest(rules) for rules in own.values()],
    )
    use_rules(theirs, {row["name"]: row["rules"] for row in differing if row["rules"]})
