"""A node's connections: six here and the session's. A node never uses more for itself, whatever
its load; what handlers ask, their transactions and SQL profiles have their own.

In ``pg_stat_activity`` each has its own name: ``pgcron_ha claims NODE``, and so on.
"""

from __future__ import annotations

from typing import Any

from pgcron_ha.config.settings import Settings
from pgcron_ha.db.driver.link import Link


def node_link(settings: Settings, role: str, dsn: str | None = None, **options: Any) -> Link:
    """One to the node's database, by `dsn` if it leads there another way; `options` are the
    Link's.
    """
    title = f"pgcron_ha {role} {settings.node.name}"
    return Link(dsn or settings.required_dsn(), settings.schema, title=title, **options)


def node_links(settings: Settings, revision: str | None) -> dict[str, Link]:
    """All of them, by role. `revision` is the schema's."""
    links = {
        # Notes a promoted server, which may lack commits acted upon, before the first claim.
        "claims": node_link(settings, "claims", revision=revision, greeting="note_timeline"),
        # Decides about many schedules at once, which no claim and no takeover waits for.
        "admission": node_link(settings, "admission", revision=revision),
        "endings": node_link(settings, "endings", revision=revision, joins_by_hash=True),
        # Takeovers and time limits wait for no upkeep.
        "takeovers": node_link(settings, "takeovers", revision=revision),
        "upkeep": node_link(settings, "upkeep", revision=revision),
        "listening": node_link(settings, "listening", settings.listen_dsn, revision=revision),
    }
    for role in ("claims", "admission", "endings", "upkeep"):
        links[role].witness = links["listening"].rows
    return links
