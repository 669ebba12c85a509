-- name: overdue_pauses
-- Pauses that end by themselves and whose end has passed; an index of those that have one.
SELECT s.id AS schedule_id FROM pgcron.schedule s WHERE s.paused_until <= now() ORDER BY s.paused_until LIMIT :at_most;

-- name: resume_overdue
SELECT pgcron.resume_overdue(:schedule_id) AS is_resumed;

-- name: early_fires
-- Fires that were moved to before their time and are due within :horizon: they are decided ahead of the cursor, which comes to them later.
SELECT o.schedule_id, o.fire_at, c.generation, c.watermark, c.next_fire, s.uuid, s.spec, s.timezone, s.dst, s.max_runs
FROM pgcron.occurrence_override o JOIN pgcron.cursor c ON c.schedule_id = o.schedule_id JOIN pgcron.schedule s ON s.id = o.schedule_id
WHERE o.action = 'move' AND o.due_at < o.fire_at AND o.due_at <= now() + make_interval(secs => :horizon::float8) AND o.fire_at > greatest(c.watermark, now())
  AND s.enabled AND c.status = 'valid' AND NOT c.edit_is_pending AND (s.max_runs IS NULL OR c.runs_made < s.max_runs)
  AND NOT EXISTS (SELECT FROM pgcron.occurrence e WHERE e.schedule_id = o.schedule_id AND e.fire_at = o.fire_at)
ORDER BY o.due_at LIMIT :at_most;

-- name: skip_occurrence
SELECT pgcron.skip_occurrence(:name::text, :instant::timestamptz, :note::text, :actor::text);

-- name: move_occurrence
SELECT pgcron.move_occurrence(:name::text, :instant::timestamptz, :moved_to::timestamptz, :note::text, :actor::text);

-- name: edit_occurrence
SELECT pgcron.edit_occurrence(:name::text, :instant::timestamptz, :args::text::jsonb, :note::text, :actor::text);

-- name: restore_occurrence
SELECT pgcron.restore_occurrence(:name::text, :instant::timestamptz);

-- name: changed_occurrences
-- Those of a schedule that lie ahead, by their time.
SELECT o.fire_at, o.action, o.due_at, o.args::text AS args, o.note, o.actor, o.at FROM pgcron.occurrence_override o
WHERE o.schedule_id = :schedule_id::bigint AND greatest(o.fire_at, o.due_at) > now() ORDER BY o.fire_at LIMIT :at_most::int;

-- name: forget_overrides
-- Of fires that are decided and so old that the ledger forgets them.
DELETE FROM pgcron.occurrence_override o USING pgcron.retention kept WHERE kept.relation = 'occurrence' AND greatest(o.fire_at, o.due_at) < now() - kept.keep;
