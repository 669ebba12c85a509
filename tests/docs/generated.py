"""The parts of the reference that are made from the code: commands and the Python interface.

``python -m tests.docs.generated`` writes them. Between the marks of a section nothing is written by
hand; what stands around it is.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final, TypedDict

import click

import pgcron_ha
from tests.docs.blocks import DOCS
from tests.golden.record import commands, context_of
from tests.product.client import EnqueuedRun, HandlerDefaults, Policies, RunOptions, RunStatus

COMMAND: Final = "python -m tests.docs.generated"
PAGES: Final = tuple(DOCS / "reference" / name for name in ("command-line.md", "python.md"))

_WORKFLOWS: Final = (pgcron_ha.chain, pgcron_ha.chord, pgcron_ha.group, pgcron_ha.map_each)
_SECTION: Final = re.compile(
    r"(<!-- made from the code: (\w+) -->\n).*?(\n<!-- end of \2 -->)", re.DOTALL
)
_ITEM: Final = re.compile(r"^- ", re.MULTILINE)
# What sphinx reads: code, a name of ours, an indented block.
_CODE: Final = re.compile(r"``([^`]+)``")


def page(path: Path) -> str:
    """The page as it should be."""
    return _SECTION.sub(
        lambda found: found[1] + "\n".join(_lines(found[2])) + found[3],
        path.read_text(encoding="utf-8"),
    )


def _lines(section: str) -> Iterator[str]:
    if section == "commands":
        yield from _commands()
    elif section == "app":
        yield from _class(pgcron_ha.App)
    elif section == "context":
        yield from _class(pgcron_ha.Context)
    elif section == "workflow":
        yield from _class(pgcron_ha.Workflow)
        for each in _WORKFLOWS:
            yield from (f"### {each.__name__}", "", *_signed(each.__name__, each), "")
    elif section == "options":
        yield from _options(
            _annotations(RunOptions), _annotations(Policies), _annotations(HandlerDefaults)
        )
    elif section == "answers":
        yield from _class(EnqueuedRun)
        yield from _class(RunStatus)
    elif section == "others":
        known = (pgcron_ha.App, pgcron_ha.Context, pgcron_ha.Workflow, *_WORKFLOWS)
        for name in pgcron_ha.__all__:
            thing = getattr(pgcron_ha, name)
            if thing not in known and not isinstance(thing, ModuleType):
                yield from (f"### {name}", "", *_signed(name, thing), "")


def _annotations(options: Any) -> dict[str, str]:
    """The keys of a typed dictionary and of those it is made from, with their types as written."""
    bases = getattr(options, "__orig_bases__", ())
    own = {name: kind.__forward_arg__ for name, kind in vars(options)["__annotations__"].items()}
    return {
        name: kind
        for base in bases
        if base is not TypedDict
        for name, kind in _annotations(base).items()
    } | own


def _options(
    of_runs: dict[str, str], of_schedules: dict[str, str], of_handlers: dict[str, str]
) -> Iterator[str]:
    yield from ("| option | type | of runs | of schedules | of handlers |", f"|{' --- |' * 5}")
    for name, kind in sorted({**of_schedules, **of_runs}.items()):
        places = (of_runs, of_schedules, of_handlers)
        marks = ("yes" if name in options else "" for options in places)
        yield _row(f"`{name}`", f"`{kind}`", *marks)


def _commands() -> Iterator[str]:
    """Each command: how it is called, what it does, its options."""
    for words, command in commands():
        context = context_of(words, command)
        name = " ".join(words[1:]) or words[0]
        usage = " ".join(command.collect_usage_pieces(context))
        yield from (f"{'#' * min(len(words) + 1, 4)} {name}", "")
        yield from (f"`{' '.join(words)} {usage}`", "")
        yield from (_prose(command.help or ""), "")
        records = [
            record
            for each in command.get_params(context)
            if isinstance(each, click.Option) and "--help" not in each.opts
            if (record := each.get_help_record(context)) is not None
        ]
        if records:
            yield from ("| option | |", "| --- | --- |")
            yield from (
                _row(f"`{_names(names)}`", " ".join(text.split())) for names, text in records
            )
            yield ""


def _names(names: str) -> str:
    return re.sub(r" (INTEGER|FLOAT) RANGE", r" \1", names)


def _class(kind: type) -> Iterator[str]:
    """Its text, then its properties and methods by name."""
    yield from (*_signed(kind.__name__, kind), "")
    parents = dir(int) if issubclass(kind, int) else []
    names = sorted(set(dir(kind)) - set(parents))
    named = {name: inspect.getattr_static(kind, name) for name in names}
    public = {name: each for name, each in named.items() if not name.startswith("_")}
    properties = {name: each for name, each in public.items() if isinstance(each, property)}
    if properties:
        yield from ("| property | |", "| --- | --- |")
        for name, each in properties.items():
            yield _row(f"`{name}`", " ".join(_prose(inspect.getdoc(each) or "").split()))
        yield ""
    for name, each in public.items():
        if inspect.isfunction(each):
            yield from (f"### {kind.__name__}.{name}", "", *_signed(name, each), "")


def _signed(name: str, thing: Any) -> Iterator[str]:
    """How it is called, and its text."""
    begin = "async " if inspect.iscoroutinefunction(thing) else ""
    if _is_made_by_callers(thing):
        yield from (f"`{begin}{name}{_signature(thing)}`", "")
    yield _prose(inspect.getdoc(thing) or "")


def _is_made_by_callers(thing: Any) -> bool:
    """A context and a stop come from a node, a run and a workflow from an App."""
    return thing not in (pgcron_ha.Context, pgcron_ha.Stopped, pgcron_ha.Workflow, EnqueuedRun)


def _signature(thing: Any) -> str:
    signature = inspect.signature(thing)
    kept = [each for each in signature.parameters.values() if each.name != "self"]
    text = str(signature.replace(parameters=kept))
    text = re.sub(r"(: |-> )(['\"])((?:(?!\2).)*)\2", r"\1\3", text)
    return text.removesuffix(" -> None")


def _prose(text: str) -> str:
    """Paragraphs of a docstring or a help text as Markdown."""
    found = []
    for paragraph in inspect.cleandoc(text.replace("\f", "")).split("\n\n"):
        if paragraph.startswith("\b\n"):  # click leaves its lines as they are
            found.append(f"```\n{paragraph[2:]}\n```")
        elif paragraph.startswith("    "):
            code = textwrap.dedent(paragraph)
            found.append(f"```python not run: an extract\n{code}\n```")
        elif _ITEM.search(paragraph):
            found.append(_CODE.sub(r"`\1`", paragraph))
        elif paragraph != "::":
            found.append(_CODE.sub(r"`\1`", " ".join(paragraph.split())))
    return "\n\n".join(found)


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    """Bring the pages up to the code."""
    for path in PAGES:
        path.write_text(page(path), encoding="utf-8")


if __name__ == "__main__":
    main()
