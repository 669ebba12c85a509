-- name: look_at_gates
-- Which schedules have something to decide: those of the next :at_most runs after a position, and
-- of the newest. A run that waits for an overlap slot is looked at when it is due, one that waits
-- for the fire before it five seconds earlier. Slots are not given while the run's queue, or the
-- cluster, is paused. `seconds` to the next that is to be looked at.
WITH waiting AS MATERIALIZED (
  SELECT w.* FROM (
    (SELECT o.gate, o.schedule_id, o.queue, o.due_at AS look_at, o.id
     FROM pgcron.due_without_slot o
     WHERE (o.due_at, o.id) > (:after::text::timestamptz, :after_id::bigint)
     ORDER BY o.due_at, o.id LIMIT :at_most::int)
    UNION ALL
    (SELECT p.gate, p.schedule_id, p.queue, p.due_at - interval '5 seconds', p.id
     FROM pgcron.run p
     WHERE p.state = 'blocked' AND p.gate = 'previous' AND p.due_at <= now() + interval '5 seconds'
       AND (p.due_at, p.id) > (:after::text::timestamptz + interval '5 seconds', :after_id::bigint)
     ORDER BY p.due_at, p.id LIMIT :at_most::int)) w
  ORDER BY w.look_at, w.id LIMIT :at_most::int),
newest AS MATERIALIZED (
  SELECT w.schedule_id, w.queue FROM pgcron.due_without_slot w
  ORDER BY w.due_at DESC, w.id DESC LIMIT :at_most::int / 10)
SELECT ARRAY(SELECT DISTINCT w.schedule_id
             FROM (SELECT a.schedule_id, a.queue FROM waiting a WHERE a.gate = 'overlap'
                   UNION ALL SELECT n.schedule_id, n.queue FROM newest n) w
             WHERE w.schedule_id <> ALL(:aside::bigint[])
               AND NOT EXISTS (SELECT FROM pgcron.queue q
                               WHERE q.name = w.queue AND q.paused_at IS NOT NULL)
               AND NOT EXISTS (SELECT FROM pgcron.cluster c
                               WHERE c.paused_at IS NOT NULL)) AS schedules,
       ARRAY(SELECT DISTINCT w.schedule_id FROM waiting w
             WHERE w.gate = 'previous' AND w.schedule_id <> ALL(:aside::bigint[])) AS dependents,
       (SELECT count(*) FROM waiting) AS looked, last.look_at::text AS last_look,
       last.id AS last_id,
       extract(epoch FROM least(
           (SELECT n.due_at FROM pgcron.run n
            WHERE n.state = 'blocked' AND n.gate = 'overlap' AND n.due_at > now()
            ORDER BY n.due_at LIMIT 1),
           (SELECT n.due_at - interval '5 seconds' FROM pgcron.run n
            WHERE n.state = 'blocked' AND n.gate = 'previous'
              AND n.due_at > now() + interval '5 seconds'
            ORDER BY n.due_at LIMIT 1),
           now() + interval '1 hour') - clock_timestamp())::float8 AS seconds
FROM (SELECT 1) one
LEFT JOIN LATERAL (SELECT w.look_at, w.id FROM waiting w ORDER BY w.look_at DESC, w.id DESC
                   LIMIT 1) last ON true;

-- name: admit_overlap
-- blocked -> ready
-- blocked -> skipped
-- blocked -> superseded
-- ready -> blocked
-- ready -> superseded

-- name: admit_previous
-- blocked -> ready
-- blocked -> skipped
-- blocked -> upstream_failed
-- ready -> blocked
SELECT schedule_id, is_open FROM pgcron.admit_previous(:schedules::bigint[]);

-- name: refused_runs_of_schedule
-- Runs of a schedule that wait for an event and that no node could claim, with the server's reason:
-- asked for after a decision that was refused. Changes nothing.
SELECT run_id, error FROM pgcron.refused_runs(gen_random_uuid(), ARRAY(
  SELECT r.id FROM pgcron.run r
  WHERE r.schedule_id = :schedule_id::bigint AND r.state = 'blocked'
    AND r.gate IN ('overlap', 'previous')
  ORDER BY r.due_at, r.id LIMIT :at_most::int));
