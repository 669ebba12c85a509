"""The shop's own environment, as alembic makes it, with the passage that README asks for."""

from __future__ import annotations

import os
from typing import Any

from alembic import context
from sqlalchemy import create_engine
from sqlalchemy.pool import NullPool

from tests.shop.models import Base


def include_object(thing: Any, name: str | None, kind: str, *_: object) -> bool:
    """Autogenerate leaves the schema of pgcron_ha alone, and the models that map its tables."""
    return not (kind == "table" and thing.schema == "pgcron")


OPTIONS: Any = {
    "target_metadata": Base.metadata,
    "include_schemas": True,
    "include_object": include_object,
    "version_table_schema": context.config.get_main_option("version_table_schema"),
}

if context.is_offline_mode():
    context.configure(dialect_name="postgresql", literal_binds=True, **OPTIONS)
    with context.begin_transaction():
        context.run_migrations()
else:
    engine = create_engine(
        os.environ["SHOP_URL"], isolation_level="READ COMMITTED", poolclass=NullPool
    )
    with engine.connect() as connection:
        context.configure(connection=connection, **OPTIONS)
        with context.begin_transaction():
            context.run_migrations()
