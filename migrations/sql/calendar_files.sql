-- Calendars as files: applied together with the schedules of their source; those that the source no
-- longer defines are deleted.

-- Applies the calendars of a source: contents by name. One of another source is refused (PC011),
-- unless taken over. Returns the text of each before and after, by name, and how many schedules use
-- it. Schedules to be applied in the same transaction are named: they are locked before calendars.
CREATE FUNCTION pgcron.apply_calendars(contents jsonb, source text, take_over boolean DEFAULT false,
    actor text DEFAULT NULL, schedules text[] DEFAULT '{}')
  RETURNS TABLE (name text, change text, before text, after text, source_before text, users bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  known pgcron.calendar[];
BEGIN
  PERFORM pgcron.begin_apply(apply_calendars.actor);
  PERFORM pgcron.lock_calendars();
  PERFORM FROM pgcron.schedule s
    WHERE s.name = ANY(apply_calendars.schedules) OR s.source = apply_calendars.source
      OR (s.calendars IS NOT NULL
          AND s.calendars ?| ARRAY(SELECT jsonb_object_keys(apply_calendars.contents)))
    ORDER BY s.id FOR UPDATE;
  PERFORM pgcron.refuse_foreign('calendar', c.name, c.source, apply_calendars.source)
    FROM pgcron.calendar c
    WHERE apply_calendars.contents ? c.name AND c.source <> apply_calendars.source
      AND NOT take_over
    ORDER BY c.name LIMIT 1;
  known := ARRAY(SELECT c FROM pgcron.calendar c WHERE apply_calendars.contents ? c.name);
  PERFORM pgcron.write_calendars(apply_calendars.contents, apply_calendars.actor,
      apply_calendars.source);
  RETURN QUERY SELECT c.name,
           CASE WHEN p.id IS NULL THEN 'added'
                WHEN p.version = c.version THEN 'unchanged'
                ELSE 'changed' END,
           p.content, c.content, p.source, c.schedules
    FROM pgcron.calendars c LEFT JOIN unnest(known) p ON p.id = c.id
    WHERE apply_calendars.contents ? c.name ORDER BY c.name;
END $$;

-- Deletes the calendars that a source owns, but for those of these names; refused while others use
-- them. After its schedules: one that is still used, but by others that go, too, is refused
-- (PC011).
CREATE FUNCTION pgcron.prune_calendars(source text, kept text[], actor text DEFAULT NULL)
  RETURNS TABLE (name text, change text, before text, after text, source_before text, users bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  outdated text[];
BEGIN
  PERFORM pgcron.act_as(prune_calendars.actor, 'file');
  PERFORM pgcron.lock_calendars();
  outdated := ARRAY(SELECT c.name FROM pgcron.calendar c
                    WHERE c.source = prune_calendars.source AND c.name <> ALL(kept) ORDER BY c.id
                    FOR UPDATE);
  PERFORM pgcron.refuse('PC011',
      format('calendar %L is used, and no file of %L defines it any more', used,
        prune_calendars.source),
      'By ' || users_of || '.',
      'Take it out of their specs first, or define it again; `pgcron-ha calendars put '
      '--take-over` detaches it from files.')
    FROM unnest(outdated) used CROSS JOIN pgcron.users_of_calendar(used, outdated) users_of
    WHERE users_of IS NOT NULL LIMIT 1;
  RETURN QUERY WITH gone AS (
      DELETE FROM pgcron.calendar c WHERE c.name = ANY(outdated) RETURNING c.*)
    SELECT g.name, 'pruned', g.content, NULL, g.source, 0::bigint FROM gone g ORDER BY g.name;
END $$;
