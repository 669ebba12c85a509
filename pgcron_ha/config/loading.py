"""The settings in force: sources merged as raw values that remember their origin, then typed once,
every problem reported together.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pgcron_ha.config.capability_table import read_tables
from pgcron_ha.config.setting import ENVIRONMENT_PREFIX, Setting
from pgcron_ha.config.settings import BY_KEY, CAPABILITIES, SECTIONS, SETTINGS, Settings
from pgcron_ha.config.values import LOOPBACK, did_you_mean
from pgcron_ha.errors import ConfigError

# The beginning of a value is enough to recognize it in a sentence.
_SHOWN_CHARACTERS = 80
DEFAULT_FILE = "pgcron-ha.toml"
OF_APPS: Final = ("password_from", "secrets.keys")
"""Settings that may name a command whose output an App reads."""

REFERENCES: Final = (*OF_APPS, "auth.oidc_client_secret", "audit.secret")
"""All such settings."""

# Variables with the prefix that are no settings: of the embedded server, of tests and
# docker-compose.yml, and what orchestrators set for services called pgcron-ha or pgcron-ha-web.
_OF_OTHERS = re.compile(r"PG_BIN|PASSWORD|TEST_.*|(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT(_\d+\w*)?)")


@dataclass(frozen=True)
class SourcedValue:
    """A raw value, its origin ("default", "environment", "flag" or the file) and its name there."""

    raw: object
    origin: str
    name: str


@dataclass
class SourcedSettings:
    """The winning raw value of each key, the capability tables by kind, and what was not
    understood.

    `plugins` are tables of kinds that are not built in: what they mean is known to the executor
    that a node loads for them.
    """

    file: Path | None
    is_named: bool = False
    """Whether somebody named the file; otherwise it was found in the folder."""
    values: dict[str, SourcedValue] = field(default_factory=dict)
    tables: dict[str, Mapping[str, object]] = field(default_factory=dict)
    plugins: dict[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def read_sources(
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> SourcedSettings:
    """Merge default < file < environment < flags. A flag of None, an empty variable: not given.

    `file` must exist when it is named; without a name ``./pgcron-ha.toml`` is read if it is there:
    then it must be this user's or root's, and nobody else's to write. Raises `ConfigError` for a
    file that can't be read or is not TOML; unknown names are problems.
    """
    found = file or Path(DEFAULT_FILE)
    merge = SourcedSettings(found if file or found.is_file() else None, is_named=file is not None)
    for setting in SETTINGS:
        merge.values[setting.key] = SourcedValue(setting.raw_default(), "default", setting.key)
    if merge.file is not None:
        _merge_file(merge, found)
    _merge_environment(merge, os.environ if environment is None else environment)
    for key, raw in (flags or {}).items():
        if raw is not None:
            merge.values[key] = SourcedValue(raw, "flag", BY_KEY[key].flag)
    return merge


def _merge_file(merge: SourcedSettings, path: Path) -> None:
    content = _read_toml(path, is_named=merge.is_named)
    for kind in CAPABILITIES:
        tables = content.pop(kind, {})
        if isinstance(tables, dict):
            merge.tables[kind] = tables
        else:
            merge.problems.append(f"{kind} ({path}): expected tables [{kind}.NAME]")
    for kind in [name for name, raw in content.items() if _is_for_a_plugin(name, raw)]:
        merge.plugins[kind] = content.pop(kind)  # type: ignore[assignment]
    for key, raw in _flatten(content):
        if key in BY_KEY:
            merge.values[key] = SourcedValue(raw, str(path), key)
        else:
            known = [*BY_KEY, *CAPABILITIES]
            merge.problems.append(f"'{key}' ({path}): unknown setting{did_you_mean(key, known)}")


def _is_for_a_plugin(name: str, raw: object) -> bool:
    """Whether it is tables in a table, which settings never are, and no misspelled known name."""
    tables = list(raw.values()) if isinstance(raw, dict) else []
    own = [*{key.partition(".")[0] for key in BY_KEY}, *CAPABILITIES]
    is_table = bool(tables) and all(isinstance(each, dict) for each in tables)
    return is_table and not did_you_mean(name, own)


def _read_toml(path: Path, *, is_named: bool) -> dict[str, object]:
    try:
        with path.open("rb") as file:
            if not is_named:
                _require_own(path, os.fstat(file.fileno()))
            content = file.read()
    except OSError as error:
        raise ConfigError(
            f"the configuration file '{path}' can't be read",
            error.strerror,
            "name another one with --config FILE, or leave the flag away for the defaults",
        ) from error
    try:
        return tomllib.loads(content.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the configuration file '{path}' is not TOML",
            str(error),
            'a setting is a line such as schema = "pgcron"; `pgcron-ha docs settings` shows a file',
        ) from error


def _require_own(path: Path, found: os.stat_result) -> None:
    """The file of a folder that another user writes to must not configure a command."""
    if found.st_uid not in (os.geteuid(), 0):
        wrong = f"belongs to the user with the id {found.st_uid}"
    elif may_others(found, stat.S_IWGRP, stat.S_IWOTH):
        wrong = f"may be written by others (mode {stat.S_IMODE(found.st_mode):04o})"
    else:
        return
    raise ConfigError(
        f"the configuration file '{path}' of this folder {wrong}",
        "A file that is not named must belong to you or root, and nobody else may write to it.",
        f"If you trust it, name it: --config {path}; or change its owner and mode.",
    )


def may_others(found: os.stat_result, by_group: int, by_others: int) -> bool:
    """Whether other users may do this to a file; the own group does not count as others."""
    by_a_group = bool(found.st_mode & by_group) and found.st_gid not in (os.getegid(), 0)
    return by_a_group or bool(found.st_mode & by_others)


def _flatten(content: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The keys of the file as settings name them: one level of tables."""
    for name, raw in content.items():
        if isinstance(raw, dict) and name not in BY_KEY:
            yield from ((f"{name}.{inner}", value) for inner, value in raw.items())
        else:
            yield name, raw


