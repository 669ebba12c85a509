"""A reference to a secret: the configuration file has its place, and never the secret itself."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pgcron_ha.config.capability_table import Refused
from pgcron_ha.errors import ConfigError

MAX_SECRET_BYTES = 64 * 1024
"""More than any token or key; a larger file was named by mistake."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class SecretReference:
    """``env:NAME`` or ``file:/path``."""

    kind: Literal["env", "file"]
    place: str

    def __str__(self) -> str:
        """As it is written in the file."""
        return f"{self.kind}:{self.place}"

    def read(self, environment: Mapping[str, str] | None = None) -> str:
        """The secret as it is now, without a line end after it, so that one that is rotated is
        taken up by the next reader. Raises `ConfigError`, which does not contain it.
        """
        if self.kind == "env":
            text = (os.environ if environment is None else environment).get(self.place, "")
        else:
            text = self._read_file()
        text = text.rstrip("\r\n")
        if not text or not text.isprintable():
            problem = "has no printable text" if text else "is empty or not set"
            raise ConfigError(
                f"the secret {str(self)!r} {problem}",
                "a secret is one line of text",
                "set it for the node's process",
            )
        return text

    def _read_file(self) -> str:
        try:
            with open(self.place, "rb") as file:
                content = file.read(MAX_SECRET_BYTES + 1)
            if len(content) > MAX_SECRET_BYTES:
                raise OSError(0, f"it has more than {MAX_SECRET_BYTES} bytes")
            return content.decode()
        except OSError as error:
            why = error.strerror
        except UnicodeDecodeError:
            why = "it is not UTF-8"
        raise ConfigError(
            f"the secret {str(self)!r} can't be read",
            why,
            "the node's user must be able to read it",
        )


def parse_secret_reference(raw: object) -> SecretReference:
    """Raises `Refused` with what was expected; the value itself is not shown, as it may be a
    secret that somebody wrote into the file.
    """
    kind, _, place = raw.partition(":") if isinstance(raw, str) else ("", "", "")
    if kind == "env" and _VARIABLE.fullmatch(place):
        return SecretReference("env", place)
    if kind == "file" and Path(place).is_absolute() and "\0" not in place:
        return SecretReference("file", place)
    raise Refused("expected env:NAME (a variable of the node) or file:/absolute/path")
