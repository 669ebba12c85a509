"""What the configuration file lets this node run: shell templates, offered as ``shell:NAME``.

Nothing that comes from the database or a browser widens this list: a run only names a template and
gives values for its placeholders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from pgcron_ha.config import values
from pgcron_ha.config.capability_table import (
    PLACEHOLDER,
    TIME_LIMIT,
    Refused,
    Template,
    patterns_by_name,
)
from pgcron_ha.config.secret_references import VARIABLE

_STATUS_KEYS = ("retry_on", "discard_on", "snooze_on")


def _argv(raw: object) -> tuple[str, ...]:
    argv = values.texts([] if raw is None or isinstance(raw, str) else raw)
    if not argv or not argv[0]:  # a command line may hold a secret: it is not shown
        raise Refused("expected a list whose first string is the program")
    if PLACEHOLDER.search(argv[0]):
        raise Refused("the program itself can't come from a run: no placeholder in it")
    return argv


def _variables(raw: object) -> tuple[str, ...]:
    names = values.texts(raw)
    for name in names:
        if not VARIABLE.fullmatch(name):
            raise Refused(f"'{name}' is no name of a variable")
    return names


def _statuses(raw: object) -> frozenset[int]:
    if not isinstance(raw, list) or not all(type(each) is int and 1 <= each < 256 for each in raw):
        raise ValueError("a list of exit statuses from 1 to 255")
    return frozenset(raw)


_LIMITS: Final[Mapping[str, Callable[[object], int]]] = {
    "cpu": lambda raw: round(values.duration("1s", "365d")(raw)),
    "memory": values.parse_size,
    "file_size": values.parse_size,
    "open_files": values.integer(1, 1_000_000),
    "processes": values.integer(1, 1_000_000),
}
"""Limits that the operating system enforces (setrlimit).

- ``cpu``: processor time of each process (a duration), then SIGXCPU;
- ``memory``: address space of each process (a size), beyond which allocation fails;
- ``file_size``: of what each process writes (a size), beyond which writing fails;
- ``open_files``: of each process; ``processes``: of the user, with those that are no run.
"""


def _limits(raw: object) -> dict[str, int]:
    if not isinstance(raw, dict):
        raise ValueError('a table such as { memory = "512MiB", cpu = "10m" }')
    limits: dict[str, int] = {}
    for name, value in raw.items():
        if name not in _LIMITS:
            raise Refused(f"'{name}' is no limit; the limits are {', '.join(_LIMITS)}")
        try:
            limits[name] = _LIMITS[name](value)
        except ValueError as error:
            raise Refused(f"'{value}': expected {error}", name) from None
    return limits


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellTemplate(Template):
    """One command line. Each item of `argv` reaches the program as one argument; there is no shell.

    ``{name}`` inside an item is replaced by an arg of the run, whose text must match
    ``placeholders[name]`` from end to end. `timeout` and `grace` are seconds.

    What exit statuses mean: with `retry_on` only those are tried again, those of `discard_on` never
    are, and those of `snooze_on` come back after `snooze` seconds without having used up an
    attempt. `limits` are numbers, bytes and seconds. `stdin` is ``nothing``, or
    ``args``: the run's args as JSON. `on_lease_loss` is ``stop`` or ``finish``: what happens to the
    program while its node can't renew its lease. A run takes `weight` of the node's slots. With
    `previous` the program's environment contains how the schedule's previous run ended. Without
    `may_gain_privileges` no set-user-ID program gives it another user's rights. Without
    `may_be_option` an argument that begins with a placeholder does not begin with a dash.
    """

    argv: Annotated[tuple[str, ...], _argv]
    placeholders: Annotated[Mapping[str, str], patterns_by_name] = field(default_factory=dict)
    user: Annotated[str | None, values.text(r"(?s).+", "a string")] = None
    environment: Annotated[tuple[str, ...], _variables] = ()
    working_directory: Annotated[str | None, values.absolute_path] = None
    grace: Annotated[float, TIME_LIMIT] = 10.0
    retry_on: Annotated[frozenset[int], _statuses] = frozenset()
    discard_on: Annotated[frozenset[int], _statuses] = frozenset()
    snooze_on: Annotated[frozenset[int], _statuses] = frozenset()
    snooze: Annotated[float, TIME_LIMIT] = 300.0
    limits: Annotated[Mapping[str, int], _limits] = field(default_factory=dict)
    stdin: Annotated[str, values.choice(("nothing", "args"))] = "nothing"
    on_lease_loss: Annotated[str, values.choice(("stop", "finish"))] = "stop"
    weight: Annotated[int, values.integer(1, 1000)] = 1
    previous: Annotated[bool, values.flag] = False
    may_be_option: Annotated[bool, values.flag] = False
    may_gain_privileges: Annotated[bool, values.flag] = False

    def conflicts(self) -> Iterator[tuple[str, str]]:
        """Exit statuses that mean two things, and placeholders that are not declared."""
        retry, discard, snooze = (getattr(self, key) for key in _STATUS_KEYS)
        for status in sorted((discard & snooze) | (retry & (discard | snooze))):
            yield "discard_on", f"{status} is in two of {', '.join(_STATUS_KEYS)}"
        used = {name for item in self.argv for name in PLACEHOLDER.findall(item)}
        for name in sorted(used - self.placeholders.keys()):
            yield "argv", f"'{{{name}}}' is not declared in placeholders"