def _merge_environment(merge: SourcedSettings, environment: Mapping[str, str]) -> None:
    by_variable = {setting.variable: setting.key for setting in SETTINGS}
    endings = [variable.removeprefix(ENVIRONMENT_PREFIX) for variable in by_variable]
    for variable, raw in sorted(environment.items()):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if raw and variable in by_variable:
            merge.values[by_variable[variable]] = SourcedValue(raw, "environment", variable)
        elif raw and variable.startswith(ENVIRONMENT_PREFIX) and not _OF_OTHERS.fullmatch(name):
            guess = did_you_mean(name, endings).replace("'", f"'{ENVIRONMENT_PREFIX}", 1)
            merge.problems.append(f"{variable} (environment): unknown setting{guess}")


def load_obeyed(
    sources: SourcedSettings | None = None,
    executing: tuple[str, ...] = (),
    references: tuple[str, ...] = OF_APPS,
) -> Settings:
    """As `load_settings`, for a process that acts on them. A file that was found, and not named,
    may have no commands that print the secrets `references`, nor the settings `executing`: entering
    somebody's folder must execute nothing as this user. Raises `ConfigError`.
    """
    sources = read_sources() if sources is None else sources
    for key in (*references, *executing):
        value = sources.values[key]
        executes = "command:" in str(value.raw) if key in references else bool(value.raw)
        if executes and not sources.is_named and value.origin == str(sources.file):
            raise ConfigError(
                f"'{key}' of '{sources.file}' is not obeyed: it names what is executed here",
                "A file that was found in this folder, and not named, executes nothing.",
                f"If you trust it, name it with --config {sources.file}, or set the variable"
                f" {BY_KEY[key].variable} to what it has.",
            )
    return load_settings(sources)


def load_settings(sources: SourcedSettings | None = None) -> Settings:
    """The settings from these sources (by default: file, environment, no flags).

    Raises one `ConfigError` that lists every value that can't be used and every unknown name.
    """
    sources = read_sources() if sources is None else sources
    problems = list(sources.problems)
    typed: dict[str, Any] = {}
    for key, value in sources.values.items():
        try:
            typed[key] = None if value.raw is None else BY_KEY[key].read(value.raw)
        except ValueError as error:
            given = f"{value.name}='{shown(BY_KEY[key], value.raw)}' ({value.origin})"
            rule = str(error).removeprefix("expected ")
            problems.append(f"{given}: expected {rule}")
    problems.extend(_clear_text(typed))
    templates: dict[str, Any] = {}
    for kind, template in CAPABILITIES.items():
        templates[kind], found = read_tables(kind, sources.tables.get(kind, {}), template)
        problems.extend(f"{problem} ({sources.file})" for problem in found)
    if problems:
        raise _config_error(problems)
    sections = {
        name: section(**{each.name: typed.pop(f"{name}.{each.name}") for each in fields(section)})
        for name, section in SECTIONS.items()
    }
    return Settings(**typed, **sections, **templates, plugins=sources.plugins)


def shown(setting: Setting, raw: object) -> str:
    """A raw value as people may see it: bounded, and without a password."""
    text = ", ".join(map(str, raw)) if isinstance(raw, list) else str(raw)
    if setting.is_secret:
        # Greedy up to the last @: a password may contain one.
        text = re.sub(r"(://[^:/@\s]*):\S*@", r"\1:***@", text) if "://" in text else "***"
        text = re.sub(r"(password=)[^&\s]*", r"\1***", text)
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"


def _clear_text(typed: dict[str, Any]) -> Iterator[str]:
    """Settings with which the token of a callback would be sent unencrypted."""
    listen, url = typed.get("web.callbacks"), typed.get("web.public_url") or ""
    if typed.get("web.allow_private"):
        return
    rule = "a token is not sent in the clear"
    if url.startswith("http:") and urlsplit(url).hostname not in LOOPBACK:
        yield f"web.public_url='{url}': {rule}: use https, or web.allow_private = true"
    if listen is not None and listen.host.lower() not in LOOPBACK and not url.startswith("https:"):
        yield (
            f"web.callbacks='{listen}': {rule}: set web.public_url ="
            ' "https://…" to the proxy before it, or web.allow_private = true'
        )


def _config_error(problems: list[str]) -> ConfigError:
    hint = "`pgcron-ha config --explain` lists every setting, its default and its variable"
    kinds = {kind for problem in problems for kind in CAPABILITIES if problem.startswith(kind)}
    if len(kinds) == 1 and all(problem.startswith(tuple(kinds)) for problem in problems):
        hint = f"`pgcron-ha docs handlers` shows a whole [{kinds.pop()}.NAME] table"
    if len(problems) == 1:
        return ConfigError(problems[0], None, hint)
    return ConfigError(f"{len(problems)} problems in the configuration", "\n".join(problems), hint)
