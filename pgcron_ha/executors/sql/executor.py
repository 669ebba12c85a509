"""Executes ``sql:`` profiles: statements of the node's configuration in databases it names.

A parameter that is no arg may be the result of a step that a step of a workflow comes after, by its
name.

One event loop in a thread of its own. A stop cancels the statement through another connection;
what does not end then, and everything when the node's lease is over, loses its session. A frozen
node can do neither: what must not go on beside the next attempt is a transactional profile, or says
`SELECT pgcron.assert_token(:pgcron_run_id, :pgcron_token)` in the product's database.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Final

from pgcron_ha.config.secret_references import SecretReference
from pgcron_ha.config.settings import Settings
from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.db.driver.sql_session import SqlDatabase, SqlError, SqlSession
from pgcron_ha.errors import InvalidInput, PgcronError
from pgcron_ha.executors.contract.attempt import Stopped
from pgcron_ha.executors.contract.base import ExecutorServices
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.failures import outcome_of_error, outcome_of_result
from pgcron_ha.executors.contract.masking import remember_password, remember_secret
from pgcron_ha.executors.contract.outcome import (
    MAX_RESULT_BYTES,
    SUCCEEDED,
    Failed,
    Interrupted,
    Outcome,
    Succeeded,
)
from pgcron_ha.executors.contract.previous import as_text, run_facts
from pgcron_ha.executors.contract.tasks import TaskExecutor
from pgcron_ha.executors.contract.transaction import complete

# No further attempt can help: wrong SQL, no right, and what our own functions refuse.
_FINAL: Final = ("42", "PC")


@dataclass(eq=False)
class SqlRun:
    """Executes it. `session` is there from the moment at which there is something to end."""

    context: Context
    profile: SqlProfile
    database: SqlDatabase
    session: SqlSession | None = None
    _place: str = ""
    """What a message says of the statement under way, if there are several."""

    def check(self) -> None:
        """Raises InvalidInput for a run that can't even be begun."""
        context, profile = self.context, self.profile
        if context.delivery == "transactional" and not profile.transactional:
            raise InvalidInput(
                f"the profile {profile.name!r} is not transactional",
                "a run with that delivery needs a profile with transactional = true",
            )
        needed, args = profile.parameters, context.args
        # What is no arg may be the result of a step that it comes after.
        wrong = sorted((needed - args.keys() - context.results.keys()) | (args.keys() - needed))
        if wrong:
            problem = "is missing" if wrong[0] in needed else "is no parameter of the profile"
            names = ", ".join(sorted(needed)) or "no args"
            raise InvalidInput(f"the arg {wrong[0]!r} {problem}", f"the profile takes {names}")

    async def execute(self) -> Outcome:
        """Execute to the end; after it, it is committed or rolled back."""
        self.check()
        context, profile, facts = self.context, self.profile, run_facts(self.context)
        settings = {f"pgcron.{name}": as_text(each) for name, each in facts.items()}
        values = {**context.results, **context.args}
        values |= {f"pgcron_{name}": each for name, each in facts.items()}
        keep = profile.max_rows + 1 if profile.rows else 0
        session = self.session = await self.database.open(settings)
        try:
            if profile.atomic:
                await session.begin()
            rows: list[dict[str, Any]] = []
            for number, statement in enumerate(profile.statements, start=1):
                if len(profile.statements) > 1:
                    self._place = f"statement {number} of {len(profile.statements)}: "
                context.check()
                given = [values[name] for name in statement.parameters]
                rows = await session.execute(statement.text, given, keep, self._log) or rows
            context.check()
            outcome = self._result(rows)
            if not isinstance(outcome, Succeeded):
                await session.roll_back()
                return outcome
            if profile.transactional:
                return await complete(session, context, outcome, outcome.result)
            await session.commit()
            return outcome
        except (asyncio.CancelledError, Stopped, Exception):
            await session.roll_back()
            raise
        finally:
            session.leave()

    def _log(self, line: str) -> None:
        self.context.log(self._place + line)

    def _result(self, rows: list[dict[str, Any]]) -> Outcome:
        """The last rows of the result, as many as fit."""
        if not self.profile.rows:
            return SUCCEEDED
        most = self.profile.max_rows
        while True:
            kept = rows[:most]
            outcome = outcome_of_result({"rows": kept, "is_cut": len(kept) < len(rows)})
            too_large = isinstance(outcome, Failed) and outcome.error_class == "TooLarge"
            if not too_large or not kept:
                return outcome
            size = len(json.dumps(kept, ensure_ascii=False).encode())
            most = min(len(kept) - 1, len(kept) * MAX_RESULT_BYTES // (size + 1))

    def outcome_of(self, error: BaseException) -> Outcome:
        """Of a run that was ended by it."""
        context = self.context
        if context.stop_reason is not None:
            return Interrupted(context.stop_reason, f"stopped: {context.stop_reason}")
        if isinstance(error, PgcronError):
            kind = error.code if isinstance(error, SqlError) else type(error).__name__
            message = error.message if error.detail is None else f"{error.message}: {error.detail}"
            is_final = isinstance(error, InvalidInput) or kind.startswith(_FINAL)
            return Failed(kind, self._place + message, retry=not is_final)
        return outcome_of_error(error, context)


Warn = Callable[[str], None]


class SqlExecutor(TaskExecutor):
    """An `Executor` for SQL profiles. ``databases`` has one for each profile, by its name.

    ``warn`` gets a sentence for a profile whose role has privileges that it should not have.
    """

    end_seconds: ClassVar[float] = 8.0  # longer than a session is asked whether it is gone

    def __init__(
        self,
        profiles: Mapping[str, SqlProfile],
        databases: Mapping[str, SqlDatabase],
        executor_services: ExecutorServices,
        warn: Warn,
    ) -> None:
        self._profiles = {f"sql:{name}": profile for name, profile in profiles.items()}
        self._databases = {f"sql:{name}": database for name, database in databases.items()}
        self._tasks: set[asyncio.Task[None]] = set()
        self.time_limits = {name: profile.timeout for name, profile in self._profiles.items()}
        super().__init__("sql", self._profiles, executor_services)
        self._post(lambda: self._keep(asyncio.ensure_future(self._look_at_roles(warn))))

    async def execute(self, context: Context) -> Outcome:
        """The profile's statements, one after the other."""
        run = SqlRun(context, self._profiles[context.handler], self._databases[context.handler])
        context._work = run
        try:
            return await run.execute()
        except (asyncio.CancelledError, Stopped, Exception) as error:
            return run.outcome_of(error)
        finally:
            context._work = self

    def interrupt(self, context: Context) -> None:
        """Cancel the statement under way; when the profile's grace is over, end the session."""
        run = context._work
        if isinstance(run, SqlRun) and run.session is not None:
            self._keep(asyncio.ensure_future(run.session.cancel()))
        else:
            self.cancel(context)  # it waits for its connection
        self._loop.call_later(self._profiles[context.handler].grace, self.kill, context)

    async def end(self, context: Context) -> None:
        """End the session. The run is over when the session is gone or its state is unknown."""
        run = context._work
        if not isinstance(run, SqlRun) or run.session is None:
            self.cancel(context)
        elif not await run.session.terminate():
            context.log("the database can't be asked whether the session has ended")

    async def shut(self) -> None:
        """Leave no connection."""
        for task in self._tasks:
            task.cancel()
        for database in self._databases.values():
            await database.close()

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_at_roles(self, warn: Warn) -> None:
        for handler, database in self._databases.items():
            try:
                login = await database.login()
            except PgcronError as error:
                warn(f"the profile of {handler} can't be used now: {error.message}")
                continue
            role = login["role"]
            if login["is_superuser"]:
                warn(f"{handler} works as {role!r}, a superuser: give it a role of its own")
            elif login["owns_schema"]:
                warn(f"{handler} works as {role!r}, which owns the product's tables")


def databases_of(settings: Settings) -> dict[str, SqlDatabase]:
    """One for each profile, by its name."""
    found: dict[str, SqlDatabase] = {}
    for name, profile in settings.sql.items():
        dsn: Callable[[], str] = settings.required_dsn
        if isinstance(profile.dsn, SecretReference):
            dsn = partial(_read, profile.dsn)
        elif profile.dsn is not None:
            remember_password(profile.dsn)
            dsn = partial(str, profile.dsn)
        password = None if profile.password is None else partial(_read, profile.password)
        of_runs = {"schema": settings.schema, "node": settings.node.name}
        found[name] = SqlDatabase(dsn, profile.connections, password=password, **of_runs)
    return found


def _read(secret: SecretReference) -> str:
    """The secret, which is masked from now on wherever it would be stored or shown."""
    found = secret.read()
    remember_secret(found)
    return found
