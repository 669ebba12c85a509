-- name: page_letter_groups
-- Causes among the newest :look dead letters: one row for each handler, error class and
-- fingerprint, those with open letters first. Letters that were redriven are found by their run's
-- number, which is as good as when they died. Only the groups that are shown read a cause. Without
-- a scope the server leaves out the join with schedules.
SELECT d.handler, d.error_class, d.fingerprint, count(*) AS letters,
       count(*) FILTER (WHERE d.closed_at IS NULL) AS open,
       count(*) FILTER (WHERE d.died_at > now() - interval '1 hour') AS of_an_hour,
       count(*) FILTER (WHERE d.died_at > now() - interval '1 day') AS of_a_day,
       count(*) FILTER (WHERE d.outcome = 'lost') AS lost,
       count(*) FILTER (WHERE d.closed_at IS NULL AND d.outcome = 'dead') AS redrivable,
       min(d.died_at) AS first_at, max(d.died_at) AS last_at,
       count(DISTINCT d.schedule COLLATE "C") AS schedules,
       min(d.schedule COLLATE "C") AS schedule, count(DISTINCT d.queue COLLATE "C") AS queues,
       min(d.queue COLLATE "C") AS queue, bool_or(d.schedule_id IS NULL) AS has_enqueued,
       count(DISTINCT hashtextextended(left(d.error, 300), 0)) AS causes,
       (array_agg(d.run_id ORDER BY d.closed_at IS NOT NULL, d.died_at DESC))[1] AS newest_run,
       (SELECT left(newest.error, 300) FROM pgcron.dead_letter newest
        WHERE newest.run_id = (array_agg(d.run_id ORDER BY d.died_at DESC))[1]) AS cause
FROM ((SELECT e.* FROM pgcron.dead_letter e
       WHERE :state::text = 'open' AND e.closed_at IS NULL
       ORDER BY e.died_at DESC LIMIT :look::int)
      UNION ALL
      (SELECT e.* FROM pgcron.dead_letter e
       WHERE :state::text <> 'open' ORDER BY e.run_id DESC LIMIT :look::int)) d
LEFT JOIN pgcron.schedule s ON s.id = d.schedule_id
WHERE pgcron.letter_fits(d::pgcron.dead_letter, :fingerprint::text, :handler::text,
      :queue::text, :error_class::text, :schedule::text, :tags::text[], NULL, NULL, :state::text)
  AND (:owner::text IS NULL OR s.owner = :owner::text)
  AND pgcron.in_scope(d.schedule_id, d.queue, d.handler, d.schedule, d.tags, s.owner)
GROUP BY d.handler, d.error_class, d.fingerprint
ORDER BY count(*) FILTER (WHERE d.closed_at IS NULL) = 0, max(d.died_at) DESC LIMIT :limit::int;

-- name: page_letters
-- One page, newest first, among the next :look letters after that of the run :before (one beyond
-- the scope is as one that there is not); what came of the redriven.
SELECT d.run_id, d.outcome, d.died_at, d.schedule, d.scheduled_for, d.handler, d.attempts,
       d.error_class, left(d.error, :text::int) AS error,
       length(d.error) > :text::int AS error_is_cut, left(d.args::text, :text::int) AS args,
       d.redriven_as, d.closed_at, d.closed_by, d.note,
       coalesce((SELECT r.state FROM pgcron.run r WHERE r.id = d.redriven_as),
                (SELECT h.outcome FROM pgcron.history h
                 WHERE h.id = d.redriven_as AND h.finished_at >= d.closed_at LIMIT 1)
       ) AS redriven_state
FROM ((SELECT e.* FROM pgcron.dead_letter e
       WHERE :state::text = 'open' AND e.closed_at IS NULL
         AND (e.died_at, e.run_id) < (coalesce((SELECT b.died_at FROM pgcron.dead_letter b
              WHERE b.run_id = :before::bigint
                AND pgcron.in_scope(b.schedule_id, b.queue, b.handler, b.schedule, b.tags)),
              'infinity'), coalesce(:before::bigint, 0))
       ORDER BY e.died_at DESC, e.run_id DESC LIMIT :look::int)
      UNION ALL
      (SELECT e.* FROM pgcron.dead_letter e
       WHERE :state::text <> 'open'
         AND e.run_id < coalesce(:before::bigint, 9223372036854775807)
       ORDER BY e.run_id DESC LIMIT :look::int)) d
LEFT JOIN pgcron.schedule s ON s.id = d.schedule_id
WHERE pgcron.letter_fits(d::pgcron.dead_letter, :fingerprint::text, :handler::text,
      :queue::text, :error_class::text, :schedule::text, :tags::text[], NULL, NULL, :state::text)
  AND (:owner::text IS NULL OR s.owner = :owner::text)
  AND pgcron.in_scope(d.schedule_id, d.queue, d.handler, d.schedule, d.tags, s.owner)
ORDER BY CASE WHEN :state::text = 'open' THEN d.died_at END DESC, d.run_id DESC
LIMIT :limit::int;
