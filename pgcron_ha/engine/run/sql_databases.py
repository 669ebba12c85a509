"""The executor of a node's SQL profiles, and the databases they work in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pgcron_ha.config.secret_reference import SecretReference
from pgcron_ha.config.settings import Settings
from pgcron_ha.config.sql_profiles import SqlProfile
from pgcron_ha.db.driver.sql_session import SqlDatabase
from pgcron_ha.engine.run.recorder import Recorder
from pgcron_ha.executors.contract.masking import remember_password, remember_secret
from pgcron_ha.executors.contract.services import ExecutorServices
from pgcron_ha.executors.sql.executor import SqlExecutor
from pgcron_ha.telemetry.events import ProfileIsRisky
from pgcron_ha.telemetry.log import emit


def sql_executor(
    settings: Settings, executor_services: ExecutorServices, recorder: Recorder
) -> SqlExecutor:
    """Works from now on. A profile that can't be used, or whose role may too much, is told in the
    node's log.
    """
    return SqlExecutor(
        settings.sql,
        {name: _database(profile, settings) for name, profile in settings.sql.items()},
        executor_services,
        recorder.flush_from_thread,
        lambda sentence: emit(ProfileIsRisky(sentence)),
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
