-- name: put_calendar
SELECT pgcron.put_calendar(:name::text, :content::text, :actor::text, :interface::text,
                           :take_over::boolean) AS calendar_id;

-- name: delete_calendar
SELECT pgcron.delete_calendar(:name::text, :actor::text);

-- name: calendars_of
SELECT pgcron.calendars_of(:spec::text)::text AS calendars;

-- name: list_calendars
SELECT c.name, c.schedules, c.version, c.updated_at, c.updated_by, c.source, c.content
FROM pgcron.calendars c ORDER BY c.name LIMIT :limit::int;

-- name: one_calendar
-- With the contents of the calendars that it names.
SELECT c.name, c.content, c.schedules, c.version, c.updated_at, c.updated_by, c.source,
       pgcron.calendars_of('not in ' || c.name)::text AS parts
FROM pgcron.calendars c WHERE c.name = :name::text;

-- name: users_of_calendar
SELECT s.name FROM pgcron.schedule s WHERE s.calendars IS NOT NULL AND s.calendars ? :name::text
ORDER BY s.name LIMIT :limit::int;
