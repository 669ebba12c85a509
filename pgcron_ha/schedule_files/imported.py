"""The result of an import: definitions, the templates that nodes need for them, and losses.

The database carries no commands: what another scheduler runs becomes a template in the file of the
nodes (``[shell.NAME]``, ``[sql.NAME]``), and a schedule names it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import tomli_w

from pgcron_ha.config.capability_table import PLACEHOLDER, read_tables
from pgcron_ha.config.settings import CAPABILITIES
from pgcron_ha.errors import PgcronError
from pgcron_ha.schedule_files.definitions import as_yaml, judged_schedule

# No scheduler that is imported stops a run; a template's longest time limit is this.
LONGEST: Final = "7d"
_NAME: Final = re.compile(r"[^A-Za-z0-9_.-]+")
_MOST_NAME: Final = 60
# They begin command lines whose work is done by others: which of their options have a value, and
# how many words stand between them and the program.
_WRAPPERS: Final = {
    **dict.fromkeys(("if", "then", "test", "exec", "nohup", "chronic", "cronic"), ("", 0)),
    **dict.fromkeys(("bash", "sh", "python", "python3", "perl", "php", "ruby", "node"), ("", 0)),
    "cd": ("", 1),
    "env": ("uCS", 0),
    "flock": ("Ew", 1),
    "ionice": ("cnpu", 0),
    "nice": ("n", 0),
    "sudo": ("ughpCDRT", 0),
    "timeout": ("ks", 1),
}


@dataclass
class Imported:
    """The outcome of one import."""

    definitions: dict[str, dict[str, Any]] = field(default_factory=dict)
    templates: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """By kind (``shell``, ``sql``) and name."""
    losses: list[tuple[str, str]] = field(default_factory=list)
    """Where something was that was not carried over, or not unchanged, and why; in its order."""

    def lose(self, where: str, what: str) -> None:
        """Report a loss."""
        self.losses.append((where, what))

    def add(
        self,
        where: str,
        name: str,
        kind: str,
        said: dict[str, Any],
        template: Mapping[str, Any] | None,
    ) -> None:
        """Carry a schedule over, under a unique name, if it is valid. Its handler is the template
        of that name; without a template somebody has to write one.
        """
        unique = self._free_name(_NAME.sub("-", name).strip("-.")[:_MOST_NAME] or "job")
        first = {"spec": said["spec"], "handler": f"{kind}:{unique}"}
        values = first | said | {"timeout": LONGEST, "max_attempts": 1} | said
        try:
            judged_schedule(unique, values)
        except PgcronError as error:
            reason = "; ".join(text for text in (error.message, error.detail) if text)
            self.lose(where, f"not carried over: {reason}")
            return
        self.definitions[unique] = values
        if template is not None:
            problems = read_tables(kind, {unique: template}, CAPABILITIES[kind])[1]
            if problems:
                self.lose(where, f"its template is not carried over: {problems[0][:300]}")
            else:
                self.templates.setdefault(kind, {})[unique] = dict(template)

    def schedules_text(self) -> str:
        """A file of schedules."""
        return as_yaml(self.definitions)

    def templates_text(self) -> str:
        """A fragment of the configuration file of nodes."""
        return tomli_w.dumps(self.templates)

    def _free_name(self, name: str) -> str:
        number, free = 2, name
        while free in self.definitions:
            free, number = f"{name}-{number}", number + 1
        return free


def as_argv(items: Sequence[str]) -> list[str]:
    """The items as a template takes them: what looks like a placeholder there reaches the program
    in two pieces that a shell puts together.
    """
    if not any(PLACEHOLDER.search(item) for item in items):
        return list(items)
    pieces: list[str] = []
    words: list[str] = []
    for item in items:
        parts = re.split(r"(?<=\{)(?=[a-z_])", item)
        numbers = range(len(pieces) + 1, len(pieces) + len(parts) + 1)
        words.append('"' + "".join(f"${{{number}}}" for number in numbers) + '"')
        pieces += parts
    return ["/bin/sh", "-c", f"exec {' '.join(words)}", "sh", *pieces]


def with_variables(argv: Sequence[str], variables: Mapping[str, str]) -> list[str]:
    """The program with these variables in its environment."""
    if not variables:
        return list(argv)
    return ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items()), *argv]


def words_of(command: str) -> list[str]:
    """The words of a command line, as a shell would split them."""
    try:
        return shlex.split(command, comments=False)
    except ValueError:
        return command.split()


def program_name(command: str) -> str:
    """A name for what a command line runs: of its first program, without its folder and suffix; of
    the host that is called.
    """
    words = words_of(command)
    while words:
        base = words.pop(0).rstrip("/").rpartition("/")[2]
        if base in _WRAPPERS:
            with_value, others = _WRAPPERS[base]
            while words and words[0].startswith("-"):
                option = words.pop(0)
                if len(option) == 2 and option[1] in with_value:
                    del words[:1]
            del words[:others]
        elif "=" not in base and re.match(r"[A-Za-z0-9_]", base):
            if base in ("curl", "wget"):
                hosts = (word.partition("://")[2].partition("/")[0] for word in words)
                base = next(filter(None, hosts), base)
            return re.sub(r"\.(sh|py|pl|rb|php)$", "", base)
    return "job"
