"""Users of the pages, their sessions and tokens, their roles, what teams own, and what is within a
person's scopes: ``sql/login.sql`` and ``sql/roles.sql``. Secrets come as their SHA-256, passwords
as what argon2 makes of them.
"""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.calls import Call
from pgcron_ha.db.queries.overview import DEFAULT_LIMIT
from pgcron_ha.db.queries.rows import Rows

begin_login: Final = Rows("begin_login", "name", "address").the
"""Counts an attempt (`name` None: by a provider): `wait` in seconds until the next one, 0: go on;
the `password_hash` to compare with, None for no such user.
"""

end_login: Final = Call[bool]("end_login", "method", "name")
"""Ends an attempt to log in; whether there is a session now. The method ``password`` needs the
`password_hash` that `begin_login` gave (None: what was typed is wrong), ``oidc`` the `shown` name
and the `groups` that the provider gave. A user who is disabled gets no session.
"""

note_user: Final = Call[bool | None]("note_user", "name", "shown", "groups")
"""Notes a user whom a proxy names; None: the user is disabled here."""

user_of_session: Final = Rows("user_of_session", "session").one
"""`name`, `shown` and `grants` of the user; None: there is no such session any more."""

user_of_token: Final = Rows("user_of_token", "id", "secret_hash").one
"""As `user_of_session`."""

user_of_proxy: Final = Rows("user_of_proxy", "user_name", "groups").one
"""As `user_of_session`, of one whom a proxy names; None: the user is disabled here."""

log_out: Final = Call[None]("log_out", "session", "address")
"""Ends the session, if there is one."""

revoke_sessions: Final = Rows("revoke_sessions", "name").the
"""Ends the sessions of a user: that one of `session` (as listed), all `but` one, or all, and then
the tokens, too; how many `sessions` and `tokens`. NotFound.
"""

add_user: Final = Call[None]("add_user", "name", "password_hash")
"""Makes a user, with a `role` for everything. Conflict: there is one; InvalidInput."""

set_password: Final = Call[None]("set_password", "name", "password_hash")
"""Ends all sessions of the user; that one of `session` goes on as `renewed`. NotFound."""

disable_user: Final = Call[None]("disable_user", "name", "is_disabled")
"""Nothing of a disabled user is let in from now on; sessions and tokens end. NotFound."""

remove_user: Final = Call[None]("remove_user", "name")
"""With sessions, tokens and roles. NotFound."""

add_token: Final = Call[None]("add_token", "id", "secret_hash", "name", "role", scopes=())
"""A token with a role within `scopes` (``queue:mail``), for 90 days unless `lifetime` is given.
InvalidInput; Conflict: the owner has too many.
"""

revoke_token: Final = Call[None]("revoke_token", "id")
"""It is worth nothing from now on. NotFound."""

users: Final = Rows("list_users", limit=DEFAULT_LIMIT)
"""All users with their roles."""

sessions: Final = Rows("list_sessions", "name", limit=DEFAULT_LIMIT)
"""Sessions of a user (None: of all); `is_own` is the one with the id `own`."""

tokens: Final = Rows("list_tokens", "name", limit=DEFAULT_LIMIT)
"""Tokens of a user (None: of all)."""


GRANT: Final = ("subject_kind", "subject", "role", "scope_kind", "scope")
"""What a grant is; everything is the scope ``*`` of the kind ``all``."""

grant_role: Final = Call[None]("grant_role", *GRANT)
"""Gives a user or a group a role, for everything or within a scope."""

revoke_role: Final = Call[bool]("revoke_role", *GRANT)
"""Takes it back; whether there was one."""

role_grants: Final = Rows("list_role_grants", limit=DEFAULT_LIMIT)
"""Roles by who has them; of one ``subject``."""

not_there_yet: Final = Rows("list_unknown", "subject_kind", "subject", "scope_kind", "scope")
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
