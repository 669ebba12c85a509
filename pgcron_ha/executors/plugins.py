"""Executors of other packages, found by their entry point in the group ``pgcron_ha.executors``.

The entry point's name is the kind of handlers; what it names is called once, at the node's start,
with the tables ``[KIND.NAME]`` of the node's file and a `ExecutorServices`, and gives an
`Executor`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, TypeAlias

from pgcron_ha.config.values import HANDLER_NAME
from pgcron_ha.errors import ConfigError, PgcronError
from pgcron_ha.executors.contract.base import Executor, ExecutorServices

GROUP: Final = "pgcron_ha.executors"
BUILT_IN: Final = frozenset({"py", "shell", "http", "sql"})

Tables: TypeAlias = Mapping[str, Mapping[str, Any]]
"""The tables ``[KIND.NAME]`` of the node's file, by NAME, as TOML gave them."""


def load_plugin(kind: str, tables: Tables, executor_services: ExecutorServices) -> Executor:
    """The executor of a kind that is not built in.

    Raises `ConfigError` when no package or several packages have it, when it can't be loaded or
    made, and when it does not offer what its kind promises.
    """
    point = _entry_point(kind)
    try:
        executor: Executor = point.load()(tables, executor_services)
        offered, actual = executor.handlers(), executor.kind
    except PgcronError:
        raise
    except Exception as error:
        raise _broken(point, f"{type(error).__name__}: {error}") from error
    if actual != kind:
        raise _broken(point, f"it says that its kind is {actual!r}")
    for handler in sorted(offered):
        if not handler.startswith(f"{kind}:") or not re.fullmatch(HANDLER_NAME, handler):
            raise _broken(point, f"it offers {handler!r}, which is no name such as '{kind}:x'")
    return executor


def _entry_point(kind: str) -> EntryPoint:
    if kind in BUILT_IN:
        raise ConfigError(
            f"the executor {kind!r} is built in",
            "node.executors names executors of other packages",
            "leave it out of node.executors",
        )
    found = tuple(entry_points(group=GROUP, name=kind))
    if not found:
        installed = ", ".join(sorted({each.name for each in entry_points(group=GROUP)})) or "none"
        raise ConfigError(
            f"no installed package executes handlers of the kind {kind!r}",
            f"packages offer them by entry points of the group {GROUP}; here are: {installed}",
            f"install the package, or take [{kind}…] and node.executors out of the configuration",
        )
    if len(found) > 1:
        raise ConfigError(
            f"{len(found)} packages execute handlers of the kind {kind!r}",
            "\n".join(f"{_package(each)}: {each.value}" for each in found),
            "remove all of them but one",
        )
    return found[0]


def _broken(point: EntryPoint, why: str) -> ConfigError:
    return ConfigError(
        f"the executor {point.name!r} of {_package(point)} can't be used",
        why,
        f"it is made by {point.value}; mend it, or take its tables out of the configuration",
    )


def _package(point: EntryPoint) -> str:
    return "an unknown package" if point.dist is None else f"{point.dist.name} {point.dist.version}"
