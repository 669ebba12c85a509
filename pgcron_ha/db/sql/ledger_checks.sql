-- name: check_ledger
SELECT c.rule, c.schedule_id,
       coalesce(s.name,
                (SELECT v.content ->> 'name' FROM pgcron.schedule_version v
                 WHERE v.schedule_id = c.schedule_id ORDER BY v.version DESC LIMIT 1)) AS schedule,
       c.fire_at, c.run_id, c.detail
FROM pgcron.check_ledger(:schedule::text, :at_most::int, :since::timestamptz) c
LEFT JOIN pgcron.schedule s ON s.id = c.schedule_id;

-- name: deciding_tzdata
SELECT c.tzdata FROM pgcron.cluster c;

-- name: verifiable_schedules
-- Those with fires of late first: what was materialized a moment ago is what a fault would have
-- touched. Not those with fires ahead by another tzdata. What is paused has its past.
SELECT s.id, s.name, c.watermark FROM pgcron.cursor c JOIN pgcron.schedule s ON s.id = c.schedule_id
WHERE (:schedule::text IS NULL OR s.name = :schedule::text) AND (c.status = 'valid' OR c.is_paused)
  AND NOT c.edit_is_pending
  AND (NOT :only_utc OR s.timezone = 'UTC')
  AND NOT EXISTS (SELECT FROM pgcron.outdated_plan p WHERE p.schedule_id = c.schedule_id)
  AND NOT EXISTS (SELECT FROM pgcron.cluster k WHERE s.id > k.replan_after)
ORDER BY c.next_fire, s.id LIMIT :at_most::int;

-- name: timings_of_schedule
-- The versions that held at some time after an instant, oldest first, each with when it began;
-- NULL: a node has still to apply it.
SELECT v.version, v.since, v.content FROM pgcron.schedule_version v
WHERE v.schedule_id = :schedule_id::bigint AND v.operation <> 'delete'
  AND v.version >= coalesce((SELECT max(e.version) FROM pgcron.schedule_version e
      WHERE e.schedule_id = :schedule_id::bigint AND e.since <= :after::timestamptz), 0)
ORDER BY v.version;

-- name: entries_of_schedule
-- Single fires of the ledger; whether a backfill or a person (an override, a run cancelled or let
-- go ahead of its time) put them there, and not the spec. Of a run that retention has removed
-- nothing is known.
SELECT o.fire_at,
       coalesce(r.origin, past.origin) IS NOT DISTINCT FROM 'backfill'
           OR (o.decision <> 'run' AND o.decided_at < o.fire_at)
       OR coalesce(coalesce(past.began, r.claimed_at,
                            CASE WHEN r.attempt > 0 THEN now() END) < o.fire_at, false)
       OR EXISTS (SELECT FROM pgcron.occurrence_override e
           WHERE e.schedule_id = o.schedule_id AND e.fire_at = o.fire_at)
       OR (o.run_id IS NOT NULL AND r.id IS NULL AND past.origin IS NULL) AS is_by_hand
FROM pgcron.occurrence o LEFT JOIN pgcron.run r ON r.id = o.run_id
LEFT JOIN LATERAL (SELECT h.origin, coalesce(h.claimed_at, h.finished_at) AS began
FROM pgcron.history h WHERE h.id = o.run_id LIMIT 1) past ON true
WHERE o.schedule_id = :schedule_id::bigint AND o.fire_at > :after::timestamptz
  AND o.fire_at <= :until::timestamptz
ORDER BY o.fire_at LIMIT :at_most::int;

-- name: ranges_of_schedule
SELECT m.first_at, m.last_at FROM pgcron.missed m
WHERE m.schedule_id = :schedule_id::bigint AND m.last_at > :after::timestamptz
  AND m.first_at <= :until::timestamptz
ORDER BY m.first_at LIMIT :at_most::int;

-- name: watermark_of
SELECT c.watermark, c.rules_since FROM pgcron.cursor c
WHERE c.schedule_id = :schedule_id::bigint;
