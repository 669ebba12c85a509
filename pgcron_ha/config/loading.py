"""Types applied once, every problem reported together."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from pgcron_ha.config.capability_table import read_tables
from pgcron_ha.config.settings import BY_KEY, CAPABILITIES, SECTIONS, Setting, Settings
from pgcron_ha.config.sources import SourcedSettings, SourcedValue, read_sources
from pgcron_ha.config.values import LOOPBACK
from pgcron_ha.errors import ConfigError

# The beginning of a value is enough to recognize it in a sentence.
_SHOWN_CHARACTERS = 80


def load_settings(sources: SourcedSettings | None = None) -> Settings:
    """The settings from these sources (by default: file, environment, no flags).

    Raises one `ConfigError` that lists every value that can't be used and every unknown name.
    """
    sources = read_sources() if sources is None else sources
    problems = list(sources.problems)
    typed: dict[str, Any] = {}
    for key, value in sources.values.items():
        try:
            typed[key] = BY_KEY[key].read(value.raw)
        except ValueError as error:
            problems.append(_problem(BY_KEY[key], value, str(error)))
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


def _clear_text(typed: dict[str, Any]) -> list[str]:
    """What would send the token of a callback where others can read it on its way."""
    listen, url = typed.get("web.callbacks"), typed.get("web.public_url")
    if typed.get("web.allow_private"):
        return []
    problems = []
    rule = "a token is not sent in the clear: use https, or web.allow_private = true"
    if url is not None and url.startswith("http:") and urlsplit(url).hostname not in LOOPBACK:
        problems.append(f"web.public_url='{url}': {rule}")
    is_behind = url is not None and url.startswith("https:")
    if listen is not None and listen.host.lower() not in LOOPBACK and not is_behind:
        problems.append(
            f"web.callbacks='{listen}': a token is not sent in the clear: set web.public_url ="
            ' "https://…" to what stands before it, or web.allow_private = true'
        )
    return problems


def _problem(setting: Setting, value: SourcedValue, expected: str) -> str:
    return f"{value.name}='{shown(setting, value.raw)}' ({value.origin}): expected {expected}"


def _config_error(problems: list[str]) -> ConfigError:
    hint = "`pgcron-ha config --explain` lists every setting, its default and its variable"
    kinds = {kind for problem in problems for kind in CAPABILITIES if problem.startswith(kind)}
    if len(kinds) == 1 and all(problem.startswith(tuple(kinds)) for problem in problems):
        hint = f"README.md shows a whole [{kinds.pop()}.NAME] table"
    if len(problems) == 1:
        return ConfigError(problems[0], None, hint)
    return ConfigError(f"{len(problems)} problems in the configuration", "\n".join(problems), hint)
