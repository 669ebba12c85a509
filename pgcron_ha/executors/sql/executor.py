"""Executes ``sql:`` profiles: statements of the node's configuration in databases it names.

One event loop in a thread of its own. A stop cancels the statement through another connection;
what does not end then, and everything when the node's lease is over, loses its session. A frozen
node can do neither: what must not go on beside the next attempt is a transactional profile, or says
`SELECT pgcron.assert_token(:pgcron_run_id, :pgcron_token)` in the product's database.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from pgcron_ha.config.secret_reference import SecretReference
from pgcron_ha.config.settings import Settings
from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.db.driver.sql_session import SqlDatabase
from pgcron_ha.errors import PgcronError
from pgcron_ha.executors.contract.base import ExecutorServices
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.masking import remember_password, remember_secret
from pgcron_ha.executors.contract.outcome import Outcome
from pgcron_ha.executors.contract.tasks import TaskExecutor
from pgcron_ha.executors.contract.transaction import FlushLines
from pgcron_ha.executors.sql.run import SqlRun

Warn = Callable[[str], None]


class SqlExecutor(TaskExecutor):
    """An `Executor` for SQL profiles. ``databases`` has one for each profile, by its name.

    ``flush`` writes the lines of a run before it is completed by its own transaction. ``warn``
    gets a sentence for a profile whose role has privileges that it should not have.
    """

    end_seconds: ClassVar[float] = 8.0  # longer than a session is asked whether it is gone

    def __init__(
        self,
        profiles: Mapping[str, SqlProfile],
        databases: Mapping[str, SqlDatabase],
        executor_services: ExecutorServices,
        flush: FlushLines,
        warn: Warn | None = None,
    ) -> None:
        self._profiles = {f"sql:{name}": profile for name, profile in profiles.items()}
        self._databases = {f"sql:{name}": database for name, database in databases.items()}
        self._flush = flush
        self._runs: dict[Context, SqlRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        super().__init__("sql", self._profiles, executor_services)
        if warn is not None:
            self._post(lambda: self._keep(asyncio.ensure_future(self._look_at_roles(warn))))

    async def execute(self, context: Context) -> Outcome:
        """The profile's statements, one after the other."""
        profile = self._profiles[context.handler]
        run = SqlRun(context, profile, self._databases[context.handler], self._flush)
        refused = run.refusal()
        if refused is not None:
            return refused
        self._runs[context] = run
        try:
            return await run.execute()
        finally:
            del self._runs[context]

    def time_limit(self, context: Context) -> float | None:
        """The profile's."""
        return self._profiles[context.handler].timeout

    def interrupt(self, context: Context) -> None:
        """Cancel the statement under way; when the profile's grace is over, end the session."""
        run = self._runs.get(context)
        if run is None:
            return
        if run.session is None:
            self.cancel(context)  # it waits for its connection
        else:
            self._keep(asyncio.ensure_future(run.session.cancel()))
        asyncio.get_running_loop().call_later(run.profile.grace, self.kill, context)

    async def end(self, context: Context) -> None:
        """End the session. The run is over when the session is gone or its state is unknown."""
        run = self._runs.get(context)
        if run is None:
            return
        run.is_killed = True
        if run.session is None:
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
            if login.is_superuser:
                warn(f"{handler} works as {login.role!r}, a superuser: give it a role of its own")
            elif login.owns_schema:
                warn(f"{handler} works as {login.role!r}, which owns the product's tables")


def sql_executor(
    settings: Settings, executor_services: ExecutorServices, flush: FlushLines, warn: Warn
) -> SqlExecutor:
    """Start the executor. ``warn`` gets a sentence for each profile that can't be used or whose
    role has too many privileges.
    """
    return SqlExecutor(
        settings.sql,
        {name: _database(profile, settings) for name, profile in settings.sql.items()},
        executor_services,
        flush,
        warn,
    )


def _database(profile: SqlProfile, settings: Settings) -> SqlDatabase:
    return SqlDatabase(
        _dsn_of(profile, settings),
        None if profile.password is None else partial(_read, profile.password),
        profile.connections,
        settings.schema,
        settings.node.name,
    )


def _dsn_of(profile: SqlProfile, settings: Settings) -> Callable[[], str]:
    if profile.dsn is None:
        return settings.required_dsn
    if isinstance(profile.dsn, SecretReference):
        return partial(_read, profile.dsn)
    written = profile.dsn
    remember_password(written)
    return lambda: written


def _read(secret: SecretReference) -> str:
    """The secret, which is masked from now on wherever it would be stored or shown."""
    found = secret.read()
    remember_secret(found)
    return found
