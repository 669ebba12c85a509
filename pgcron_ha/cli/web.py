"""``pgcron-ha web``: serves the pages, the probes and the metrics until a signal."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

import click
import uvloop

from pgcron_ha.cli.arguments import option
from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.output import echo
from pgcron_ha.config.settings import Settings
from pgcron_ha.config.values import SocketPath
from pgcron_ha.db.driver.dsn import unprotected_hosts
from pgcron_ha.errors import ConfigError
from pgcron_ha.operating_system import hide_from_others, set_limit
from pgcron_ha.telemetry import log
from pgcron_ha.telemetry.events import DatabaseUnprotected
from pgcron_ha.version import installed_version

if TYPE_CHECKING:
    from pgcron_ha.engine.node import Node
    from pgcron_ha.telemetry.node_snapshot import LookAtNode
    from pgcron_ha.web.services import Services
    from pgcron_ha.web.serving import WebServer


_DESCRIPTORS: Final = 65_536
"""No process of pgcron_ha needs more open files; programs that it starts inherit the number, and
some of them close so many at their start.
"""


@click.command("web")
@option("--listen HOST:PORT", "Where to serve the pages: also unix:/path; port 0: any.")
@option("--callbacks HOST:PORT", "Take services' callbacks there, too.")
@option("--ops HOST:PORT", "Serve probes and metrics there, too.")
def web_command(listen: str | None, callbacks: str | None, ops: str | None) -> int:
    """Serve the pages, the probes and the metrics.

    Without login (`auth.…`) only this machine can connect, and the printed address lets a browser
    in. Callbacks of services that runs have called are taken at an address of their own, and other
    machines ask for probes and metrics at another one: there are no pages at either. SIGTERM and
    SIGINT stop it.
    """
    flags = {"web.listen": listen, "web.callbacks": callbacks, "ops.listen": ops}
    settings = command_context().load(flags)
    log.set_up(settings.log.format, settings.log.level)
    warn_of_unprotected(settings)
    allow_descriptors()
    hide_from_others()
    uvloop.run(run_until_signal(*page_servers(settings), *callback_server(settings)))
    return 0


async def run_until_signal(main: Node | WebServer, *beside: WebServer) -> None:
    """Runs `main`, which SIGTERM and SIGINT stop, and servers beside it, which end after it: a
    node's work does not depend on its pages.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, main.stop)
    serving = [asyncio.create_task(server.run()) for server in beside]
    try:
        await main.run()
    finally:
        for server in beside:
            server.stop()
        await asyncio.gather(*serving, return_exceptions=True)


def page_servers(
    settings: Settings, look: LookAtNode | None = None, cookie: str | None = None
) -> list[WebServer]:
    """A server of the pages at ``web.listen``, and `ops_server`, that listen already; their
    addresses are printed, and without login the one that lets a browser in, once.

    `look` reads the node of this process, if it has one. `cookie` is what browsers that were let in
    before have.

    Raises ConfigError without a DSN, with half of what TLS needs, or for an address that can't be
    listened on.
    """
    if (settings.web.tls_certificate is None) != (settings.web.tls_key is None):
        raise ConfigError(
            "TLS needs web.tls_certificate and web.tls_key",
            "Only one of them is set.",
            "Name the files of both.",
        )
    # Help, and nodes without pages, do not load the web framework.
    from pgcron_ha.web.access import Entry, LocalKey
    from pgcron_ha.web.app import create_app
    from pgcron_ha.web.serving import WebServer

    pages, auth = settings.web, settings.auth if settings.auth.has_login else None
    is_private = isinstance(pages.listen, SocketPath)
    key = LocalKey(cookie) if auth is None and not is_private else None
    entry = Entry(
        hosts=pages.hosts, public_url=pages.public_url, auth=auth, key=key, is_private=is_private
    )
    app = create_app(
        settings.pages_dsn(),
        schema=settings.schema,
        version=installed_version(),
        look=look,
        write_dsn=settings.verbs_dsn(),
        entry=entry,
    )
    tls = pages.tls_certificate, pages.tls_key
    is_encrypted = tls != (None, None) or (pages.public_url or "").startswith("https:")
    server = WebServer(app, pages.listen, tls=tls, may_be_reached=auth is not None and is_encrypted)
    echo(f"serving {server.url}{' with login' if auth is not None else ''}")
    if key is not None:
        key.announce = lambda path: echo(f"open    {server.url.rstrip('/')}{path}  (works once)")
        key.announce(key.path)
    return [server, *ops_server(settings, look, app.state.services)]


def ops_server(
    settings: Settings, look: LookAtNode | None = None, shared: Services | None = None
) -> list[WebServer]:
    """The one of probes and metrics at ``ops.listen`` that listens already, if that is set; its
    address is printed. `shared` is what pages of this process have. Raises as `page_servers`.
    """
    if settings.ops.listen is None:
        return []
    from pgcron_ha.web.ops import ops_listener
    from pgcron_ha.web.services import Services

    services = shared or Services(
        settings.pages_dsn(), schema=settings.schema, version=installed_version(), look=look
    )
    server = ops_listener(services, settings.ops.listen, is_alone=shared is None)
    echo(f"probes and metrics at {server.url}")
    return [server]


def free_port(usual: int) -> int:
    """The usual port of 127.0.0.1, or any other if a program listens on it."""
    with suppress(OSError), socket.create_server(("127.0.0.1", usual)):
        return usual
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def callback_server(settings: Settings) -> list[WebServer]:
    """The one that takes callbacks at ``web.callbacks`` and listens already, if that is set; its
    address is printed. Raises ConfigError as `page_servers`.
    """
    if settings.web.callbacks is None:
        return []
    from pgcron_ha.web.callbacks import callback_listener

    server = callback_listener(settings.verbs_dsn(), settings.web.callbacks, schema=settings.schema)
    echo(f"taking callbacks at {server.url}")
    return [server]


def warn_of_unprotected(settings: Settings) -> None:
    """Logs which databases of other machines are not reached by TLS for sure."""
    for setting, dsn in settings.dsns().items():
        for host in unprotected_hosts(dsn):
            log.emit(DatabaseUnprotected(setting, host))


def allow_descriptors() -> None:
    """Raises the limit of open files as far as the system lets it: the usual 1,024 are too few
    for sessions, programs and their output, and connections of others.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _DESCRIPTORS:
        set_limit(resource.RLIMIT_NOFILE, _DESCRIPTORS)
