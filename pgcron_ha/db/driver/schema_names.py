"""Which names a schema of ours may have: those that SQL takes without quotes."""

from __future__ import annotations

import re
from typing import Final

from pgcron_ha.errors import ConfigError

_PLAIN: Final = re.compile(r"(?!pg_|information_schema$)[a-z_][a-z0-9_]{0,39}")


def require_plain(schema: str) -> None:
    """Raises ConfigError for a schema that is no plain lower-case name, or PostgreSQL's own.

    Keywords are left to `pgcron_ha.db.driver.revision.require_supported`: the server knows its own.
    """
    if not _PLAIN.fullmatch(schema):
        raise ConfigError(
            f"schema {schema!r} is not a plain name",
            "It has up to 40 lower-case letters, digits and '_', and is not PostgreSQL's own"
            " (pg_…, information_schema).",
            "Choose a name such as 'pgcron' or 'jobs'.",
        )
