-- name: page_occurrences
-- Decisions on single fires and dropped ranges before an instant, newest first, with what came of
-- each run. A filter searches the next :look fires. History is looked at from the decision on, so
-- that only its later partitions are opened.
SELECT o.fire_at, o.last_at, o.decision, o.reason, o.note, o.fires, o.decided_at, o.run_id,
       live.hold, coalesce(live.state, past.outcome) AS run_state,
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
LEFT JOIN pgcron.run live ON live.id = o.run_id
LEFT JOIN LATERAL (SELECT h.outcome, h.started_at, h.finished_at, h.attempt, h.cancel_reason
FROM pgcron.history h
                   WHERE h.id = o.run_id AND live.id IS NULL
                     AND h.finished_at >= o.decided_at - interval '1 day'
                   LIMIT 1) past
                     ON true
ORDER BY o.fire_at DESC, o.last_at DESC;
