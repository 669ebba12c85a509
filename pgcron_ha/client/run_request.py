"""Requests for runs, one or many: checked before anything is sent, and sent in one statement."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Required, TypedDict

from pgcron_ha.client import checks
from pgcron_ha.client.options import OF_RUNS, RunOptions, check_attempts, check_each, given
from pgcron_ha.client.uniqueness import unique_arguments
from pgcron_ha.db.commands import functions
from pgcron_ha.db.driver.calls import Call, Parameters, Style, in_style
from pgcron_ha.errors import InvalidInput, Mistakes, TooLarge

# What `pgcron.enqueue_many` takes at once: one statement stays short enough to be repeated.
MOST_RUNS: Final = 10_000
MOST_BYTES: Final = 64 * 1024 * 1024
EXAMPLE: Final = 'Write for example {"handler": "py:report", "args": {"day": 1}}.'
DIVIDE: Final = "Use several calls; in one transaction they exist together or not at all."
_DEFAULTS: Final = functions.enqueue.defaults


class _What(TypedDict, total=False):
    handler: Required[str | Callable[..., Any]]
    args: Mapping[str, Any] | None


class NewRun(_What, RunOptions, total=False):
    """One of the runs of `App.enqueue_many`: the arguments of `App.enqueue` by name."""


class EnqueueStatement(NamedTuple):
    """``cursor.execute(*statement)``; its one row has the run's id (of many runs an array of ids).

    What only the database can refuse is the driver's own error, with an SQLSTATE of class
    ``PC``, message, detail and hint.
    """

    sql: str
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `pgcron.enqueue` takes, every value checked."""

    handler: str
    args: str
    options: Mapping[str, Any]
    """Those that are given; none is None."""

    async def send(self, connection: Any, schema: str, actor: str | None = None) -> int:
        """The run's id; in the transaction of `connection`."""
        call, values = self._call()
        return await call(connection, **values, actor=actor, schema=schema)

    def as_statement(self, style: Style, schema: str) -> EnqueueStatement:
        """The statement that `send` sends, and its parameters, for a cursor of the caller's."""
        call, values = self._call()
        return EnqueueStatement(*in_style(call.name, call.defaults | values, style, schema))

    def _call(self) -> tuple[Call[int], dict[str, Any]]:
        what = {"handler": self.handler, "args": self.args}
        if not self.options:
            return functions.enqueue_plain, what
        return functions.enqueue, {**what, **self.options}

    def as_json(self) -> str:
        """The object that `pgcron.enqueue_many` takes, without values that are the default."""
        return f'{{{self.all_but_args()},"args":{self.args}}}'

    def all_but_args(self) -> str:
        """The members of that object but for args."""
        items = self.options.items()
        other = {name: value for name, value in items if value != _DEFAULTS.get(name)}
        members = functions.as_json({"handler": self.handler, **other})
        return json.dumps(members, separators=(",", ":"))[1:-1]


def request_run(
    handler: str, args: Mapping[str, Any] | str | None = None, options: Mapping[str, Any] = {}
) -> RunRequest:
    """The checked request; raises InvalidInput or TooLarge with the rule and what to do.

    `handler` is a full name; `args` a mapping or JSON text; `options` are those of `RunOptions`, or
    in place of ``unique`` the arguments of `pgcron.enqueue`, which judges whether those of a unique
    key go together. None is the same as leaving an option out.
    """
    asked = given(options)
    if "unique" in asked:
        asked |= unique_arguments(asked.pop("unique"))
    known = ("handler", "args", "unique", *OF_RUNS)
    checks.refuse_others(asked, known, "enqueue has no argument", "Its arguments")
    mistakes = Mistakes()
    name = mistakes.tried(checks.handler_name, handler)
    text = "{}" if args is None else mistakes.tried(checks.args_text, args)
    checked = given(check_each(asked, OF_RUNS, mistakes))
    mistakes.raise_any()
    check_attempts(checked)
    if "key_lifetime" in checked and "idempotency_key" not in checked:
        raise InvalidInput(
            "key_lifetime is given without idempotency_key",
            "It says how long the key is remembered.",
            "Give idempotency_key, or leave key_lifetime out.",
        )
    return RunRequest(name, text, checked)


def request_new_run(
    options: object, request: Callable[..., RunRequest] = request_run
) -> RunRequest:
    """The checked request of a mapping as `NewRun`. Raises as `request_run`."""
    said = checks.mapping("it", options, "A run is a mapping.", EXAMPLE)
    rest = {key: value for key, value in said.items() if key not in ("handler", "args")}
    return request(said.get("handler") or "", said.get("args"), rest)


async def send_runs(
    connection: Any, requests: Sequence[str], schema: str, actor: str | None = None
) -> list[int]:
    """The ids of requests as JSON, in their order; in the transaction of `connection`.

    Raises TooLarge.
    """
    if not requests:
        return []
    if (size := sum(map(len, requests))) > MOST_BYTES:
        raise TooLarge(
            f"{len(requests)} runs have {size} characters",
            f"One call takes up to {MOST_BYTES} bytes (64 MiB) as JSON.",
            DIVIDE,
        )
    return await functions.enqueue_many(
        connection, f"[{','.join(requests)}]", actor=actor, schema=schema
    )
