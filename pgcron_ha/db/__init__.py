"""The only place that speaks SQL, and the only importer of asyncpg and alembic.

`statements` loads the named statements of ``sql/``; one module for each noun (`runs`, `schedules`,
`nodes`, …) has one function for each statement; `pool` makes connections; `schema` migrates (and
alone imports alembic).
"""
