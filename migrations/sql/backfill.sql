-- Backfills: a range of a schedule's instants that somebody wants to have run. Nodes make runs of
-- it, a few at a time.

-- How many runs of a schedule can be due together, under its overlap policy or another one, without
-- one of them being dropped.
CREATE FUNCTION pgcron.most_at_once(overlap text, definition jsonb) RETURNS int
LANGUAGE sql IMMUTABLE
BEGIN ATOMIC
  SELECT CASE coalesce(overlap, definition ->> 'overlap') WHEN 'allow' THEN 1000
              WHEN 'queue' THEN least(coalesce((definition ->> 'max_running')::int,
                  1) + coalesce((definition ->> 'max_queued')::int, 1000),
                                      1000)
              WHEN 'skip' THEN coalesce((definition ->> 'max_running')::int, 1) ELSE 1 END;
END;

CREATE TABLE pgcron.backfill (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  schedule_id bigint NOT NULL,
  schedule text NOT NULL,
  definition jsonb NOT NULL,
  since timestamptz NOT NULL,
  until timestamptz NOT NULL,
  direction text NOT NULL CONSTRAINT a_backfill_has_a_direction CHECK (direction IN ('forward',
      'backward')
      OR pgcron.refuse('PC001',
    format('direction %L is not known', left(direction, 100)),
    'A backfill goes forward (the oldest instant first) or backward.',
    'Leave it out for forward.')),
  parallelism int NOT NULL CONSTRAINT a_backfill_has_1_to_1000_runs_at_once CHECK
      (parallelism BETWEEN 1 AND 1000
      OR pgcron.refuse('PC001',
    format('parallelism %s is out of range', parallelism),
    'Of a backfill 1 to 1000 runs are open at once.', 'Leave it out for 1.')),
  overlap text CONSTRAINT a_backfill_overlap_policy_is_known CHECK (overlap IS NULL
      OR overlap IN ('skip', 'allow', 'queue', 'replace', 'terminate')
      OR pgcron.refuse_overlap(overlap)),
  if_ran text NOT NULL CONSTRAINT a_backfill_says_what_of_instants_that_ran CHECK
      (if_ran IN ('skip',
      'failed', 'all')
      OR pgcron.refuse('PC001',
    format('if_ran %L is not known', left(if_ran, 100)),
    'Instants that were decided already are left alone (skip), run again if they did not succeed '
    '(failed), or all run again (all).',
    'Leave it out for skip.')),
  args jsonb CONSTRAINT backfill_args_are_an_object_of_256_kib
    CHECK (args IS NULL OR (jsonb_typeof(args) = 'object'
      AND (octet_length(args::text) <= 200
           OR (octet_length(args::text) <= 262144
               AND NOT jsonb_path_exists(args,
                                         'strict $.**{100} ? (@.type() == "array" || @.type() '
                                         '== "object")'))))
      OR pgcron.refuse_args(args)),
  note text CONSTRAINT backfill_note_is_short
    CHECK (note IS NULL OR length(note) <= 2000 OR pgcron.refuse_words('note', note, 2000)),
  state text NOT NULL DEFAULT 'open' CONSTRAINT a_backfill_state_is_known CHECK (state IN ('open',
      'paused', 'stopping', 'stopped', 'done')),
  reached timestamptz,
  planned int,
  already int NOT NULL DEFAULT 0,
  created int NOT NULL DEFAULT 0,
  succeeded int NOT NULL DEFAULT 0,
  failed int NOT NULL DEFAULT 0,
  error jsonb,
  created_at timestamptz NOT NULL DEFAULT now(),
  created_by text NOT NULL CONSTRAINT backfill_created_by_is_short
    CHECK (created_by IS NULL OR length(created_by) <= 300
      OR pgcron.refuse_words('created_by', created_by, 300)),
  changed_at timestamptz NOT NULL DEFAULT now(),
  changed_by text CONSTRAINT backfill_changed_by_is_short
    CHECK (changed_by IS NULL OR length(changed_by) <= 300
      OR pgcron.refuse_words('changed_by', changed_by, 300)),
  ended_at timestamptz,
  CONSTRAINT a_backfill_lies_in_the_past CHECK ((since < until AND until <= created_at
      AND until - since <= '3660 days')
      OR pgcron.refuse('PC001',
    format('a backfill from %s to %s', since, until),
    CASE WHEN since >= until THEN 'Its range begins at since and ends before until, which is later.'
         WHEN until
             > created_at
                 THEN
                     'Only instants that have passed are filled in; the others are the '
                     'schedule''s own.'
         ELSE 'Its range spans up to 3660 days (ten years).' END,
    CASE WHEN until > created_at AND since < until THEN 'Write an until that is not later than now.'
         ELSE 'Ask for several ranges, each with since before until.' END)),
  CONSTRAINT a_backfill_has_up_to_a_million_instants CHECK (planned IS NULL OR planned <= 1000000
      OR pgcron.refuse('PC004',
    format('the range has more than 1000000 instants of the schedule, %s at least', planned),
    'A backfill has up to 1000000 instants.', 'Ask for several ranges, one after the other.')),
  CONSTRAINT a_backfill_makes_no_runs_only_to_drop_them CHECK (parallelism
      <= pgcron.most_at_once(overlap,
      definition)
      OR pgcron.refuse('PC001',
    format('parallelism %s with overlap %L', parallelism,
           coalesce(overlap, definition ->> 'overlap')),
    format('Of the runs that are due together all but %s would not run.',
           pgcron.most_at_once(overlap, definition)),
    format('Use overlap ''allow'' for the backfill, or parallelism %s.',
           pgcron.most_at_once(overlap, definition)))),
  CONSTRAINT runs_that_depend_on_the_one_before_are_filled_in_one_by_one CHECK
      (NOT coalesce((definition
      ->> 'depends_on_previous')::boolean,
      false)
    OR (direction = 'forward' AND parallelism = 1)
    OR pgcron.refuse('PC001',
                     format('direction %s and parallelism %s with depends_on_previous', direction,
                            parallelism),
    'Each run of the schedule needs that of the instant before: they are made one after the '
    'other, the oldest first.',
    'Leave both out, or set depends_on_previous to false first.')),
  CONSTRAINT a_backfill_that_is_over_says_when CHECK ((state IN ('stopped',
      'done')) = (ended_at IS NOT NULL))
) WITH (fillfactor = 50);
COMMENT ON TABLE pgcron.backfill IS
    'Ranges of schedules that somebody wants to have run, and how far nodes have come with them.';
