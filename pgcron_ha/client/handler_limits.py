"""Time limits that a handler declares: what its runs have when who asks for them says nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final, TypedDict

from pgcron_ha.client import checks

START_WITHIN: Final = "start_within"
_BOUNDS: Final = {
    "timeout": checks.LONGEST_TIMEOUT,
    START_WITHIN: checks.LONGEST_WAIT,
    "give_up_after": checks.LONGEST_WAIT,
}


class Times(TypedDict, total=False):
    """Time limits of a run; timedelta or seconds."""

    timeout: timedelta | float | str | None
    start_within: timedelta | float | str | None
    give_up_after: timedelta | float | str | None
    silence_timeout: timedelta | float | str | None


class HandlerLimits:
    """Those of an App, by full name of the handler."""

    def __init__(self) -> None:
        self._declared: dict[str, dict[str, timedelta]] = {}

    def declare(self, handler: str, limits: Times) -> None:
        """Keeps what is given, judged. Raises InvalidInput."""
        checked = {
            name: checks.silence(value)
            if name == "silence_timeout"
            else checks.duration(name, value, _BOUNDS.get(name))
            for name, value in limits.items()
        }
        given = {name: value for name, value in checked.items() if value is not None}
        if given:
            self._declared[handler] = given

    def of_run(self, handler: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """What is `given` and not None, and else the handler's own limits."""
        said = {name: value for name, value in given.items() if value is not None}
        return {**self._declared.get(handler, {}), **said}

    def of_options(self, handler: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """The wish for a run, with the handler's own limits where it says none."""
        said = {name: options[name] for name in Times.__annotations__ if name in options}
        return {**options, **self.of_run(handler, said)}

    def of_schedule(self, handler: str, policies: Mapping[str, Any]) -> Mapping[str, Any]:
        """The policies, with the handler's own limits for those that are not among them."""
        declared = self._declared.get(handler)
        if declared is None:
            return policies
        named = {
            "start_deadline" if name == START_WITHIN else name: value
            for name, value in declared.items()
        }
        return {**named, **policies}

    def of_runs(self, runs: Iterable[Any], name_of: Any) -> Iterable[Any]:
        """The wishes for runs, each with its handler's own limits where it says nothing."""
        return self._with_limits(runs, name_of) if self._declared else runs

    def _with_limits(self, runs: Iterable[Any], name_of: Any) -> Iterator[Any]:
        for options in runs:
            handler = options.get("handler") if isinstance(options, Mapping) else None
            declared = self._declared.get(name_of(handler)) if handler else None
            if declared is None:
                yield options
            else:
                said = {name: value for name, value in options.items() if value is not None}
                yield {**declared, **said}
