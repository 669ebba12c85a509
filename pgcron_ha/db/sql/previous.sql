-- name: previous_result
-- The last run that has ended of an earlier fire of this run's schedule.
SELECT p.run, p.fire_time, p.outcome, p.finished_at, p.result::text AS result, p.error
FROM pgcron.run r
CROSS JOIN LATERAL pgcron.previous_run(r.schedule_id, coalesce(r.scheduled_for, r.nominal_for)) p
WHERE r.id = :run_id::bigint AND r.schedule_id IS NOT NULL AND p.run IS NOT NULL;
