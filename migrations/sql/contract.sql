-- The SQL contract: what people and applications may call, read and write (docs/reference/sql.md).
-- Functions and procedures of it are those that have a comment by now. All else may change with any
-- version, and its comment begins with the word Private.

DO $do$
DECLARE
  relations CONSTANT text[] := ARRAY[
    'run', 'schedule', 'runs', 'own_runs', 'dead_letters', 'error_groups', 'schedules',
    'schedule_versions', 'occurrences', 'backfills', 'calendars', 'queues', 'nodes', 'workflows',
    'workflow_runs', 'workflow_steps', 'assets'];
  private record;
BEGIN
  FOR private IN
    SELECT format('ROUTINE %s', p.oid::regprocedure) AS name, NULL AS comment FROM pg_proc p
     WHERE p.pronamespace = 'pgcron'::regnamespace AND obj_description(p.oid, 'pg_proc') IS NULL
    UNION ALL
    SELECT format('%s %s', CASE c.relkind WHEN 'v' THEN 'VIEW' ELSE 'TABLE' END, c.oid::regclass),
           obj_description(c.oid, 'pg_class')
      FROM pg_class c
     WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind IN ('r', 'p', 'v')
       AND NOT c.relispartition AND c.relname <> ALL (relations || ARRAY['alembic_version'])
  LOOP
    EXECUTE format('COMMENT ON %s IS %L', private.name,
                   'Private: ' || coalesce(private.comment, 'of the engine.'));
  END LOOP;
END $do$;

-- The names in a function mean the same with every search_path of the caller: constraints and
-- triggers call functions in the session that writes the row. What PostgreSQL parses at the call
-- gets a path here; the body of a BEGIN ATOMIC function was parsed when it was made, and can still
-- be inlined. A procedure that commits can have no setting: wait_long qualifies each name. Only the
-- owner may call what executes with the owner's rights, until `pgcron-ha grants` grants it. That
-- includes the functions of triggers, which anybody could attach to a table of their own. The four
-- that everybody may call check who the caller is.
DO $do$
DECLARE
  made record;
BEGIN
  FOR made IN SELECT p.oid::regprocedure AS name, p.prosqlbody IS NULL AS has_text,
             p.prosecdef AND p.proname <> ALL (
               '{run_status,look_for_end,await_runs,judge_guest}') AS is_closed
      FROM pg_proc p WHERE p.pronamespace = 'pgcron'::regnamespace AND p.prokind = 'f' LOOP
    IF made.has_text THEN
      EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', made.name);
    END IF;
    IF made.is_closed THEN
      EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', made.name);
    END IF;
  END LOOP;
END $do$;
