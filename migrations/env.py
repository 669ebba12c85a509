"""Alembic's entry: one connection (ours or the caller's), one advisory lock, one transaction.

The connection is made by `pgcron_ha.db.schema.migrate` and handed over in the config's attributes;
`alembic` from a
checkout makes its own from PGCRON_HA_DSN. The schema's name is the attribute ``schema`` (default
pgcron).
"""

from typing import Any, cast

from alembic import context

from pgcron_ha.db.schema.migrate import run_environment

# Alembic's module stands for the environment of the command that runs.
run_environment(cast(Any, context))
