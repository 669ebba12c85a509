"""The definitions of files: each schedule, workflow and calendar is checked as by every interface,
and errors name its place in the file. What is written as YAML is read back unchanged.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import yaml

from pgcron_ha.client import checks, options, schedules
from pgcron_ha.client.workflow_definitions import (
    OF_STEPS,
    OF_WORKFLOWS,
    judged_workflow,
    step_place,
)
from pgcron_ha.client.workflows import workflow_name
from pgcron_ha.db.commands.functions import JSON_COLUMNS
from pgcron_ha.errors import InvalidCalendar, InvalidInput, Mistakes, PgcronError
from pgcron_ha.schedule_files.documents import SUFFIXES, Document, read_file
from pgcron_ha.spec.calendars import calendar
from pgcron_ha.spec.text import duration_text

MOST_FILES: Final = 1000
SCHEDULES: Final = "schedules"
CALENDARS: Final = "calendars"
WORKFLOWS: Final = "workflows"
POLICIES: Final = tuple(name for name in options.POLICIES if name != "managed_by")
KEYS: Final = ("spec", "handler", *POLICIES)

_TABLES: Final = (SCHEDULES, WORKFLOWS, CALENDARS)


@dataclass(frozen=True)
class Definitions:
    """What files define, by name."""

    schedules: Mapping[str, Mapping[str, Any]]
    """``spec``, ``handler``, and the policies that are set, as
    `pgcron_ha.db.commands.schedule_files.apply_schedules` takes them.
    """
    workflows: Mapping[str, Mapping[str, Any]]
    """As `pgcron_ha.client.workflow_definitions.judged_workflow` gives them."""
    calendars: Mapping[str, str]
    """A rule in each line, as `pgcron_ha.spec.calendars.calendar` reads them."""
    places: Mapping[str, str]
    """The file and line of each, by kind and name: ``workflow 'etl'``."""

    @contextmanager
    def placed(self) -> Iterator[None]:
        """What the database refuses of one of them names its place, too."""
        try:
            yield
        except PgcronError as error:
            of_what = error.message.partition(": ")[0]
            if of_what not in self.places:
                raise
            raise error.about(self.places[of_what]) from error


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
    """The schedules, workflows and calendars of all files, by name.

    Raises InvalidInput that names every mistake (up to `MOST_REPORTED`) with its file and line.
    """
    mistakes = Mistakes()
    found: dict[str, dict[str, Any]] = {table: {} for table in _TABLES}
    places: dict[str, str] = {}
    for path in paths:
        with mistakes.kept():
            document = _only_document(path)
            for table, name, value in _entries(document):
                with mistakes.kept():
                    judged = _judged(document, table, name, value)
                    where, which = document.where(table, name), f"{_kind(table)} {name!r}"
                    if (first := places.setdefault(which, where)) != where:
                        raise InvalidInput(
                            f"{which} is defined twice: in {first}, and in {where}",
                            "One name has one definition.",
                            "Remove one of them, or choose another name.",
                        )
                    found[table][name] = judged
    mistakes.raise_any()
    by_name = {table: dict(sorted(found[table].items())) for table in _TABLES}
    return Definitions(by_name[SCHEDULES], by_name[WORKFLOWS], by_name[CALENDARS], places)


def judged_schedule(name: str, values: object) -> dict[str, Any]:
    """The values of one schedule, complete and checked; what is empty is left out.

    Raises the errors of `pgcron_ha.client.schedules.check_schedule`.
    """
    rule = "A definition has at least spec and handler."
    values = checks.mapping("it", values, rule, "Write them beneath its name.")
    mistakes = Mistakes()
    for key in ("spec", "handler"):
        if key not in values:
            rule, hint = "A schedule has a spec and a handler.", f"Write its {key}."
            mistakes.found.append(InvalidInput(f"{key} is missing", rule, hint))
    # With one that is fine in place of a missing one the rest is judged.
    spec, handler = _joined(values.get("spec", "@daily")), values.get("handler", "py:missing")
    policies = {key: value for key, value in values.items() if key in POLICIES}
    with mistakes.kept():
        checked = schedules.check_schedule(name, spec, handler, {"overlap": "skip", **policies})
    mistakes.raise_any()
    set_ones = {key: value for key, value in checked.items() if value not in (None, "", (), "{}")}
    return {"spec": spec, "handler": handler, **set_ones}


def _only_document(path: Path) -> Document:
    documents = read_file(path)
    if len(documents) > 1:
        raise InvalidInput(
            f"{path} has {len(documents)} documents",
            "A file of schedules is one document.",
            "Remove the lines with --- between them.",
        )
    return documents[0]


def _entries(document: Document) -> Iterator[tuple[str, str, Any]]:
    """Table, name and value of each definition; none of an empty file."""
    top = {SCHEDULES: {}} if document.value is None else document.value
    if not isinstance(top, dict) or not top:
        raise _no_table(document, f"there is no key {SCHEDULES!r}")
    _refuse_unknown_keys(document, top, _TABLES)
    for table, entries in top.items():
        if not isinstance(entries, dict):
            raise _no_table(document, f"{table!r} is no mapping", table)
        for name, value in entries.items():
            yield table, name, value


def _no_table(document: Document, fact: str, *place: str) -> InvalidInput:
    return InvalidInput(
        f"{document.where(*place)}: {fact}",
        f"Its keys are {SCHEDULES}, {WORKFLOWS} and {CALENDARS}: names and their definitions.",
        "`pgcron-ha schedules schema` prints its form, `schedules export` an example.",
    )


def _judged(document: Document, table: str, name: str, value: Any) -> Any:
    mistakes = Mistakes()
    if table == SCHEDULES and isinstance(value, dict):
        with mistakes.kept():
            _refuse_unknown_keys(document, value, KEYS, table, name)
    judge: Callable[[str, Any], Any] = judged_schedule if table == SCHEDULES else _calendar
    if table == WORKFLOWS:
        judge = partial(_workflow, document)
    with mistakes.kept(f"{document.where(table, name)}: {_kind(table)} {name!r}"):
        judged = judge(name, value)
    mistakes.raise_any()
    return judged


def _workflow(document: Document, name: str, value: Any) -> dict[str, Any]:
    def place(number: int, step: object) -> str:
        line = document.line_of(WORKFLOWS, name, "steps", number - 1)
        return f"{step_place(number, step)} in line {line}"

    workflow_name(name)
    return judged_workflow(value, place)


def _calendar(name: str, value: Any) -> str:
    if not calendar.NAME.fullmatch(name):
        raise InvalidCalendar(
            "it is not a name of a calendar",
            'A name has 1 to 100 letters, digits, "_", "." and "-", and begins with a letter or a'
            " digit.",
            "Write for example holidays.",
        )
    content = _joined(value)
    if not isinstance(content, str):
        raise InvalidCalendar(
            "it is no text, and no list of texts",
            "A calendar has a rule in each line.",
            'Write for example ["yearly 12-25 # Christmas Day", "sat,sun"].',
        )
    content = content.rstrip(" \t\r\n")
    calendar.read_calendar(content)
    return f"{content}\n"


def _joined(value: Any) -> Any:
    """A list of lines as the text that it is."""
    is_lines = isinstance(value, list) and all(isinstance(line, str) for line in value)
    return "\n".join(value) if is_lines else value


def _kind(table: str) -> str:
    return table.removesuffix("s")


def _refuse_unknown_keys(
    document: Document, given: Iterable[str], known: Sequence[str], *place: str
) -> None:
    mistakes = Mistakes()
    for key in given:
        fact = f"{document.where(*place, key)}: there is no key"
        mistakes.tried(checks.refuse_others, [key], known, fact, "The keys here")
    mistakes.raise_any()


class _Dumper(yaml.SafeDumper):
    """Quotes what YAML 1.1 or 1.2 would not read as text; texts of several lines stay lines."""


# Floats of YAML 1.2 that 1.1 takes for text.
_Dumper.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9.]+([eE][-+]?[0-9]+)?\Z"), None
)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text and not re.search(r"[ \t]\n|[ \t]\Z|\A\s", text) else None
    if not text.replace("\n", "").isprintable():
        style = '"'  # what else breaks lines, such as NEL, is written as an escape
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)


def definition_of(row: Mapping[str, Any], default: Mapping[str, Any]) -> dict[str, Any]:
    """The definition of a row's schedule: only what is not the default. Durations are texts.

    Both rows are those of `pgcron_ha.db.commands.schedule_files`.
    """
    said = {"spec": row["spec"], "handler": row["handler"]}
    for name in POLICIES:
        if name in row and row[name] is not None and row[name] != default.get(name):
            said[name] = _plain(name, row[name])
    return said


def workflow_of(definition: Mapping[str, Any]) -> dict[str, Any]:
    """A stored definition of a workflow as people write it, if it is one that they may write."""
    with suppress(InvalidInput):
        definition = judged_workflow(definition)
    said = {key: definition[key] for key in OF_WORKFLOWS if definition.get(key) is not None}
    steps = definition["steps"]
    return said | {"steps": [{key: step[key] for key in OF_STEPS if key in step} for step in steps]}


def as_yaml(
    definitions: Mapping[str, Mapping[str, Any]],
    calendars: Mapping[str, str] | None = None,
    workflows: Mapping[str, Mapping[str, Any]] | None = None,
) -> str:
    """The text of a file; ends with a newline."""
    tables = {CALENDARS: calendars, WORKFLOWS: workflows}
    written = {table: dict(entries) for table, entries in tables.items() if entries}
    schedules = {name: dict(said) for name, said in definitions.items()}
    return yaml_text({**written, SCHEDULES: schedules})


def yaml_text(value: Any) -> str:
    """Plain values as YAML; ends with a newline."""
    return yaml.dump(
        value,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        width=100,
    )


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        return duration_text(value)
    if name in JSON_COLUMNS:
        return json.loads(value)
    return list(value) if isinstance(value, list | tuple) else value
