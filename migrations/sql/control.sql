-- What people do to a schedule and its fires beside editing it: its pauses end by themselves, and
-- it gets another name.

-- Resumes a schedule whose pause had an end that has passed; fires from that end on are owed. True
-- when the pause of this schedule is over by the database's clock, and this call resumed it: of
-- several nodes one does.
CREATE FUNCTION pgcron.resume_overdue(paused bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.act_as('pgcron_ha', 'clock');
  UPDATE pgcron.schedule s SET enabled = true
  WHERE s.id = paused AND NOT s.enabled AND s.paused_until <= clock_timestamp();
  RETURN FOUND;
END $$;

-- Id, uuid and history stay: runs that wait follow the name, those that run or have ended keep that
-- of their time.
CREATE FUNCTION pgcron.rename_schedule(schedule text, new_name text, actor text DEFAULT NULL,
    interface text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  renamed bigint := pgcron.schedule_id(rename_schedule.schedule);
BEGIN
  PERFORM pgcron.act_as(rename_schedule.actor, rename_schedule.interface);
  UPDATE pgcron.schedule s SET name = coalesce(rename_schedule.new_name, '') WHERE s.id = renamed;
EXCEPTION WHEN unique_violation THEN
  PERFORM pgcron.refuse('PC011',
      format('there is a schedule %L already', left(rename_schedule.new_name, 200)),
      'No two schedules have the same name.',
      'Choose another name, or rename or delete that one first.');
END $$;
COMMENT ON FUNCTION pgcron.rename_schedule IS
    'Gives a schedule another name; it stays the same schedule, with its history.';
