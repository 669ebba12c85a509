"""From a template and a run to what execve gets: argv, environment, user, and the args file."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pgcron_ha.config.capabilities import ShellTemplate
from pgcron_ha.config.capability_table import PLACEHOLDER
from pgcron_ha.errors import ConfigError
from pgcron_ha.executors.contract.context import Context
from pgcron_ha.executors.contract.placeholders import placeholder_texts
from pgcron_ha.executors.contract.previous import as_text, facts_of, run_facts

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
_INSTEAD = "read structured args from the file PGCRON_ARGS_FILE"


class Account(NamedTuple):
    """The user and the group a run gets; it gets no other groups."""

    user: int
    group: int


def render_argv(template: ShellTemplate, context: Context) -> list[str]:
    """The argument vector with the run's args in the template's placeholders.

    Raises `InvalidInput` for an arg that the template has neither a placeholder nor stdin for, a
    placeholder without arg, and a value that is no scalar or does not match its pattern from end to
    end.
    """
    # Where the program reads all args, what they are is its affair.
    takes_others = template.stdin == "args"
    values = placeholder_texts(template.placeholders, context, _INSTEAD, takes_others)
    return [PLACEHOLDER.sub(lambda found: values[found[1]], item) for item in template.argv]


def run_environment(
    template: ShellTemplate,
    context: Context,
    args_file: Path,
    previous_file: Path | None,
    node: Mapping[str, str],
) -> dict[str, str]:
    """All variables of a run. ``node`` is the node's environment; only allowed names are taken."""
    previous: dict[str, str] = {}
    if previous_file is not None:
        found = facts_of(context._previous_found) | {"file": str(previous_file)}
        previous = {f"PGCRON_PREVIOUS_{name.upper()}": text for name, text in found.items()}
    facts = {f"PGCRON_{name.upper()}": as_text(each) for name, each in run_facts(context).items()}
    environment = {name: node[name] for name in template.environment if name in node}
    environment.setdefault("PATH", node.get("PATH", DEFAULT_PATH))
    return {**environment, **facts, "PGCRON_ARGS_FILE": str(args_file), **previous}


def account_of(template: ShellTemplate) -> Account | None:
    """The user that a run switches to; None: the node's own. Raises `ConfigError`."""
    root = os.geteuid() == 0
    if template.user is None:
        if root:
            raise ConfigError(
                f"the shell template {template.name!r} names no user, and the node runs as root",
                "a node that runs as root starts no program as root unless its template says so",
                f'set user = "…" in [shell.{template.name}]',
            )
        return None
    try:
        entry = pwd.getpwnam(template.user)
    except KeyError:
        raise ConfigError(
            f"the shell template {template.name!r} names the unknown user {template.user!r}",
            "the user must exist on the node's host",
            f"create it, or correct user in [shell.{template.name}]",
        ) from None
    if root:
        return Account(entry.pw_uid, entry.pw_gid)
    if entry.pw_uid != os.geteuid():
        raise ConfigError(
            f"the shell template {template.name!r} names the user {template.user!r}, "
            "but the node is another one",
            "only a node that runs as root can start programs as somebody else",
            f"run the node as {template.user} or as root, or leave user out",
        )
    return None


def write_json_file(path: Path, value: Any, account: Account | None) -> None:
    """Write it into a new file that only the run's user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        if account is not None:
            os.fchown(descriptor, account.user, account.group)
        json.dump(value, file, ensure_ascii=False)


def can_reach(directory: Path, account: Account) -> bool:
    """Whether that user may open a file of its own below this directory."""
    for each in (directory, *directory.parents):
        status = each.stat()
        if status.st_uid == account.user:
            bit = 0o100
        elif status.st_gid == account.group:
            bit = 0o010
        else:
            bit = 0o001
        if account.user != 0 and not status.st_mode & bit:
            return False
    return True
