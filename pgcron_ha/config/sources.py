"""The sources of settings, merged as raw values that remember their origin."""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pgcron_ha.config.settings import BY_KEY, ENVIRONMENT_PREFIX, SETTINGS
from pgcron_ha.errors import ConfigError

DEFAULT_FILE = "pgcron-ha.toml"
# A configuration file is read by people; one of this size is another file given by mistake.
MAX_FILE_BYTES = 1 << 20
# Alike enough to be a slip. Orchestrators set variables of their own with our prefix (a service
# called pgcron-ha gives PGCRON_HA_PORT), so an unlike name is not ours to refuse.
_SLIP = 0.85


@dataclass(frozen=True)
class SourcedValue:
    """A raw value, its origin ("default", "environment", "flag" or the file) and its name there."""

    raw: object
    origin: str
    name: str


@dataclass(frozen=True)
class SourcedSettings:
    """The winning raw value of each key, the capability tables, and what was not understood."""

    values: Mapping[str, SourcedValue]
    shell: Mapping[str, object]
    problems: tuple[str, ...]
    file: Path | None


@dataclass
class _Merge:
    values: dict[str, SourcedValue] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_sources(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> SourcedSettings:
    """Merge default < file < environment < flags. A flag of None, an empty variable: not given.

    `file` must exist when it is named; without a name ``./pgcron-ha.toml`` is read if it is there.
    Raises `ConfigError` for a file that can't be read or is not TOML; unknown names are problems.
    """
    merge = _Merge()
    for setting in SETTINGS:
        merge.values[setting.key] = SourcedValue(setting.raw_default(), "default", setting.key)
    found = file if file is not None else Path(DEFAULT_FILE)
    is_read = file is not None or found.is_file()
    shell = _merge_file(merge, found) if is_read else {}
    _merge_environment(merge, os.environ if environment is None else environment)
    for key, raw in (flags or {}).items():
        if key not in BY_KEY:
            raise KeyError(f"no setting is called {key!r}")
        if raw is not None:
            merge.values[key] = SourcedValue(raw, "flag", BY_KEY[key].flag)
    return SourcedSettings(merge.values, shell, tuple(merge.problems), found if is_read else None)


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """``; did you mean 'slots'?`` or an empty text: the end of a sentence about an unknown name."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"; did you mean '{near[0]}'?" if near else ""


def _merge_file(merge: _Merge, path: Path) -> Mapping[str, object]:
    content = _read_toml(path)
    shell = content.pop("shell", {})
    if not isinstance(shell, dict):
        merge.problems.append(f"shell ({path}): expected tables [shell.NAME]")
        shell = {}
    for key, raw in _flatten(content):
        if key in BY_KEY:
            merge.values[key] = SourcedValue(raw, str(path), key)
        else:
            known = [*BY_KEY, "shell"]
            merge.problems.append(f"'{key}' ({path}): unknown setting{nearest(key, known)}")
    return shell


def _read_toml(path: Path) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"the configuration file '{path}' can't be read",
            error.strerror,
            "name another one with --config FILE, or leave the flag away for the defaults",
        ) from error
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(
            f"'{path}' is no configuration file of ours", f"it is over {MAX_FILE_BYTES:,} bytes"
        )
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the configuration file '{path}' is not TOML",
            str(error),
            'a setting is a line such as schema = "pgcron"; README.md shows a whole file',
        ) from error


def _flatten(content: Mapping[str, object]) -> list[tuple[str, object]]:
    """The keys of the file as settings name them: one level of tables."""
    flat: list[tuple[str, object]] = []
    for name, raw in content.items():
        if isinstance(raw, dict) and name not in BY_KEY:
            flat.extend((f"{name}.{inner}", value) for inner, value in raw.items())
        else:
            flat.append((name, raw))
    return flat


def _merge_environment(merge: _Merge, environment: Mapping[str, str]) -> None:
    by_variable = {setting.variable: setting.key for setting in SETTINGS}
    endings = [variable.removeprefix(ENVIRONMENT_PREFIX) for variable in by_variable]
    for variable, raw in sorted(environment.items()):
        if not raw:
            continue
        if variable in by_variable:
            merge.values[by_variable[variable]] = SourcedValue(raw, "environment", variable)
        elif variable.startswith(ENVIRONMENT_PREFIX):
            guess = nearest(variable.removeprefix(ENVIRONMENT_PREFIX), endings, _SLIP)
            if guess:
                guess = guess.replace("'", f"'{ENVIRONMENT_PREFIX}", 1)
                merge.problems.append(f"{variable} (environment): unknown setting{guess}")
