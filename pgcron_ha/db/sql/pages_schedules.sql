-- name: page_schedules
-- One page of schedules by name; which ones is decided before anything about their runs is read.
-- The facts of each: its newest 30 ended runs, what runs, what waits. By index, so a page costs the
-- same whatever history holds.
SELECT s.id, s.uuid, s.name, s.spec, s.timezone, s.dst, s.calendars, s.handler, s.queue, s.enabled,
       s.paused_note, s.paused_by, s.paused_until, s.owner, s.tags, s.created_at, s.updated_at,
       c.status, coalesce(c.error ->> 'message', c.error::text) AS error,
       c.error ->> 'hint' AS error_hint, c.since, s.max_runs,
       coalesce(c.runs_made >= s.max_runs, false)
         OR (c.status = 'valid' AND c.next_fire = 'infinity' AND c.canonical NOT LIKE 'on asset %'
             AND NOT EXISTS (SELECT FROM pgcron.run r
                             WHERE r.schedule_id = s.id AND r.origin = 'schedule')) AS is_completed,
       coalesce(s.jitter, '0') AS jitter,
       CASE WHEN s.enabled THEN coalesce(waiting.next_fire, CASE WHEN isfinite(c.next_fire)
         AND c.next_fire > now() THEN c.next_fire END) END AS next_fire,
       waiting.oldest_late, waiting.late_fires, waiting.retry_error,
       running.id AS running_id, running.since AS running_since, running.timeout AS running_timeout,
       coalesce(running.runs, 0) AS running_runs, running.has_lease AS running_has_lease,
       overrun.run_id AS overrun, overrun.expected AS overrun_expected,
       last.ids, last.outcomes, last.finished, last.durations, last.errors
FROM (SELECT v.* FROM pgcron.schedule v
      CROSS JOIN LATERAL pgcron.team_of(v.id, v.queue) t
      WHERE (:ids::bigint[] IS NULL OR v.id = ANY(:ids::bigint[]))
        AND (:text::text IS NULL OR position(lower(:text::text) IN lower(v.name)) > 0
             OR position(lower(:text::text) IN lower(v.handler)) > 0)
        AND (:queue::text IS NULL OR v.queue = :queue::text)
        AND (:enabled::boolean IS NULL OR v.enabled = :enabled::boolean)
        AND (:owner::text IS NULL OR t.team = :owner::text)
        AND (:tags::text[] IS NULL OR v.tags @> :tags::text[])
        AND (:after::text IS NULL OR v.name > :after::text)
        AND pgcron.in_scope(v.id, v.queue, v.handler, v.name, v.tags, t.team)
      ORDER BY v.name LIMIT :limit::int) s
JOIN pgcron.cursor c ON c.schedule_id = s.id
LEFT JOIN LATERAL (
  SELECT min(r.scheduled_for) FILTER (WHERE r.scheduled_for > now()) AS next_fire,
         min(r.scheduled_for) FILTER (WHERE r.attempt = 0 AND r.due_at <= now()) AS oldest_late,
         count(r.scheduled_for) FILTER (WHERE r.attempt = 0 AND r.due_at <= now()) AS late_fires,
         min(left(r.last_error, 300)) FILTER (WHERE r.attempt > 0) AS retry_error
  FROM (SELECT e.scheduled_for, e.attempt, e.due_at, e.last_error FROM pgcron.run e
  WHERE e.schedule_id = s.id AND e.state <> 'running' LIMIT 1000) r) waiting ON true
LEFT JOIN LATERAL (
  SELECT min(r.id) AS id, min(coalesce(r.started_at, r.claimed_at)) AS since,
         max(extract(epoch FROM pgcron.time_allowed(r.timeout)))::float8 AS timeout,
         count(*) AS runs,
         bool_and(coalesce(n.state <> 'dead' AND n.lease_until > now(), false)) AS has_lease
  FROM (SELECT e.id, e.started_at, e.claimed_at, e.timeout, e.owner FROM pgcron.run e
  WHERE e.schedule_id = s.id AND e.state = 'running' LIMIT 100) r
  LEFT JOIN pgcron.node n ON n.incarnation = r.owner
  HAVING count(*) > 0) running ON true
