"""Fires to come as people read them: local time with its offset, UTC, and what the clock does."""

from __future__ import annotations

from collections.abc import Iterable

from pgcron_ha.cli.output import echo
from pgcron_ha.spec.preview import Preview, PreviewFire

_LOCAL_WIDTH = 32


def print_preview(preview: Preview) -> None:
    """The sentence and the fires; notes for who wrote the spec go to stderr."""
    for note in preview.notes:
        echo(f"note: {note}", err=True)
    echo(preview.sentence)
    print_fires(preview.fires, preview.timezone)
    if preview.is_over:
        echo("no fires after that")


def print_fires(fires: Iterable[PreviewFire], timezone: str) -> None:
    """A line for each, under their headings; nothing for none."""
    for number, fire in enumerate(fires):
        if number == 0:
            echo(f"{timezone:<{_LOCAL_WIDTH}}UTC")
        note = f"   {fire.note}" if fire.note else ""
        echo(f"{fire.local_text:<{_LOCAL_WIDTH}}{fire.utc_text}{note}")


def fire_json(fire: PreviewFire) -> dict[str, str | None]:
    """As ``next --json`` and ``schedules show --json`` print one."""
    return {"fire_at": fire.utc_text, "local": fire.local.isoformat(), "note": fire.note}