COMMENT ON COLUMN pgcron.backfill.definition IS
    'The schedule as it stood when the backfill was asked for: later edits of the schedule do '
    'not change it.';
COMMENT ON COLUMN pgcron.backfill.overlap IS
    'Of its runs; NULL is the schedule''s, with its max_running.';
COMMENT ON COLUMN pgcron.backfill.since IS 'Instants from since on and before until are filled in.';
COMMENT ON COLUMN pgcron.backfill.reached IS
    'The last instant that was looked at, in its direction; NULL before the first.';
COMMENT ON COLUMN pgcron.backfill.already IS
    'Instants that were left alone, since they had been decided before.';
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

CREATE FUNCTION pgcron.wake_backfills() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF EXISTS (SELECT FROM pgcron.node WHERE state IN ('alive', 'cordoned')) THEN
    PERFORM pgcron.notify(pgcron.channel(), 'backfill');
  END IF;
END $$;

-- The cursor's row is held for a moment, so that two backfills of one range can't be asked for at
-- once. `planned` is told by doors that can count a spec's instants; else the first node that looks
-- does it.
CREATE FUNCTION pgcron.backfill(schedule text, since timestamptz, until timestamptz DEFAULT NULL,
    direction text DEFAULT 'forward', parallelism int DEFAULT 1, overlap text DEFAULT NULL,
    if_ran text DEFAULT 'skip', args jsonb DEFAULT NULL, note text DEFAULT NULL,
    actor text DEFAULT NULL, planned int DEFAULT NULL)
  RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
