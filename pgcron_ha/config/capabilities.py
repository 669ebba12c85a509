"""What the configuration file lets this node run: shell templates, offered as ``shell:NAME``.

Nothing that comes from the database or a browser widens this list: a run only names a template and
gives values for its placeholders.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType

from pgcron_ha.config.values import parse_duration

PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
# What `placeholders = { name = true }` allows: no spaces, no quotes, and no leading dash, which
# the called program would read as an option.
DEFAULT_PATTERN = r"(?!-)[A-Za-z0-9_.:/@=+,-]{1,200}"
DEFAULT_GRACE_SECONDS = 10.0
DEFAULT_SNOOZE_SECONDS = 300.0
MAX_TIMEOUT_SECONDS = 7 * 86400.0
MAX_ARGUMENTS = 100
MAX_EXIT_STATUS = 255

_STATUS_KEYS = ("retry_on", "discard_on", "snooze_on")
# As in a run's handler, which is "shell:" and this.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class ShellTemplate:
    """One command line. Each item of `argv` reaches the program as one argument; there is no shell.

    ``{name}`` inside an item stands for an arg of the run, whose text must match
    ``placeholders[name]`` from end to end. `timeout` and `grace` are seconds.

    What exit statuses mean: with `retry_on` only those are tried again, those of `discard_on` never
    are, and those of `snooze_on` come back after `snooze` seconds without having used up an
    attempt.
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


KEYS = tuple(field.name for field in fields(ShellTemplate) if field.name != "name")


def read_shell_templates(
    tables: Mapping[str, object],
) -> tuple[dict[str, ShellTemplate], list[str]]:
    """The templates of the tables ``[shell.NAME]``, and a sentence for each thing wrong in them."""
    templates: dict[str, ShellTemplate] = {}
    problems: list[str] = []
    for name, table in tables.items():
        reader = _TableReader(name, table)
        template = reader.read()
        if reader.problems:
            problems.extend(reader.problems)
        else:
            templates[name] = template
    return templates, problems


class _TableReader:
    """One table; every problem is collected, none ends the reading."""

    def __init__(self, name: str, table: object) -> None:
        self.name = name
        self.problems: list[str] = []
        self.table: Mapping[str, object] = table if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            self.problems.append(f"shell.{name}: expected a table [shell.{name}]")
        if not _NAME.fullmatch(name):
            rule = "expected a name of 1 to 200 letters, digits and _ . -"
            self.problems.append(f"shell.'{name}': {rule}")

    def read(self) -> ShellTemplate:
        for key in self.table:
            if key not in KEYS:
                near = difflib.get_close_matches(key, KEYS, n=1)
                guess = f"; did you mean '{near[0]}'?" if near else ""
                self._refuse(key, f"unknown key{guess}")
        placeholders = self._placeholders()
        grace, snooze = self._seconds("grace"), self._seconds("snooze")
        retry_on, discard_on, snooze_on = map(self._statuses, _STATUS_KEYS)
        for status in sorted((discard_on & snooze_on) | (retry_on & (discard_on | snooze_on))):
            self._refuse("discard_on", f"{status} stands in two of {', '.join(_STATUS_KEYS)}")
        return ShellTemplate(
            name=self.name,
            argv=self._argv(placeholders),
            placeholders=MappingProxyType(placeholders),
            timeout=self._seconds("timeout"),
            user=self._text("user"),
            environment=self._environment(),
            working_directory=self._working_directory(),
            grace=DEFAULT_GRACE_SECONDS if grace is None else grace,
            retry_on=retry_on or None,
            discard_on=discard_on,
            snooze_on=snooze_on,
            snooze=DEFAULT_SNOOZE_SECONDS if snooze is None else snooze,
        )

    def _refuse(self, key: str, sentence: str) -> None:
        self.problems.append(f"shell.{self.name}.{key}: {sentence}")

    def _statuses(self, key: str) -> frozenset[int]:
        raw = self.table.get(key, [])
        fine = isinstance(raw, list) and all(
            type(status) is int and 1 <= status <= MAX_EXIT_STATUS for status in raw
        )
        if not fine or not isinstance(raw, list):
            self._refuse(key, f"expected a list of exit statuses from 1 to {MAX_EXIT_STATUS}")
            return frozenset()
        return frozenset(raw)

    def _texts(self, key: str) -> tuple[str, ...]:
        raw = self.table.get(key, [])
        if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
            self._refuse(key, "expected a list of strings")
            return ()
        if len(raw) > MAX_ARGUMENTS or any("\0" in item for item in raw):
            self._refuse(key, f"expected at most {MAX_ARGUMENTS} strings without NUL")
            return ()
        return tuple(raw)

    def _text(self, key: str) -> str | None:
        raw = self.table.get(key)
        if raw is not None and (not isinstance(raw, str) or not raw):
            self._refuse(key, "expected a string")
            return None
        return raw

    def _argv(self, placeholders: Mapping[str, str]) -> tuple[str, ...]:
        argv = self._texts("argv")
        if not argv or not argv[0]:
            if not any(problem.startswith(f"shell.{self.name}.argv") for problem in self.problems):
                self._refuse("argv", "expected a list whose first string is the program")
            return ()
        if PLACEHOLDER.search(argv[0]):
            self._refuse("argv", "the program itself can't come from a run: no placeholder in it")
        used = {name for item in argv for name in PLACEHOLDER.findall(item)}
        for name in sorted(used - placeholders.keys()):
            self._refuse("argv", f"'{{{name}}}' is not declared in placeholders")
        return argv

    def _placeholders(self) -> dict[str, str]:
        raw = self.table.get("placeholders", {})
        if not isinstance(raw, dict):
            self._refuse("placeholders", 'expected a table such as { db = "[a-z_]{1,63}" }')
            return {}
        return {name: self._pattern(name, pattern) for name, pattern in raw.items()}

    def _pattern(self, name: str, raw: object) -> str:
        if not PLACEHOLDER.fullmatch(f"{{{name}}}"):
            self._refuse(f"placeholders.{name}", "expected a name of lower-case letters, digits, _")
        if raw is True:
            return DEFAULT_PATTERN
        if not isinstance(raw, str) or not raw:
            self._refuse(f"placeholders.{name}", "expected a regular expression, or true")
            return DEFAULT_PATTERN
        try:
            re.compile(raw)
        except re.error as error:
            self._refuse(f"placeholders.{name}", f"'{raw}' is no regular expression: {error}")
        return raw

    def _seconds(self, key: str) -> float | None:
        raw = self.table.get(key)
        if raw is None:
            return None
        try:
            seconds = parse_duration(raw if isinstance(raw, str) else "")
        except ValueError as error:
            self._refuse(key, f"'{raw}': expected {error}")
            return None
        if not 0 < seconds <= MAX_TIMEOUT_SECONDS:
            self._refuse(key, f"'{raw}': expected more than 0s and at most 7d")
        return seconds

    def _environment(self) -> tuple[str, ...]:
        names = self._texts("environment")
        for name in names:
            if not _VARIABLE.fullmatch(name):
                self._refuse("environment", f"'{name}' is no name of a variable")
        return names

    def _working_directory(self) -> str | None:
        path = self._text("working_directory")
        if path is not None and not Path(path).is_absolute():
            self._refuse("working_directory", f"'{path}': expected an absolute path")
        return path
