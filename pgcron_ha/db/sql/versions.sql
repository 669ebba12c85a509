-- name: restore_schedule
SELECT r.schedule_id, r.new_version, r.note
FROM pgcron.restore_schedule(:name::text, :version::int, :actor::text, :door::text, :expected_version::int) r;

-- name: schedule_versions
-- Newest first; a deletion follows what it deleted, and a schedule that is gone is found by its last name.
SELECT v.schedule_id, v.schedule, v.version, v.operation, v.at, v.actor, v.door, v.note, v.since, v.is_current, v.content
FROM pgcron.schedule_versions v
WHERE v.schedule_id = pgcron.schedule_of_versions(:name::text) AND v.version < coalesce(:before::int, 2147483647)
ORDER BY v.version DESC LIMIT :limit::int;
