"""One setting: how it is read, its default and its help."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pgcron_ha.config import values
from pgcron_ha.config.secret_references import parse_secret_reference, secret_references

ENVIRONMENT_PREFIX = "PGCRON_HA_"

_OF_SECRETS: Final = (values.database_url, parse_secret_reference, secret_references)
"""The readers of what may have a password, or names where a secret is."""


@dataclass(frozen=True)
class Setting:
    """One setting. `default` is a raw value, read like any other, or a function that finds one;
    None is not read.
    """

    key: str
    read: values.Reader
    default: object | Callable[[], object]
    help: str

    @property
    def is_secret(self) -> bool:
        """Whether it is, or names, what only few may see."""
        return self.read in _OF_SECRETS

    @property
    def variable(self) -> str:
        """The environment variable: ``node.slots`` is ``PGCRON_HA_NODE_SLOTS``."""
        return ENVIRONMENT_PREFIX + self.key.upper().replace(".", "_")

    @property
    def flag(self) -> str:
        """How the command line calls it, where it can be given there: ``--lease-ttl``.

        The flag of a list is given once for each of its values, so its name is singular.
        """
        name = "--" + self.key.rpartition(".")[2].replace("_", "-")
        return name.removesuffix("s") if self.is_list else name

    @property
    def is_list(self) -> bool:
        """Whether it has several values."""
        return isinstance(self.default, list | dict)

    def raw_default(self) -> object:
        """The default on this machine."""
        return self.default() if callable(self.default) else self.default


def setting(read: values.Reader, default: object | Callable[[], object], help: str) -> Any:
    """A field of a section that is a setting, and what `Setting` says of it."""
    return field(repr=read not in _OF_SECRETS, metadata={"setting": (read, default, help)})


def optional_setting(read: values.Reader, help: str) -> Any:
    """The same for one that has no default: None while it is not given."""
    return setting(read, None, help)
