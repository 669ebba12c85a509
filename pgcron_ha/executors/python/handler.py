"""A Python function offered as a handler, and the process of its own that it may ask for."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pgcron_ha.config.values import parse_size, seconds_of
from pgcron_ha.errors import ConfigError, InvalidInput, PgcronError
from pgcron_ha.executors.contract.base import DEFAULT_POLICY, HandlerPolicy
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import bounded_text, refused
from pgcron_ha.executors.contract.outcome import SUCCEEDED, Failed, Outcome
from pgcron_ha.executors.contract.secret_values import encrypt, opened, sealed
from pgcron_ha.executors.python import batches
from pgcron_ha.executors.python.parameters import Parameters, returns_secret

LEAST_MEMORY_BYTES = 64 * 1024 * 1024
"""Below it Python and a usual program do not even begin."""

LEAST_CPU_SECONDS = 1.0
"""The operating system counts whole seconds."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """A run gets a process of its own that can be killed. ``memory`` is in bytes and counts all
    the process holds, ``cpu`` is seconds of processor time of one run; None means no limit.
    """

    memory: int | None = None
    cpu: float | None = None


class PythonHandler:
    """``name`` without ``py:``, the function, whether it is a coroutine function, and whether it
    asks for its own process; ``policy`` is how a node treats its runs.

    The function's first positional parameter gets the `Context` if it is named ``ctx`` or
    ``context`` or annotated as Context; the keys of args are keyword arguments, checked and
    converted by the annotations of their parameters (`pgcron_ha.executors.python.parameters`).
    With a ``batch`` the function gets a list of up to so many contexts instead, and reads the args
    of each itself.
    Raises `ConfigError` for a callable without a readable signature, or with a context elsewhere.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        isolation: Isolation | None = None,
        policy: HandlerPolicy = DEFAULT_POLICY,
    ) -> None:
        self.full_name = f"py:{name.removeprefix('py:')}"
        """The name runs use: ``py:report``."""
        self.function = function
        # Of an object its __call__ may be async.
        called = (function, getattr(function, "__call__", None))  # noqa: B004
        self.is_async = any(map(inspect.iscoroutinefunction, called))
        self.isolation = isolation
        self.policy = policy
        if policy.batch is not None:
            batches.check_function(self.full_name, function)
        self._parameters = None if policy.batch else Parameters(self.full_name, function)
        self.takes_context = self._parameters is not None and self._parameters.takes_context

    @cached_property
    def returns_secret(self) -> bool:
        """Whether its result is marked as secret."""
        return returns_secret(self.function)

    @cached_property
    def takes_secrets(self) -> bool:
        """Whether an arg may be secret."""
        return self._parameters is not None and bool(self._parameters.secrets)

    def encrypted(self, args: dict[str, Any], *, is_steady: bool = False) -> dict[str, Any]:
        """The args with those encrypted that are marked as secret. Raises `InvalidInput`,
        `ConfigError`.
        """
        if not self.takes_secrets or self._parameters is None:
            return args
        is_secret, handler = self._parameters.is_secret, self.full_name
        return {
            name: encrypt(value, handler, name, is_steady=is_steady) if is_secret(name) else value
            for name, value in args.items()
        }

    def open_args(self, context: Context) -> Failed | None:
        """Decrypt the run's secret args; the failure if that can't be."""
        if not self.takes_secrets or self._parameters is None:
            return None
        names = list(filter(self._parameters.is_secret, context.args))
        try:
            context._args, context._masker = opened(context.args, names, self.full_name)
        except ConfigError as error:  # another node may have the key
            return Failed("SecretUnreadable", error.message, error.detail)
        except InvalidInput as error:
            return refused(error)
        return None

    def outcomes_of(self, context: Context, returned: Any) -> list[Outcome]:
        """The outcome of each run of a call, a secret result encrypted."""
        if returned is None and context._batch is None:
            return [SUCCEEDED]
        if not self.returns_secret:
            return batches.outcomes_of(context, returned, context._masker)
        return [sealed(each, self.full_name) for each in batches.outcomes_of(context, returned)]

    def check_args(self, args: Mapping[str, Any]) -> None:
        """Raise `InvalidInput` if a run with these args, as JSON gives them, would be refused."""
        if self._parameters is not None:
            self._parameters.values(args)

    def refusal(self, context: Context) -> Failed | None:
        """Why the function can't be called for the run: its args don't fit the parameters, or its
        delivery no batch. None if it can, and then the context has the values for the call.
        """
        if self._parameters is None:
            return None if context.delivery == batches.AT_LEAST_ONCE else batches.UNFIT
        if self.takes_secrets and (unopened := self.open_args(context)) is not None:
            return unopened
        try:
            context._values = self._parameters.values(context.args)
        except PgcronError as error:
            return refused(error, context._masker)
        except BaseException as error:  # SystemExit in a validator
            message = bounded_text(f"checking the args: {error!r}", own=context._masker)
            return Failed(type(error).__name__, message)
        return None

    def call(self, context: Context) -> Any:
        """Call the function; for an async one this gives its coroutine. After `refusal`."""
        if context._batch is not None:
            return self.function(list(context._batch))
        if self.takes_context:
            return self.function(context, **context._values)
        return self.function(**context._values)


