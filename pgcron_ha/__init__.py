"""Cron and background jobs on PostgreSQL alone: equal nodes, no leader, no broker.

::

    from pgcron_ha import App

    app = App()

    @app.schedule("0 3 * * *", timezone="Europe/Berlin")
    @app.handler("report")
    async def make_report(context, day: str = "today") -> None: ...

    await app.enqueue("report", args={"day": "monday"}, conn=connection)

Args are validated against the annotations first (dates, enums, dataclasses, pydantic's models…).
``@app.handler("render", isolation="process", memory="512MB", cpu="60s")`` gives each run a warm
process of its own: it can be killed, and takes nobody with it when it dies.

`App` and `Context` are all that most programs need. A handler may raise `Retry`, `Snooze`,
`Discard` and `Cancel`; `Stopped` is what `Context.check` raises. A `Breaker` leaves a handler that
keeps failing alone for a while. All errors are in `errors`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgcron_ha import errors
    from pgcron_ha.client import App, Debounce, Throttle, Unique
    from pgcron_ha.config.breaker import Breaker
    from pgcron_ha.executors.contract.attempt import Stopped
    from pgcron_ha.executors.contract.context import Context
    from pgcron_ha.executors.contract.outcome import Cancel, Discard, Retry, Snooze

__all__ = [
    "App",
    "Breaker",
    "Cancel",
    "Context",
    "Debounce",
    "Discard",
    "Retry",
    "Snooze",
    "Stopped",
    "Throttle",
    "Unique",
    "errors",
]

# Found when they are asked for: a command that needs none of it imports none of it.
_PLACES = {
    "App": "pgcron_ha.client",
    "Breaker": "pgcron_ha.config.breaker",
    "Cancel": "pgcron_ha.executors.contract.outcome",
    "Context": "pgcron_ha.executors.contract.context",
    "Debounce": "pgcron_ha.client",
    "Discard": "pgcron_ha.executors.contract.outcome",
    "Retry": "pgcron_ha.executors.contract.outcome",
    "Snooze": "pgcron_ha.executors.contract.outcome",
    "Stopped": "pgcron_ha.executors.contract.attempt",
    "Throttle": "pgcron_ha.client",
    "Unique": "pgcron_ha.client",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("pgcron_ha.errors")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
