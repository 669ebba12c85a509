"""`App`: handlers by decorator, schedules in code, runs in the caller's own transaction."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, TypeVar, Unpack

from pgcron_ha.client import checks
from pgcron_ha.client.database import DatabaseOfApp
from pgcron_ha.client.mistakes import defining, refuse_bare, refuse_second
from pgcron_ha.client.options import (
    HandlerDefaults,
    Policies,
    RunOptions,
    check_handler_defaults,
    with_defaults,
)
from pgcron_ha.client.registry import Registry
from pgcron_ha.client.run_request import EnqueueStatement, NewRun, send_runs
from pgcron_ha.client.run_status import EnqueuedRun, RunStatus, read_status, require_success
from pgcron_ha.client.schedules import CodeSchedule, define_schedule
from pgcron_ha.client.workflow_starts import AdHoc, request_start
from pgcron_ha.client.workflows import Workflow, define_workflow
from pgcron_ha.config.breaker import Breaker, read_breaker
from pgcron_ha.config.values import Span
from pgcron_ha.db.commands import functions, workflows
from pgcron_ha.db.driver.calls import Style
from pgcron_ha.errors import Mistakes
from pgcron_ha.executors.contract.base import HandlerPolicy, LeaseLoss
from pgcron_ha.executors.contract.secret_values import RESULT, decrypt, is_encrypted
from pgcron_ha.executors.python.handler import PythonHandler, check_policy, read_isolation

Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")


class App(DatabaseOfApp):
    """A program's handlers and schedules, and its interface to the cluster.

    `dsn` and `schema` name the database. Left out, they are those of the node that offers the
    App's handlers, elsewhere those of the configuration (``PGCRON_HA_DSN``, ``pgcron-ha.toml``),
    which is read once, when it is first needed. Outside a node a `dsn` given here needs its own
    password: ``password_from`` is not read for it. `listen_dsn` connects past a pooler that passes
    no notifications, to wait for runs. Definitions need no database. An App may be used from
    several event loops; `close` (or ``async with``) closes the connections of the running one, and
    so does the end of ``asyncio.run``.
    """

    def __init__(
        self, dsn: str | None = None, schema: str | None = None, listen_dsn: str | None = None
    ) -> None:
        super().__init__(dsn, schema, listen_dsn)
        self._registry = Registry()
        self._schedules: dict[str, CodeSchedule] = {}

    @property
    def handlers(self) -> Mapping[str, PythonHandler]:
        """The registered handlers by full name, such as ``py:report``."""
        return self._registry.handlers

    @property
    def breakers(self) -> Mapping[str, Breaker | str]:
        """The circuit breakers by handler (full name), or the handler whose breaker is shared."""
        return self._registry.breakers

    @property
    def schedules(self) -> Mapping[str, CodeSchedule]:
        """The schedules in code by name, each complete and valid."""
        return self._schedules

    @property
    def workflows(self) -> Mapping[str, Mapping[str, Any]]:
        """The definitions of the workflows in code by name, each complete and valid."""
        return self._registry.workflows

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
        refuse_bare("handler", name)
        mistakes = Mistakes()
        limits = mistakes.tried(read_isolation, isolation, memory, cpu)
        circuit = None if breaker is None else mistakes.tried(read_breaker, breaker)
        checked = mistakes.tried(check_handler_defaults, defaults)
        slots = (checked or {}).get("weight", 1)
        policy = HandlerPolicy(slots, batch, on_lease_loss, keep_args, keep_result)
        mistakes.tried(check_policy, policy, isolation, defaults)

        def register(function: Function) -> Function:
            own_name = name or function.__name__
            with self._registry.defining(function, f"handler '{own_name}'"):
                mistakes.raise_any()
                added = PythonHandler(own_name, function, limits, policy)
                self._registry.add(added, circuit, checked)
            return function

        return register

    def workflow(
        self,
        name: str | None = None,
        *,
        on_failure: Literal["continue", "stop", "kill"] = "continue",
        parallelism: int | None = None,
        timeout: Span | None = None,
        description: str | None = None,
    ) -> Callable[[Function], Function]:
        """Define a workflow: the decorated function, called now with a `Workflow`, adds its steps.

        It has the function's name by default. When a step fails, the others ``continue``, no new
        one begins (``stop``), or those that execute are ended, too (``kill``). No more than
        `parallelism` steps execute at once. `app.start`, a schedule (``@app.schedule`` above it)
        and the step of another workflow start it. Raises ConfigError for a name that is taken;
        InvalidInput and TooLarge with the places of all mistakes.
        """
        refuse_bare("workflow", name)
        settings: dict[str, Any] = {"on_failure": on_failure, "parallelism": parallelism}
        settings |= {"timeout": timeout, "description": description}

        def register(build: Function) -> Function:
            own_name = name or build.__name__
            with self._registry.defining(build, f"workflow '{own_name}'"):
                define_workflow(own_name, build, self._registry, settings)
            return build

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
            handler = self._registry.name_of(function)
            own_name = name or handler.partition(":")[2]
            with defining(f"schedule '{own_name}'"):
                self.add_schedule(own_name, spec, handler, **policies)
            return function

        return register

    def add_schedule(
        self, name: str, spec: str, handler: str, **policies: Unpack[Policies]
    ) -> CodeSchedule:
        """A schedule in code of any handler, ``shell:backup`` say. Raises as `schedule`."""
        full_name = self._registry.name_of(handler)
        defaults = dict(self._registry.defaults.get(full_name, {}))
        if "start_within" in defaults:
            defaults["start_deadline"] = defaults.pop("start_within")
        defined = define_schedule(name, spec, full_name, with_defaults(defaults, policies))
        self._registry.check_args(defined.handler, defined.args)
        refuse_second("schedule", name, self._schedules, "In the cluster", "…, name='other'")
        self._schedules[name] = defined
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
        request = self._registry.request(handler, args, options, check_args)
        return EnqueuedRun.of(await self._call(conn, request.send), self)

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
        request = self._registry.request(handler, args, options, check_args)
        return request.as_statement(style, self.schema)

    def encrypt_args(
        self, handler: str | Callable[..., Any], args: Mapping[str, Any]
    ) -> dict[str, Any]:
        """The args of a handler of this App as `enqueue` sends them: those that it marks as secret
        are encrypted. For a workflow that passes them on, and for plain SQL. Raises ConfigError
        without a key; InvalidInput.
        """
        full_name = self._registry.name_of(handler)
        return dict(json.loads(self._registry.sent_args(full_name, checks.args_text(args), False)))

    async def enqueue_many(
        self, runs: Iterable[NewRun], *, check_args: bool = True, conn: Any = None
    ) -> list[int]:
        """Enqueue up to 10,000 runs in one statement; their ids in order, all of them or an error.

        Each is a mapping with what `enqueue` takes: ``{"handler": "report", "args": {"day": 1}}``.
        A living `idempotency_key`, or one that is given twice, gives the same id. Raises as
        `enqueue` does, with messages that begin with ``run 3 of 20``; TooLarge for more.
        """
        requests = list(self._registry.requests(runs, check_args))
        return await self._call(conn, send_runs, requests)

    async def start(
        self,
        workflow: str | Callable[[Workflow], object] | AdHoc,
        args: Mapping[str, Any] | None = None,
        *,
        conn: Any = None,
        **options: Unpack[RunOptions],
    ) -> EnqueuedRun:
        """Start a workflow, as `enqueue` enqueues a run, in the caller's transaction too; its run.

        It is named, also by the function that defines it; or ``chain(…)``, ``group(…)``,
        ``chord(…)`` or ``map_each(…)``, which need no definition. It takes the options of `enqueue`
        but for those of attempts, which its steps have: `max_attempts`, `retry`, `delivery`,
        `requires`, `weight` and `silence_timeout`. Its steps have its queue and priority, unless
        they say otherwise, and its tags. Raises NotFound; InvalidInput.
        """
        request = request_start(self._registry, workflow, args, options)
        return EnqueuedRun.of(await self._call(conn, request.send), self)

    async def signal(
        self,
        run_id: int,
        step: str,
        payload: Any = None,
        note: str | None = None,
        *,
        conn: Any = None,
    ) -> str:
        """End the step of a workflow that waits for this signal; the payload is its result.

        ``ended``, or ``kept``: the step comes later. Raises NotFound; Conflict if it is over.
        """
        text = None if payload is None else checks.json_text("the payload", payload)
        return await self._call(conn, workflows.signal, run_id, step, text, note, interface="code")

    async def run(self, run_id: int, *, conn: Any = None) -> RunStatus:
        """The status of a run: state, outcome, error, result. Raises NotFound."""
        return await self._call(conn, read_status, run_id)

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
        """What its handler returned, when it has; a secret result is decrypted. Raises as `wait`,
        and RunFailed, RunCancelled or RunNotStarted (each is RunNotSucceeded) for a run that ended
        otherwise; ConfigError without the key.
        """
        status = require_success(await self.wait(run_id, timeout))
        is_secret = is_encrypted(status.result)
        return decrypt(status.result, status.handler, RESULT) if is_secret else status.result

    async def cancel_run(self, run_id: int, note: str | None = None, *, conn: Any = None) -> str:
        """``cancelled``, ``requested`` (its node stops it) or ``finished`` (too late). NotFound."""
        return await self._call(conn, functions.cancel_run, run_id, note, interface="code")

    async def kill_run(self, run_id: int, note: str | None = None, *, conn: Any = None) -> str:
        """As `cancel_run`, without grace; a thread can't be killed and is only asked to stop."""
        return await self._call(conn, functions.kill_run, run_id, note, interface="code")

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
                sent = self._registry.sent_args(
                    schedule.handler, schedule.args, False, is_steady=True
                )
                schedule = replace(schedule, policies={**schedule.policies, "args": sent})
                await schedule.put(connection, schema or self.schema)

    async def put_workflows(self, conn: Any = None, *, schema: str | None = None) -> None:
        """As `put_schedules`, of workflows, which schedules may start: before them."""
        async with self._connection(conn) as connection:
            for name, definition in sorted(self.workflows.items()):
                sent = json.dumps(self._registry.sent_definition(definition), ensure_ascii=False)
                how = {"managed_by": "code", "schema": schema or self.schema}
                await workflows.put_workflow(connection, name, sent, **how)

    async def _call(
        self, conn: Any, statement: Callable[..., Awaitable[Result]], *values: Any, **options: Any
    ) -> Result:
        async with self._connection(conn) as connection:
            return await statement(connection, *values, **options, schema=self.schema)
