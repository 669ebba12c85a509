"""Who may do what: a role is a set of permissions, held within a scope."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grant:
    """A role within a scope."""

    role: str
    """viewer, operator, editor or admin."""
    scope_kind: str = "all"
    """all, team, queue, tag, schedule or handler."""
    scope: str = "*"
    """A name, or how names begin, with a star at its end."""


@dataclass(frozen=True)
class Person:
    """Who sent a request, and which roles he has."""

    actor: str
    """As it is recorded, such as ``ui:alice``."""
    grants: tuple[Grant, ...]


LOCAL = Person("ui:local", (Grant("admin"),))
"""Whoever holds the key of pages without login."""
