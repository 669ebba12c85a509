-- name: apply_schedules
SELECT name, change, previous, content
FROM pgcron.apply_schedules(definitions => :definitions::text::jsonb, source => :source::text,
                            take_over => :take_over::boolean, actor => :actor::text);

-- name: prune_schedules
SELECT name, previous
FROM pgcron.prune_schedules(source => :source::text, kept => :kept::text[], actor => :actor::text)
ORDER BY name;

-- name: schedules_to_export
-- All of them, or those of these names, or of one source.
SELECT s AS content FROM pgcron.schedule s
WHERE (:names::text[] IS NULL OR s.name = ANY(:names::text[]))
  AND (:source::text IS NULL OR s.source = :source::text)
ORDER BY s.name LIMIT :at_most::int;

-- name: default_schedule
-- A schedule of which nothing is said but what it must have.
SELECT jsonb_populate_record(NULL::pgcron.schedule, pgcron.schedule_defaults()) AS content;
