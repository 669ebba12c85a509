"""``pgcron-ha web``: serves the pages, the probes and the metrics until it is told to stop."""

from __future__ import annotations

import asyncio
import resource
import signal
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo
from pgcron_ha.config.settings import Settings
from pgcron_ha.telemetry import log
from pgcron_ha.version import installed_version

if TYPE_CHECKING:
    from pgcron_ha.telemetry.node_snapshot import LookAtNode
    from pgcron_ha.web.serving import WebServer


Result = TypeVar("Result")

_DESCRIPTORS: Final = 65_536
"""No process of pgcron_ha needs more open files; programs that it starts inherit the number, and
some of them close so many at their start.
"""


@click.command("web")
@click.option("--listen", metavar="HOST:PORT", help="An address of this machine; port 0: any.")
@click.option("--callbacks", metavar="HOST:PORT", help="Take services' callbacks there, too.")
def web_command(listen: str | None, callbacks: str | None) -> int:
    """Serve the pages, the probes and the metrics.

    There is no login: only this machine can connect. Callbacks of services that runs have called
    are taken at an address of their own, where there are no pages. SIGTERM and SIGINT stop it.
    """
    settings = command_context().load({"web.listen": listen, "web.callbacks": callbacks})
    log.set_up(settings.log.format, settings.log.level)
    allow_descriptors()
    run(serve(settings))
    return 0


async def serve(settings: Settings) -> None:
    """Serves until a signal."""
    server = web_server(settings)
    callbacks = callback_server(settings)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    async with beside(*callbacks):
        await server.run()


def web_server(settings: Settings, look: LookAtNode | None = None) -> WebServer:
    """A server of the pages at ``web.listen`` that listens already; its address is printed.

    `look` is at the node of this process, if it has one.

    Raises ConfigError without a DSN, or for an address that can't be listened on.
    """
    # Nobody who only asks for help, and no node without pages, loads the web framework.
    from pgcron_ha.web.app import create_app
    from pgcron_ha.web.serving import WebServer

    app = create_app(
        settings.required_dsn(), schema=settings.schema, version=installed_version(), look=look
    )
    server = WebServer(app, settings.web.listen)
    echo(f"serving {server.url}")
    return server


def callback_server(settings: Settings) -> list[WebServer]:
    """The one that takes callbacks at ``web.callbacks`` and listens already, if that is set; its
    address is printed. Raises ConfigError as `web_server`.
    """
    if settings.web.callbacks is None:
        return []
    from pgcron_ha.web.callbacks import callback_listener

    dsn, listen = settings.required_dsn(), settings.web.callbacks
    server = callback_listener(dsn, listen, schema=settings.schema)
    echo(f"taking callbacks at {server.url}")
    return [server]


@asynccontextmanager
async def beside(*servers: WebServer) -> AsyncIterator[None]:
    """Serves as long as the context lasts: a node's work does not depend on its pages."""
    serving = [asyncio.create_task(server.run()) for server in servers]
    try:
        yield
    finally:
        for server in servers:
            server.stop()
        await asyncio.gather(*serving, return_exceptions=True)


def allow_descriptors() -> None:
    """Raises the limit of open files as far as the system lets it: the usual 1,024 are little for
    sessions, programs and their output, and connections of others.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Runs `main` on the fastest event loop there is."""
    if sys.platform == "win32":
        return asyncio.run(main)
    import uvloop

    return uvloop.run(main)
