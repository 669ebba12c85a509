"""Workflows in Python: built where they are written, put into the database by nodes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, Required, TypedDict, TypeGuard, Unpack

from pgcron_ha.client import checks
from pgcron_ha.client.mistakes import refuse_second
from pgcron_ha.client.options import OF_HANDLERS, HandlerDefaults
from pgcron_ha.client.registry import Registry
from pgcron_ha.client.workflow_definitions import judged_workflow, step_place
from pgcron_ha.client.workflow_paths import Condition, Path, member
from pgcron_ha.config.values import Span
from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.spec.text import type_words

AD_HOC: Final = "ad_hoc"
"""The name of what is started without one."""

NAME: Final = re.compile(r"(?![0-9]+$)[A-Za-z0-9_][A-Za-z0-9_.-]{0,196}")
"""A number is that of a run."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a workflow, for what comes after it, or reads its result."""

    name: str

    @property
    def result(self) -> Path:
        """``extract.result["rows"]`` is what its handler has returned, when the workflow runs."""
        return Path(f"${member(self.name)}")


Repeat = TypedDict(
    "Repeat",
    {"while": Required[Condition | Path | str], "at_most": Required[int], "every": Span},
    total=False,
)
"""Again and again, `every` so often, while a path in the step's own result (`Workflow.own_result`)
is true.
"""


class Dependencies(TypedDict, total=False):
    """When a step begins: `after` which, by which `rule`, if `when` is true; and its part in the
    workflow. One that is `optional` may fail. With ``finally_`` it begins when all else is over.
    """

    after: Step | str | Iterable[Step | str] | None
    rule: Literal["all_succeeded", "all_ended", "one_succeeded", "one_failed", "none_failed"] | None
    when: Condition | Path | str | None
    optional: bool
    finally_: bool


class WaitOptions(Dependencies, total=False):
    """How long a step waits for somebody, and what it does then."""

    deadline: Span | None
    at_deadline: Literal["fail", "succeed", "skip"] | None


class StepOptions(Dependencies, HandlerDefaults, total=False):
    """What a step of a handler may have: of `args` each may be a path, and what a run may have, of
    which the handler's defaults replace what is left out. Without a `name` it has its handler's.
    What `compensates` another step begins when that has succeeded, and the workflow failed.
    """

    name: str | None
    args: Mapping[str, Any] | None
    compensates: Step | str | None
    repeat: Repeat | None


class MapOptions(StepOptions, total=False):
    """How many items execute at once, and how many may fail."""

    max_parallel: int | None
    tolerate: int | None


