"""Parts of ``pgcron_ha.cli`` that tests look at by themselves."""

from __future__ import annotations

from typing import Any

from pgcron_ha.cli import grants
from pgcron_ha.cli import main as main_module
from pgcron_ha.cli.context import CommandContext, command_context
from pgcron_ha.cli.enqueue import BATCH
from pgcron_ha.cli.grants import EVERYTHING, PARTS, confinement, statements
from pgcron_ha.cli.main import COMMANDS, FAILED, INTERRUPTED, cli, main
from pgcron_ha.cli.migrate import _judged
from pgcron_ha.cli.next import next_command
from pgcron_ha.cli.watching import elapsed


def granting(part: str, role: str, **limits: Any) -> str:
    """What gives the role a part; a producer that is limited in nothing else may enqueue all."""
    granted = "".join(statements(part, role, "pgcron"))
    if part != "producer":
        return granted
    return confinement(role, "pgcron", **(limits or EVERYTHING)) + granted


__all__ = [
    "BATCH",
    "COMMANDS",
    "EVERYTHING",
    "FAILED",
    "INTERRUPTED",
    "PARTS",
    "CommandContext",
    "_judged",
    "cli",
    "command_context",
    "confinement",
    "elapsed",
    "granting",
    "grants",
    "main",
    "main_module",
    "next_command",
    "statements",
]
