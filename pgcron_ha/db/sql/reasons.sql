-- name: why
SELECT w.decision, w.reason, w.run_id, w.outcome, w.code, w.meaning, w.note, w.actor, w.decided_at,
       w.due_at, extract(epoch FROM w.late_by)::float8 AS late_by, w.until
FROM pgcron.why(:schedule::text, :instant::timestamptz) w;
