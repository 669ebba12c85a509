"""The calendars of a spec that is no schedule yet: from files, else of the database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.session import on_database
from pgcron_ha.db.commands import calendars as interfaces
from pgcron_ha.errors import InvalidInput, InvalidSpec
from pgcron_ha.spec.calendars.calendar import MOST_CHARACTERS, NAME, Calendars, parts_of
from pgcron_ha.spec.spec import calendar_names


def calendars_for(spec: str, given: Sequence[str]) -> Calendars:
    """What the spec needs, and no more. ``given`` are ``NAME=FILE``; what they don't have is asked
    of the database, if there is one. A spec that names no calendar needs neither.

    Raises InvalidSpec for a calendar that is not known, InvalidInput for a file that can't be read.
    """
    contents = dict(_from_file(one) for one in given)
    if "in" not in spec.lower().split():
        return ()
    names = calendar_names(spec)
    while missing := _missing(names, contents):
        found = _of_database(missing)
        if not set(missing) & set(found):
            raise InvalidSpec(
                f'calendar "{missing[0]}" is not known',
                "a spec names calendars that exist, spelled exactly",
                f"give its lines (--calendar {missing[0]}=FILE), or the database with it (--dsn)",
            )
        contents = {**found, **contents}
    return tuple(sorted((name, contents[name]) for name in _reached(names, contents)))


def _reached(names: Iterable[str], contents: Mapping[str, str]) -> list[str]:
    """These calendars and those that they name, known or not."""
    reached = list(names)
    for name in reached:  # it grows as they name others
        reached += [part for part in parts_of(contents.get(name, "")) if part not in reached]
    return reached


def _missing(names: Iterable[str], contents: Mapping[str, str]) -> list[str]:
    return [name for name in _reached(names, contents) if name not in contents]


def _of_database(names: Sequence[str]) -> dict[str, str]:
    if command_context().load().dsn is None:
        return {}
    asked = "\n".join(f"not in {name}" for name in names)
    found = on_database(lambda s: interfaces.calendars_of(s.connection, asked, schema=s.schema))
    contents: dict[str, str] = json.loads(found or "{}")
    return contents


def _from_file(given: str) -> tuple[str, str]:
    name, is_given, path = given.partition("=")
    if not is_given or not NAME.fullmatch(name):
        raise InvalidInput(
            f"{given[:100]!r} does not name a calendar and its file",
            "It is written NAME=FILE; the file has a rule in each line.",
            "Write for example --calendar holidays=holidays.txt.",
        )
    try:
        with Path(path).open(encoding="utf-8") as file:
            content = file.read(MOST_CHARACTERS + 1)
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"{path[:200]} can't be read", f"{error}.", "Name a file in UTF-8 that you may read."
        ) from None
    return name, content
