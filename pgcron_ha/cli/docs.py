"""``pgcron-ha docs``: the documents, in the terminal."""

from __future__ import annotations

import sys

import click

from pgcron_ha.cli.output import echo
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.documents import SECTIONS, documents
from pgcron_ha.errors import InvalidInput


@click.command("docs")
@click.argument("page", required=False)
def docs_command(page: str | None) -> None:
    """List the documents, or read PAGE.

    `pgcron-ha web` serves them, too, at /docs.
    """
    pages = documents()
    if page is None:
        width = max(map(len, pages))
        for section, heading in SECTIONS.items():
            echo(f"{heading}:")
            for each in pages.values():
                if each.section == section:
                    echo(f"  {each.name:<{width}}  {each.title}")
        return
    if page not in pages:
        raise InvalidInput(
            f"there is no document '{page[:100]}'{did_you_mean(page, pages)}",
            "A document is named as its file is, without the ending.",
            "List them: pgcron-ha docs.",
        )
    text = pages[page].text
    if sys.stdout.isatty():
        click.echo_via_pager(text)
    else:
        echo(text, nl=False)