class Workflow:
    """The steps of a workflow, while its function builds it: ``@app.workflow()``."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._steps: list[dict[str, Any]] = []

    @property
    def args(self) -> Path:
        """``flow.args["day"]`` is what the workflow is started with."""
        return Path("$.args")

    @property
    def item(self) -> Path:
        """In a `map`: the item of the list that a run is for."""
        return Path("$.item")

    @property
    def own_result(self) -> Path:
        """In `repeat`: what the step's handler has returned."""
        return Path("$")

    def step(self, handler: str | Callable[..., Any], **options: Unpack[StepOptions]) -> Step:
        """Execute a handler: a function, or a name, ``shell:load``; or another workflow,
        ``workflow:etl``.
        """
        return self._add_run(handler, {}, options)

    def map(
        self, handler: str | Callable[..., Any], over: Path | str, **options: Unpack[MapOptions]
    ) -> Step:
        """Execute a handler for each item of a list, up to 10,000, with the arg ``item``; without
        it, if one of its args is a path in `item`.

        No more than `max_parallel` of them execute at once. The step fails when more than
        `tolerate` of them do: none. Its result is the list of theirs.
        """
        if not isinstance(over, Path | str):
            raise InvalidInput(
                f"over is {type_words(over)}, and no path",
                "map goes through a list that the workflow finds when it runs.",
                'Give the list to the workflow as an arg, and write over=flow.args["items"], or'
                " start map_each(handler, items).",
            )
        return self._add_run(handler, {"for_each": over}, options)

    def signal(self, name: str, **options: Unpack[WaitOptions]) -> Step:
        """Wait for ``app.signal(run, name, payload)``; the payload is the result.

        When the `deadline` is over the step fails, or does what `at_deadline` says: ``fail``,
        ``succeed`` or ``skip``.
        """
        return self._add({"wait_for": "signal", "name": name}, options)

    def approval(self, name: str, **options: Unpack[WaitOptions]) -> Step:
        """Wait until somebody approves: the step has succeeded; or refuses: it has failed."""
        return self._add({"wait_for": "approval", "name": name}, options)

    def timer(self, name: str, length: Span, **options: Unpack[Dependencies]) -> Step:
        """Wait for so long."""
        return self._add({"wait_for": "timer", "name": name, "deadline": length}, options)

    def _definition(self, **settings: Any) -> dict[str, Any]:
        """As SQL takes it. Raises InvalidInput, TooLarge with the places of all mistakes."""
        return judged_workflow({**settings, "steps": self._steps})

    def _add_run(
        self, handler: str | Callable[..., Any], own: dict[str, Any], options: Mapping[str, Any]
    ) -> Step:
        full_name = self._registry.name_of(handler)
        of_run = {name: each for name, each in options.items() if name in OF_HANDLERS}
        args: Any = options.get("args") or {}
        if isinstance(args, Mapping):
            own["args_from"] = {key: each.text for key, each in args.items() if _is_path(each)}
            args = {key: each for key, each in args.items() if not _is_path(each)}
        name = options.get("name") or full_name.partition(":")[2].replace(".", "_")
        step = {**options, **self._registry.options(full_name, of_run), "name": name, "args": args}
        if not own.keys() - {"args_from"} and not own.get("args_from"):
            try:
                self._registry.check_args(full_name, checks.args_text(args))
            except PgcronError as error:
                raise error.about(step_place(len(self._steps) + 1, step)) from None
        return self._add({"handler": full_name, **own}, step)

    def _add(self, own: Mapping[str, Any], options: Mapping[str, Any]) -> Step:
        """What is empty is left out; steps are named, and paths written."""
        step = {name.rstrip("_"): each for name, each in {**own, **options}.items()}
        after = step.get("after")
        if after is not None and not isinstance(after, str | Step):
            step["after"] = [each.name if isinstance(each, Step) else each for each in after]
        if isinstance(step.get("repeat"), Mapping):
            step["repeat"] = {name: _text(each) for name, each in step["repeat"].items()}
        written = {key: _text(each) for key, each in step.items()}
        self._steps.append(
            {key: each for key, each in written.items() if each not in (None, {}, [])}
        )
        return Step(str(step["name"]))


def _is_path(value: object) -> TypeGuard[Condition | Path]:
    return isinstance(value, Condition | Path)


def _text(value: Any) -> Any:
    if isinstance(value, Step):
        return value.name
    return value.text if _is_path(value) else value


def define_workflow(
    name: str, build: Callable[[Workflow], object], registry: Registry, settings: Mapping[str, Any]
) -> None:
    """The workflow that `build` describes is one of the App. Raises ConfigError, InvalidInput,
    TooLarge.
    """
    full_name = workflow_name(name)
    refuse_second("workflow", name, registry.workflows, "In the cluster", "'other'")
    flow = Workflow(registry)
    build(flow)
    registry.workflows[name] = flow._definition(**settings)
    registry.stand_for(full_name, build)


def workflow_name(name: str) -> str:
    """The full name, ``workflow:etl``. Raises InvalidInput."""
    if name == AD_HOC or not NAME.fullmatch(name):
        raise InvalidInput(
            f"a workflow can't have the name '{name[:200]}'",
            'A name has 1 to 197 letters, digits, "_", "." and "-", begins with none of the last'
            " two, and is no number, which is that of a run; "
            f"{AD_HOC} is that of definitions without a name.",
            "Choose another one.",
        )
    return f"workflow:{name}"
