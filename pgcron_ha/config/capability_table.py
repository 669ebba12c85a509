"""Tables ``[KIND.NAME]`` of the handlers of a node: each becomes a frozen dataclass.

A field's annotation has its reader, ``Annotated[int, integer(1, 100)]``, and its key if that is not
its name. A key that is left out has the field's default; a field without a default is required.
A secret is never in the file: a key has a reference to its place
(`pgcron_ha.config.secret_references`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import lru_cache
from typing import Annotated, Any, Final, TypeVar, get_type_hints

from pgcron_ha.config.breaker import Breaker, read_breaker
from pgcron_ha.config.values import HANDLER_NAME, Reader, did_you_mean, duration, flag
from pgcron_ha.errors import ConfigError

PLACEHOLDER = re.compile(r"\{([a-z_][a-z0-9_]*)\}")
# What `placeholders = { name = true }` allows: no spaces, no quotes, and no leading dash, which
# the called program would read as an option.
DEFAULT_PATTERN = r"[A-Za-z0-9_.:/@=+,][A-Za-z0-9_.:/@=+,-]{0,199}"
TIME_LIMIT: Final = duration("1ms", "7d")


class Refused(ValueError):
    """A whole sentence about a value whose `part` is wrong; the value is not shown."""

    def __init__(self, sentence: str, part: str = "") -> None:
        super().__init__(sentence)
        self.part = part


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One table, read; `name` is the table's. `timeout` of a run is in seconds. `keep_args` and
    `keep_result`: whether history keeps them of runs that succeeded.
    """

    name: str
    timeout: Annotated[float | None, TIME_LIMIT] = None
    breaker: Annotated[Breaker | str | None, _breaker_or_sharer] = None
    keep_args: Annotated[bool, flag] = True
    keep_result: Annotated[bool, flag] = True

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Keys that do not go with others, each with a sentence."""
        return iter(())


T = TypeVar("T", bound=Template)


def read_tables(
    kind: str, tables: Mapping[str, object], template: type[T]
) -> tuple[dict[str, T], list[str]]:
    """The templates of the tables ``[KIND.NAME]``, and a sentence for each thing wrong in them."""
    found: dict[str, T] = {}
    problems: list[str] = []
    for name, table in tables.items():
        place = f"{kind}.{name}"
        if not re.fullmatch(HANDLER_NAME, f"{kind}:{name}"):
            rule = "expected a name of 1 to 200 letters, digits and _ . -"
            problems.append(f"{kind}.'{name}': {rule}")
        elif not isinstance(table, dict):
            problems.append(f"{place}: expected a table [{place}]")
        else:
            values, wrong = _read(table, template)
            if not wrong:
                found[name] = template(name=name, **values)
                wrong = list(found[name].conflicts())
            problems.extend(f"{place}.{key}: {sentence}" for key, sentence in wrong)
            if wrong:
                found.pop(name, None)
    return found, problems


def _read(
    table: Mapping[str, object], template: type[T]
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """The values of a table by field, and (key, sentence) for each that can't be read."""
    keys = _keys(template)  # type: ignore[arg-type]
    required = (key for key, (_, _, is_required) in keys.items() if is_required)
    values: dict[str, Any] = {}
    wrong: list[tuple[str, str]] = []
    for key in dict.fromkeys((*table, *required)):
        if key not in keys:
            wrong.append((key, f"unknown key{did_you_mean(key, keys)}"))
            continue
        raw = table.get(key)
        name, reader, _ = keys[key]
        try:
            values[name] = reader(raw)
        except Refused as error:
            wrong.append((f"{key}.{error.part}" if error.part else key, str(error)))
        except ValueError as error:
            shown = f"'{str(raw)[:80]}': " if isinstance(raw, str | int | float) else ""
            wrong.append((key, f"{shown}expected {error}"))
    return values, wrong


@lru_cache
def _keys(template: type[Template]) -> dict[str, tuple[str, Reader, bool]]:
    """By key: its field, its reader, and whether it must be given."""
    hints = get_type_hints(template, include_extras=True)
    keys: dict[str, tuple[str, Reader, bool]] = {}
    for each in fields(template):
        if each.name != "name":
            reader, *key = hints[each.name].__metadata__
            is_required = each.default is MISSING and each.default_factory is MISSING
            keys[key[0] if key else each.name] = each.name, reader, is_required
    return keys


def _breaker_or_sharer(raw: object) -> Breaker | str:
    """A circuit breaker, or the handler whose breaker it shares."""
    try:
        return read_breaker(raw)
    except ConfigError as error:
        raise Refused(f"{error.message.removeprefix('breaker: ')}. {error.detail}") from None


def patterns_by_name(raw: object) -> dict[str, str]:
    """The patterns by name: what a run's args may put into the table's ``{name}``."""
    if not isinstance(raw, dict):
        raise ValueError('a table such as { db = "[a-z_]{1,63}" }')
    patterns = {name: DEFAULT_PATTERN if each is True else each for name, each in raw.items()}
    for name, pattern in patterns.items():
        if not PLACEHOLDER.fullmatch(f"{{{name}}}"):
            raise Refused("expected a name of lower-case letters, digits, _", name)
        if not isinstance(pattern, str) or not pattern:
            raise Refused("expected a regular expression, or true", name)
        try:
            compile_pattern(pattern)
        except ValueError as error:
            raise Refused(str(error), name) from None
    return patterns


@lru_cache(maxsize=1000)
def compile_pattern(text: str) -> Any:
    """A pattern that judges what comes with a run, matched in linear time (RE2): Python's own `re`
    goes back and tries again, which can take years, and no other thread has a turn meanwhile.

    Raises ValueError with the rule that the text does not keep.
    """
    import re2  # a node without placeholders does not load it

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        reported = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(
            f"'{text}' is no regular expression of RE2's syntax: {reported}; it has no"
            " backreferences, no look-around and no repetition of more than 1,000 times, and"
            " matches in linear time"
        ) from None
