-- name: overdue_pauses
-- Pauses that end by themselves and whose end has passed; an index of those that have one.
SELECT s.id AS schedule_id FROM pgcron.schedule s WHERE s.paused_until <= now() ORDER BY s.paused_until LIMIT :at_most;

-- name: resume_overdue
SELECT pgcron.resume_overdue(:schedule_id) AS is_resumed;
