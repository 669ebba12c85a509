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
keeps failing alone for a while. A parameter or result that is `Secret` (``card: Secret[str]``) is
encrypted wherever it is kept. ``@app.workflow()`` builds a `Workflow` of steps that depend on one
another; `chain`, `group`, `chord` and `map_each` put one together where it is started. All errors
are in `errors`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pgcron_ha import errors as errors
    from pgcron_ha.client.app import App as App
    from pgcron_ha.client.uniqueness import Debounce as Debounce
    from pgcron_ha.client.uniqueness import Throttle as Throttle
    from pgcron_ha.client.uniqueness import Unique as Unique
    from pgcron_ha.client.workflow_starts import chain as chain
    from pgcron_ha.client.workflow_starts import chord as chord
    from pgcron_ha.client.workflow_starts import group as group
    from pgcron_ha.client.workflow_starts import map_each as map_each
    from pgcron_ha.client.workflows import Workflow as Workflow
    from pgcron_ha.config.breaker import Breaker as Breaker
    from pgcron_ha.executors.contract.attempt import Stopped as Stopped
    from pgcron_ha.executors.contract.context import Context as Context
    from pgcron_ha.executors.contract.outcome import Cancel as Cancel
    from pgcron_ha.executors.contract.outcome import Discard as Discard
    from pgcron_ha.executors.contract.outcome import Retry as Retry
    from pgcron_ha.executors.contract.outcome import Snooze as Snooze
    from pgcron_ha.executors.contract.secret_values import Secret as Secret

# Found when they are asked for: a command that needs none of it imports none of it.
_PLACES = {
    "client.app": ("App",),
    "client.uniqueness": ("Debounce", "Throttle", "Unique"),
    "client.workflow_starts": ("chain", "chord", "group", "map_each"),
    "client.workflows": ("Workflow",),
    "config.breaker": ("Breaker",),
    "executors.contract.attempt": ("Stopped",),
    "executors.contract.context": ("Context",),
    "executors.contract.outcome": ("Cancel", "Discard", "Retry", "Snooze"),
    "executors.contract.secret_values": ("Secret",),
}
__all__ = sorted(["errors", *(name for names in _PLACES.values() for name in names)])


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("pgcron_ha.errors")
    for module, names in _PLACES.items():
        if name in names:
            return getattr(importlib.import_module(f"pgcron_ha.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