def check_policy(
    policy: HandlerPolicy, isolation: str | None, defaults: Mapping[str, object]
) -> None:
    """Raises `ConfigError` for one that is invalid, or does not go with these."""
    if policy.on_lease_loss not in ("stop", "finish"):
        raise ConfigError(
            f"on_lease_loss is {policy.on_lease_loss!r}",
            "A handler whose node can't reach the database stops, or finishes what it does.",
            "Write 'stop' or 'finish'.",
        )
    for name in ("keep_args", "keep_result"):
        if type(kept := getattr(policy, name)) is not bool:
            rule = "History keeps it of runs that succeeded (True), or does not (False)."
            raise ConfigError(f"{name} is {kept!r}", rule, "Write True or False.")
    if policy.batch is not None:
        loss = {"on_lease_loss": policy.on_lease_loss}
        batches.check_batch(policy.batch, {"isolation": isolation, **loss, **defaults})


def read_isolation(
    isolation: str | None, memory: str | int | None, cpu: str | float | None
) -> Isolation | None:
    """From what `App.handler` was given: ``process`` or None, ``512MB`` or bytes, ``60s`` or
    seconds. Raises `ConfigError`.
    """
    if isolation is None:
        if memory is None and cpu is None:
            return None
        raise ConfigError(
            "memory and cpu are given without isolation='process'",
            "Functions of one process share its memory and its processor time.",
            "Give isolation='process', too, or leave them out.",
        )
    if isolation != "process":
        raise ConfigError(
            f"isolation is {isolation!r}", "It is 'process', or not given.", "Write 'process'."
        )
    return Isolation(
        None if memory is None else _memory(memory), None if cpu is None else _cpu(cpu)
    )


def _memory(value: str | int) -> int:
    try:
        size = parse_size(value) if isinstance(value, str) else value
    except ValueError:
        size = 0
    if type(size) is not int or size < LEAST_MEMORY_BYTES:
        raise ConfigError(
            f"memory is {value!r}",
            f"It is a size of at least {LEAST_MEMORY_BYTES // 2**20}MiB, or that many bytes.",
            "Write for example '512MB'.",
        )
    return size


def _cpu(value: str | float) -> float:
    seconds = seconds_of(value)
    if not LEAST_CPU_SECONDS <= seconds < math.inf:
        raise ConfigError(
            f"cpu is {value!r}",
            f"It is a time of at least {LEAST_CPU_SECONDS:g}s, or that many seconds.",
            "Write for example '60s'.",
        )
    return seconds
