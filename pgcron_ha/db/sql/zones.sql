-- name: cluster_zones
-- Which time zones the cluster computes with, and whether schedules still take them over.
SELECT c.tzdata, now() AS now, EXISTS (SELECT FROM pgcron.zone_change z WHERE z.done_at IS NULL) AS is_changing FROM pgcron.cluster c;

-- name: rules_that_differ
-- Zones of which the cluster has other rules than the caller, or none (NULL), or the caller none.
SELECT coalesce(t.name, mine.name) AS name, t.rules
FROM unnest(:names::text[], :digests::text[]) mine(name, digest) FULL JOIN pgcron.timezone t ON t.name = mine.name
WHERE md5(t.rules) IS DISTINCT FROM mine.digest;

-- name: take_zones
SELECT pgcron.take_zones(:tzdata::text, :base::text, :zones::text[], :rules::bytea[], :differ_from::timestamptz[]) AS is_taken;

-- name: zone_changes_under_way
SELECT z.zone, z.tzdata, z.old_rules, z.differs_from, z.swept_to, z.remade, cardinality(z.postponed) AS postponed, now() AS now FROM pgcron.zone_change z WHERE z.done_at IS NULL ORDER BY z.zone;

-- name: schedules_to_sweep
-- The next of the zone's schedules, by id; when there is none, those that were postponed.
SELECT c.schedule_id, c.watermark, c.next_fire, s.uuid, s.spec, s.timezone, s.dst, s.calendars,
       NOT c.is_paused AND c.since < z.taken_at AND (z.differs_from <= now() OR c.watermark >= z.differs_from) AS is_remade, now() AS now
FROM pgcron.zone_change z JOIN pgcron.schedule s ON s.timezone = z.zone AND s.id > z.swept_to JOIN pgcron.cursor c ON c.schedule_id = s.id
WHERE z.zone = :zone::text AND z.tzdata = :tzdata::text AND z.done_at IS NULL ORDER BY s.id LIMIT :at_most;

-- name: postponed_schedules
SELECT c.schedule_id, c.watermark, c.next_fire, s.uuid, s.spec, s.timezone, s.dst, s.calendars,
       NOT c.is_paused AND c.since < z.taken_at AND (z.differs_from <= now() OR c.watermark >= z.differs_from) AS is_remade, now() AS now
FROM pgcron.zone_change z JOIN pgcron.schedule s ON s.id = ANY(z.postponed) JOIN pgcron.cursor c ON c.schedule_id = s.id
WHERE z.zone = :zone::text AND z.tzdata = :tzdata::text AND z.done_at IS NULL ORDER BY s.id LIMIT :at_most;

-- name: take_rules
SELECT pgcron.take_rules(:zone::text, :tzdata::text, :after::bigint, :swept_to::bigint, :schedules::bigint[], :moved::text::jsonb) AS remade;

-- name: zone_changes_of
-- Spans in which a zone's fires may have been decided by rules that are not those of now.
SELECT z.differs_from AS since, coalesce(z.done_at, 'infinity') AS until FROM pgcron.zone_change z
WHERE z.zone = :zone::text AND z.differs_from < coalesce(z.done_at, 'infinity') ORDER BY z.differs_from;