#variable_conflict use_column
DECLARE
  filled pgcron.schedule;
  other pgcron.backfill;
  new_id bigint;
  ends timestamptz := coalesce(backfill.until, now());
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  IF backfill.since IS NULL THEN
    PERFORM pgcron.refuse('PC001', 'since is NULL', 'A backfill says where its range begins.',
                          'Write for example since => ''2026-01-01T00:00Z''.');
  END IF;
  SELECT s.* INTO filled FROM pgcron.schedule s WHERE s.id = pgcron.schedule_id(backfill.schedule)
  FOR KEY SHARE;
  IF filled.id IS NULL THEN      -- deleted meanwhile: refused, unless it was made anew
    RETURN pgcron.backfill(backfill.schedule, backfill.since, backfill.until, backfill.direction,
                           backfill.parallelism, backfill.overlap, backfill.if_ran, backfill.args,
                           backfill.note, backfill.actor, backfill.planned);
  END IF;
  PERFORM pgcron.run_overlap(backfill.overlap, filled);
  PERFORM FROM pgcron.cursor c WHERE c.schedule_id = filled.id FOR UPDATE;
  SELECT b.* INTO other FROM pgcron.backfill b
   WHERE b.schedule_id = filled.id AND b.state IN ('open', 'paused', 'stopping') AND b.since < ends
     AND b.until > backfill.since
   ORDER BY b.id LIMIT 1;
  IF other.id IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011',
                          format('backfill %s of schedule %L is %s and has a part of this range',
                                 other.id, left(filled.name, 200), other.state),
                          format('It goes from %s to %s; two would run an instant twice.',
                                 other.since, other.until),
                          format(
                              'Wait until it is done, stop it (`pgcron-ha backfills stop %s`), '
                              'or ask for another range.',
                                 other.id));
  END IF;
  INSERT INTO pgcron.backfill AS made (schedule_id, schedule, definition, since, until, direction,
      parallelism, overlap, if_ran, args, note, planned, created_by)
  VALUES (filled.id, filled.name, to_jsonb(filled), backfill.since, ends,
          coalesce(backfill.direction, 'forward'), coalesce(backfill.parallelism, 1),
          backfill.overlap, coalesce(backfill.if_ran, 'skip'), backfill.args,
          left(backfill.note, 500), backfill.planned, coalesce(backfill.actor, session_user))
  RETURNING made.id INTO new_id;
  PERFORM pgcron.wake_backfills();
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.backfill(text, timestamptz, timestamptz, text, int, text, text, jsonb,
    text, text, int) IS
  'Asks for runs of the schedule''s instants from since on and before until (now); returns the '
  'backfill''s id. At most parallelism of its runs are open at once; the view backfills shows '
  'how far it is. Jitter and start deadline do not count; with depends_on_previous it goes '
  'forward, one by one, and a failure pauses it.';

-- The backfill, locked, if it is under way.
CREATE FUNCTION pgcron.hold_backfill(backfill bigint, verb text) RETURNS pgcron.backfill
LANGUAGE plpgsql AS $$
DECLARE
  held pgcron.backfill;
BEGIN
  SELECT b.* INTO held FROM pgcron.backfill b WHERE b.id = hold_backfill.backfill FOR UPDATE;
  IF held.id IS NULL THEN
    PERFORM pgcron.refuse('PC010',
                          format('backfill %s does not exist',
                                 coalesce(hold_backfill.backfill::text, 'NULL')),
                          'It was never asked for, or was forgotten with the ledger of its time.',
                          '`pgcron-ha backfills list` lists them.');
  ELSIF held.state NOT IN ('open', 'paused') THEN
    PERFORM pgcron.refuse('PC011', format('backfill %s is %s', held.id, held.state),
                          format('Only one that is under way can be %s.', verb),
                          'Ask for a new one, which leaves alone what has run.');
  END IF;
  RETURN held;
END $$;

