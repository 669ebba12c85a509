"""Records what the functions of the database do not record themselves: logins, and refusals."""

from __future__ import annotations

from typing import Final

from pgcron_ha.db.driver.calls import Call

record: Final = Call[None]("record_audit", "verb", "kind", "name", outcome="done")
"""One row, in the caller's transaction: `before` and `after` are JSON objects as text, `outcome` is
done or refused. By `Session.act` with its actor, interface and address. Refused without the right.
"""
