"""Where a secret is: a reference in the configuration, read when the secret is needed.

``env:NAME`` is a variable of the process, ``file:/path`` a file (a mounted Kubernetes secret is
one), ``credential:NAME`` a file that systemd passes to the service (``LoadCredential=``), and
``command:PROGRAM ARGUMENT…`` what a program prints. The secret itself is nowhere in the
configuration.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Final, Literal, NoReturn

from pgcron_ha.config.capability_table import Refused
from pgcron_ha.errors import ConfigError

Kind = Literal["env", "file", "credential", "command"]

MAX_SECRET_BYTES: Final = 64 * 1024
"""More than any token or key; a larger file was named by mistake."""

FRESH_SECONDS: Final = 60.0
"""How long what a command has printed is used: clouds count how often they are asked."""

TIMEOUT_SECONDS: Final = 20.0
_SHOWN: Final = 300
_CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"

VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PLACES: Final = {
    "env": VARIABLE,
    "file": re.compile(r"/[^\0]*"),
    "credential": re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}"),
    "command": re.compile(r"[^\0]+"),
}
_printed: dict[str, tuple[float, str]] = {}


@dataclass(frozen=True, slots=True)
class SecretReference:
    """As it is written in the file: its kind, a colon, and the place."""

    kind: Kind
    place: str

    def __str__(self) -> str:
        """A command line may hold a secret: of it the program alone is shown."""
        return f"{self.kind}:{self.place.split()[0] if self.kind == 'command' else self.place}"

    def read(self, age: float = FRESH_SECONDS) -> str:
        """The secret as it is now, without a line end after it, so that one that is rotated is
        taken up by the next reader; of a command what it printed at most `age` seconds ago. Raises
        `ConfigError`, which does not contain it.
        """
        if self.kind == "env":
            text = os.environ.get(self.place, "")
        elif self.kind == "command":
            text = self._printed(age)
        elif self.kind == "credential":
            if _CREDENTIALS not in os.environ:
                self._fail(f"{_CREDENTIALS} is not set: systemd sets it for services")
            text = self._read_file(f"{os.environ[_CREDENTIALS]}/{self.place}")
        else:
            text = self._read_file(self.place)
        text = text.rstrip("\r\n")
        if not text or not text.isprintable():
            problem = "has no printable text" if text else "is empty or not set"
            raise ConfigError(
                f"the secret {str(self)!r} {problem}",
                "a secret is one line of text",
                "set it for the node's process",
            )
        return text

    def _printed(self, age: float) -> str:
        known = _printed.get(self.place)
        if known is not None and monotonic() - known[0] < age:
            return known[1]
        try:
            command = shlex.split(self.place)
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_SECONDS
            )
        except OSError as error:
            self._fail(f"it can't be started: {error.strerror}")
        except subprocess.TimeoutExpired:
            self._fail(f"it did not end within {TIMEOUT_SECONDS:g} s")
        if done.returncode:
            said = done.stderr[-_SHOWN:].decode("utf-8", "replace").strip()
            self._fail(f"it ended with {done.returncode}: {said}")
        text = self._text_of(done.stdout)
        _printed[self.place] = monotonic(), text
        return text

    def _read_file(self, path: str) -> str:
        try:
            with open(path, "rb") as file:
                return self._text_of(file.read(MAX_SECRET_BYTES + 1))
        except OSError as error:
            self._fail(str(error.strerror))

    def _text_of(self, content: bytes) -> str:
        if len(content) > MAX_SECRET_BYTES:
            self._fail(f"it has more than {MAX_SECRET_BYTES} bytes")
        try:
            return content.decode()
        except UnicodeDecodeError:
            self._fail("it is not UTF-8")

    def _fail(self, why: str) -> NoReturn:
        raise ConfigError(
            f"the secret {str(self)!r} can't be read",
            why,
            "Run the program by hand as the user of the process."
            if self.kind == "command"
            else "the node's user must be able to read it",
        )


def parse_secret_reference(raw: object) -> SecretReference:
    """Raises `Refused` with what was expected; the value itself is not shown, as it may be a
    secret that somebody wrote into the file.
    """
    kind, _, place = raw.partition(":") if isinstance(raw, str) else ("", "", "")
    with suppress(ValueError):  # of a command with a quotation without its end
        is_whole = kind != "command" or bool(shlex.split(place))
        if is_whole and kind in _PLACES and _PLACES[kind].fullmatch(place):
            return SecretReference(kind, place)  # type: ignore[arg-type]
    raise Refused(
        "expected env:NAME (a variable of the node), file:/absolute/path, credential:NAME (of"
        " systemd) or command:PROGRAM ARGUMENT…"
    )


def secret_references(raw: object) -> tuple[SecretReference, ...]:
    """A list of references; in a variable with commas between them. Raises `Refused`."""
    items = [part.strip() for part in raw.split(",") if part.strip()] if type(raw) is str else raw
    if not isinstance(items, list | tuple):
        raise Refused('expected a list such as ["file:/run/secrets/key"]')
    return tuple(map(parse_secret_reference, items))
