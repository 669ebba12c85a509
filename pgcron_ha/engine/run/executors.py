"""What a node's configuration and applications give it: executors, and what is declared of their
handlers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from pgcron_ha.client.isolated import child_program
from pgcron_ha.config import key_ring
from pgcron_ha.config.breaker import declare
from pgcron_ha.config.capability_table import Template
from pgcron_ha.config.settings import Settings
from pgcron_ha.db.driver.transactions import Transactions
from pgcron_ha.engine.connections import node_link
from pgcron_ha.engine.lease.state_directory import Home
from pgcron_ha.engine.run.recorder import Recorder
from pgcron_ha.engine.run.runner import Runner
from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import (
    DEFAULT_POLICY,
    Executor,
    ExecutorServices,
    HandlerPolicy,
)
from pgcron_ha.executors.process.executor import ShellExecutor
from pgcron_ha.executors.python.child_pool import ChildPool
from pgcron_ha.executors.python.executor import PythonExecutor
from pgcron_ha.executors.python.handler import PythonHandler
from pgcron_ha.telemetry.events import ProfileIsRisky
from pgcron_ha.telemetry.log import emit

if TYPE_CHECKING:
    from pgcron_ha.client.app import App


async def build_executors(
    settings: Settings, apps: Sequence[App], runner: Runner, recorder: Recorder, home: Home
) -> Mapping[str, Executor]:
    """The executors by what their feeds are called; what a node does not offer is not even loaded.

    Raises `ConfigError` for two handlers of one name, and for what can't be offered here; then
    nothing that was made is left.
    """
    handlers = _python_handlers(apps)
    if any(each.takes_secrets or each.returns_secret for each in handlers.values()):
        key_ring.encrypt("", b"")  # raises here, and not in the first run, what is wrong with it

    def executor_services(kind: str) -> ExecutorServices:
        return ExecutorServices(
            done=runner.done,
            feed=runner.feed_for(kind),
            sink=recorder,
            slots=settings.node.slots,
            directory=home.directory,
            inherit=(home.descriptor,),
            failed=runner.executor_failed,
            flush=recorder.flush_from_thread,
        )

    executors: dict[str, Executor] = {}
    node = settings.node
    try:
        if settings.shell:
            link = node_link(settings, "handler")
            executors["shell"] = ShellExecutor(settings.shell, executor_services("shell"), link)
        if settings.http:
            from pgcron_ha.executors.http.executor import http_executor  # with the client library

            link = node_link(settings, "handler")
            executors["http"] = http_executor(settings, executor_services("http"), link)
        for kind in sorted({*settings.plugins, *node.executors}):
            from pgcron_ha.executors.plugins import load_plugin

            tables = settings.plugins.get(kind, {})
            executors[kind] = load_plugin(kind, tables, executor_services(kind))
        if settings.sql:
            from pgcron_ha.executors.sql.executor import SqlExecutor, databases_of

            executors["sql"] = SqlExecutor(
                settings.sql,
                databases_of(settings),
                executor_services("sql"),
                lambda sentence: emit(ProfileIsRisky(sentence)),
            )
        isolated = {name: each for name, each in handlers.items() if each.isolation is not None}
        if isolated:
            program = child_program(node.apps, settings.required_dsn(), settings.schema)
            executors["py isolated"] = ChildPool(
                isolated, program, executor_services("py isolated")
            )
        python = executors["py"] = PythonExecutor(
            {name: each for name, each in handlers.items() if name not in isolated},
            executor_services("py"),
            node_link(settings, "handler"),
            Transactions(settings.required_dsn(), node.transactions, settings.schema, node.name),
        )
        python.at_end += [app.close for app in apps]  # what handlers have enqueued with
    except BaseException:
        for executor in executors.values():
            await executor.close(0)
        raise
    return executors


def handler_policies(settings: Settings, apps: Sequence[App]) -> dict[str, HandlerPolicy]:
    """Of the handlers whose policy is not the default, by full name.

    Raises ConfigError for a weight above the slots of the node.
    """
    found = {name: handler.policy for name, handler in _python_handlers(apps).items()}
    found |= {name: policy_of(template) for name, template in _templates(settings).items()}
    for name, policy in sorted(found.items()):
        if policy.weight > settings.node.slots:
            raise ConfigError(
                f"handler '{name}' takes {policy.weight} slots, the node has {settings.node.slots}",
                "A run of it could never begin here.",
                "Set PGCRON_HA_NODE_SLOTS higher, or give the handler a lower weight.",
            )
    return {name: policy for name, policy in found.items() if policy != DEFAULT_POLICY}


def policy_of(template: Template) -> HandlerPolicy:
    """What its table says of it."""
    names = [each.name for each in fields(HandlerPolicy) if hasattr(template, each.name)]
    return HandlerPolicy(**{name: getattr(template, name) for name in names})


def _templates(settings: Settings) -> dict[str, Template]:
    """Those of the built-in kinds, by full name."""
    kinds = [("shell", settings.shell), ("http", settings.http), ("sql", settings.sql)]
    return {f"{kind}:{name}": each for kind, tables in kinds for name, each in tables.items()}


def declared_breakers(settings: Settings, apps: Sequence[App]) -> list[dict[str, Any]]:
    """As ``declare_breakers`` takes them. Raises `ConfigError` for one that shares what is not
    there, and for secret args that would go to another handler, which can't decrypt them.
    """
    templates = _templates(settings).items()
    said = {name: each.breaker for name, each in templates if each.breaker is not None}
    for app in apps:
        said.update(app.breakers)
    declared = declare(said)
    secret = {name for name, each in _python_handlers(apps).items() if each.takes_secrets}
    for breaker in declared:
        fallback = breaker["fallback_handler"]
        if fallback and (found := secret.intersection([*breaker["handlers"], fallback])):
            raise ConfigError(
                f"the fallback of '{breaker['name']}' is '{fallback}', and '{min(found)}' takes "
                "secret args",
                "A secret arg is encrypted for one handler: another one can't read it.",
                "Name a queue as the fallback, or leave it out: then the runs wait.",
            )
    return declared


def _python_handlers(apps: Sequence[App]) -> dict[str, PythonHandler]:
    handlers: dict[str, PythonHandler] = {}
    for app in apps:
        for name, handler in app.handlers.items():
            if handlers.setdefault(name, handler) is not handler:
                raise ConfigError(
                    f"two applications offer the handler 'py:{name}'", None, "Rename one of them."
                )
    return handlers
