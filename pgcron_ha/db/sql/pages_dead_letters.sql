-- name: page_letter_groups
-- Causes among the newest :look dead letters: one row for each handler, error class and
-- fingerprint, those with open letters first. Letters that were redriven are found by their run's
-- number, which is as good as when they died. What needs a sort is counted only for the groups
-- that are shown, as there may be thousands.
SELECT g.handler, g.error_class, g.fingerprint, g.letters, g.open, g.of_an_hour, g.of_a_day, g.lost,
       g.redrivable, g.first_at, g.last_at, g.schedule, g.queue, g.has_enqueued, more.*,
       (SELECT left(n.error, 300) FROM pgcron.dead_letter n
        WHERE n.run_id = more.newest_run) AS cause
FROM (
  SELECT d.handler, d.error_class, d.fingerprint, count(*) AS letters,
         count(*) FILTER (WHERE d.closed_at IS NULL) AS open,
         count(*) FILTER (WHERE d.died_at > now() - interval '1 hour') AS of_an_hour,
         count(*) FILTER (WHERE d.died_at > now() - interval '1 day') AS of_a_day,
         count(*) FILTER (WHERE d.outcome = 'lost') AS lost,
         count(*) FILTER (WHERE d.closed_at IS NULL AND d.outcome = 'dead') AS redrivable,
         min(d.died_at) AS first_at, max(d.died_at) AS last_at,
         min(d.schedule COLLATE "C") AS schedule, min(d.queue COLLATE "C") AS queue,
         bool_or(d.schedule_id IS NULL) AS has_enqueued, array_agg(d.run_id) AS runs
  FROM ((SELECT e.* FROM pgcron.dead_letter e
         WHERE :state::text = 'open' AND e.closed_at IS NULL
         ORDER BY e.died_at DESC LIMIT :look::int)
        UNION ALL
        (SELECT e.* FROM pgcron.dead_letter e
         WHERE :state::text <> 'open' ORDER BY e.run_id DESC LIMIT :look::int)) d
  LEFT JOIN pgcron.schedule s ON s.id = d.schedule_id
  LEFT JOIN pgcron.owned o ON o.kind = 'queue' AND o.name = d.queue
  WHERE pgcron.letter_fits(d::pgcron.dead_letter, :fingerprint::text, :handler::text,
        :queue::text, :error_class::text, :schedule::text, :tags::text[], :owner::text,
        coalesce(s.owner, o.team), NULL, NULL, :state::text)
    AND pgcron.in_scope(d.schedule_id, d.queue, d.handler, d.schedule, d.tags,
          coalesce(s.owner, o.team, ''))
  GROUP BY d.handler, d.error_class, d.fingerprint
  ORDER BY count(*) FILTER (WHERE d.closed_at IS NULL) = 0, max(d.died_at) DESC LIMIT :limit::int) g
CROSS JOIN LATERAL (
  SELECT count(DISTINCT l.schedule COLLATE "C") AS schedules,
         count(DISTINCT l.queue COLLATE "C") AS queues,
         count(DISTINCT hashtextextended(left(l.error, 300), 0)) AS causes,
         (array_agg(l.run_id ORDER BY l.closed_at IS NOT NULL, l.died_at DESC))[1] AS newest_run
  FROM pgcron.dead_letter l WHERE l.run_id = ANY(g.runs)) more
ORDER BY g.open = 0, g.last_at DESC;

-- name: page_letters
-- One page, newest first, among the next :look letters after that of the run :before (one beyond
-- the scope is as one that there is not); what came of the redriven. One of both parts has rows,
-- in order, and no more of them are looked at than fill the page.
SELECT d.run_id, d.uuid, d.outcome, d.died_at, d.schedule, d.scheduled_for AS fire_time, d.handler,
       d.queue, d.tags, d.attempts, d.error_class, left(d.error, :text::int) AS error,
       length(d.error) > :text::int AS error_is_cut, left(d.args::text, :text::int) AS args,
       d.fingerprint, d.redriven_as, d.closed_at, d.closed_by, d.note,
       coalesce((SELECT r.state FROM pgcron.run r WHERE r.id = d.redriven_as),
                (SELECT h.outcome FROM pgcron.history h
                 WHERE h.id = d.redriven_as AND h.finished_at >= d.closed_at LIMIT 1)
       ) AS redriven_state
FROM (
SELECT d.* FROM (
      (SELECT e.* FROM pgcron.dead_letter e
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
CROSS JOIN LATERAL pgcron.team_of(d.schedule_id, d.queue) t
WHERE pgcron.letter_fits(d::pgcron.dead_letter, :fingerprint::text, :handler::text,
      :queue::text, :error_class::text, :schedule::text, :tags::text[], :owner::text, t.team,
      :since::timestamptz, :until::timestamptz, :state::text)
  AND pgcron.in_scope(d.schedule_id, d.queue, d.handler, d.schedule, d.tags, t.team)
LIMIT :limit::int) d
ORDER BY CASE WHEN :state::text = 'open' THEN d.died_at END DESC, d.run_id DESC;
