-- name: apply_schedules

-- name: prune_schedules
-- Deletes the schedules of the source but those of these names.
WITH pruned AS (
  DELETE FROM pgcron.schedule s USING pgcron.act_as(:actor::text, 'file')
  WHERE s.source = :source::text AND s.name <> ALL(:kept::text[]) RETURNING s.name, s AS previous)
SELECT name, 'pruned' AS change, previous, NULL AS content FROM pruned ORDER BY name;

-- name: schedules_to_export
-- All of them, or those of these names, or of one source.
SELECT s AS content FROM pgcron.schedule s
WHERE (:names::text[] IS NULL OR s.name = ANY(:names::text[]))
  AND (:source::text IS NULL OR s.source = :source::text)
ORDER BY s.name LIMIT :at_most::int;

-- name: default_schedule
-- A schedule with the default of each option.
SELECT jsonb_populate_record(NULL::pgcron.schedule, pgcron.schedule_defaults()) AS content;

-- name: restore_schedule
SELECT r.schedule_id, r.new_version AS version, r.note FROM pgcron.restore_schedule(
  :schedule::text, :version::int, :actor::text, :interface::text, :expected_version::int) r;

-- name: schedule_versions
-- Newest first; a deletion follows what it deleted, and a schedule that is gone is found by its
-- last name.
SELECT v.* FROM pgcron.schedule_versions v
WHERE v.schedule_id = pgcron.schedule_of_versions(:name::text)
  AND v.version < coalesce(:before::int, 2147483647)
ORDER BY v.version DESC LIMIT :limit::int;

-- name: edit_schedule

-- name: written_schedule
-- As people wrote it, every column, and how far it has come.
SELECT s.*, c.watermark, c.runs_made
FROM pgcron.schedule s JOIN pgcron.cursor c ON c.schedule_id = s.id
WHERE s.name = :name::text AND pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner);

-- name: written_version
-- An earlier version as people wrote it; a column that it did not know is NULL.
SELECT s.* FROM pgcron.schedule_version v
CROSS JOIN LATERAL jsonb_populate_record(NULL::pgcron.schedule, v.content) s
WHERE v.schedule_id = pgcron.schedule_of_versions(:name::text) AND v.version = :version::int
LIMIT 1;

-- name: schedules_to_preview
-- Requested schedules, and these; none for a node whose tzdata is not the cluster's.
SELECT c.schedule_id, c.generation, c.watermark, c.runs_made, now() AS now, s.*
FROM pgcron.cursor c JOIN pgcron.schedule s ON s.id = c.schedule_id
WHERE c.schedule_id = ANY(ARRAY(SELECT p.schedule_id FROM pgcron.schedule_preview p
WHERE p.asked_at IS NOT NULL AND p.schedule_id <> ALL(:aside::bigint[]) ORDER BY p.asked_at
LIMIT :at_most) || :schedule_ids::bigint[])
  AND NOT c.edit_is_pending
  AND (SELECT k.tzdata IS NULL OR k.tzdata = :tzdata::text FROM pgcron.cluster k);

-- name: put_previews
-- For generations that are still current; a schedule that is being deleted keeps none.
WITH reported AS MATERIALIZED (
  SELECT * FROM jsonb_populate_recordset(NULL::pgcron.schedule_preview, :previews::text::jsonb)),
held AS MATERIALIZED (
  SELECT c.schedule_id FROM pgcron.cursor c JOIN reported t ON t.schedule_id = c.schedule_id
  WHERE c.schedule_id = ANY(ARRAY(SELECT e.schedule_id FROM reported e))
    AND c.generation = t.generation
  ORDER BY c.schedule_id FOR KEY SHARE OF c SKIP LOCKED)
INSERT INTO pgcron.schedule_preview
SELECT t.* FROM reported t JOIN held h ON h.schedule_id = t.schedule_id ORDER BY t.schedule_id
ON CONFLICT (schedule_id) DO UPDATE
    SET generation = EXCLUDED.generation, sentence = EXCLUDED.sentence, fires = EXCLUDED.fires,
        is_over = EXCLUDED.is_over, error = EXCLUDED.error, asked_at = NULL
RETURNING schedule_id;

-- name: why
