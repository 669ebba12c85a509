-- name: find_relation
-- NULL when there is none, whatever is missing: the relation or its schema.
SELECT to_regclass(:name::text)::text AS name;

-- name: read_revision
SELECT a.version_num FROM pgcron.alembic_version a;

-- name: read_scripts
-- Which scripts made the schema; NULL when no migration has noted it.
SELECT replace(obj_description('pgcron.alembic_version'::regclass, 'pg_class'), 'Private: ',
               '') AS checksum;

-- name: read_timeline
-- Which database system this is, and on which timeline it writes; NULL on a standby.
SELECT c.system_identifier,
       CASE WHEN NOT pg_is_in_recovery() THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()),
           8))::bit(32)::bigint END AS timeline
FROM pg_control_system() c;

-- name: find_unsupported
-- What pgcron_ha does not work with and would not notice before it goes wrong; checked before
-- anything is made.
SELECT found.name FROM (VALUES
  (current_setting('server_encoding') <> 'UTF8',
   'the database has the encoding ' || current_setting('server_encoding')),
  (current_setting('standard_conforming_strings') <> 'on', 'standard_conforming_strings is off'),
  (quote_ident(:schema::text) <> :schema::text,
   format('the schema''s name ''%s'' is a keyword of SQL', :schema::text)))
  found(is_there, name)
WHERE found.is_there;
