-- name: apply_calendars
SELECT name, change, previous, content, users
FROM pgcron.apply_calendars(contents => :contents::text::jsonb, source => :source::text,
                            take_over => :take_over::boolean, actor => :actor::text,
                            schedules => :schedules::text[]);

-- name: prune_calendars
SELECT name, previous
FROM pgcron.prune_calendars(source => :source::text, kept => :kept::text[], actor => :actor::text)
ORDER BY name;

-- name: calendars_to_export
-- All of them, or those of these names, and those of a source.
SELECT c.name, c.content FROM pgcron.calendar c
WHERE :names::text[] IS NULL OR c.name = ANY(:names::text[]) OR c.source = :source::text
ORDER BY c.name LIMIT :at_most::int;
