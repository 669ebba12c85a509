-- name: restore_schedule
SELECT r.schedule_id, r.new_version, r.note
FROM pgcron.restore_schedule(:name::text, :version::int, :actor::text, :interface::text,
                             :expected_version::int) r;

-- name: schedule_versions
-- Newest first; a deletion follows what it deleted, and a schedule that is gone is found by its
-- last name.
SELECT v.schedule_id, v.schedule, v.version, v.operation, v.at, v.actor, v.interface, v.note,
       v.since,
       v.is_current, v.content
FROM pgcron.schedule_versions v
WHERE v.schedule_id = pgcron.schedule_of_versions(:name::text)
  AND v.version < coalesce(:before::int, 2147483647)
ORDER BY v.version DESC LIMIT :limit::int;

-- name: edit_schedule
SELECT pgcron.edit_schedule(:name::text, :changes::text::jsonb, :expected_version::int, :note::text,
                            :actor::text, :interface::text) AS version;

-- name: written_schedule
-- As people wrote it, every column.
SELECT s.* FROM pgcron.schedule s WHERE s.name = :name::text;

-- name: written_version
-- The same of an earlier version; a column that it did not know is NULL.
SELECT s.* FROM pgcron.schedule_version v
CROSS JOIN LATERAL jsonb_populate_record(NULL::pgcron.schedule, v.content) s
WHERE v.schedule_id = pgcron.schedule_of_versions(:name::text) AND v.version = :version::int
LIMIT 1;
