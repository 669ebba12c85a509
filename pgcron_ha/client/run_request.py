"""One request for a run, judged before anything is sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

from pgcron_ha.client import checks
from pgcron_ha.client.options import OF_RUNS, check_attempts, check_each
from pgcron_ha.client.uniqueness import check_keys, unique_arguments
from pgcron_ha.db.commands.functions import KEY_LIFETIME
from pgcron_ha.db.driver.asking import value
from pgcron_ha.db.driver.callers import Parameters, Style, in_style
from pgcron_ha.errors import InvalidInput

_DEFAULTS: Final[Mapping[str, Any]] = {
    **dict.fromkeys(OF_RUNS),
    "queue": "default",
    "priority": 5,
    "key_lifetime": KEY_LIFETIME,
    "timeout": timedelta(hours=1),
    "delivery": "at_least_once",
}
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What `pgcron.enqueue` takes, every value checked."""

    handler: str
    args: str
    options: Mapping[str, Any]
    """Those that are given; none is None."""

    async def send(self, connection: Any, schema: str, actor: str | None = None) -> int:
        """The run's id; in the transaction of `connection`."""
        name, values = self._statement()
        run_id: int = await value(connection, schema, name, actor=actor, **values)
        return run_id

    def as_statement(self, style: Style, schema: str) -> tuple[str, Parameters]:
        """The statement that `send` sends, and its parameters, for a cursor of the caller's."""
        name, values = self._statement()
        return in_style(name, values, style, schema)

    def _statement(self) -> tuple[str, dict[str, Any]]:
        if "unique_key" in self.options:
            return "enqueue_request", {"options": self.as_json()}
        values = {"handler": self.handler, "args": self.args, **_DEFAULTS, **self.options}
        if values["requires"] is not None:
            values["requires"] = list(values["requires"])  # what every driver takes as an array
        return "enqueue", values

    def as_json(self) -> str:
        """What `pgcron.enqueue_many` takes for it, without what has the default."""
        return f'{{{self.all_but_args()},"args":{self.args}}}'

    def all_but_args(self) -> str:
        """The members of that object that say more than args."""
        members: dict[str, Any] = {"handler": self.handler}
        for name, given in self.options.items():
            if name == "retry":
                members[name] = json.loads(given)
            elif given != _DEFAULTS.get(name):
                members[name] = given
        return json.dumps(members, default=_written, separators=(",", ":"))[1:-1]


def request_run(
    handler: str,
    args: Mapping[str, Any] | str | None = None,
    options: Mapping[str, Any] = _NOTHING,
) -> RunRequest:
    """The checked request; raises InvalidInput or TooLarge with the rule and what to do.

    `handler` is a full name; `args` a mapping or JSON text; `options` are those of `RunOptions`, or
    in place of ``unique`` the arguments of `pgcron.enqueue`. None stands for what is left out.
    """
    given = {name: value for name, value in options.items() if value is not None}
    if "unique" in given:
        given |= unique_arguments(given.pop("unique"))
    if not given.keys() <= OF_RUNS.keys():
        raise InvalidInput(
            f"'{min(map(str, given.keys() - OF_RUNS.keys()))[:100]}' is no argument of enqueue",
            f"The keys are handler, args, unique, {', '.join(OF_RUNS)}.",
            'Write for example {"handler": "py:report", "args": {"day": 1}}.',
        )
    name = checks.handler_name(handler)
    text = "{}" if args is None else checks.args_text(args)
    checked = {key: value for key, value in check_each(given, OF_RUNS).items() if value is not None}
    check_attempts(checked.get("max_attempts"), checked.get("delivery"))
    check_keys(checked)
    return RunRequest(name, text, checked)


def _written(value: timedelta | datetime) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    # In hours, which no time zone makes longer or shorter.
    minutes, seconds = divmod(value.days * 86_400 + value.seconds, 60)
    return f"{minutes // 60}:{minutes % 60:02}:{seconds:02}.{value.microseconds:06}"
