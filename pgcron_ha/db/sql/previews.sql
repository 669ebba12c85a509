-- name: schedules_to_preview
-- Those that somebody asked for, and these; none for a node whose tzdata is not the cluster's.
SELECT c.schedule_id, c.generation, c.watermark, c.runs_made, now() AS now, s.*
FROM pgcron.cursor c JOIN pgcron.schedule s ON s.id = c.schedule_id
WHERE c.schedule_id = ANY(ARRAY(SELECT p.schedule_id FROM pgcron.schedule_preview p
WHERE p.asked_at IS NOT NULL AND p.schedule_id <> ALL(:aside::bigint[]) ORDER BY p.asked_at
LIMIT :at_most) || :schedule_ids::bigint[])
  AND NOT c.edit_is_pending
  AND (SELECT k.tzdata IS NULL OR k.tzdata = :tzdata::text FROM pgcron.cluster k);

-- name: put_previews
-- Of the generations that still stand; a schedule that is being deleted keeps none.
WITH reported AS (
  SELECT *
  FROM unnest(:schedule_ids::bigint[], :generations::bigint[], :sentences::text[], :fires::text[],
              :are_over::boolean[], :errors::text[])
                t(schedule_id, generation, sentence, fires, is_over, error)),
held AS MATERIALIZED (
  SELECT c.schedule_id FROM pgcron.cursor c JOIN reported t ON t.schedule_id = c.schedule_id
  WHERE c.schedule_id = ANY(:schedule_ids) AND c.generation = t.generation
  ORDER BY c.schedule_id FOR KEY SHARE OF c SKIP LOCKED)
INSERT INTO pgcron.schedule_preview (schedule_id, generation, sentence, fires, is_over, error)
SELECT t.schedule_id, t.generation, t.sentence, t.fires::jsonb, t.is_over, t.error::jsonb
FROM reported t JOIN held h ON h.schedule_id = t.schedule_id
ORDER BY t.schedule_id
ON CONFLICT (schedule_id) DO UPDATE
    SET generation = EXCLUDED.generation, sentence = EXCLUDED.sentence, fires = EXCLUDED.fires,
        is_over = EXCLUDED.is_over,
                                        error = EXCLUDED.error, asked_at = NULL
RETURNING schedule_id;
