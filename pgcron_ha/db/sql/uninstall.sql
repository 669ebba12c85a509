-- name: take_migration_turn
-- As migrations do: nobody migrates what is being removed.
SELECT pg_advisory_xact_lock(:key::bigint);

-- name: migration_turn_holder
-- pg_locks shows a 64-bit key as two halves.
SELECT concat_ws(' ', a.pid::text, a.usename, nullif(a.application_name, '')) || ', open for '
         || date_trunc('second', clock_timestamp() - coalesce(a.xact_start, a.state_change,
                                                              a.backend_start)) AS holder
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND a.datname = current_database()
  AND (l.classid::bigint << 32) + l.objid::bigint = :key::bigint LIMIT 1;

-- name: nodes_with_lease
SELECT n.name, n.host FROM pgcron.nodes n WHERE n.has_lease ORDER BY n.name, n.host LIMIT 20;

-- name: orphans_in_schema
-- Objects in the schema whose names our migrations do not make; partitions, sequences of columns,
-- row types and indexes follow their tables.
SELECT found.name FROM (
  SELECT c.relname::text AS name FROM pg_catalog.pg_class c
   WHERE c.relnamespace = to_regnamespace(:schema::text)
     AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') AND NOT c.relispartition
     AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend d
         WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i')
           AND c.relkind = 'S')
  UNION ALL SELECT p.proname::text FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = to_regnamespace(:schema::text)
  UNION ALL SELECT t.typname::text FROM pg_catalog.pg_type t
  WHERE t.typnamespace = to_regnamespace(:schema::text) AND t.typtype IN ('d', 'e', 'r', 'b')
    AND t.typelem = 0) found
WHERE found.name <> ALL (:known::text[]) ORDER BY found.name LIMIT 20;

-- name: dependents_of_schema
-- What others have built on our tables, views, types and functions, and what a DROP … CASCADE
-- would take with them: views, foreign keys, defaults, triggers, policies, functions with a body
-- that PostgreSQL follows.
WITH own AS (
  SELECT 'pg_class'::regclass AS classid, c.oid FROM pg_catalog.pg_class c
  WHERE c.relnamespace = to_regnamespace(:schema::text)
  UNION ALL SELECT 'pg_proc'::regclass, p.oid FROM pg_catalog.pg_proc p
  WHERE p.pronamespace = to_regnamespace(:schema::text)
  UNION ALL SELECT 'pg_type'::regclass, t.oid FROM pg_catalog.pg_type t
  WHERE t.typnamespace = to_regnamespace(:schema::text))
SELECT DISTINCT pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid) AS name
  FROM pg_catalog.pg_depend d JOIN own ON own.classid = d.refclassid AND own.oid = d.refobjid
  CROSS JOIN LATERAL pg_catalog.pg_identify_object(d.classid, d.objid, d.objsubid) o
  -- What is a part of a table begins with the table's schema here.
  CROSS JOIN LATERAL pg_catalog.pg_identify_object_as_address(d.classid, d.objid, d.objsubid) part
 WHERE d.classid IN ('pg_rewrite'::regclass, 'pg_constraint'::regclass, 'pg_attrdef'::regclass,
                     'pg_trigger'::regclass, 'pg_policy'::regclass, 'pg_class'::regclass,
                     'pg_proc'::regclass, 'pg_type'::regclass)
   AND coalesce(o.schema, part.object_names[1]) NOT IN (:schema::text, 'pg_toast')
 ORDER BY 1 LIMIT 20;
