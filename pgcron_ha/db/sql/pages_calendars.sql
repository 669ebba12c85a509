-- name: page_calendars
SELECT v.name, v.version, v.updated_at, v.updated_by, v.schedules, length(v.content) AS characters
FROM pgcron.calendars v ORDER BY v.name LIMIT :limit::int;

-- name: page_calendar
-- With the contents of the calendars that it names, as JSON text; NULL for those of a calendar that
-- does not exist.
SELECT v.name, v.content, v.version, v.updated_at, v.updated_by, v.schedules, v.source,
       pgcron.calendars_of('only in ' || v.name)::text AS contents
FROM pgcron.calendars v WHERE v.name = :name::text;

-- name: page_calendar_users
-- Schedules, whether they name it themselves or by another calendar.
SELECT s.name, s.spec FROM pgcron.schedule s
WHERE s.calendars IS NOT NULL AND s.calendars ? :name::text ORDER BY s.name LIMIT :limit::int;

-- name: page_calendar_parents
SELECT c.name FROM pgcron.calendar c WHERE :name::text = ANY(c.parts) ORDER BY c.name
LIMIT :limit::int;
