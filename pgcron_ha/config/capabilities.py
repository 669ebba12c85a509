"""What the configuration file lets this node run: shell templates, offered as ``shell:NAME``.

Nothing that comes from the database or a browser widens this list: a run only names a template and
gives values for its placeholders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import MappingProxyType

from pgcron_ha.config.breaker import Breaker
from pgcron_ha.config.capability_table import DEFAULT_PATTERN, PLACEHOLDER, CapabilityTable
from pgcron_ha.config.program_limits import read_limits

__all__ = ["DEFAULT_PATTERN", "PLACEHOLDER", "ShellTemplate", "read_shell_templates"]

DEFAULT_GRACE_SECONDS = 10.0
DEFAULT_SNOOZE_SECONDS = 300.0
MAX_WEIGHT = 1000
MAX_EXIT_STATUS = 255

_STATUS_KEYS = ("retry_on", "discard_on", "snooze_on")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class ShellTemplate:
    """One command line. Each item of `argv` reaches the program as one argument; there is no shell.

    ``{name}`` inside an item stands for an arg of the run, whose text must match
    ``placeholders[name]`` from end to end. `timeout` and `grace` are seconds.

    What exit statuses mean: with `retry_on` only those are tried again, those of `discard_on` never
    are, and those of `snooze_on` come back after `snooze` seconds without having used up an
    attempt. `limits` are what `pgcron_ha.config.program_limits` reads. `stdin` is ``nothing``, or
    ``args``: the run's args as JSON. `on_lease_loss` is ``stop`` or ``finish``: what becomes of the
    program while its node can't renew its lease. A run takes `weight` of the node's slots. With
    `previous` the program is told how the schedule's run before this one ended.
    """

    name: str
    argv: tuple[str, ...]
    placeholders: Mapping[str, str]
    timeout: float | None = None
    user: str | None = None
    environment: tuple[str, ...] = ()
    working_directory: str | None = None
    grace: float = DEFAULT_GRACE_SECONDS
    retry_on: frozenset[int] | None = None
    discard_on: frozenset[int] = frozenset()
    snooze_on: frozenset[int] = frozenset()
    snooze: float = DEFAULT_SNOOZE_SECONDS
    limits: Mapping[str, int] = field(default_factory=dict)
    stdin: str = "nothing"
    on_lease_loss: str = "stop"
    breaker: Breaker | str | None = None
    weight: int = 1
    previous: bool = False


KEYS = tuple(each.name for each in fields(ShellTemplate) if each.name != "name")


def read_shell_templates(
    tables: Mapping[str, object],
) -> tuple[dict[str, ShellTemplate], list[str]]:
    """The templates of the tables ``[shell.NAME]``, and a sentence for each thing wrong in them."""
    templates: dict[str, ShellTemplate] = {}
    problems: list[str] = []
    for name, table in tables.items():
        reader = _ShellTable("shell", name, table, KEYS)
        template = reader.read()
        if reader.problems:
            problems.extend(reader.problems)
        else:
            templates[name] = template
    return templates, problems


class _ShellTable(CapabilityTable):
    def read(self) -> ShellTemplate:
        placeholders = self.placeholders()
        grace, snooze = self.seconds("grace"), self.seconds("snooze")
        retry_on, discard_on, snooze_on = map(self._statuses, _STATUS_KEYS)
        for status in sorted((discard_on & snooze_on) | (retry_on & (discard_on | snooze_on))):
            self.refuse("discard_on", f"{status} stands in two of {', '.join(_STATUS_KEYS)}")
        return ShellTemplate(
            name=self.name,
            argv=self._argv(placeholders),
            placeholders=MappingProxyType(placeholders),
            timeout=self.seconds("timeout"),
            user=self.text("user"),
            environment=self._environment(),
            working_directory=self._working_directory(),
            grace=DEFAULT_GRACE_SECONDS if grace is None else grace,
            retry_on=retry_on or None,
            discard_on=discard_on,
            snooze_on=snooze_on,
            snooze=DEFAULT_SNOOZE_SECONDS if snooze is None else snooze,
            limits=self._limits(),
            stdin=self.choice("stdin", ("nothing", "args")),
            on_lease_loss=self.choice("on_lease_loss", ("stop", "finish")),
            breaker=self.breaker(),
            weight=self.integer("weight", 1, 1, MAX_WEIGHT),
            previous=self.flag("previous"),
        )

    def _limits(self) -> Mapping[str, int]:
        try:
            return read_limits(self.table.get("limits", {}))
        except ValueError as error:
            self.refuse("limits", str(error))
            return {}

    def _statuses(self, key: str) -> frozenset[int]:
        raw = self.table.get(key, [])
        fine = isinstance(raw, list) and all(
            type(status) is int and 1 <= status <= MAX_EXIT_STATUS for status in raw
        )
        if not fine or not isinstance(raw, list):
            self.refuse(key, f"expected a list of exit statuses from 1 to {MAX_EXIT_STATUS}")
            return frozenset()
        return frozenset(raw)

    def _argv(self, placeholders: Mapping[str, str]) -> tuple[str, ...]:
        argv = self.texts("argv")
        if not argv or not argv[0]:
            if not any(problem.startswith(f"shell.{self.name}.argv") for problem in self.problems):
                self.refuse("argv", "expected a list whose first string is the program")
            return ()
        if PLACEHOLDER.search(argv[0]):
            self.refuse("argv", "the program itself can't come from a run: no placeholder in it")
        used = {name for item in argv for name in PLACEHOLDER.findall(item)}
        for name in sorted(used - placeholders.keys()):
            self.refuse("argv", f"'{{{name}}}' is not declared in placeholders")
        return argv

    def _environment(self) -> tuple[str, ...]:
        names = self.texts("environment")
        for name in names:
            if not _VARIABLE.fullmatch(name):
                self.refuse("environment", f"'{name}' is no name of a variable")
        return names

    def _working_directory(self) -> str | None:
        path = self.text("working_directory")
        if path is not None and not Path(path).is_absolute():
            self.refuse("working_directory", f"'{path}': expected an absolute path")
        return path
