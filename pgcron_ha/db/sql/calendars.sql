-- name: put_calendar

-- name: delete_calendar

-- name: calendars_of

-- name: list_calendars
-- At most :most characters of their contents.
SELECT c.name, c.schedules, c.version, c.updated_at, c.updated_by, c.source,
       left(c.content, :most::int) AS content
FROM pgcron.calendars c WHERE pgcron.calendar_in_scope(c.name) ORDER BY c.name LIMIT :limit::int;

-- name: one_calendar
-- With the contents of the calendars that it names, as JSON text.
SELECT c.name, c.content, c.version, c.updated_at, c.updated_by, c.source, c.schedules,
       pgcron.calendars_of('not in ' || c.name)::text AS parts
FROM pgcron.calendars c WHERE c.name = :name::text;

-- name: users_of_calendar
-- Schedules, whether they name it themselves or by another calendar.
SELECT s.name, s.spec FROM pgcron.schedule s
WHERE s.calendars IS NOT NULL AND s.calendars ? :name::text
  AND pgcron.in_scope(s.id, s.queue, s.handler, s.name, s.tags, s.owner)
ORDER BY s.name LIMIT :limit::int;

-- name: apply_calendars

-- name: prune_calendars

-- name: calendars_to_export
-- All of them, or those of these names, and those of a source.
SELECT c.name, c.content FROM pgcron.calendar c
WHERE :names::text[] IS NULL OR c.name = ANY(:names::text[]) OR c.source = :source::text
ORDER BY c.name LIMIT :at_most::int;

-- name: page_calendar_parents
SELECT c.name FROM pgcron.calendar c
WHERE :name::text = ANY(c.parts) AND pgcron.calendar_in_scope(c.name) ORDER BY c.name
LIMIT :limit::int;
