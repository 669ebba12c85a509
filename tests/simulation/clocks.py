"""Gives the engine's modules the clocks, the network and the process of the simulation.

The modules name what they use (`monotonic`, `boottime`, `Link`, `Session`, `Home`, …): for the time
of a simulation these names mean the simulated ones.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo
from types import ModuleType, SimpleNamespace
from typing import Any, Final
from uuid import UUID

from pgcron_ha.operating_system import boottime
from tests.product.db import Link
from tests.product.engine import Home, Session, timeouts
from tests.product.engine import node as node_module
from tests.simulation.tables import FIRST_INSTANT
from tests.simulation.world import Process, ProcessExit, World

_PACKAGES: Final = ("pgcron_ha.engine.", "pgcron_ha.executors.contract.context")


class Replacements:
    """What the names mean meanwhile."""

    def __init__(
        self,
        world: World,
        make_link: Callable[..., Any],
        session: type[Session],
        home: Callable[..., Any],
    ) -> None:
        self._world = world
        self._make_link = make_link
        self._session = session
        self._home = home

    @property
    def process(self) -> Process:
        current = self._world.current
        assert current is not None, "only processes have clocks"
        return current.process

    def by_meaning(self) -> list[tuple[object, object]]:
        """(what a module's name means, what it means in the simulation)."""
        from uuid import uuid4

        return [
            (time.monotonic, lambda: self.process.monotonic()),
            (time.time, lambda: self._wall_clock().timestamp()),
            (boottime, lambda: self.process.boottime()),
            (uuid4, lambda: UUID(int=self._world.chance.getrandbits(128), version=4)),
            (datetime, self._datetime()),
            (Link, self._make_link),
            (Session, self._session),
            (Home, self._home),
        ]

    def of_node(self) -> dict[str, object]:
        """What the node itself asks of the operating system."""
        return {
            "threading": SimpleNamespace(Timer=self._timer),
            "os": SimpleNamespace(getpid=lambda: 1, _exit=self._exit),
        }

    def _timer(self, seconds: float, callback: Callable[..., None], given: Iterable[Any]) -> Any:
        loop = self.process.session
        return SimpleNamespace(
            daemon=True, start=lambda: loop.call_later(seconds, callback, *given)
        )

    def _exit(self, status: int) -> None:
        raise ProcessExit(status)

    def _wall_clock(self) -> datetime:
        return FIRST_INSTANT + timedelta(seconds=self.process.boottime())

    def _datetime(self) -> type[datetime]:
        wall_clock = self._wall_clock

        class Simulated(datetime):
            @classmethod
            def now(cls, tz: tzinfo | None = None) -> Any:
                return wall_clock()

        return Simulated


@contextmanager
def installed(replacements: Replacements, seed: int) -> Iterator[None]:
    """Inside, the engine lives in the simulation."""
    changed: list[tuple[ModuleType, str, object]] = []

    def change(module: ModuleType, name: str, value: object) -> None:
        changed.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    meanings = replacements.by_meaning()
    state = random.getstate()
    random.seed(seed)
    try:
        for module in _modules():
            for name, value in list(vars(module).items()):
                for meaning, simulated in meanings:
                    if value is meaning and (
                        value is not datetime or "recorder" in module.__name__
                    ):
                        change(module, name, simulated)
        system = replacements.of_node()
        change(node_module, "os", system["os"])
        for name, value in system.items():
            change(timeouts, name, value)
        yield
    finally:
        random.setstate(state)
        for module, name, value in reversed(changed):
            setattr(module, name, value)


def _modules() -> list[ModuleType]:
    return [module for name, module in sys.modules.items() if name.startswith(_PACKAGES)]
