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
-- Everything but what a migration has put there.
DO $$ BEGIN
  EXECUTE (SELECT 'TRUNCATE ' || string_agg(c.oid::regclass::text, ', ') FROM pg_catalog.pg_class c
            WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind IN ('r', 'p')
              AND NOT c.relispartition
              AND c.relname NOT IN ('alembic_version', 'cluster', 'reason', 'retention',
                                    'timezone'));
END $$;

-- name: testing_rest_schedules
-- No fire of the clock's comes between a test and what it asks for.
UPDATE pgcron.schedule SET enabled = false, paused_note = 'under test' WHERE enabled;

-- name: testing_unfinished
-- Handlers of runs that execute, or could begin now, those too that a node is about to let go (of
-- none NULL); and whether this one of them all lives.
SELECT array_agg(DISTINCT r.handler) FILTER (WHERE r.state = 'running'
                        OR (r.state = 'ready' AND r.due_at <= clock_timestamp())
                        OR (r.gate = 'overlap' AND r.due_at <= clock_timestamp()
                            AND pgcron.overlap_open(r.schedule_id, r.overlap) > 0)) AS busy,
       coalesce(bool_or(r.id = :run_id::bigint), false) AS lives
FROM pgcron.run r;

-- name: testing_stuck
-- This run; of NULL the first that is due and that no node offers.
SELECT r.id, r.handler, r.due_at FROM pgcron.run r
WHERE r.id = :run_id::bigint
   OR (:run_id IS NULL AND r.gate = 'no_node' AND r.due_at <= clock_timestamp())
ORDER BY r.id LIMIT 1;

-- name: testing_next_due
SELECT CASE WHEN min(r.due_at) IS NOT NULL
    THEN extract(epoch FROM greatest(to_timestamp(-2208988800),
    least(min(r.due_at), to_timestamp(253370764800))) - clock_timestamp())::float8 END AS seconds
FROM pgcron.run r WHERE r.state = 'ready';

-- name: testing_come_nearer
-- All that waits comes nearer by as much, so that its order stays.
UPDATE pgcron.run
SET due_at = due_at - make_interval(secs => :seconds::float8),
    expire_at = expire_at - make_interval(secs => :seconds::float8)
WHERE state <> 'running';

-- name: testing_wake_nodes
SELECT pgcron.notify(pgcron.channel(), 'run');

-- name: testing_ended
SELECT h.id FROM pgcron.ended_runs h WHERE h.id <> ALL (:known::bigint[]) ORDER BY h.id;

-- name: testing_schedule
SELECT s.* FROM pgcron.schedule s WHERE s.id = pgcron.schedule_id(:name::text);
