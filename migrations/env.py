"""Alembic's entry: one connection, one advisory lock, one transaction.

The connection is made by `pgcron_ha.db.schema.migrate` and handed over in the config's attributes.
The schema's name is the attribute ``schema`` (default pgcron).
"""

from typing import Any, cast

from alembic import context

from pgcron_ha.db.schema.migrate import run_environment

# The module has the attributes of the environment of the command that runs.
run_environment(cast(Any, context))
