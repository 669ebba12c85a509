"""The only place that speaks SQL, and the only importer of asyncpg and alembic.

`driver` connects and sends the named statements of ``sql/``. `schema` migrates, and alone imports
alembic. `commands` has what people and clients change, one module a noun; `queries` what people,
pages and commands read.
"""
