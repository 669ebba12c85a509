"""The circuit breakers that a node's file and applications declare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pgcron_ha.config import Settings
from pgcron_ha.config.breaker import Breaker, declare

if TYPE_CHECKING:
    from pgcron_ha.client import App


def declared_breakers(settings: Settings, apps: Sequence[App]) -> list[dict[str, Any]]:
    """As ``declare_breakers`` takes them. Raises `ConfigError` for one that shares what is not
    there.
    """
    said: dict[str, Breaker | str] = {}
    for kind, tables in (("shell", settings.shell), ("http", settings.http), ("sql", settings.sql)):
        for name, table in tables.items():
            if table.breaker is not None:
                said[f"{kind}:{name}"] = table.breaker
    for app in apps:
        said.update(app.breakers)
    return declare(said)
