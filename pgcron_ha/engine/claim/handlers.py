"""What code and configuration declare of a node's handlers: their weights and breakers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from pgcron_ha.config.breaker import Breaker, declare
from pgcron_ha.config.settings import Settings
from pgcron_ha.errors import ConfigError

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


def declared_weights(settings: Settings, apps: Iterable[App]) -> dict[str, int]:
    """The weights above 1 by full name, as code and configuration declare them.

    Raises ConfigError for one that has more than all slots of the node.
    """
    weights = {f"shell:{name}": template.weight for name, template in settings.shell.items()}
    for app in apps:
        weights |= {name: handler.weight for name, handler in app.handlers.items()}
    for name, weight in sorted(weights.items()):
        if weight > settings.node.slots:
            raise ConfigError(
                f"handler '{name}' takes {weight} slots, the node has {settings.node.slots}",
                "A run of it could never begin here.",
                "Set PGCRON_HA_NODE_SLOTS higher, or give the handler a lower weight.",
            )
    return {name: weight for name, weight in weights.items() if weight > 1}
