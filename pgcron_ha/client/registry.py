"""The handlers and workflows of an App by name, and what holds for their runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any, Final

from pgcron_ha.client import checks
from pgcron_ha.client.mistakes import defining, refuse_second
from pgcron_ha.client.options import given, with_defaults
from pgcron_ha.client.run_request import DIVIDE, MOST_RUNS, RunRequest, request_new_run, request_run
from pgcron_ha.config.breaker import Breaker
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.errors import ConfigError, PgcronError, TooLarge
from pgcron_ha.executors.python.handler import PythonHandler

_MOST_UNKNOWN: Final = 1000
_log: Final = logging.getLogger(__name__)


class Registry:
    """What it has, by full name (``py:report``); workflows by their own."""

    def __init__(self) -> None:
        self.handlers: dict[str, PythonHandler] = {}
        self.breakers: dict[str, Breaker | str] = {}
        self.defaults: dict[str, Mapping[str, Any]] = {}
        self.workflows: dict[str, dict[str, Any]] = {}
        self._names: dict[Callable[..., Any], str] = {}
        self._unknown: set[str] = set()

    @contextmanager
    def defining(self, function: Callable[..., Any], what: str) -> Iterator[None]:
        """One whose definition fails has a name all the same: what is made of it is no further
        mistake.
        """
        with defining(what):
            yield
        self._names.setdefault(function, f"py:{getattr(function, '__name__', 'refused')}")

    def add(
        self, handler: PythonHandler, breaker: Breaker | str | None, defaults: Mapping[str, Any]
    ) -> None:
        """Raises ConfigError when the name is taken, InvalidInput when it is no name."""
        full_name = checks.handler_name(handler.full_name)
        refuse_second("handler", full_name, self.handlers, "Within an App", "'other'")
        self.handlers[full_name] = handler
        if breaker is not None:
            self.breakers[full_name] = breaker
        self.defaults[full_name] = defaults
        self.stand_for(full_name, handler.function)

    def stand_for(self, full_name: str, function: Callable[..., Any]) -> None:
        """The function stands for this name, unless it is a handler already."""
        if self._names.get(function) not in self.handlers:
            self._names[function] = full_name

    def name_of(self, handler: object) -> str:
        """The full name. Raises ConfigError for a function without one, InvalidInput."""
        if isinstance(handler, str):
            return checks.handler_name(handler if ":" in handler else f"py:{handler}")
        if callable(handler) and handler in self._names:
            return self._names[handler]
        raise ConfigError(
            f"{getattr(handler, '__qualname__', handler)!s:.200} is not a handler of this App",
            "A function becomes one by @app.handler(), written below @app.schedule(…).",
            "Decorate it, or name the handler by text.",
        )

    def options(self, full_name: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Those that are given; the handler's defaults replace what they leave out."""
        return with_defaults(self.defaults.get(full_name, {}), given(options))

    def request(
        self,
        handler: str | Callable[..., Any],
        args: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        check_args: bool,
    ) -> RunRequest:
        """The checked request of a run."""
        full_name = self.name_of(handler)
        self._warn_of_misspelling(full_name)
        request = request_run(full_name, args, self.options(full_name, options))
        sent = self.sent_args(full_name, request.args, check_args)
        return request if sent is request.args else replace(request, args=sent)

    def requests(self, runs: Iterable[Mapping[str, Any]], check_args: bool) -> Iterator[str]:
        """The checked requests in order, as JSON. Raises as `request`, TooLarge for more than
        `MOST_RUNS`; the message says which one it is.
        """
        requested = list(islice(runs, MOST_RUNS + 1))
        if len(requested) > MOST_RUNS:
            raise TooLarge(
                f"more than {MOST_RUNS} runs are requested",
                f"One call takes up to {MOST_RUNS} runs.",
                DIVIDE,
            )
        request = partial(self.request, check_args=check_args)
        judged: dict[str, tuple[str, str]] = {}
        for place, options in enumerate(requested, 1):
            # Most differ in nothing but their args, and the rest is the dearer part. Their texts
            # are compared, as True is no priority although it equals 1.
            rest = str({**options, "args": None}) if isinstance(options, dict) else ""
            try:
                if rest in judged:
                    handler, members = judged[rest]
                    given_args = checks.args_text(options.get("args"))
                    args = self.sent_args(handler, given_args, check_args)
                else:
                    made = request_new_run(options, request)
                    args, members = made.args, made.all_but_args()
                    if rest:
                        judged[rest] = made.handler, members
            except PgcronError as error:
                raise error.about(f"run {place} of {len(requested)}") from None
            yield f'{{{members},"args":{args}}}'

    def _warn_of_misspelling(self, name: str) -> None:
        """Once; a name that is like none of the App may be another program's handler."""
        if name in self.handlers or name in self._unknown or len(self._unknown) >= _MOST_UNKNOWN:
            return
        self._unknown.add(name)
        if near := did_you_mean(name, self.handlers):
            _log.warning("%s is no handler of this App%s", name, near)

    def sent_args(
        self, handler: str, args: str, check_args: bool, *, is_steady: bool = False
    ) -> str:
        """The args (JSON text) as the database gets them: secret ones encrypted. Raises
        `ConfigError`, and if they are checked as `check_args`.
        """
        if check_args:
            self.check_args(handler, args)
        known = self.handlers.get(handler)
        if known is None or not known.takes_secrets:
            return args
        encrypted = known.encrypted(json.loads(args), is_steady=is_steady)
        return checks.args_text(encrypted)

    def sent_definition(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        """The definition of a workflow with the secret args of its steps encrypted."""
        steps = [
            step
            if (known := self.handlers.get(step.get("handler", ""))) is None or "args" not in step
            else {**step, "args": known.encrypted(step["args"], is_steady=True)}
            for step in definition["steps"]
        ]
        return {**definition, "steps": steps}

    def check_args(self, handler: str, args: str) -> None:
        """Raises InvalidInput for args (JSON text) that a handler of the App would refuse."""
        if known := self.handlers.get(handler):
            known.check_args(json.loads(args))