-- No more runs are made; those that were are executed.
CREATE FUNCTION pgcron.pause_backfill(backfill_id bigint, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held pgcron.backfill := pgcron.hold_backfill(pause_backfill.backfill_id, 'paused');
BEGIN
  UPDATE pgcron.backfill b
  SET state = 'paused', changed_at = now(),
      changed_by = coalesce(pause_backfill.actor, session_user)
  WHERE b.id = held.id AND b.state = 'open';
END $$;
COMMENT ON FUNCTION pgcron.pause_backfill(bigint,
    text) IS 'Makes no more runs of a backfill until it is resumed.';

CREATE FUNCTION pgcron.resume_backfill(backfill_id bigint, actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held pgcron.backfill := pgcron.hold_backfill(resume_backfill.backfill_id, 'resumed');
BEGIN
  UPDATE pgcron.backfill b
  SET state = 'open', error = NULL, changed_at = now(),
      changed_by = coalesce(resume_backfill.actor, session_user)
  WHERE b.id = held.id AND b.state = 'paused';
  PERFORM pgcron.wake_backfills();
END $$;
COMMENT ON FUNCTION pgcron.resume_backfill(bigint,
    text) IS 'Goes on with a backfill that was paused.';

-- What has not begun is cancelled, with the reason in the ledger; what runs ends as it ends.
-- Returns how many were cancelled.
CREATE FUNCTION pgcron.stop_backfill(backfill_id bigint, reason text DEFAULT NULL,
    actor text DEFAULT NULL)
  RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
  held pgcron.backfill := pgcron.hold_backfill(stop_backfill.backfill_id, 'stopped');
  cancelled int;
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  SELECT count(*) INTO cancelled FROM pgcron.end_waiting_runs(
    ARRAY(SELECT o.run_id FROM pgcron.backfill_run o
        WHERE o.backfill_id = held.id AND o.outcome IS NULL),
        'cancelled',
    concat_ws(': ',
              format('backfill %s was stopped by %s', held.id,
                     coalesce(stop_backfill.actor, session_user)),
              left(stop_backfill.reason, 500)));
  UPDATE pgcron.backfill b
  SET state = 'stopping', changed_at = now(),
      changed_by = coalesce(stop_backfill.actor, session_user)
  WHERE b.id = held.id;
  PERFORM pgcron.settle_backfill(held.id);
  PERFORM pgcron.wake_backfills();
  RETURN cancelled;
END $$;
COMMENT ON FUNCTION pgcron.stop_backfill(bigint, text,
    text) IS
        'Ends a backfill: makes no more runs, cancels those that wait, leaves those that run. '
        'Returns how many were cancelled.';

-- Counts the runs that have ended since the last look; of a backfill that is to stop, and has no
-- open run, says that it has stopped. Where a run needs the one before it, a failure pauses the
-- backfill and says so: whoever resumes it goes on without that run's success. The caller has
-- locked the backfill's row. Returns how many runs are open.
CREATE FUNCTION pgcron.settle_backfill(backfill bigint) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  good int;
  bad int;
  still_open int;
  failed_run bigint; why jsonb;
BEGIN
  WITH ended AS MATERIALIZED (
    SELECT o.run_id, o.fire_at, coalesce(h.outcome, v.outcome, 'unknown') AS outcome
      FROM pgcron.backfill_run o
      -- Whatever the clocks did in between, a run did not end a day before it was made; partitions
      -- older than that are not looked into.
      LEFT JOIN LATERAL (SELECT e.outcome FROM pgcron.history e
      WHERE e.id = o.run_id AND e.finished_at > o.made_at - interval '1 day' LIMIT 1) h
          ON true
      LEFT JOIN LATERAL (SELECT e.outcome FROM pgcron.history_overflow e WHERE e.id = o.run_id
      LIMIT 1) v
          ON true
     WHERE o.backfill_id = settle_backfill.backfill AND o.outcome IS NULL
       AND NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = o.run_id)),
  forgotten AS (
    DELETE FROM pgcron.backfill_run o USING ended e
    WHERE o.backfill_id = settle_backfill.backfill AND o.run_id = e.run_id
      AND e.outcome = 'succeeded'),
  kept AS (
    UPDATE pgcron.backfill_run o SET outcome = e.outcome FROM ended e
    WHERE o.backfill_id = settle_backfill.backfill AND o.run_id = e.run_id
      AND e.outcome <> 'succeeded')
  SELECT count(*) FILTER (WHERE e.outcome = 'succeeded'),
         count(*) FILTER (WHERE e.outcome <> 'succeeded'),
         max(e.run_id) FILTER (WHERE e.outcome IN ('dead', 'lost', 'cancelled', 'expired',
             'upstream_failed'))
             INTO good, bad, failed_run FROM ended e;
  SELECT count(*) INTO still_open FROM pgcron.backfill_run o
  WHERE o.backfill_id = settle_backfill.backfill AND o.outcome IS NULL;
  IF bad > 0 THEN
    DELETE FROM pgcron.backfill_run o
    WHERE o.backfill_id = settle_backfill.backfill AND o.outcome IS NOT NULL AND o.run_id < (
      SELECT n.run_id FROM pgcron.backfill_run n
      WHERE n.backfill_id = settle_backfill.backfill AND n.outcome IS NOT NULL
      ORDER BY n.run_id DESC OFFSET 999 LIMIT 1);
  END IF;
  IF failed_run IS NOT NULL THEN
    SELECT jsonb_build_object('message',
                              format('run %s, of %s, ended %s', o.run_id, o.fire_at, o.outcome),
                              'detail',
                              'With depends_on_previous the instant after it needs its success.',
                              'hint',
                                  format(
                                      'Try it again (`pgcron-ha runs retry %s`), then resume; '
                                      'resumed at once, the backfill goes on without it.',
                                         o.run_id))
                                  INTO why
      FROM pgcron.backfill b
      JOIN pgcron.backfill_run o ON o.backfill_id = b.id AND o.run_id = failed_run
     WHERE b.id = settle_backfill.backfill AND (b.definition ->> 'depends_on_previous')::boolean
       AND b.state IN ('open', 'paused') AND (b.planned > b.already + b.created) IS NOT FALSE;
  END IF;
  UPDATE pgcron.backfill b
  SET succeeded = b.succeeded + good, failed = b.failed + bad, error = coalesce(why, b.error),
         changed_at = CASE WHEN why IS NULL THEN b.changed_at ELSE now() END,
         changed_by = CASE WHEN why IS NULL THEN b.changed_by ELSE 'pgcron_ha' END,
         state = CASE WHEN why IS NOT NULL THEN 'paused'
                      WHEN b.state = 'stopping' AND still_open = 0 THEN 'stopped' ELSE b.state END,
         ended_at = CASE WHEN b.state = 'stopping' AND still_open = 0 THEN now() ELSE b.ended_at END
   WHERE b.id = settle_backfill.backfill
     AND (good + bad > 0 OR (b.state = 'stopping' AND still_open = 0));
  RETURN still_open;
END $$;

-- Which of these instants the backfill may make runs of: `claim` (nobody has decided them), `again`
-- (a new run of one that was decided, `parent` names its run), `leave`. What was decided, but whose
-- run retention has removed, counts as a success; what retention removed from the ledger counts as
-- undecided. A run that was made of a run (by a retry, a redrive, another backfill) counts for it.
CREATE FUNCTION pgcron.judge_backfill(b pgcron.backfill, instants timestamptz[])
  RETURNS TABLE (place bigint, fire_at timestamptz, verdict text, parent bigint)
LANGUAGE sql STABLE ROWS 1000
BEGIN ATOMIC
  WITH RECURSIVE given AS MATERIALIZED (
    SELECT g.place, g.fire_at, o.schedule_id IS NOT NULL AS is_decided, o.decision, o.run_id,
           v.action = 'skip' AS is_to_skip,
           EXISTS (SELECT FROM pgcron.run r
               WHERE r.schedule_id = (judge_backfill.b).schedule_id AND r.scheduled_for = g.fire_at
                 AND r.scheduled_for IS NOT NULL) AS is_live
      FROM unnest(judge_backfill.instants) WITH ORDINALITY g(fire_at, place)
      LEFT JOIN pgcron.occurrence o ON o.schedule_id = (judge_backfill.b).schedule_id
          AND o.fire_at = g.fire_at
      LEFT JOIN pgcron.occurrence_override v ON v.schedule_id = (judge_backfill.b).schedule_id
          AND v.fire_at = g.fire_at),
  family(root, id) AS (
    SELECT g.run_id, g.run_id FROM given g
    WHERE g.run_id IS NOT NULL AND (judge_backfill.b).if_ran <> 'skip'
    UNION
    SELECT f.root, child.id FROM family f CROSS JOIN LATERAL (
      SELECT r.id FROM pgcron.run r WHERE r.parent_run = f.id
      UNION ALL SELECT h.id FROM pgcron.history h WHERE h.parent_run = f.id
      UNION ALL SELECT h.id FROM pgcron.history_overflow h WHERE h.parent_run = f.id) child),
  reported AS MATERIALIZED (
    SELECT f.root, bool_or(r.id IS NOT NULL) AS is_alive,
           bool_or(ended.outcome IS NOT DISTINCT FROM 'succeeded') AS has_succeeded,
           bool_or(ended.outcome <> 'succeeded' OR d.run_id IS NOT NULL) AS has_failed
      FROM family f
      LEFT JOIN pgcron.run r ON r.id = f.id
      LEFT JOIN LATERAL (
        SELECT h.outcome FROM pgcron.history h WHERE h.id = f.id UNION ALL SELECT h.outcome
        FROM pgcron.history_overflow h WHERE h.id = f.id LIMIT 1) ended
            ON true
      LEFT JOIN pgcron.dead_letter d ON d.run_id = f.id
     GROUP BY f.root)
  SELECT g.place, g.fire_at,
         CASE WHEN NOT g.is_decided THEN CASE WHEN g.is_live OR g.is_to_skip THEN 'leave'
                                              ELSE 'claim' END
              WHEN (judge_backfill.b).if_ran = 'skip' OR g.is_live OR t.is_alive THEN 'leave'
              WHEN (judge_backfill.b).if_ran = 'all' THEN 'again'
              WHEN g.run_id IS NOT NULL AND NOT t.has_succeeded
              AND (t.has_failed OR g.decision <> 'run') THEN 'again'
              ELSE 'leave' END,
         g.run_id
    FROM given g LEFT JOIN reported t ON t.root = g.run_id;
END;

-- Takes the next instants of a backfill, in its direction: `instants` follow `reached`, and with
-- `is_last` there are no others. Of two nodes that do it at once one does nothing (the row is
-- locked, or has moved). In the order of locks: the schedule, which a deletion holds; the backfill;
-- then occurrences, by time whatever the direction is, as the materializer takes them. The ledger's
-- primary key makes each fire one row for ever: what somebody decides in the same moment is theirs,
-- and left alone here. Returns nothing when it was somebody else's turn; else the state, how many
-- instants were taken, and how many runs were made.
CREATE FUNCTION pgcron.step_backfill(backfill bigint, reached timestamptz, instants timestamptz[],
    is_last boolean)
  RETURNS TABLE (state text, taken int, made int)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
  b pgcron.backfill;
  plan pgcron.schedule;
  room int;
  may_wait int;
  still_open int;
  claims timestamptz[];
  again timestamptz[];
  parents bigint[];
  new_reached timestamptz; next_fire timestamptz;
  who text;
  policy text;
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  SELECT s.* INTO plan FROM pgcron.schedule s
  WHERE s.id = (SELECT f.schedule_id FROM pgcron.backfill f WHERE f.id = step_backfill.backfill)
  FOR KEY SHARE;
  SELECT f.* INTO b FROM pgcron.backfill f
  WHERE f.id = step_backfill.backfill AND f.state IN ('open', 'paused', 'stopping')
  FOR UPDATE SKIP LOCKED;
  IF b.id IS NULL THEN RETURN; END IF;
  still_open := pgcron.settle_backfill(b.id);
  SELECT f.state INTO b.state FROM pgcron.backfill f WHERE f.id = b.id;
  taken := 0;
  made := 0;
  IF b.state = 'open' AND plan.id IS NOT NULL
    AND b.reached IS NOT DISTINCT FROM step_backfill.reached THEN
    b.schedule := plan.name;      -- as runs that wait do, those that are made follow a new name
    -- whoever ends what is too much asks the schedule as it stands
    may_wait := coalesce(plan.max_queued, 1000);
    plan := jsonb_populate_record(plan, b.definition);
    room := b.parallelism - still_open;
    policy := pgcron.run_overlap(b.overlap, plan);
    -- What would be dropped, or would stop what runs, is not made before there is a slot for it, or
    -- a place in the queue.
    IF coalesce(b.overlap, plan.overlap) <> 'allow' THEN
      room := least(room,
                    (SELECT o.room
                     FROM pgcron.overlap_room(b.schedule_id, policy,
                                              1000) o) + CASE coalesce(b.overlap, plan.overlap)
                         WHEN 'queue' THEN may_wait ELSE 0 END - (
        SELECT count(*) FROM pgcron.run r
        WHERE r.schedule_id = b.schedule_id AND r.state = 'ready' AND r.due_at <= now()
          AND r.overlap IS NOT NULL AND r.overlap_slot IS NULL
           AND coalesce(r.hold, 'overlap') = 'overlap'));
    END IF;
    IF plan.depends_on_previous AND room > 0 THEN
      SELECT j.fire_at INTO next_fire FROM pgcron.judge_backfill(b, step_backfill.instants) j
      WHERE j.verdict <> 'leave' ORDER BY j.place LIMIT 1;
      IF (SELECT p.verdict FROM pgcron.judge_previous(b.schedule_id, next_fire) p) = 'open' THEN
        room := 0;
      END IF;
    END IF;
    WITH judged AS MATERIALIZED (
      SELECT j.*, count(*) FILTER (WHERE j.verdict <> 'leave') OVER (ORDER BY j.place) AS used
      FROM pgcron.judge_backfill(b, step_backfill.instants) j)
    SELECT count(*), array_agg(j.fire_at ORDER BY j.place) FILTER (WHERE j.verdict = 'claim'),
           array_agg(j.fire_at ORDER BY j.place) FILTER (WHERE j.verdict = 'again'),
           array_agg(j.parent ORDER BY j.place) FILTER (WHERE j.verdict = 'again'),
           (array_agg(j.fire_at ORDER BY j.place DESC))[1]
      INTO taken, claims, again, parents, new_reached
      FROM judged j WHERE j.used <= room;
    who := format('backfill %s by %s', b.id, b.created_by);
    IF claims IS NOT NULL THEN
      PERFORM pgcron.reopen_ledger(claims);
      WITH numbered AS MATERIALIZED (
        SELECT c.fire_at, nextval(pg_get_serial_sequence('pgcron.run', 'id')) AS run_id
        FROM (SELECT u.fire_at FROM unnest(claims) WITH ORDINALITY u(fire_at, place)
        ORDER BY u.place) c),
      ledger AS (
        INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id)
        SELECT b.schedule_id, n.fire_at, 'run', format('backfill %s', b.id), n.run_id
        FROM numbered n ORDER BY n.fire_at
        ON CONFLICT (schedule_id, fire_at) DO NOTHING RETURNING fire_at, run_id),
      fresh AS (
        INSERT INTO pgcron.run (id, uuid, origin, schedule_id, schedule, scheduled_for, queue,
                                priority, handler, args, delivery, max_attempts, timeout,
                                retry_base, retry_cap, retry, overlap, lane, requires, weight,
                                expire_at, time_limits, created_by)
        SELECT l.run_id, md5(plan.uuid::text || '/' || extract(epoch FROM l.fire_at)::text)::uuid,
               'backfill', b.schedule_id, b.schedule, l.fire_at, plan.queue, plan.priority,
               plan.handler,
               coalesce(b.args, o.args, plan.args), plan.delivery, plan.max_attempts, plan.timeout,
               plan.retry_base, plan.retry_cap, plan.retry, policy,
               pgcron.lane_of(plan.lane, plan.weight), plan.requires, nullif(plan.weight, 1),
               now() + plan.give_up_after,
               CASE WHEN num_nonnulls(plan.give_up_after,
                                      plan.silence_timeout)
                                          > 0 THEN pgcron.time_limits(plan.give_up_after,
                                      plan.silence_timeout, now()) END,
               who
          FROM ledger l
          LEFT JOIN pgcron.occurrence_override o ON o.schedule_id = b.schedule_id
              AND o.fire_at = l.fire_at
        RETURNING id, scheduled_for),
      noted AS (
        INSERT INTO pgcron.backfill_run (backfill_id, run_id, fire_at)
        SELECT b.id, f.id, f.scheduled_for FROM fresh f RETURNING run_id)
      SELECT count(*) INTO made FROM noted;
    END IF;
    IF again IS NOT NULL THEN
      WITH numbered AS MATERIALIZED (
        SELECT c.fire_at, c.parent, nextval(pg_get_serial_sequence('pgcron.run', 'id')) AS run_id
          FROM (SELECT u.fire_at, u.parent
          FROM unnest(again, parents) WITH ORDINALITY u(fire_at, parent, place)
          ORDER BY u.place) c),
      fresh AS (
        INSERT INTO pgcron.run (id, origin, schedule_id, schedule, nominal_for, parent_run, queue,
                                priority, handler, args, delivery, max_attempts, timeout,
                                retry_base, retry_cap, retry, overlap, lane, requires, weight,
                                expire_at, time_limits, created_by)
        SELECT n.run_id, 'rerun', b.schedule_id, b.schedule, n.fire_at, n.parent, plan.queue,
               plan.priority, plan.handler, coalesce(b.args, plan.args), plan.delivery,
               plan.max_attempts,
               plan.timeout, plan.retry_base, plan.retry_cap, plan.retry, policy,
               pgcron.lane_of(plan.lane, plan.weight), plan.requires, nullif(plan.weight, 1),
               now() + plan.give_up_after,
               CASE WHEN num_nonnulls(plan.give_up_after,
                                      plan.silence_timeout)
                                          > 0 THEN pgcron.time_limits(plan.give_up_after,
                                      plan.silence_timeout, now()) END,
               who
          FROM numbered n RETURNING id, nominal_for)
      INSERT INTO pgcron.backfill_run (backfill_id, run_id, fire_at)
      SELECT b.id, f.id, f.nominal_for FROM fresh f;
      made := made + cardinality(again);
    END IF;
    still_open := still_open + made;
    IF taken > 0 OR (step_backfill.is_last AND still_open = 0) THEN
      UPDATE pgcron.backfill f
      SET reached = coalesce(new_reached, f.reached), already = f.already + taken - made,
          created = f.created + made,
             state = CASE WHEN step_backfill.is_last AND taken = cardinality(step_backfill.instants)
                          AND still_open = 0 THEN 'done'
                          ELSE f.state END,
             ended_at = CASE WHEN step_backfill.is_last
                             AND taken = cardinality(step_backfill.instants)
                             AND still_open = 0 THEN now() END
       WHERE f.id = b.id;
    END IF;
  END IF;
  SELECT f.state INTO state FROM pgcron.backfill f WHERE f.id = b.id;
  RETURN NEXT;
