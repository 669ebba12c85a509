"""How the demo tells its nodes' handlers where to work: names of environment variables."""

from __future__ import annotations

from typing import Final

FOLDER_VARIABLE: Final = "PGCRON_DEMO_FOLDER"
"""The demo's folder."""

DATABASE_VARIABLE: Final = "PGCRON_DEMO_DATABASE"
"""The DSN of the database that is backed up, without its password, which is in PGPASSWORD."""

PASSWORD_VARIABLE: Final = "PGPASSWORD"

ONLY_SCHEMA_VARIABLE: Final = "PGCRON_DEMO_ONLY_SCHEMA"
"""The one schema to back up; not set when the whole database is the demo's."""

PORT_VARIABLE: Final = "PGCRON_DEMO_PORT"
"""Where the demo's pages are, on 127.0.0.1."""
