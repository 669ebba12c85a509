"""``pgcron-ha web``: serves the pages, the probes and the metrics until it is told to stop."""

from __future__ import annotations

import asyncio
import signal

import click

from pgcron_ha.cli.context import command_context
from pgcron_ha.cli.node import installed_version, run
from pgcron_ha.config import Settings
from pgcron_ha.telemetry import log


@click.command("web")
@click.option("--listen", metavar="HOST:PORT", help="An address of this machine; port 0: any.")
def web_command(listen: str | None) -> int:
    """Serve the pages, the probes and the metrics.

    There is no login: only this machine can connect. SIGTERM and SIGINT stop it.
    """
    settings = command_context().load({"web.listen": listen})
    log.set_up(settings.log.format, settings.log.level)
    run(serve(settings))
    return 0


async def serve(settings: Settings) -> None:
    """Serves until a signal; prints the address when it listens."""
    from pgcron_ha.web.app import create_app  # a command that fails early needs no web framework
    from pgcron_ha.web.serving import WebServer

    app = create_app(settings.required_dsn(), schema=settings.schema, version=installed_version())
    server = WebServer(app, settings.web.listen)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    click.echo(f"serving {server.url}")
    await server.run()