LEFT JOIN LATERAL (
  SELECT o.run_id, extract(epoch FROM o.expected)::float8 AS expected FROM pgcron.overrun o
  JOIN pgcron.run r ON r.id = o.run_id AND r.state = 'running'
  WHERE o.schedule_id = s.id AND running.id IS NOT NULL ORDER BY o.run_id LIMIT 1) overrun ON true
LEFT JOIN LATERAL (
  SELECT array_agg(h.id) AS ids, array_agg(h.outcome) AS outcomes,
         array_agg(h.finished_at) AS finished, array_agg(left(h.error, 300)) AS errors,
         array_agg(extract(epoch FROM h.finished_at - h.started_at)::float8) AS durations
  FROM (SELECT e.id, e.outcome, e.finished_at, e.started_at, e.error FROM pgcron.history e
        WHERE e.schedule_id = s.id AND e.finished_at <= now() ORDER BY e.finished_at DESC
        LIMIT :runs::int) h) last ON true
ORDER BY s.name;

-- name: page_next_schedules
-- Schedules that fire next, by the index on next_fire.
SELECT c.schedule_id
FROM (SELECT e.schedule_id, e.next_fire FROM pgcron.cursor e
      WHERE e.status <> 'invalid' AND NOT e.is_paused AND e.next_fire IS NOT NULL
        AND isfinite(e.next_fire)
      ORDER BY e.next_fire LIMIT :look::int) c
LEFT JOIN pgcron.schedule s ON s.id = c.schedule_id
WHERE pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner)
ORDER BY c.next_fire LIMIT :limit::int;

-- name: page_lately_paused
-- Paused schedules of the newest :look ended runs.
SELECT DISTINCT h.schedule_id
FROM (SELECT e.schedule_id FROM pgcron.history e ORDER BY e.id DESC LIMIT :look::int) h
JOIN pgcron.cursor c ON c.schedule_id = h.schedule_id AND c.is_paused
LEFT JOIN pgcron.schedule s ON s.id = h.schedule_id
WHERE pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner) LIMIT :limit::int;

-- name: page_schedule_names
-- For a name that does not exist: those that contain it, or that it begins with.
SELECT s.name FROM pgcron.schedule s
WHERE (position(lower(:text::text) IN lower(s.name)) > 0
       OR position(lower(s.name) IN lower(:text::text)) > 0
       OR left(lower(s.name), 3) = left(lower(:text::text), 3))
  AND pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner)
ORDER BY position(lower(:text::text) IN lower(s.name)) = 0, s.name LIMIT :limit::int;

-- name: page_schedule_labels
-- Owners and tags of the first :look schedules.
WITH labelled AS MATERIALIZED (
  SELECT s.owner, s.tags FROM (SELECT v.* FROM pgcron.schedule v LIMIT :look::int) s
  WHERE pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner))
SELECT ARRAY(SELECT DISTINCT s.owner FROM labelled s WHERE s.owner IS NOT NULL
             ORDER BY 1 LIMIT :limit::int) AS owner,
       ARRAY(SELECT DISTINCT t.tag FROM labelled s CROSS JOIN unnest(s.tags) t(tag)
             ORDER BY 1 LIMIT :limit::int) AS tag;

-- name: page_queue_names
SELECT DISTINCT s.queue AS name
FROM (SELECT v.* FROM pgcron.schedule v
      LIMIT CASE WHEN pgcron.in_scope(NULL, NULL, NULL, NULL, NULL) THEN NULL ELSE 50000 END) s
WHERE pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner)
ORDER BY 1 LIMIT :limit::int;

