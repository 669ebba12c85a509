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
-- The versions that held at some time after an instant, oldest first, each with when it began; not
-- those that a node has still to apply.
SELECT v.version, v.since, v.content FROM pgcron.schedule_version v
WHERE v.schedule_id = :schedule_id::bigint AND v.operation <> 'delete' AND v.since IS NOT NULL
  AND v.version >= coalesce((SELECT max(e.version) FROM pgcron.schedule_version e
      WHERE e.schedule_id = :schedule_id::bigint AND e.since <= :after::timestamptz), 0)
ORDER BY v.version;

-- name: entries_of_schedule
-- Single fires of the ledger; whether somebody put them there, and not the spec. Of a run that
-- retention has removed nothing is known.
SELECT d.fire_at, d.is_by_hand IS TRUE OR (d.run_id IS NOT NULL AND d.origin IS NULL) AS is_by_hand
FROM pgcron.decided_fire d
WHERE d.schedule_id = :schedule_id::bigint AND d.fire_at > :after::timestamptz
  AND d.fire_at <= :until::timestamptz
ORDER BY d.fire_at LIMIT :at_most::int;

-- name: ranges_of_schedule
SELECT m.first_at, m.last_at FROM pgcron.missed m
WHERE m.schedule_id = :schedule_id::bigint AND m.last_at > :after::timestamptz
  AND m.first_at <= :until::timestamptz
ORDER BY m.first_at LIMIT :at_most::int;

-- name: watermark_of
SELECT c.watermark, c.rules_since FROM pgcron.cursor c
WHERE c.schedule_id = :schedule_id::bigint;
