"""The handlers of a node: those whose runs it claims, what they weigh, their breakers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

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


class OfferedHandlers(Sequence[str]):
    """A list that changes under its readers; `everything` never does."""

    def __init__(self, handlers: Sequence[str]) -> None:
        self.everything = tuple(handlers)
        self._names = self.everything

    def leave_out(self, broken: Container[str]) -> None:
        """All but these from now on."""
        self._names = tuple(name for name in self.everything if name not in broken)

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int, /) -> str: ...

    @overload
    def __getitem__(self, index: slice, /) -> Sequence[str]: ...

    def __getitem__(self, index: int | slice, /) -> str | Sequence[str]:
        return self._names[index]