END $$;

-- A deletion stops the backfills of its schedule; what waits is cancelled with the schedule's other
-- runs.
CREATE FUNCTION pgcron.backfills_stop_with_their_schedule() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  UPDATE pgcron.backfill b SET state = 'stopping', changed_at = now(), changed_by = pgcron.actor(),
         error = jsonb_build_object('message', 'the schedule was deleted', 'detail', NULL, 'hint',
                                    NULL)
   WHERE b.schedule_id = OLD.id AND b.state IN ('open', 'paused');
  RETURN OLD;
END $$;
CREATE TRIGGER backfills_stop_with_their_schedule BEFORE DELETE ON pgcron.schedule FOR EACH ROW
  EXECUTE FUNCTION pgcron.backfills_stop_with_their_schedule();

CREATE VIEW pgcron.backfills AS
  SELECT b.id, coalesce(s.name, b.schedule) AS schedule, b.schedule_id, b.since, b.until,
         b.direction, b.parallelism, coalesce(b.overlap, b.definition ->> 'overlap') AS overlap,
         b.if_ran, b.args, b.note, b.state,
         b.planned, b.already, b.created, b.succeeded, b.failed,
         b.created - b.succeeded - b.failed AS open,
         CASE WHEN b.state IN ('done', 'stopped') THEN 0
              ELSE greatest(b.planned - b.already - b.created, 0) END AS remaining,
         b.reached, b.error,
         (b.definition ->> 'version')::int AS version, b.definition ->> 'spec' AS spec,
         b.definition ->> 'timezone' AS timezone, b.created_at, b.created_by, b.changed_at,
         b.changed_by, b.ended_at
    FROM pgcron.backfill b LEFT JOIN pgcron.schedule s ON s.id = b.schedule_id;
COMMENT ON VIEW pgcron.backfills IS
    'Backfills and how far they are: of planned instants some were decided already, for created '
    'ones runs were made; open ones are not over, remaining ones not looked at yet.';

REVOKE ALL
    ON FUNCTION pgcron.backfill(text, timestamptz, timestamptz, text, int, text, text, jsonb, text,
                                text, int),
        pgcron.pause_backfill(bigint, text),
  pgcron.resume_backfill(bigint, text), pgcron.stop_backfill(bigint, text, text),
      pgcron.backfills_stop_with_their_schedule()
      FROM PUBLIC;
