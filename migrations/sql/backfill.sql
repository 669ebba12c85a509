-- Backfills: requests to run a range of a schedule's past instants. Nodes make runs of it, a few at
-- a time.

CREATE TABLE pgcron.backfill (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_id bigint NOT NULL,
  schedule text NOT NULL,
  -- The schedule as it was when the backfill was requested: later edits of the schedule do not
  -- change it.
  definition jsonb NOT NULL,
  -- Instants from since on and before until are filled in.
  since timestamptz NOT NULL,
  until timestamptz NOT NULL,
  direction text NOT NULL CHECK (pgcron.is_one_of('direction', direction, '{forward,backward}',
         'A backfill goes forward (the oldest instant first) or backward.',
         'Leave it out for forward.')),
  parallelism int NOT NULL CHECK (pgcron.is_within('parallelism', parallelism, 1, 1000,
        'Of a backfill 1 to 1000 runs are open at once.', 'Leave it out for 1.')),
  -- Of its runs; NULL is the schedule's, with its max_running.
  overlap text,
  if_ran text NOT NULL CHECK (pgcron.is_one_of('if_ran', if_ran, '{skip,failed,all}',
        'Instants that were decided already are left alone (skip), run again if they did not '
        'succeed (failed), or all run again (all).',
        'Leave it out for skip.')),
  args jsonb CHECK (args IS NULL OR pgcron.args_are_fine(args) OR pgcron.refuse_args(args)),
  note text CHECK (pgcron.is_short('note', note, 2000)),
  state text NOT NULL DEFAULT 'open' CONSTRAINT a_backfill_state_is_known
    CHECK (state IN ('open', 'paused', 'stopping', 'stopped', 'done')),
  -- The last instant that was looked at, in its direction; NULL before the first.
  reached timestamptz,
  planned int,
  -- Instants that were left alone, since they had been decided before.
  already int NOT NULL DEFAULT 0,
  created int NOT NULL DEFAULT 0,
  succeeded int NOT NULL DEFAULT 0,
  failed int NOT NULL DEFAULT 0,
  error jsonb,
  created_at timestamptz NOT NULL DEFAULT now(),
  created_by text NOT NULL CHECK (pgcron.is_short('created_by', created_by, 300)),
  changed_at timestamptz NOT NULL DEFAULT now(),
  changed_by text CHECK (pgcron.is_short('changed_by', changed_by, 300)),
  ended_at timestamptz,
  CONSTRAINT a_backfill_lies_in_the_past
    CHECK ((since < until AND until <= created_at AND until - since <= '3660 days')
      OR pgcron.refuse('PC001', format('a backfill from %s to %s', since, until),
        CASE WHEN since >= until
               THEN 'Its range begins at since and ends before until, which is later.'
             WHEN until > created_at THEN 'Only instants that have passed are filled in; the '
                 'others are the schedule''s own.'
             ELSE 'Its range spans up to 3660 days (ten years).' END,
        CASE WHEN until > created_at AND since < until
               THEN 'Write an until that is not later than now.'
             ELSE 'Ask for several ranges, each with since before until.' END)),
  CONSTRAINT a_backfill_has_up_to_a_million_instants
    CHECK (planned IS NULL OR planned <= 1000000
      OR pgcron.refuse('PC004',
        format('the range has more than 1000000 instants of the schedule, %s at least', planned),
        'A backfill has up to 1000000 instants.', 'Ask for several ranges, one after the other.')),
  CONSTRAINT runs_that_depend_on_the_one_before_are_filled_in_one_by_one
    CHECK (NOT coalesce((definition ->> 'depends_on_previous')::boolean, false)
      OR (direction = 'forward' AND parallelism = 1)
      OR pgcron.refuse('PC001',
        format('direction %s and parallelism %s with depends_on_previous', direction, parallelism),
        'Each run of the schedule needs that of the instant before: they are made one after the '
        'other, the oldest first.',
        'Leave both out, or set depends_on_previous to false first.')),
  CONSTRAINT a_backfill_that_is_over_says_when
    CHECK ((state IN ('stopped', 'done')) = (ended_at IS NOT NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE pgcron.backfill IS
    'Requests to run a range of a schedule, and how far nodes are with them.';
CREATE INDEX backfill_under_way ON pgcron.backfill (id)
  WHERE state IN ('open', 'paused', 'stopping');
CREATE INDEX backfill_of_schedule ON pgcron.backfill (schedule_id, id);

CREATE TABLE pgcron.backfill_run (
  backfill_id bigint NOT NULL REFERENCES pgcron.backfill ON DELETE CASCADE,
  run_id bigint NOT NULL,
  fire_at timestamptz NOT NULL,
  made_at timestamptz NOT NULL DEFAULT now(),
  outcome text,
  PRIMARY KEY (backfill_id, run_id)
) WITH (fillfactor = 70);
COMMENT ON TABLE pgcron.backfill_run IS
    'The runs of a backfill whose end was not counted yet (outcome NULL), and the last thousand '
    'that did not succeed.';
CREATE INDEX backfill_run_open ON pgcron.backfill_run (backfill_id) WHERE outcome IS NULL;

-- The cursor's row is locked, so that two backfills of one range can't be requested at once.
-- `planned` is given by callers that can count a spec's instants; otherwise a node counts them.
CREATE FUNCTION pgcron.backfill(schedule text, since timestamptz, until timestamptz DEFAULT NULL,
    direction text DEFAULT 'forward', parallelism int DEFAULT 1, overlap text DEFAULT NULL,
    if_ran text DEFAULT 'skip', args jsonb DEFAULT NULL, note text DEFAULT NULL,
    actor text DEFAULT NULL, planned int DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  filled pgcron.schedule;
  new_id bigint;
  ends timestamptz := coalesce(backfill.until, now());
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  PERFORM pgcron.refuse('PC001', 'since is NULL', 'A backfill says where its range begins.',
      'Write for example since => ''2026-01-01T00:00Z''.')
    WHERE backfill.since IS NULL;
  filled := pgcron.hold_schedule(backfill.schedule);
  PERFORM pgcron.refuse('PC001', format('schedule %L is on assets', left(filled.name, 200)),
      'It has no fire times of the past: it runs when each of its assets was updated.',
      'Make a run of it now: `pgcron-ha schedules run-now`.')
    FROM pgcron.schedule_asset d WHERE d.schedule_id = filled.id;
  PERFORM pgcron.run_overlap(backfill.overlap, filled);
  PERFORM FROM pgcron.cursor c WHERE c.schedule_id = filled.id FOR UPDATE;
  PERFORM pgcron.refuse('PC011',
      format('backfill %s of schedule %L is %s and has a part of this range', b.id,
        left(filled.name, 200), b.state),
      format('It goes from %s to %s; two would run an instant twice.', b.since, b.until),
      format('Wait until it is done, stop it (`pgcron-ha backfills stop %s`), or ask for '
        'another range.', b.id))
    FROM pgcron.backfill b
    WHERE b.schedule_id = filled.id AND b.state IN ('open', 'paused', 'stopping')
      AND b.since < ends AND b.until > backfill.since
    ORDER BY b.id LIMIT 1;
  INSERT INTO pgcron.backfill AS made (schedule_id, schedule, definition, since, until, direction,
        parallelism, overlap, if_ran, args, note, planned, created_by)
  VALUES (filled.id, filled.name, to_jsonb(filled), backfill.since, ends,
          coalesce(backfill.direction, 'forward'), coalesce(backfill.parallelism, 1),
          backfill.overlap, coalesce(backfill.if_ran, 'skip'), backfill.args,
          left(backfill.note, 500), backfill.planned, coalesce(backfill.actor, session_user))
  RETURNING made.id INTO new_id;
  PERFORM pgcron.record_audit('start', 'backfill', new_id::text, backfill.actor, backfill.note,
      after => jsonb_strip_nulls(to_jsonb(b)
          - '{definition,id,state,created_by,created_at,changed_at}'::text[]))
    FROM pgcron.backfill b WHERE b.id = new_id;
  PERFORM pgcron.wake_nodes('backfill');
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.backfill IS
    'Requests runs of the schedule''s instants from since on and before until (now); returns the '
    'backfill''s id. At most parallelism of its runs are open at once; the view backfills shows '
    'how far it is. Jitter and start deadline do not count; with depends_on_previous it goes '
    'forward, one by one, and a failure pauses it.';

-- Locks the backfill and gives it the state, if it is under way. Raises PC010, PC011.
CREATE FUNCTION pgcron.set_backfill_state(backfill_id bigint, state text, actor text,
    note text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  held pgcron.backfill;
BEGIN
  SELECT b.* INTO held FROM pgcron.backfill b WHERE b.id = set_backfill_state.backfill_id
  FOR UPDATE;
  PERFORM pgcron.refuse('PC010',
      format('backfill %s does not exist', coalesce(backfill_id::text, 'NULL')),
      'It was never requested, or was removed with the ledger of its time.',
      '`pgcron-ha backfills list` lists them.')
    WHERE held.id IS NULL;
  PERFORM pgcron.refuse('PC011', format('backfill %s is %s', held.id, held.state),
      'Only one that is under way can be paused, resumed or stopped.',
      'Start a new one, which leaves alone what has run.')
    WHERE held.state NOT IN ('open', 'paused');
  UPDATE pgcron.backfill b
  SET state = set_backfill_state.state, changed_at = now(),
      changed_by = coalesce(set_backfill_state.actor, session_user),
      error = CASE WHEN set_backfill_state.state <> 'open' THEN b.error END
  WHERE b.id = held.id AND b.state <> set_backfill_state.state;
  PERFORM pgcron.record_audit(
      CASE set_backfill_state.state WHEN 'open' THEN 'resume' WHEN 'paused' THEN 'pause'
                                    ELSE 'stop' END,
      'backfill', backfill_id::text, actor, note, jsonb_build_object('state', held.state),
      jsonb_build_object('state', set_backfill_state.state))
    WHERE FOUND;
  PERFORM pgcron.wake_nodes('backfill');
END $$;

CREATE FUNCTION pgcron.pause_backfill(backfill_id bigint, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.set_backfill_state(backfill_id, 'paused', actor) $$;
COMMENT ON FUNCTION pgcron.pause_backfill IS
    'Makes no more runs of a backfill until it is resumed.';

CREATE FUNCTION pgcron.resume_backfill(backfill_id bigint, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.set_backfill_state(backfill_id, 'open', actor) $$;
COMMENT ON FUNCTION pgcron.resume_backfill IS 'Goes on with a backfill that was paused.';

-- What has not begun is cancelled, with the note in the ledger; what runs ends as it ends.
-- Returns how many were cancelled.
CREATE FUNCTION pgcron.stop_backfill(backfill_id bigint, note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  cancelled int;
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  PERFORM pgcron.set_backfill_state(backfill_id, 'stopping', actor, note);
  SELECT count(*) INTO cancelled
  FROM pgcron.end_waiting_runs(ARRAY(
        SELECT o.run_id FROM pgcron.backfill_run o
        WHERE o.backfill_id = stop_backfill.backfill_id AND o.outcome IS NULL),
      'cancelled',
      concat_ws(': ',
        format('backfill %s was stopped by %s', backfill_id, coalesce(actor, session_user)),
        left(note, 500)));
  PERFORM pgcron.settle_backfill(backfill_id);
  RETURN cancelled;
END $$;
COMMENT ON FUNCTION pgcron.stop_backfill IS
    'Ends a backfill: makes no more runs, cancels those that wait, leaves those that run. Returns '
    'how many were cancelled.';

CREATE VIEW pgcron.backfills AS
  SELECT b.id, coalesce(s.name, b.schedule) AS schedule, b.schedule_id, b.since, b.until,
         b.direction, b.parallelism, coalesce(b.overlap, b.definition ->> 'overlap') AS overlap,
         b.if_ran, b.args, b.note, b.state, b.planned, b.already, b.created, b.succeeded, b.failed,
         b.created - b.succeeded - b.failed AS open,
         CASE WHEN b.state IN ('done', 'stopped') THEN 0
              ELSE greatest(b.planned - b.already - b.created, 0) END AS remaining,
         b.reached, b.error, (b.definition ->> 'version')::int AS version,
         b.definition ->> 'spec' AS spec, b.definition ->> 'timezone' AS timezone, b.created_at,
         b.created_by, b.changed_at, b.changed_by, b.ended_at
  FROM pgcron.backfill b LEFT JOIN pgcron.schedule s ON s.id = b.schedule_id;
COMMENT ON VIEW pgcron.backfills IS
    'Backfills and how far they are: of planned instants some were decided already, for created '
    'ones runs were made; open ones are not over, remaining ones not looked at yet.';
