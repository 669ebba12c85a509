-- What the plug-in of pytest asks of a schema that is its own, see pgcron_ha/testing/.

-- name: testing_schema_comment
SELECT obj_description(to_regnamespace(:schema::text), 'pg_namespace') AS comment,
       to_regnamespace(:schema::text) IS NOT NULL AS is_there;

-- name: testing_mark_schema
DO $$ BEGIN
EXECUTE format('COMMENT ON SCHEMA %I IS %L', 'pgcron'::regnamespace::text,
               'pgcron_ha: made for tests');
END $$;

-- name: testing_empty_schema
-- Everything but what a migration has put there, and the audit, which nobody empties.
DO $$ BEGIN
  EXECUTE (SELECT 'TRUNCATE ' || string_agg(c.oid::regclass::text, ', ') FROM pg_catalog.pg_class c
            WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind IN ('r', 'p')
              AND NOT c.relispartition
              AND c.relname NOT IN ('alembic_version', 'audit', 'audit_export', 'cluster',
                                    'reason', 'retention', 'timezone'));
END $$;

-- name: testing_rest_schedules
-- No fire of the clock's comes between a test and what it asks for.
UPDATE pgcron.schedule SET enabled = false, paused_note = 'under test' WHERE enabled;

-- name: testing_unfinished
-- Handlers of runs that execute, or could begin now, those too that a node is about to let go, and
-- of workflows that a node is about to continue (of none NULL); and whether this one of them all
-- lives.
SELECT array_agg(DISTINCT r.handler) FILTER (WHERE r.state = 'running'
                        OR (r.state = 'ready' AND r.due_at <= clock_timestamp())
                        OR (r.gate = 'overlap' AND r.due_at <= clock_timestamp()
                            AND pgcron.overlap_open(r.schedule_id, r.overlap) > 0)
                        OR r.id = ANY(w.workflows)) AS busy,
       coalesce(bool_or(r.id = :run_id::bigint), false) AS lives
FROM pgcron.run r CROSS JOIN pgcron.workflows_to_advance(100, '{}') w;

-- name: testing_stuck
-- This run, or one of a step of it; of NULL the first that is due and that no node offers.
SELECT r.id, r.handler, r.due_at FROM pgcron.run r
WHERE r.id = :run_id::bigint OR r.parent_run = :run_id
   OR (:run_id IS NULL AND r.gate = 'no_node' AND r.due_at <= clock_timestamp())
ORDER BY r.parent_run IS DISTINCT FROM :run_id, r.id LIMIT 1;

-- name: testing_next_due
-- Runs, and in workflows timers and deadlines.
SELECT CASE WHEN min(due) IS NOT NULL
    THEN extract(epoch FROM greatest(to_timestamp(-2208988800),
    least(min(due), to_timestamp(253370764800))) - clock_timestamp())::float8 END AS seconds
FROM (SELECT r.due_at FROM pgcron.run r WHERE r.state = 'ready'
      UNION ALL SELECT s.due FROM pgcron.step s WHERE s.state = 'running'
      UNION ALL SELECT w.deadline FROM pgcron.workflow_run w
        WHERE w.ended_at IS NULL AND w.stopping IS NULL) waiting(due);

-- name: testing_come_nearer
-- All that waits comes nearer by as much, so that its order stays; nodes are woken.
WITH passed AS (SELECT make_interval(secs => :seconds::float8) AS span),
steps AS (UPDATE pgcron.step SET due = due - p.span FROM passed p WHERE due IS NOT NULL),
workflows AS (
  UPDATE pgcron.workflow_run SET deadline = deadline - p.span FROM passed p
  WHERE deadline IS NOT NULL AND ended_at IS NULL),
runs AS (
  UPDATE pgcron.run SET due_at = due_at - p.span, expire_at = expire_at - p.span FROM passed p
  WHERE state <> 'running')
SELECT pgcron.notify(pgcron.channel(), about) FROM unnest('{run,workflow}'::text[]) about;

-- name: testing_ended
SELECT h.id FROM pgcron.ended_runs h WHERE h.id <> ALL (:known::bigint[]) ORDER BY h.id;

-- name: testing_schedule
SELECT s.* FROM pgcron.schedule s WHERE s.id = pgcron.schedule_id(:name::text);
