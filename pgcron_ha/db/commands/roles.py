"""Roles of users, what teams own, and what is within a person's scopes: ``sql/roles.sql``."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows

GRANT: Final = ("subject_kind", "subject", "role", "scope_kind", "scope")
"""What a grant is; everything is the scope ``*`` of the kind ``all``."""

grant_role: Final = Call[None]("grant_role", *GRANT)
"""Gives a user or a group a role, for everything or within a scope."""

revoke_role: Final = Call[bool]("revoke_role", *GRANT)
"""Takes it back; whether there was one."""

role_grants: Final = Rows("list_role_grants", limit=DEFAULT_LIMIT)
"""Roles by who has them; of one ``subject``."""

unknown: Final = Rows("list_unknown", "subject_kind", "subject", "scope_kind", "scope")
"""What a grant names that is not there yet, as `words`: users of a proxy or a provider come later.
"""

set_team: Final = Call[None]("set_team", "kind", "object", "team")
"""Which team a queue, calendar, key or producer belongs to; None: to none."""

owned: Final = Rows("list_owned", limit=DEFAULT_LIMIT)
"""What teams own beside their schedules; of one ``team``."""

reaches: Final = Call[bool | None]("reaches", "kind", "name")
"""Whether a page's object, by its kind and name in addresses, is within the scopes of the
transaction; None: there is no such object.
"""

reached: Final = Rows("reached", "kind", "name", "viewer", "operator", "editor", "admin").the
"""The same within the scopes of each role."""

record_refusal: Final = Call[None]("record_refusal", "verb", "kind", "name", "note", "actor")
"""Keeps in the audit that a verb was refused."""
