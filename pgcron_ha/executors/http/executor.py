"""Executes ``http:`` destinations: a request for each run, and what its answer means.

Any service in any language can do the work. The headers have what it needs to do it only once:
``Idempotency-Key`` (the same for every attempt), ``Pgcron-Fence`` (a number that only grows: a
lower one than before is a zombie's), ``Pgcron-Token`` (the claim's; not by plain http, unless the
destination has ``allow_private``), ``Pgcron-Run``, ``Pgcron-Attempt``,
``Pgcron-Schedule``, ``Pgcron-Fire-Time``, ``Pgcron-Origin`` (``schedule``, ``backfill``,
``manual``, ``enqueued``, ``rerun``, ``redrive`` or ``step``) and ``traceparent`` (the trace is the
run's uuid). With ``previous = true`` the headers ``Pgcron-Previous-Run``,
``Pgcron-Previous-Outcome``, ``Pgcron-Previous-Fire-Time`` and ``Pgcron-Previous-Finished-At``
describe the schedule's previous run; they are empty if there is none. All of it, with result and
error, is ``pgcron_previous`` in the JSON of args that is sent, or where the body says
``{pgcron_previous}``; null if there is none. With ``results = true`` so are, as
``pgcron_results``, the results of the steps that a step of a workflow comes after, by their names;
empty for other runs.

A stopped run closes its connection. The service may not notice. The request may have had its
effect: the outcome says that this is unknown.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Final

import httpx

from pgcron_ha.config.http_destinations import HttpDestination
from pgcron_ha.config.settings import Settings
from pgcron_ha.db.driver.link import Link
from pgcron_ha.errors import ConfigError, InvalidInput
from pgcron_ha.executors.contract.base import Context, ExecutorServices, Failed, Outcome
from pgcron_ha.executors.contract.failures import refused
from pgcron_ha.executors.contract.masking import remember_secret
from pgcron_ha.executors.contract.previous import note_previous
from pgcron_ha.executors.contract.tasks import TaskExecutor
from pgcron_ha.executors.http.answer import Operation, outcome_of_answer
from pgcron_ha.executors.http.callback import Callback, CallbackDesk
from pgcron_ha.executors.http.client import NO_ANSWER, AddressRefused, HttpClient
from pgcron_ha.executors.http.request import render_request

_ACCEPTED: Final = 202


class HttpExecutor(TaskExecutor):
    """An `Executor` for the destinations of the node's configuration.

    Raises `ConfigError` for a secret or a file of certificates that can't be read.
    """

    def __init__(
        self,
        destinations: Mapping[str, HttpDestination],
        executor_services: ExecutorServices,
        desk: CallbackDesk,
    ) -> None:
        """``desk`` is closed with it. For destinations with ``previous = true`` the previous run is
        asked for over the connection of ``desk``.
        """
        self._desk = desk
        self._clients: dict[str, HttpClient] = {}
        tls_context = cache(tls_context_of)  # costly to make; each holds all authorities
        for each in destinations.values():
            if each.auth is not None:
                remember_secret(each.auth.secret.read())
            self._clients[f"http:{each.name}"] = HttpClient(each, tls_context(each.ca_file))
        self.time_limits = {f"http:{each.name}": each.timeout for each in destinations.values()}
        super().__init__("http", self._clients, executor_services)

    async def execute(self, context: Context) -> Outcome:
        """Send the run's request, and wait for what the service makes of it."""
        client = self._clients[context.handler]
        destination = client.destination
        if destination.previous and (unknown := await note_previous(self._desk.link, context)):
            return unknown
        if destination.completion != "callback":
            return await self._exchange(client, context)
        callback = await self._desk.open(context)
        try:
            outcome = await self._exchange(client, context, callback)
        except asyncio.CancelledError:
            if (reported := await callback.close()) is None:
                raise
            return reported  # the service was quicker than the stop
        finally:
            self._desk.forget(callback)
        if isinstance(outcome, Failed):  # unless the service has reported another end
            return await callback.close() or outcome
        return outcome

    async def end(self, context: Context) -> None:
        """A second cancellation would break off the close of its connection."""
        if not self._live[context].cancelling():
            self.cancel(context)

    async def shut(self) -> None:
        """Close the idle connections."""
        for client in self._clients.values():
            await client.close()
        await self._desk.shut()

    def callbacks_came(self) -> None:
        """A service has called back, perhaps for a run of this executor. Thread-safe."""
        self._post(self._desk.rung.set)

    async def _exchange(
        self, client: HttpClient, context: Context, callback: Callback | None = None
    ) -> Outcome:
        destination = client.destination
        try:
            if destination.auth is not None and destination.auth.secret.kind == "command":
                await asyncio.to_thread(destination.auth.secret.read)  # it may take its time
            request = render_request(destination, context, callback.address if callback else None)
        except ConfigError as error:
            return Failed("SecretUnreadable", error.message, error.detail)
        except InvalidInput as error:  # not raised: a callback is closed then
            return refused(error)
        try:
            context.check()
            answer = await client.exchange(request)
            if callback is not None and answer.status == _ACCEPTED:
                return await callback.wait()
            if destination.poll is not None and answer.status == _ACCEPTED:
                return await Operation(client, context, destination.poll).follow(answer)
        except NO_ANSWER as error:
            return _failure(error, destination)
        return outcome_of_answer(destination, answer, context)


def http_executor(
    settings: Settings, executor_services: ExecutorServices, link: Link
) -> HttpExecutor:
    """Start the executor. ``link`` is for callbacks and previous runs.

    Raises `ConfigError` for what `HttpExecutor` can't use, and for callbacks without an address.
    """
    called_back = [each.name for each in settings.http.values() if each.completion == "callback"]
    if called_back and settings.web.public_url is None:
        raise ConfigError(
            f"http.{called_back[0]}.completion: its service has no address to call back",
            'With completion = "callback" each request says where the callback goes, and'
            " web.public_url is not set.",
            'Set web.public_url = "https://…" to how services reach what `pgcron-ha web --callbacks'
            " HOST:PORT` serves.",
        )
    desk = CallbackDesk(link, settings.web.public_url or "", settings.node.poll_interval)
    return HttpExecutor(settings.http, executor_services, desk)


def _failure(error: Exception, destination: HttpDestination) -> Failed:
    """No answer. Whether the service has seen the request is not known, so most are retried."""
    if isinstance(error, AddressRefused):
        return Failed("AddressRefused", str(error), retry=False)
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return Failed("InvalidRequest", str(error), retry=False)
    if isinstance(error, TimeoutError):
        limit = destination.request_timeout
        return Failed("RequestTimeout", f"no whole answer within {limit:g} s")
    name = type(error).__name__ if isinstance(error, httpx.HTTPError) else "ResolveError"
    return Failed(name, f"{httpx.URL(destination.url).netloc.decode()}: {str(error) or name}")


def tls_context_of(ca_file: str | None) -> ssl.SSLContext:
    """Checks certificates against this file, or against the authorities that browsers trust."""
    if ca_file is None:
        return httpx.create_ssl_context(trust_env=False)
    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigError(
            f"the certificates {ca_file!r} of an http destination can't be used",
            str(error),
            "ca_file is a PEM file with the certificates of the authorities to trust",
        ) from None
