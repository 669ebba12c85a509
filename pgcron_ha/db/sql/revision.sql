-- name: find_relation
-- NULL when there is none, whatever is missing: the relation or its schema.
SELECT to_regclass(:name::text)::text AS name;

-- name: read_revision
SELECT a.version_num FROM pgcron.alembic_version a;

-- name: read_scripts
-- Which scripts made the schema; NULL when no migration has noted it.
SELECT obj_description('pgcron.alembic_version'::regclass, 'pg_class') AS checksum;

-- name: read_timeline
-- Which database system this is, and on which timeline it writes; NULL on a standby.
SELECT c.system_identifier, CASE WHEN NOT pg_is_in_recovery() THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END AS timeline
FROM pg_control_system() c;
