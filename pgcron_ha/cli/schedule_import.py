"""``schedules import``: what other schedulers run, as a file of schedules to review."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from urllib.parse import urlsplit

import click

from pgcron_ha.cli.arguments import option, together
from pgcron_ha.cli.output import echo, plural
from pgcron_ha.cli.schedule_files import print_or_write
from pgcron_ha.db.queries.foreign_schedulers import pg_cron_jobs
from pgcron_ha.schedule_files.crontab import import_crontab
from pgcron_ha.schedule_files.documents import read_file, read_text
from pgcron_ha.schedule_files.imported import Imported
from pgcron_ha.schedule_files.kubernetes import import_kubernetes
from pgcron_ha.schedule_files.pg_cron import import_pg_cron
from pgcron_ha.spec.zones import load_zone

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_NEW_FILE = click.Path(path_type=Path, dir_okay=False)
_files = together(
    option("--output", "Write the schedules to this file.", _NEW_FILE),
    option("--templates", "Write the part for pgcron-ha.toml to this file.", _NEW_FILE),
)


@click.group("import")
def import_group() -> None:
    """Read the jobs of cron, Kubernetes and pg_cron.

    Turns them into a file of schedules. Prints the file, and what nodes need in their
    pgcron-ha.toml to run the commands; what could not be carried over, and why, goes to stderr.
    Review the file, then "schedules apply" it.
    """


@import_group.command("crontab")
@click.argument("file", type=_FILE)
@click.option("--system", "is_system", is_flag=True, help="Each line names a user (/etc/crontab).")
@click.option("--timezone", default="UTC", show_default=True, help="Of the host it comes from.")
@_files
def crontab_command(file: Path, is_system: bool, timezone: str, **files: Path | None) -> None:
    """Import a crontab; CRON_TZ in it wins over --timezone."""
    load_zone(timezone)
    found = import_crontab(read_text(file), str(file), timezone=timezone, is_system=is_system)
    _report(found, **files)


@import_group.command("kubernetes")
@click.argument("manifests", type=_FILE, nargs=-1, required=True, metavar="FILES...")
@click.option("--timezone", default="UTC", show_default=True, help="Of jobs without a timeZone.")
@_files
def kubernetes_command(manifests: tuple[Path, ...], timezone: str, **files: Path | None) -> None:
    """Import the CronJobs (batch/v1) of manifests in YAML or JSON."""
    load_zone(timezone)
    documents = [document for file in manifests for document in read_file(file)]
    _report(import_kubernetes(documents, timezone=timezone), **files)


@import_group.command("pg_cron")
@click.option("--from-dsn", metavar="URL", required=True, help="The database that has cron.job.")
@click.option("--timezone", help="pg_cron's; without it what the database says, or UTC.")
@_files
def pg_cron_command(from_dsn: str, timezone: str | None, **files: Path | None) -> None:
    """Import pg_cron's jobs from its table."""
    texts, reported = asyncio.run(pg_cron_jobs(from_dsn))
    zone = timezone or {"GMT": "UTC"}.get(reported or "", reported) or "UTC"
    load_zone(zone)
    rows = [json.loads(text) for text in texts]
    server = urlsplit(from_dsn).hostname
    _report(import_pg_cron(rows, "cron.job", timezone=zone, server=server), **files)


def _report(found: Imported, output: Path | None, templates: Path | None) -> None:
    print_or_write(found.schedules_text(), output)
    fragment = found.templates_text()
    if templates is not None:
        print_or_write(fragment, templates)
    elif fragment:
        echo("# What pgcron-ha.toml of the nodes needs:\n#")
        for line in fragment.splitlines():
            echo(f"# {line}".rstrip())
    for loss in found.losses:
        echo(f"{loss.where}: {loss.what}", err=True)
    echo(f"{plural(len(found.definitions), 'schedule')} carried over", err=True)
