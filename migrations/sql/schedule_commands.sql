-- What people do to a schedule.

CREATE FUNCTION pgcron.schedule_id(name text) RETURNS bigint
LANGUAGE sql STABLE AS $$
  SELECT pgcron.refuse('PC010', format('schedule %L does not exist', left(schedule_id.name, 200)),
           'A schedule is named exactly as it was created.',
           'SELECT name FROM pgcron.schedules lists them; so does `pgcron-ha schedules list`.')
  WHERE NOT EXISTS (SELECT FROM pgcron.schedule s WHERE s.name = schedule_id.name);
  SELECT s.id FROM pgcron.schedule s WHERE s.name = schedule_id.name $$;

-- The schedule, locked against its deletion.
CREATE FUNCTION pgcron.hold_schedule(name text) RETURNS pgcron.schedule
LANGUAGE plpgsql AS $$
DECLARE
  held pgcron.schedule;
BEGIN
  SELECT s.* INTO held FROM pgcron.schedule s WHERE s.id = pgcron.schedule_id(hold_schedule.name)
  FOR KEY SHARE;
  IF held.id IS NULL THEN      -- deleted meanwhile: refused, unless it was made anew
    held := pgcron.hold_schedule(name);
  END IF;
  RETURN held;
END $$;

-- Creates or changes the schedule of that name; what is NULL stays as it is, or takes the default.
-- An empty key is none, and so are an empty owner, description, requirements, tags and links, a
-- max_running or max_queued of 0 and an
-- empty queue_drops, no jitter and 0 runs. managed_by of a new schedule is the interface by
-- default. A put that would change nothing writes nothing: nodes put the schedules of their code at
-- every start, all of them at once.
CREATE FUNCTION pgcron.put_schedule(schedule text, spec text, handler text, args jsonb DEFAULT NULL,
    timezone text DEFAULT NULL, dst text DEFAULT NULL, queue text DEFAULT NULL,
    priority int DEFAULT NULL, enabled boolean DEFAULT NULL, overlap text DEFAULT NULL,
    catchup text DEFAULT NULL, catchup_window interval DEFAULT NULL,
    start_deadline interval DEFAULT NULL, timeout interval DEFAULT NULL,
    max_attempts int DEFAULT NULL, retry jsonb DEFAULT NULL, delivery text DEFAULT NULL,
    managed_by text DEFAULT NULL, actor text DEFAULT NULL, interface text DEFAULT NULL,
    concurrency_key text DEFAULT NULL, requires text[] DEFAULT NULL,
    give_up_after interval DEFAULT NULL, silence_timeout interval DEFAULT NULL,
    weight int DEFAULT NULL, expected_version int DEFAULT NULL, max_running int DEFAULT NULL,
    max_queued int DEFAULT NULL, queue_drops text DEFAULT NULL, after_pause text DEFAULT NULL,
    jitter interval DEFAULT NULL, max_runs int DEFAULT NULL, pause_after_failures int DEFAULT NULL,
    probe_after interval DEFAULT NULL, depends_on_previous boolean DEFAULT NULL,
    owner text DEFAULT NULL, description text DEFAULT NULL, tags text[] DEFAULT NULL,
    links jsonb DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SET intervalstyle = 'postgres' AS $$
DECLARE
  empty CONSTANT jsonb := '{"concurrency_key": "", "requires": [], "retry": {}, "max_running": 0,
    "max_queued": 0, "queue_drops": "", "jitter": "00:00:00", "max_runs": 0,
    "pause_after_failures": 0, "probe_after": "00:00:00", "owner": "", "description": "",
    "tags": [], "links": {}}';
  wanted jsonb;
  known pgcron.schedule;
