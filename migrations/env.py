"""Alembic's entry: one connection (ours or the caller's), one advisory lock, one transaction.

The connection is made by `pgcron_ha.db.schema` and handed over in the config's attributes; `alembic` from a
checkout makes its own from PGCRON_HA_DSN. The schema's name is the attribute ``schema`` (default pgcron).
"""

from alembic import context

from pgcron_ha.db.schema import run_environment

run_environment(context)
