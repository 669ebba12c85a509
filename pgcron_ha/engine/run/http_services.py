"""The executor of a node's HTTP destinations, and what its services call back to."""

from __future__ import annotations

from pgcron_ha.config.settings import Settings
from pgcron_ha.db.driver.link import Link
from pgcron_ha.db.driver.transactions import Transactions
from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.base import Executor
from pgcron_ha.executors.contract.services import ExecutorServices
from pgcron_ha.executors.http.callback import CallbackDesk
from pgcron_ha.executors.http.executor import HttpExecutor


def http_executor(settings: Settings, executor_services: ExecutorServices) -> HttpExecutor:
    """Works from now on. A connection of its own is for callbacks, if a destination has them, and
    another one, while it is used, for those that are told of the run before.

    Raises `ConfigError` for what `HttpExecutor` can't use, and for callbacks without an address.
    """
    reported = any(each.previous for each in settings.http.values())
    transactions = Transactions(settings.required_dsn(), 1, settings.schema) if reported else None
    called_back = [each.name for each in settings.http.values() if each.completion == "callback"]
    if not called_back:
        return HttpExecutor(settings.http, executor_services, None, transactions)
    if settings.web.public_url is None:
        raise ConfigError(
            f"http.{called_back[0]}.completion: its service has no address to call back",
            'With completion = "callback" each request says where the callback goes, and'
            " web.public_url is not set.",
            'Set web.public_url = "https://…" to how services reach what `pgcron-ha web --callbacks'
            " HOST:PORT` serves.",
        )
    link = Link(settings.required_dsn(), settings.schema)
    desk = CallbackDesk(link, settings.web.public_url, settings.node.poll_interval)
    return HttpExecutor(settings.http, executor_services, desk, transactions)


def pass_to_executor(executor: Executor) -> None:
    """A callback came, perhaps for a run of this executor of HTTP destinations."""
    if isinstance(executor, HttpExecutor):
        executor.callbacks_came()