BEGIN
  PERFORM pgcron.act_as(put_schedule.actor, put_schedule.interface);
  PERFORM pgcron.expect_version(put_schedule.schedule, put_schedule.expected_version);
  IF pause_after_failures = 0 THEN      -- nothing is resumed that is never paused
    probe_after := coalesce(probe_after, '0');
  END IF;
  SELECT jsonb_object_agg(w.key, CASE WHEN w.value = empty -> w.key THEN 'null' ELSE w.value END)
  INTO wanted
  FROM (SELECT schedule AS name, spec, handler, args, timezone, dst, queue, priority, enabled,
               overlap, catchup, catchup_window, start_deadline, timeout, max_attempts, retry,
               delivery, managed_by, concurrency_key, requires, give_up_after, silence_timeout,
               weight, max_running, max_queued, queue_drops, after_pause, jitter, max_runs,
               pause_after_failures, probe_after, depends_on_previous, owner, description, tags,
               links) given
  CROSS JOIN LATERAL jsonb_each(to_jsonb(given)) w
  WHERE w.value <> 'null' OR w.key IN ('name', 'spec', 'handler')
    OR (w.key = 'args' AND put_schedule.args IS NOT NULL);
  SELECT * INTO known FROM pgcron.schedule s WHERE s.name = put_schedule.schedule;
  IF known.id IS NULL THEN
    BEGIN
      PERFORM pgcron.write_schedule(
          jsonb_build_object('managed_by',
              CASE WHEN pgcron.interface() IN ('code', 'file', 'cli', 'ui')
                     THEN pgcron.interface() ELSE 'sql' END)
            || wanted,
          known);
    EXCEPTION WHEN unique_violation THEN      -- made meanwhile
      SELECT * INTO known FROM pgcron.schedule s WHERE s.name = put_schedule.schedule;
      IF known.id IS NULL THEN RAISE; END IF;
      PERFORM pgcron.expect_version(put_schedule.schedule, expected_version);
    END;
  END IF;
  IF known.id IS NOT NULL THEN
    PERFORM pgcron.write_schedule(wanted, known);
  END IF;
  RETURN (SELECT s.id FROM pgcron.schedule s WHERE s.name = put_schedule.schedule);
END $$;
COMMENT ON FUNCTION pgcron.put_schedule IS
    'Creates or changes the schedule of that name; what is NULL stays as it is, or takes the '
    'default. Returns its id.';

-- Until it is resumed, or until an instant: then a node resumes it.
CREATE FUNCTION pgcron.pause_schedule(schedule text, note text DEFAULT NULL,
    actor text DEFAULT NULL, interface text DEFAULT NULL, until timestamptz DEFAULT NULL)
  RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor, interface);
  UPDATE pgcron.schedule SET enabled = false, paused_note = note, paused_until = until
  WHERE id = pgcron.schedule_id(pause_schedule.schedule) $$;
COMMENT ON FUNCTION pgcron.pause_schedule IS
    'No fires from now on; those that pass meanwhile are one missed range with the note.';

CREATE FUNCTION pgcron.resume_schedule(schedule text, actor text DEFAULT NULL,
    interface text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor, interface);
  UPDATE pgcron.schedule SET enabled = true
  WHERE id = pgcron.schedule_id(resume_schedule.schedule) $$;
COMMENT ON FUNCTION pgcron.resume_schedule IS 'Fires again from now on.';

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

