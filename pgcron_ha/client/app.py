"""`App`: handlers by decorator, schedules in code, runs in the caller's own transaction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, Literal, Self, TypeVar, Unpack
from weakref import WeakKeyDictionary

from pgcron_ha.client import checks
from pgcron_ha.client.mistakes import Misspellings, are_collected, defining
from pgcron_ha.client.options import (
    HandlerDefaults,
    Policies,
    RunOptions,
    check_handler_defaults,
    given,
    with_defaults,
)
from pgcron_ha.client.run_request import (
    EnqueueStatement,
    NewRun,
    RunRequest,
    request_run,
    request_runs,
    send_runs,
)
from pgcron_ha.client.run_status import EnqueuedRun, RunStatus, read_status, require_success
from pgcron_ha.client.schedules import CodeSchedule, define_schedule
from pgcron_ha.client.waiting import Notifications, Waiting
from pgcron_ha.config.breaker import Breaker, read_breaker
from pgcron_ha.config.loading import load_settings
from pgcron_ha.db.commands import functions
from pgcron_ha.db.driver.calls import Style
from pgcron_ha.db.driver.link import Link
from pgcron_ha.db.driver.pool import ClientPools
from pgcron_ha.db.driver.pooling import assume
from pgcron_ha.db.driver.statements import DEFAULT_SCHEMA, in_schema
from pgcron_ha.errors import ConfigError, Mistakes
from pgcron_ha.executors.contract.base import HandlerPolicy, LeaseLoss
from pgcron_ha.executors.python.handler import PythonHandler, check_policy, read_isolation

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


class App:
    """A program's handlers and schedules, and its interface to the cluster.

    `dsn` and `schema` name the database. Left out, they are those of the node that offers the
    App's handlers, elsewhere those of the configuration (``PGCRON_HA_DSN``, ``pgcron-ha.toml``),
    which is read once, when it is first needed. `listen_dsn` connects past a pooler that passes no
    notifications, to wait for runs. Definitions need no database. An App may be used from several
    event loops; `close` (or ``async with``) closes the connections of the running one.
    """

    def __init__(
        self, dsn: str | None = None, schema: str | None = None, listen_dsn: str | None = None
    ) -> None:
        in_schema("", schema or DEFAULT_SCHEMA)  # a name that is not plain is refused here
        self._dsn = dsn
        self._listen_dsn = listen_dsn
        self._schema = schema
        self._handlers: dict[str, PythonHandler] = {}
        self._misspellings = Misspellings(self._handlers)
        self._defaults: dict[str, Mapping[str, Any]] = {}
        self._refused: set[Callable[..., Any]] = set()
        self._schedules: dict[str, CodeSchedule] = {}
        self._breakers: dict[str, Breaker | str] = {}
        self._pools = ClientPools()
        self._waiting: WeakKeyDictionary[asyncio.AbstractEventLoop, Waiting] = WeakKeyDictionary()

    @property
    def schema(self) -> str:
        """The schema of its database. Raises ConfigError for an invalid configuration."""
        if self._schema is None:
            self._schema = load_settings().schema
        return self._schema

    def attach(self, dsn: str, schema: str, listen_dsn: str | None = None) -> None:
        """Sets what was left out. A node calls it with its own database for each App it offers."""
        if self._dsn is None:
            self._dsn, self._listen_dsn = dsn, self._listen_dsn or listen_dsn
        self._schema = schema if self._schema is None else self._schema

    @property
    def handlers(self) -> Mapping[str, PythonHandler]:
        """The registered handlers by full name, such as ``py:report``."""
        return self._handlers

    @property
    def breakers(self) -> Mapping[str, Breaker | str]:
        """The circuit breakers by handler (full name), or the handler whose breaker is shared."""
        return self._breakers

    @property
    def schedules(self) -> Mapping[str, CodeSchedule]:
        """The schedules in code by name, each complete and valid."""
        return self._schedules

    def handler(
        self,
        name: str | None = None,
        *,
        isolation: Literal["process"] | None = None,
        memory: str | int | None = None,
        cpu: str | float | None = None,
        on_lease_loss: LeaseLoss = "stop",
        breaker: Breaker | str | None = None,
        batch: int | None = None,
        keep_args: bool = True,
        keep_result: bool = True,
        **defaults: Unpack[HandlerDefaults],
    ) -> Callable[[Function], Function]:
        """Offer the decorated function, async or plain, as ``py:<name>`` (its own name by default).

        With isolation="process" each run has a process of its own, which can be killed and may not
        hold more than `memory` (``512MB`` or bytes) nor compute longer than `cpu` (``60s`` or
        seconds). With on_lease_loss="finish" a run that has begun continues while its node can't
        reach the database, although another node may begin it, too; a run that may begin only once,
        or that holds a key, is stopped all the same. A `breaker` stops a handler that keeps failing
        from being started, for a while; a text names the handler whose breaker it shares. With
        `batch` one call, with one slot, gets a list of up to so many contexts of runs that wait,
        and reads the args of each. It returns None, or a list with the result, or the exception, of
        each run in their order; what it raises holds for all. History keeps of runs that succeeded
        no args with keep_args=False (such a run can't be run again), and no result with
        keep_result=False. The other options (`max_attempts`, `retry`, `queue`, `timeout`, …) are
        defaults of runs and schedules that this App makes of it; their own take precedence. Raises
        ConfigError when the name is taken, a limit is invalid or the function can't be called with
        a context (first) and keywords, InvalidInput for an invalid name or default.
        """
        if callable(name):
            raise ConfigError(
                "@app.handler is used without parentheses",
                "It takes the handler's name, or nothing.",
                "Write @app.handler() or @app.handler('report').",
            )
        mistakes = Mistakes()
        limits = mistakes.tried(read_isolation, isolation, memory, cpu)
        circuit = None if breaker is None else mistakes.tried(read_breaker, breaker)
        checked = mistakes.tried(check_handler_defaults, defaults)
        slots = (checked or {}).get("weight", 1)
        policy = HandlerPolicy(slots, batch, on_lease_loss, keep_args, keep_result)
        mistakes.tried(check_policy, policy, isolation, defaults)
        if not are_collected():
            mistakes.raise_any()

        def register(function: Function) -> Function:
            own_name = name or function.__name__
            self._refused.add(function)
            with defining(f"handler '{own_name}'"):
                mistakes.raise_any()
                added = PythonHandler(own_name, function, limits, policy)
                full_name = checks.handler_name(added.full_name)
                if full_name in self._handlers:
                    raise ConfigError(
                        f"handler '{full_name}' is defined twice",
                        "Within an App a name is one function's.",
                        "Give one of them another name: @app.handler('other').",
                    )
                self._handlers[full_name] = added
                if circuit is not None:
                    self._breakers[full_name] = circuit
                self._defaults[full_name] = checked
                self._refused.discard(function)
            return function

        return register

    def schedule(
        self, spec: str, *, name: str | None = None, **policies: Unpack[Policies]
    ) -> Callable[[Function], Function]:
        """Run the decorated handler by this spec; write it above ``@app.handler``.

        The name is the handler's by default; a second schedule of one handler needs its own. The
        spec is checked here: raises InvalidSpec, UnknownZone, InvalidInput, TooLarge; ConfigError
        for a function that is no handler of this App and for a name that is taken.
        """

        def register(function: Function) -> Function:
            handler = self._name_of(function)
            own_name = name or handler.removeprefix("py:")
            with defining(f"schedule '{own_name}'"):
                self.add_schedule(own_name, spec, handler, **policies)
            return function

        return register

    def add_schedule(
        self, name: str, spec: str, handler: str, **policies: Unpack[Policies]
    ) -> CodeSchedule:
        """A schedule in code of any handler, ``shell:backup`` say. Raises as `schedule`."""
        full_name = self._name_of(handler)
        defaults = dict(self._defaults.get(full_name, {}))
        if "start_within" in defaults:
            defaults["start_deadline"] = defaults.pop("start_within")
        defined = define_schedule(name, spec, full_name, with_defaults(defaults, policies))
        self._check_args(defined.handler, defined.args)
        if defined.name in self._schedules:
            raise ConfigError(
                f"schedule '{defined.name}' is defined twice",
                "A schedule's name is unique in the cluster.",
                "Give it another one: @app.schedule(…, name='…').",
            )
        self._schedules[defined.name] = defined
        return defined

    async def enqueue(
        self,
        handler: str | Callable[..., Any],
        args: Mapping[str, Any] | None = None,
        *,
        check_args: bool = True,
        conn: Any = None,
        **options: Unpack[RunOptions],
    ) -> EnqueuedRun:
        """Enqueue one run; its id, an int that can be waited for (``await run.result()``).

        The handler is a registered function, or a name: ``report``, ``shell:backup``. The args of
        a handler of this App are checked by its annotations, unless `check_args` is False: nodes
        may have a newer version of it.

        With `conn` (asyncpg's, psycopg's AsyncConnection, SQLAlchemy's AsyncConnection or
        AsyncSession) the run exists if and when the caller's transaction commits. Raises errors of
        `pgcron_ha.errors` only; bad values are refused before anything is sent.
        """
        request = self._request(handler, args, options, check_args)
        async with self._connection(conn) as connection:
            return EnqueuedRun.of(await request.send(connection, self.schema), self)

    def enqueue_statement(
        self,
        handler: str | Callable[..., Any],
        args: Mapping[str, Any] | None = None,
        *,
        style: Style = "format",
        check_args: bool = True,
        **options: Unpack[RunOptions],
    ) -> EnqueueStatement:
        """The statement of `enqueue`, which a program without an event loop sends in its own
        transaction: ``cursor.execute(*app.enqueue_statement("report", {"day": 1}))``.

        It takes what `enqueue` takes and raises as it does. `style` is how the cursor's parameters
        are written: ``format`` (psycopg, Django), ``pyformat``, ``named`` (SQLAlchemy's ``text()``)
        or ``numeric_dollar`` (asyncpg).
        """
        request = self._request(handler, args, options, check_args)
        return request.as_statement(style, self.schema)

    async def enqueue_many(
        self, runs: Iterable[NewRun], *, check_args: bool = True, conn: Any = None
    ) -> list[int]:
        """Enqueue up to 10,000 runs in one statement; their ids in order, all of them or an error.

        Each is a mapping with what `enqueue` takes: ``{"handler": "report", "args": {"day": 1}}``.
        A living `idempotency_key`, or one that is given twice, gives the same id. Raises as
        `enqueue` does, with messages that begin with ``run 3 of 20``; TooLarge for more.
        """
        request = partial(self._request, check_args=check_args)
        requests = list(request_runs(runs, request, self._check_args if check_args else None))
        async with self._connection(conn) as connection:
            return await send_runs(connection, requests, self.schema)

    async def run(self, run_id: int, *, conn: Any = None) -> RunStatus:
        """The status of a run: state, outcome, error, result. Raises NotFound."""
        async with self._connection(conn) as connection:
            return await read_status(connection, run_id, self.schema)

    async def wait(self, run_id: int, timeout: float | None = None) -> RunStatus:
        """How a run ended, when it has. Raises NotFound, WaitTimedOut after `timeout` seconds.

        NOTIFY reports its end, over one more connection for all runs that an event loop waits for.
        Where notifications don't arrive (`is_listening`) the database is polled: at once, then less
        and less often, twice a second in the end. An outage of the database does not end the wait.
        """
        status = await self.run(run_id)
        if not status.is_ended:
            await self._waiting_here().until_ended(run_id, timeout)
            status = await self.run(run_id)
        return status

    async def result(self, run_id: int, timeout: float | None = None) -> Any:
        """What its handler returned, when it has. Raises as `wait`, and RunFailed, RunCancelled or
        RunNotStarted (each is RunNotSucceeded) for a run that ended otherwise.
        """
        return require_success(await self.wait(run_id, timeout)).result

    @property
    def is_listening(self) -> bool:
        """Whether notifications report the ends of runs that this event loop waits for: not before
        it waits for one, nor through a pooler that passes no notifications.
        """
        waiting = self._waiting.get(asyncio.get_running_loop())
        return waiting is not None and waiting.is_listening

    async def cancel_run(self, run_id: int, note: str | None = None, *, conn: Any = None) -> str:
        """``cancelled``, ``requested`` (its node stops it) or ``finished`` (too late). NotFound."""
        async with self._connection(conn) as connection:
            return await functions.cancel_run(connection, run_id, note, schema=self.schema)

    async def kill_run(self, run_id: int, note: str | None = None, *, conn: Any = None) -> str:
        """As `cancel_run`, without grace; a thread can't be killed and is only asked to stop."""
        async with self._connection(conn) as connection:
            return await functions.kill_run(connection, run_id, note, schema=self.schema)

    def sync(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        """Run a coroutine of this App from synchronous code: ``app.sync(app.result(run_id))``.

        Opens connections for the call and closes them, so any thread may call it. What it enqueues
        is committed at once. Raises what the coroutine raises; RuntimeError in an event loop.
        """

        async def finish() -> Result:
            async with self:
                return await coroutine

        return asyncio.run(finish())

    async def put_schedules(self, conn: Any = None, *, schema: str | None = None) -> None:
        """Create and change the schedules of the code in the database; equal ones are not touched.

        A node calls it when it starts. A schedule that the code no longer has stays as it is:
        another version of the program may still define it.
        """
        async with self._connection(conn) as connection:
            # In one order, so that nodes that start together can't wait for each other in a ring.
            for _, schedule in sorted(self._schedules.items()):
                await schedule.put(connection, schema or self.schema)

    async def close(self) -> None:
        """Close the connections that were opened in this event loop; its waiters get an error."""
        waiting = self._waiting.pop(asyncio.get_running_loop(), None)
        if waiting is not None:
            await waiting.close()
        await self._pools.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _waiting_here(self) -> Waiting:
        loop = asyncio.get_running_loop()
        if loop not in self._waiting:
            dsn = self._own_dsn()
            link = Link(self._listen_dsn or dsn, self.schema, title="pgcron_ha waiting")
            insists = self._listen_dsn is not None
            channel = Notifications(link, lambda: self._connection(None), self.schema, insists)
            self._waiting[loop] = Waiting(channel)
        return self._waiting[loop]

    def _request(
        self,
        handler: str | Callable[..., Any],
        args: Mapping[str, Any] | None,
        options: Mapping[str, Any],
        check_args: bool,
    ) -> RunRequest:
        """The checked request; the handler's defaults replace what `options` leave out."""
        full_name = self._name_of(handler)
        self._misspellings.warn_of(full_name)
        chosen = with_defaults(self._defaults.get(full_name, {}), given(options))
        request = request_run(full_name, args, chosen)
        if check_args:
            self._check_args(full_name, request.args)
        return request

    def _check_args(self, handler: str, args: str) -> None:
        """Raises InvalidInput for args that a handler of this App would refuse."""
        if known := self._handlers.get(handler):
            known.check_args(json.loads(args))

    def _name_of(self, handler: str | Callable[..., Any]) -> str:
        if isinstance(handler, str):
            return checks.handler_name(handler if ":" in handler else f"py:{handler}")
        for full_name, known in self._handlers.items():
            if known.function is handler:
                return full_name
        if handler in self._refused:
            return f"py:{handler.__name__}"
        raise ConfigError(
            f"{getattr(handler, '__qualname__', handler)!s:.200} is not a handler of this App",
            "A function becomes one by @app.handler(), written below @app.schedule(…).",
            "Decorate it, or name the handler by text.",
        )

    def _connection(self, given: Any) -> AbstractAsyncContextManager[Any]:
        return nullcontext(given) if given is not None else self._pools.connection(self._own_dsn())

    def _own_dsn(self) -> str:
        if self._dsn is None:
            settings = load_settings()
            self._dsn = settings.required_dsn()
            self._listen_dsn = self._listen_dsn or settings.listen_dsn
            assume(self._dsn, settings.pooler)
        return self._dsn
