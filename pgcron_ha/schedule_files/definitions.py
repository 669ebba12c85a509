"""What files define: each definition judged as every door judges it, with its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, TypeVar

from pgcron_ha.client.schedules import check_schedule
from pgcron_ha.db.commands.schedule_policies import SchedulePolicies
from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.schedule_files.calendar_definitions import (
    CALENDARS,
    CalendarDefinition,
    calendar_definitions,
    circle_of,
)
from pgcron_ha.schedule_files.documents import SUFFIXES, Document, read_file

MOST_FILES: Final = 1000
# As many problems are told at once.
MOST_REPORTED: Final = 20
TOP: Final = "schedules"
POLICIES: Final = tuple(
    name for name in SchedulePolicies.__annotations__ if name not in ("managed_by",)
)
KEYS: Final = ("spec", "handler", *POLICIES)

_TABLES: Final = (TOP, CALENDARS)


@dataclass(frozen=True)
class Definition:
    """One schedule as a file says it."""

    name: str
    values: Mapping[str, Any]
    """``spec``, ``handler``, and the policies that are set, as `interfaces.put_schedule` takes
    them.
    """
    where: str
    """``file, line 3``."""

    def as_put(self) -> dict[str, Any]:
        """As `pgcron_ha.db.commands.schedule_files.apply_schedules` takes it."""
        return {"name": self.name, **self.values}


@dataclass(frozen=True)
class Definitions:
    """What files define, each by name."""

    schedules: list[Definition]
    calendars: list[CalendarDefinition]


Named = TypeVar("Named", Definition, CalendarDefinition)


def files_of(path: Path) -> list[Path]:
    """The file, or the YAML files of the folder and those in it, by name, without hidden ones."""
    if not path.is_dir():
        return [path]
    found = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix in SUFFIXES
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(path).parts)
    ]
    if not 1 <= len(found) <= MOST_FILES:
        raise InvalidInput(
            f"{path} has {len(found)} files of schedules",
            f"A folder has 1 to {MOST_FILES} files that end with {', '.join(SUFFIXES)}.",
            "Name another folder, or a file.",
        )
    return found


def read_definitions(paths: Iterable[Path]) -> Definitions:
    """The schedules and calendars of all files, by name.

    Raises InvalidInput that tells every problem (up to `MOST_REPORTED`) with its file and line.
    """
    problems: list[PgcronError] = []
    calendars: dict[str, CalendarDefinition] = {}
    schedules: dict[str, Definition] = {}
    for document in _documents(paths, problems):
        if not _is_file_of_own(document, problems):
            continue
        if CALENDARS in document.value:
            found = calendar_definitions(document, document.value[CALENDARS], problems)
            _keep("calendar", calendars, found, problems)
        if TOP in document.value:
            defined = _definitions(document, document.value[TOP], problems)
            _keep("schedule", schedules, defined, problems)
    circle = circle_of(calendars)
    if circle is not None:
        problems.append(circle)
    if problems:
        raise _together(problems)
    return Definitions(
        [schedules[name] for name in sorted(schedules)],
        [calendars[name] for name in sorted(calendars)],
    )


def judge(name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of one schedule, complete and checked; what is empty is left out.

    Raises the errors of `pgcron_ha.client.schedules.check_schedule`.
    """
    for key in ("spec", "handler"):
        if key not in values:
            raise InvalidInput(
                f"{key} is missing", "A schedule has a spec and a handler.", f"Write its {key}."
            )
    spec = values["spec"]
    if isinstance(spec, list) and all(isinstance(line, str) for line in spec):
        spec = "\n".join(spec)
    policies = {key: value for key, value in values.items() if key in POLICIES}
    if not isinstance(policies.get("enabled", True), bool):
        raise InvalidInput("enabled is not true or false", "It says whether the schedule fires.")
    checked = check_schedule(name, spec, values["handler"], {"overlap": "skip", **policies})
    set_ones = {key: value for key, value in checked.items() if value not in (None, "", (), "{}")}
    return {"spec": spec, "handler": values["handler"], **set_ones}


def _documents(paths: Iterable[Path], problems: list[PgcronError]) -> Iterable[Document]:
    for path in paths:
        try:
            documents = read_file(path)
            if len(documents) > 1:
                raise InvalidInput(
                    f"{path} has {len(documents)} documents",
                    "A file of schedules is one document.",
                    "Remove the lines with --- between them.",
                )
            yield from documents
        except PgcronError as error:
            problems.append(error)


def _is_file_of_own(document: Document, problems: list[PgcronError]) -> bool:
    top = document.value
    if top is None:
        return False
    strange = [key for key in top if key not in _TABLES] if isinstance(top, dict) else []
    if strange:
        problems.append(_unknown_key(document.where(strange[0]), strange[0], _TABLES))
    elif not isinstance(top, dict) or not top:
        problems.append(_no_schedules(document))
    return isinstance(top, dict) and not strange


def _keep(
    kind: str, kept: dict[str, Named], defined: Iterable[Named], problems: list[PgcronError]
) -> None:
    """By name; a name that stands in two files is a problem."""
    for definition in defined:
        twin = kept.setdefault(definition.name, definition)
        if twin is not definition:
            problems.append(
                InvalidInput(
                    f"{kind} {definition.name!r} is defined twice: in {twin.where}, and in"
                    f" {definition.where}",
                    "One name has one definition.",
                    "Remove one of them, or choose another name.",
                )
            )


def _no_schedules(document: Document) -> InvalidInput:
    return InvalidInput(
        f"{document.where()}: there is no table {TOP!r}",
        f"A file has tables {TOP} and {CALENDARS}: names and their definitions.",
        "`pgcron-ha schedules schema` prints its form, `schedules export` an example.",
    )


def _definitions(
    document: Document, schedules: object, problems: list[PgcronError]
) -> Iterable[Definition]:
    if not isinstance(schedules, dict):
        problems.append(_no_schedules(document))
        return
    for name, values in schedules.items():
        try:
            yield _definition(document, name, values)
        except PgcronError as error:
            problems.append(error)


def _definition(document: Document, name: str, values: object) -> Definition:
    where = document.where(TOP, name)
    if not isinstance(values, dict):
        raise InvalidInput(
            f"{where}: schedule {name!r} is no table",
            "A definition has at least spec and handler.",
            "Write them beneath its name.",
        )
    for key in values:
        if key not in KEYS:
            raise _unknown_key(document.where(TOP, name, key), key, KEYS)
    try:
        return Definition(name, judge(name, values), where)
    except PgcronError as error:
        raise type(error)(
            f"{where}: schedule {name!r}: {error.message}", error.detail, error.hint
        ) from error


def _unknown_key(where: str, key: str, known: Sequence[str]) -> InvalidInput:
    near = get_close_matches(key, known, n=1, cutoff=0.5)
    return InvalidInput(
        f"{where}: there is no key {key[:100]!r}",
        f"The keys here are {', '.join(known)}.",
        f"Did you mean {near[0]!r}?" if near else "Correct its spelling, or leave it out.",
    )


def _together(problems: Sequence[PgcronError]) -> PgcronError:
    if len(problems) == 1:
        return problems[0]
    reported = [
        f"{problem.message}: {problem.hint or problem.detail}"
        for problem in problems[:MOST_REPORTED]
    ]
    if len(problems) > MOST_REPORTED:
        reported.append(f"and {len(problems) - MOST_REPORTED} more")
    return InvalidInput(
        f"{len(problems)} definitions can't be used",
        "\n  ".join(["Each of them:", *reported]),
        "Nothing is changed; correct them all, or leave them out.",
    )