CREATE FUNCTION pgcron.delete_schedule(schedule text, actor text DEFAULT NULL,
    interface text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.act_as(actor, interface);
  DELETE FROM pgcron.schedule WHERE id = pgcron.schedule_id(delete_schedule.schedule) $$;
COMMENT ON FUNCTION pgcron.delete_schedule IS
    'Ends what has not started and removes the schedule; its history stays, and its name can be '
    'used again.';

-- What a run carries of its schedule's overlap policy: NULL is no limit. `skip` alone means one
-- slot; the others read the number of their schedule.
CREATE FUNCTION pgcron.run_overlap(overlap text, max_running int) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN overlap = 'allow' AND max_running IS NULL THEN NULL
            WHEN overlap = 'skip' AND max_running > 1 THEN 'skip many'
            ELSE overlap END;

-- The same for one run that is to have another policy than its schedule; raises PC001.
CREATE FUNCTION pgcron.run_overlap(overlap text, schedule pgcron.schedule) RETURNS text
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  PERFORM pgcron.is_overlap(overlap);
  IF overlap = 'allow' THEN      -- for this one, whatever runs
    RETURN NULL;
  ELSIF overlap IN ('replace', 'terminate') AND schedule.max_running > 1 THEN
    PERFORM pgcron.refuse_replacing(overlap, schedule.max_running);
  END IF;
  RETURN pgcron.run_overlap(coalesce(overlap, schedule.overlap), schedule.max_running);
END $$;

-- The row of a run of a schedule, for one instant. Fires (origin `schedule` and `backfill`) have
-- the instant to themselves. args NULL: those of the schedule. overlap: as run_overlap returns it.
-- start_by: its start deadline.
CREATE FUNCTION pgcron.run_of_schedule(s pgcron.schedule, id bigint, origin text,
    fire_time timestamptz, args jsonb, overlap text, due_at timestamptz, start_by timestamptz,
    parent_run bigint, created_by text) RETURNS SETOF pgcron.run
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT run_of_schedule.id, run_of_schedule.due_at, now(), 0, s.priority,
         CASE WHEN is_fire
                THEN md5(s.uuid::text || '/' || extract(epoch FROM fire_time)::text)::uuid END,
         origin, s.id, s.name, CASE WHEN is_fire THEN fire_time END,
         CASE WHEN NOT is_fire THEN fire_time END, parent_run, s.queue, s.handler,
         coalesce(run_of_schedule.args, s.args), s.delivery,
         CASE WHEN waits THEN 'blocked' ELSE 'ready' END, CASE WHEN waits THEN 'previous' END,
         least(start_by, run_of_schedule.due_at + s.give_up_after), s.max_attempts,
         nullif(s.timeout, '1 hour'), s.retry, run_of_schedule.overlap, NULL::smallint,
         NULL::smallint, pgcron.concurrency_key_of(s.concurrency_key, s.weight), NULL::int,
         NULL::text, NULL::text, NULL::text, s.requires, nullif(s.weight, 1), s.tags, NULL::uuid,
         NULL::uuid, NULL::bigint, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz,
         NULL::text, NULL::timestamptz,
         CASE WHEN num_nonnulls(s.give_up_after, s.silence_timeout) > 0
                THEN pgcron.time_limits(s.give_up_after, s.silence_timeout, run_of_schedule.due_at)
         END,
         NULL::text, NULL::smallint, run_of_schedule.created_by,
         CASE WHEN origin = 'manual' THEN nullif(session_user, run_of_schedule.created_by) END,
         NULL::boolean
  FROM (SELECT origin IN ('schedule', 'backfill') AS is_fire,
               origin = 'schedule' AND s.depends_on_previous AS waits) kind;
END;

-- A run of the schedule beside its fires, under the same overlap policy; returns its id. fire_time:
-- for which instant it is, whenever it runs. A deletion under way is waited for: it would not see
-- this run, which would be executed after it. overlap: another policy than the schedule's, for this
-- run alone.
CREATE FUNCTION pgcron.run_now(schedule text, args jsonb DEFAULT NULL, actor text DEFAULT NULL,
    overlap text DEFAULT NULL, fire_time timestamptz DEFAULT NULL) RETURNS bigint
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.refuse('PC001', format('fire time %s is outside of the calendar', fire_time),
           'Schedules fire in the years 1900 to 9998.', 'Leave it out for now.')
  WHERE fire_time NOT BETWEEN '1900-01-01 00:00Z' AND '9998-12-31 00:00Z';
  WITH made AS (
    INSERT INTO pgcron.run
    SELECT r.*
    FROM pgcron.hold_schedule(run_now.schedule) s
    CROSS JOIN LATERAL pgcron.run_of_schedule(s, nextval('pgcron.run_id_seq'), 'manual',
        coalesce(run_now.fire_time, now()), run_now.args, pgcron.run_overlap(run_now.overlap, s),
        now(), NULL, NULL, coalesce(run_now.actor, session_user)) r
    RETURNING id),
  recorded AS MATERIALIZED (
    SELECT pgcron.record_audit('run', 'schedule', run_now.schedule, run_now.actor,
             after => jsonb_strip_nulls(jsonb_build_object('run_id', m.id, 'args', run_now.args,
                   'overlap', run_now.overlap, 'fire_time', run_now.fire_time)))
    FROM made m)
  SELECT id FROM made, recorded $$;
COMMENT ON FUNCTION pgcron.run_now IS
    'A run beside the schedule''s fires; args NULL means the schedule''s. Returns the id of the '
    'run.';

-- Judges a run as the schedule would make it now: what no run may be is refused when it is written,
-- not at its first fire.
CREATE FUNCTION pgcron.judge_runs_of(s pgcron.schedule) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  made pgcron.run;
BEGIN
  PERFORM pgcron.time_limits(s.give_up_after, s.silence_timeout, now());
  SELECT r.* INTO made
  FROM pgcron.run_of_schedule(s, 0, 'schedule', now(), NULL,
      pgcron.run_overlap(s.overlap, s.max_running), now(), NULL, NULL, 'schedule') r;
  made.state := 'blocked'; made.gate := 'no_node';      -- it has no overlap slot
  RETURN pgcron.judge_run(made);
END $$;
