"""The Python interface: an `App` has handlers and schedules and enqueues runs."""

from typing import TYPE_CHECKING

from pgcron_ha import found_when_asked_for

if TYPE_CHECKING:
    from pgcron_ha.client.app import App
    from pgcron_ha.client.loading import load_app
    from pgcron_ha.client.run_request import EnqueueStatement, NewRun
    from pgcron_ha.client.run_status import EnqueuedRun, RunStatus
    from pgcron_ha.client.schedules import CodeSchedule
    from pgcron_ha.client.uniqueness import Debounce, Throttle, Unique

__all__ = [
    "App",
    "CodeSchedule",
    "Debounce",
    "EnqueueStatement",
    "EnqueuedRun",
    "NewRun",
    "RunStatus",
    "Throttle",
    "Unique",
    "load_app",
]

__getattr__ = found_when_asked_for(
    __name__,
    {
        "app": ("App",),
        "loading": ("load_app",),
        "run_request": ("EnqueueStatement", "NewRun"),
        "run_status": ("EnqueuedRun", "RunStatus"),
        "schedules": ("CodeSchedule",),
        "uniqueness": ("Debounce", "Throttle", "Unique"),
    },
)
