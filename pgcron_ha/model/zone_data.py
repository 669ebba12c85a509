"""Which data time zones are read from: the installed ``tzdata`` package's, but for the zones that
the cluster knows newer rules of.

All nodes of a cluster compute with the newest data that any of them brought, so that nodes with
other packages agree. One choice for the whole process.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module, resources
from io import BytesIO
from typing import Final, Protocol, TypeVar
from zoneinfo import ZoneInfo

_INSTALLED: Final[str] = getattr(import_module("tzdata"), "IANA_VERSION", "0")


class _Cached(Protocol):
    def cache_clear(self) -> None: ...


_AnyCached = TypeVar("_AnyCached", bound=_Cached)


@dataclass
class _InForce:
    version: str
    rules: dict[str, bytes] = field(default_factory=dict)


_in_force = _InForce(_INSTALLED)
_depending: list[_Cached] = []


def depends_on_rules(cached: _AnyCached) -> _AnyCached:
    """Decorates a function with a cache: it forgets what it knows when other rules are taken."""
    _depending.append(cached)
    return cached


def package_version() -> str:
    """The IANA version of the installed data, as ``2026f``. Text order is the order in time."""
    return _INSTALLED


def version_in_force() -> str:
    """The version that this process computes with."""
    return _in_force.version


@lru_cache(maxsize=1)
def package_zones() -> frozenset[str]:
    """The names of the installed data."""
    listed = resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8").split()
    return frozenset(listed) - {"Factory"}  # tzdata's "no zone was configured"


def zones_taken() -> frozenset[str]:
    """The names of zones whose rules are the cluster's."""
    return frozenset(_in_force.rules)


def read_rules(name: str) -> bytes:
    """The rules in force of a zone, as a TZif file has them; of one that exists."""
    taken = _in_force.rules.get(name)
    return _package_rules_of(name) if taken is None else taken


@lru_cache(maxsize=1)
def package_rules() -> Mapping[str, bytes]:
    """The installed rules of all zones, half a megabyte."""
    return {name: _package_rules_of(name) for name in sorted(package_zones())}


def digest(rules: bytes) -> str:
    """As PostgreSQL's ``md5`` has it: a name for the bytes, no secret."""
    return hashlib.md5(rules, usedforsecurity=False).hexdigest()


def package_digests() -> dict[str, list[str]]:
    """Names of the installed zones, and the digests of their rules; half a megabyte is read."""
    own = package_rules()
    return {"names": list(own), "digests": [digest(rules) for rules in own.values()]}


def zone_from(name: str, rules: bytes) -> ZoneInfo:
    """A zone of these rules; ValueError when they are none."""
    return ZoneInfo.from_file(BytesIO(rules), key=name)


def use_rules(version: str, rules: Mapping[str, bytes]) -> None:
    """From now on the process computes with these rules, and the installed ones of other zones."""
    _in_force.version, _in_force.rules = version, dict(rules)
    for cached in _depending:
        cached.cache_clear()


def _package_rules_of(name: str) -> bytes:
    return resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes()
