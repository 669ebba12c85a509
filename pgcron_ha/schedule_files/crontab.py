"""A crontab, of a user or of the system, as schedules: the format of vixie cron and its successors.

A command becomes a shell template that gives the same text to the same shell, with the variables
of the lines before it. cron starts a command beside one that still runs, never late and once, and
stops none: so do the schedules.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from typing import Any, Final

from pgcron_ha.schedule_files.imported import (
    LONGEST,
    Imported,
    as_argv,
    program_name,
    with_variables,
    words_of,
)

_VARIABLE: Final = re.compile(
    r"""\s*(?P<name>[A-Za-z_][A-Za-z0-9_]*|"[^"]+"|'[^']+')\s*=\s*(?P<value>.*?)\s*"""
)
_SHELL: Final = "/bin/sh"
_QUOTED: Final = re.compile(r"""(["']).*\1""")
# What depends on HOME, or on the working directory that cron has there: ~, $HOME, cd x, bin/x.
_OF_HOME: Final = re.compile(r"""(?:^|[\s=:"'(;&|])~|\$\{?HOME\b|\bcd\s+["']?[^\s"'/$]|^[\w.-]+/""")
_HINT: Final = ": write HOME=/… above the line for others"
_PERCENT: Final = re.compile(r"(?<!\\)%")


@dataclass
class _Context:
    """What the lines so far have set."""

    timezone: str
    shell: str = _SHELL
    variables: dict[str, str] = field(default_factory=dict)


def import_crontab(text: str, name: str, *, timezone: str, is_system: bool = False) -> Imported:
    """The schedules of a crontab; with ``is_system`` each line names a user before its command."""
    found = Imported()
    context = _Context(timezone)
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip(" \t\r")
        where = f"{name}, line {number}"
        if not stripped or stripped.startswith("#"):
            continue
        variable = _VARIABLE.fullmatch(stripped)
        if variable is not None and not stripped.startswith(("@", "*")):
            _set(context, variable["name"].strip("\"'"), variable["value"], where, found)
        else:
            _entry(found, context, stripped, where, is_system)
    return found


def _set(context: _Context, name: str, value: str, where: str, found: Imported) -> None:
    if _QUOTED.fullmatch(value):
        value = value[1:-1]
    if name == "CRON_TZ":
        context.timezone = value
    elif name == "SHELL":
        context.shell = value or _SHELL
    elif name in ("MAILTO", "MAILFROM", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING"):
        if value:
            found.lose(where, f"{name}: nobody is mailed; what a run prints is its log")
    else:
        context.variables[name] = value


def _entry(found: Imported, context: _Context, line: str, where: str, is_system: bool) -> None:
    spec, rest = _split_spec(line)
    user = None
    if is_system:
        user, rest = (*rest.split(None, 1), "", "")[:2]
    if spec.lower() == "@reboot":
        found.lose(
            where, f"not carried over: @reboot is no time but an event of one host: {rest[:100]}"
        )
        return
    if not rest:
        found.lose(where, f"not carried over: there is no command after {spec[:100]!r}")
        return
    command, lines = _command(rest)
    fed = f"printf '%s\\n' {' '.join(map(shlex.quote, lines))} | ( {command}\n)"
    script = fed if lines else command
    argv = with_variables(as_argv([context.shell, "-c", script]), context.variables)
    template: dict[str, Any] = {"argv": argv, "timeout": LONGEST}
    if user:
        template["user"] = user
    if (home := context.variables.get("HOME", "")).startswith("/"):
        template["working_directory"] = home
    elif user:
        found.lose(where, f"{user[:100]}'s HOME and working directory are not carried over{_HINT}")
    else:
        template["environment"] = ["HOME", "LOGNAME", "USER"]
        if _OF_HOME.search(command):
            found.lose(where, f"HOME and the working directory are the node's{_HINT}")
    overlap = "skip" if _gives_way(command) else "allow"
    said = {"spec": spec, "timezone": context.timezone, "overlap": overlap, "catchup": "none"}
    found.add(where, program_name(command), "shell", said, template)


def _gives_way(command: str) -> bool:
    """Whether it ends at once while another one has its lock: ``flock -n``."""
    program, *words = words_of(command) or [""]
    is_lock = program.rpartition("/")[2] == "flock"
    return is_lock and not {"-n", "--nb", "--nonblock"}.isdisjoint(words)


def _split_spec(line: str) -> tuple[str, str]:
    """The time of a line, and the rest."""
    fields = 1 if line.startswith("@") else 5
    parts = line.split(None, fields)
    return " ".join(parts[:fields]), "".join(parts[fields:]).strip(" \t")


def _command(text: str) -> tuple[str, list[str]]:
    """The command, and the lines of its standard input: after a % that has no backslash, where each
    further one begins a line.
    """
    command, *lines = _PERCENT.split(text)
    command = command.replace("\\%", "%").rstrip()
    if len(lines) > 1 and not lines[-1]:  # the last line ends, no other begins
        del lines[-1]
    return command, [line.replace("\\%", "%") for line in lines]