-- name: page_offered
-- Choices for a form: the handlers that living nodes offer, the queues that they serve, and whether
-- one of them takes this handler's runs from this queue.
WITH living AS MATERIALIZED (SELECT n.incarnation, n.queues FROM pgcron.node n
WHERE n.state = 'alive' AND n.lease_until > now())
SELECT ARRAY(SELECT DISTINCT o.handler FROM living JOIN pgcron.offer o USING (incarnation)
             WHERE pgcron.in_scope(NULL, NULL, o.handler, NULL, NULL)
             ORDER BY 1 LIMIT :limit::int) AS handlers,
       ARRAY(SELECT DISTINCT q.name FROM living CROSS JOIN unnest(living.queues) q(name)
             WHERE pgcron.in_scope(NULL, q.name, NULL, NULL, NULL)
             ORDER BY 1 LIMIT :limit::int) AS queues,
       pgcron.largest_server(:handler::text, :queue::text, :requires::text[]) IS NOT NULL
         AS is_served;

-- name: page_occurrences
-- Decisions on single fires and dropped ranges before an instant, newest first, with what came of
-- each run. A filter searches the next :look fires. History is looked at from the decision on, so
-- that only its later partitions are opened.
SELECT o.fire_at, o.last_at, o.decision, o.reason, o.note, o.fires, o.decided_at, o.run_id,
       known.code, m.meaning, w.waits_for, w.waits_detail,
       coalesce(live.state, past.outcome) AS run_state,
       coalesce(live.started_at, past.started_at) AS started_at, past.finished_at,
       coalesce(live.attempt, past.attempt) AS attempt, live.due_at,
       coalesce(live.cancel_reason, past.cancel_reason) AS cancel_reason
FROM ((SELECT e.fire_at, e.fire_at AS last_at, e.decision, e.reason, NULL::text AS note, 1 AS fires,
       e.decided_at, e.run_id
       FROM (SELECT f.* FROM pgcron.occurrence f
             WHERE f.schedule_id = :schedule_id::bigint
               AND f.fire_at < coalesce(:before::timestamptz, 'infinity')
             ORDER BY f.fire_at DESC LIMIT :look::int) e
       WHERE :decision::text IS NULL OR e.decision = :decision::text ORDER BY e.fire_at DESC
       LIMIT :limit::int)
      UNION ALL
      (SELECT m.first_at, m.last_at, 'missed', m.reason, m.note, m.fires, m.decided_at, NULL
       FROM pgcron.missed m
       WHERE m.schedule_id = :schedule_id::bigint
         AND m.first_at < coalesce(:before::timestamptz, 'infinity')
         AND (:decision::text IS NULL OR :decision::text = 'missed')
       ORDER BY m.first_at DESC LIMIT :limit::int)
      ORDER BY fire_at DESC, last_at DESC LIMIT :limit::int) o
CROSS JOIN LATERAL (SELECT CASE WHEN o.reason IS NULL THEN o.decision
                           ELSE pgcron.reason_code(o.decision, o.reason) END AS code OFFSET 0) known
LEFT JOIN pgcron.reason m ON m.code = known.code
LEFT JOIN pgcron.run live ON live.id = o.run_id
LEFT JOIN LATERAL (SELECT v.* FROM pgcron.waiting v WHERE v.id = o.run_id LIMIT 1) w ON true
LEFT JOIN LATERAL (SELECT h.outcome, h.started_at, h.finished_at, h.attempt, h.cancel_reason
FROM pgcron.history h
                   WHERE h.id = o.run_id AND live.id IS NULL
                     AND h.finished_at >= o.decided_at - interval '1 day'
                   LIMIT 1) past ON true
ORDER BY o.fire_at DESC, o.last_at DESC;

-- name: page_ledger_end
-- The last of the :look fires before an instant that a filter searches; none if there are fewer.
SELECT o.fire_at FROM pgcron.occurrence o
WHERE o.schedule_id = :schedule_id::bigint
  AND o.fire_at < coalesce(:before::timestamptz, 'infinity')
ORDER BY o.fire_at DESC OFFSET :look::int - 1 LIMIT 1;
