-- name: find_relation
-- NULL when there is none, whatever is missing: the relation or its schema.
SELECT to_regclass(:name::text)::text AS name;

-- name: read_revision
SELECT a.version_num FROM pgcron.alembic_version a;
