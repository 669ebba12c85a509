"""Who may do what: a role is a set of permissions, held within a scope."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeAlias

Scopes: TypeAlias = tuple[str, ...] | None
"""``team:billing``, ``queue:mail-%``: as the database compares them (`pgcron.in_scope`); None:
everything, (): nothing.
"""

ROLES: Final[dict[str, tuple[str, ...]]] = {
    "viewer": (
        *("overview:read", "schedules:read", "runs:read", "runs:logs", "queues:read"),
        *("workflows:read", "dead:read", "nodes:read", "storage:read", "metrics:read"),
    ),
    "operator": (
        *("schedules:run", "schedules:pause", "runs:cancel", "runs:retry", "dead:redrive"),
        *("dead:archive", "queues:pause", "breakers:reset", "workflows:pause"),
        *("workflows:signal", "workflows:approve"),
    ),
    "editor": (
        *("schedules:write", "schedules:edit", "schedules:backfill", "calendars:write"),
        *("workflows:start", "workflows:repair", "nodes:drain"),
    ),
    "admin": ("audit:read", "roles:read"),
}
"""What each role may do that the one before it may not."""
ROLE_OF: Final = {name: role for role, names in ROLES.items() for name in names}
"""The least role that has a permission."""
OF_THE_CLUSTER: Final = frozenset(
    {"nodes:read", "nodes:drain", "storage:read", "metrics:read", "audit:read", "roles:read"}
)
"""Permissions that only a role for everything gives: what they show belongs to no team."""
OWN_ACCOUNT: Final = frozenset({"account:read", "account:write"})
"""Permissions of everybody who has logged in, whatever the roles: of the own account alone."""
SCOPE_KINDS: Final = ("team", "queue", "tag", "schedule", "handler")

_RANKS: Final = {role: rank for rank, role in enumerate(ROLES)}


@dataclass(frozen=True)
class Grant:
    """A role within a scope."""

    role: str
    """viewer, operator, editor or admin."""
    scope_kind: str = "all"
    """all, team, queue, tag, schedule or handler."""
    scope: str = "*"
    """A name, or how names begin, with a star at its end."""

    @property
    def pattern(self) -> str:
        """As LIKE compares it."""
        name = self.scope.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        return f"{self.scope_kind}:" + (f"{name[:-1]}%" if name.endswith("*") else name)

    @property
    def words(self) -> str:
        """Where it is held."""
        return "everything" if self.scope_kind == "all" else f"{self.scope_kind} {self.scope}"


def where_held(row: Mapping[str, str]) -> str:
    """`Grant.words` of a row with ``role``, ``scope_kind`` and ``scope``."""
    return Grant(row["role"], row["scope_kind"], row["scope"]).words


@dataclass(frozen=True)
class Person:
    """Who sent a request, and which roles he has."""

    actor: str
    """As it is recorded, such as ``ui:alice``."""
    grants: tuple[Grant, ...]
    shown: str = ""
    """What pages call a person who has logged in."""

    def grants_as(self, role: str) -> tuple[Grant, ...]:
        """Those of the role, or of one that includes it."""
        return tuple(one for one in self.grants if _RANKS.get(one.role, -1) >= _RANKS[role])

    def scopes(self, permission: str) -> Scopes:
        """Where the person has the permission."""
        if permission in OWN_ACCOUNT:
            return None
        found = self.scopes_as[ROLE_OF[permission]]
        return () if found is not None and permission in OF_THE_CLUSTER else found

    def may(self, permission: str) -> bool:
        """Whether the person has the permission anywhere."""
        return self.scopes(permission) != ()

    @cached_property
    def is_scoped(self) -> bool:
        """Whether what the person may do depends on the object."""
        return any(scopes for scopes in self.scopes_as.values())

    @cached_property
    def scopes_as(self) -> dict[str, Scopes]:
        """Where the person has each role."""
        found: dict[str, Scopes] = {}
        for role in ROLES:
            grants = self.grants_as(role)
            is_for_all = any(one.scope_kind == "all" for one in grants)
            found[role] = None if is_for_all else tuple(sorted({one.pattern for one in grants}))
        return found


NOBODY = Person("ui:nobody", ())
"""Who asks for a page that is open, or has not logged in."""

LOCAL = Person("ui:local", (Grant("admin"),))
"""The user of pages without login, who has their key."""
