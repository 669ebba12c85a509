"""Reads one table ``[KIND.NAME]`` of what a node may run; every problem is collected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from pgcron_ha.config.breaker import Breaker, read_breaker
from pgcron_ha.config.patterns import compile_pattern
from pgcron_ha.config.values import parse_duration
from pgcron_ha.errors import ConfigError

PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
# What `placeholders = { name = true }` allows: no spaces, no quotes, and no leading dash, which
# the called program would read as an option.
DEFAULT_PATTERN = r"(?!-)[A-Za-z0-9_.:/@=+,-]{1,200}"
MAX_TIMEOUT_SECONDS = 7 * 86400.0
MAX_ITEMS = 100

# As in a run's handler, which is the kind, a colon and this.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


class CapabilityTable:
    """One table; a key that can't be read is a sentence in `problems` and the default's place."""

    def __init__(self, kind: str, name: str, table: object, keys: Sequence[str]) -> None:
        self.kind = kind
        self.name = name
        self.problems: list[str] = []
        self.table: Mapping[str, object] = table if isinstance(table, dict) else {}
        if not isinstance(table, dict):
            self.problems.append(f"{kind}.{name}: expected a table [{kind}.{name}]")
        if not _NAME.fullmatch(name):
            rule = "expected a name of 1 to 200 letters, digits and _ . -"
            self.problems.append(f"{kind}.'{name}': {rule}")
        for key in self.table:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, n=1)
                guess = f"; did you mean '{near[0]}'?" if near else ""
                self.refuse(key, f"unknown key{guess}")

    def refuse(self, key: str, sentence: str) -> None:
        """Note that this key can't be used."""
        self.problems.append(f"{self.kind}.{self.name}.{key}: {sentence}")

    def text(self, key: str) -> str | None:
        """A text that is not empty; None when it is not given."""
        raw = self.table.get(key)
        if raw is not None and (not isinstance(raw, str) or not raw):
            self.refuse(key, "expected a string")
            return None
        return raw

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of at most `MAX_ITEMS` texts."""
        raw = self.table.get(key, [])
        if not isinstance(raw, list) or not all(isinstance(item, str) for item in raw):
            self.refuse(key, "expected a list of strings")
            return ()
        if len(raw) > MAX_ITEMS or any("\0" in item for item in raw):
            self.refuse(key, f"expected at most {MAX_ITEMS} strings without NUL")
            return ()
        return tuple(raw)

    def flag(self, key: str) -> bool:
        """True or false; false when it is not given."""
        raw = self.table.get(key, False)
        if not isinstance(raw, bool):
            self.refuse(key, "expected true or false")
        return raw is True

    def choice(self, key: str, words: Sequence[str]) -> str:
        """One of these words; the first when it is not given."""
        raw = self.table.get(key, words[0])
        if not isinstance(raw, str) or raw not in words:
            self.refuse(key, f"'{raw}': expected {' or '.join(words)}")
            return words[0]
        return raw

    def integer(self, key: str, default: int, least: int, most: int) -> int:
        """A whole number between two bounds, both allowed."""
        raw = self.table.get(key, default)
        if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= most:
            self.refuse(key, f"'{raw}': expected a whole number from {least:,} to {most:,}")
            return default
        return raw

    def seconds(self, key: str, most: float = MAX_TIMEOUT_SECONDS) -> float | None:
        """A duration above 0; None when it is not given."""
        raw = self.table.get(key)
        if raw is None:
            return None
        try:
            seconds = parse_duration(raw if isinstance(raw, str) else "")
        except ValueError as error:
            self.refuse(key, f"'{raw}': expected {error}")
            return None
        if not 0 < seconds <= most:
            bound = "7d" if most == MAX_TIMEOUT_SECONDS else f"{most:g}s"
            self.refuse(key, f"'{raw}': expected more than 0s and at most {bound}")
        return seconds

    def breaker(self) -> Breaker | str | None:
        """Its circuit breaker, or the handler whose breaker it shares; None when it has none."""
        raw = self.table.get("breaker")
        try:
            return None if raw is None else read_breaker(raw)
        except ConfigError as error:
            fact, rule = error.message.removeprefix("breaker: "), error.detail or ""
            self.refuse("breaker", f"{fact}. {rule}")
            return None

    def placeholders(self) -> dict[str, str]:
        """The patterns by name: what a run's args may put into the table's ``{name}``."""
        raw = self.table.get("placeholders", {})
        if not isinstance(raw, dict):
            self.refuse("placeholders", 'expected a table such as { db = "[a-z_]{1,63}" }')
            return {}
        return {name: self._pattern(name, pattern) for name, pattern in raw.items()}

    def _pattern(self, name: str, raw: object) -> str:
        if not PLACEHOLDER.fullmatch(f"{{{name}}}"):
            self.refuse(f"placeholders.{name}", "expected a name of lower-case letters, digits, _")
        if raw is True:
            return DEFAULT_PATTERN
        if not isinstance(raw, str) or not raw:
            self.refuse(f"placeholders.{name}", "expected a regular expression, or true")
            return DEFAULT_PATTERN
        try:
            compile_pattern(raw)
        except ValueError as error:
            self.refuse(f"placeholders.{name}", str(error))
        return raw
