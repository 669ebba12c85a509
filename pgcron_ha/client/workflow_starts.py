"""What starts a workflow: a name, or parts that are put together where they are needed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pgcron_ha.client import checks
from pgcron_ha.client.options import OF_RUNS
from pgcron_ha.client.registry import Registry
from pgcron_ha.client.run_request import RunRequest, request_run
from pgcron_ha.client.workflow_definitions import MOST_ITEMS, NAME, step_name
from pgcron_ha.client.workflow_paths import Path, member
from pgcron_ha.client.workflows import AD_HOC, Step, Workflow
from pgcron_ha.db.commands import workflows
from pgcron_ha.errors import InvalidInput, TooLarge

# A step's name has 100 characters; a number may follow.
_MOST_OF_NAME: Final = 90
# What is said of attempts, which a workflow has none of.
_OF_STEPS: Final = {"max_attempts", "retry", "delivery", "requires", "weight", "silence_timeout"}


class _Parts:
    """The steps that parts become. Their args are the workflow's, so that the definition, which is
    stored, is the same whatever they are.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        self.flow = Workflow(registry)
        self.args: dict[str, Any] = {}
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}

    def place(self, part: Part, after: list[Step], items: list[Any] | None = None) -> list[Step]:
        """The last steps of the part."""
        if isinstance(part, AdHoc):
            return part.place(self, after)
        options: Any = dict(part) if isinstance(part, Mapping) else {"handler": part}
        full_name = self.registry.name_of(options.pop("handler", ""))
        text = checks.args_text(options.pop("args", None))
        args = json.loads(self.registry.sent_args(full_name, text, items is None))
        name = step_name(options.get("name") or self._free_name(full_name))
        self._names.add(name)
        paths = {key: Path(f"$.args{member(name)}{member(key)}") for key in args}
        options |= {"name": name, "args": paths, "after": after}
        if items is not None:
            known = self.registry.handlers.get(full_name)
            if known is not None and known.takes_secrets:
                items = [known.encrypted({"item": item})["item"] for item in items]
            self.args[name] = {**args, "item": items}
            return [self.flow.map(full_name, Path(f"$.args{member(name)}.item"), **options)]
        if args:
            self.args[name] = args
        return [self.flow.step(full_name, **options)]

    def _free_name(self, full_name: str) -> str:
        """The handler's, and a number after it if another step has that."""
        name = full_name.partition(":")[2].replace(".", "_")[:_MOST_OF_NAME]
        name = name if NAME.fullmatch(name) else f"_{name}"
        count, free = self._counts.get(name, 1), name
        while free in self._names:
            count += 1
            free = f"{name}-{count}"
        self._counts[name] = count
        return free


@dataclass(frozen=True, slots=True)
class AdHoc:
    """What `chain`, `group`, `chord` and `map_each` give: `App.start` takes it, and they do."""

    place: Callable[[_Parts, list[Step]], list[Step]]


Part: TypeAlias = str | Callable[..., Any] | Mapping[str, Any] | AdHoc
"""A handler (a function or a name), or what `App.enqueue_many` takes: ``{"handler": "load", "args":
{"day": 1}, "queue": "slow"}``, with the options of a step; or several parts put together.
"""


def chain(*parts: Part) -> AdHoc:
    """One part after the other, each when the one before it has succeeded; it finds the result of
    that in `Context.results`, by the part's ``name``, or without one by its handler's (dots as
    ``_``; the second part of handler ``load`` is ``load-2``).
    """

    def place(flow: _Parts, after: list[Step]) -> list[Step]:
        for part in parts:
            after = flow.place(part, after)
        return after

    return AdHoc(place)


def group(*parts: Part) -> AdHoc:
    """All parts at once."""
    return AdHoc(lambda flow, after: [last for part in parts for last in flow.place(part, after)])


def chord(parts: Iterable[Part], then: Part) -> AdHoc:
    """All parts at once, and another one when all have succeeded."""
    return chain(group(*parts), then)


def map_each(
    handler: str | Callable[..., Any] | Mapping[str, Any],
    items: Iterable[Any],
    *,
    max_parallel: int | None = None,
    tolerate: int | None = None,
) -> AdHoc:
    """A handler for each of up to 10,000 items, with the arg ``item``; as `Workflow.map`."""
    listed = list(items)
    if len(listed) > MOST_ITEMS:
        raise TooLarge(
            f"{len(listed)} items are given",
            f"One map has up to {MOST_ITEMS} items.",
            "Make several parts of them, or give each run several of them.",
        )
    limits = {"max_parallel": max_parallel, "tolerate": tolerate}
    part = dict(handler) if isinstance(handler, Mapping) else {"handler": handler}
    return AdHoc(lambda flow, after: flow.place({**part, **limits}, after, listed))


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What ``pgcron.start_workflow`` takes, every value checked."""

    request: RunRequest
    definition: str | None
    """None: the workflow has a name."""

    async def send(self, connection: Any, schema: str) -> int:
        """The run's id; in the transaction of `connection`."""
        given = {"args": self.request.args, **self.request.options, "schema": schema}
        if self.definition is not None:
            return await workflows.start_definition(connection, self.definition, **given)
        name = self.request.handler.partition(":")[2]
        return await workflows.start_workflow(connection, name, **given)


def request_start(
    registry: Registry,
    workflow: str | Callable[..., Any] | AdHoc,
    args: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> StartRequest:
    """The checked request. Raises InvalidInput, TooLarge."""
    definition = None
    if isinstance(workflow, AdHoc):
        if args:
            raise InvalidInput(
                "args are given to a workflow without a name",
                "Its parts have args.",
                'Write for example chain({"handler": "load", "args": {"day": 1}}, "report").',
            )
        parts = _Parts(registry)
        workflow.place(parts, [])
        definition = json.dumps(parts.flow._definition(), ensure_ascii=False)
        workflow, args = f"workflow:{AD_HOC}", parts.args
    elif isinstance(workflow, str) and ":" not in workflow:
        workflow = f"workflow:{workflow}"
    full_name = registry.name_of(workflow)
    if not full_name.startswith("workflow:"):
        raise InvalidInput(
            f"'{full_name}' is no workflow",
            "A workflow is a name, a function that @app.workflow() decorates, or parts.",
            "Enqueue a run of a handler with app.enqueue(…), or write chain(…).",
        )
    request = request_run(full_name, args, options)
    fact, which = "a workflow is started without the option", "Beside unique, the options"
    hint = "Give it to a step, or leave it out."
    checks.refuse_others(request.options, sorted(OF_RUNS.keys() - _OF_STEPS), fact, which, hint)
    return StartRequest(request, definition)
