-- Dead letters: what they have in common, running them again, and closing them.

-- One row for each fingerprint: letters that died in the same way.
CREATE VIEW pgcron.error_groups AS
  SELECT d.fingerprint, max(d.error_class) AS error_class,
         (array_agg(left(d.error, 300) ORDER BY d.died_at DESC))[1] AS message, count(*) AS letters,
         count(*) FILTER (WHERE d.closed_at IS NULL) AS open,
         count(*) FILTER (WHERE d.outcome = 'lost') AS lost, min(d.died_at) AS first_at,
         max(d.died_at) AS last_at, array_agg(DISTINCT d.handler) AS handlers,
         array_agg(DISTINCT d.queue) AS queues,
         array_remove(array_agg(DISTINCT d.schedule), NULL) AS schedules,
         array_agg(DISTINCT d.outcome) AS outcomes, max(d.run_id) AS last_run
  FROM pgcron.dead_letter d GROUP BY d.fingerprint;
COMMENT ON VIEW pgcron.error_groups IS
    'Dead letters by how they died; open ones were neither redriven nor archived. fingerprint is '
    'NULL for letters without one.';

-- The new run of a letter that the caller has locked; as run_again where another run has its unique
-- key.
CREATE FUNCTION pgcron.run_of_letter(letter pgcron.dead_letter, args jsonb, due_at timestamptz,
    actor text, failed text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
  ended pgcron.history := jsonb_populate_record(NULL::pgcron.history, to_jsonb(letter));
  new_id bigint;
BEGIN
  ended.id := letter.run_id;
  ended.args := coalesce(run_of_letter.args, letter.args);
  new_id := pgcron.run_again('redrive', ended, due_at, actor, failed);
  UPDATE pgcron.dead_letter d
  SET redriven_as = new_id, closed_at = now(), closed_by = coalesce(actor, session_user)
  WHERE d.run_id = letter.run_id AND new_id IS NOT NULL;
  RETURN new_id;
END $$;

-- Runs a dead letter again as a new run, once: the letter remembers as what. args replace the
-- letter's.
CREATE FUNCTION pgcron.redrive(run_id bigint, args jsonb DEFAULT NULL, note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  letter pgcron.dead_letter;
  new_id bigint;
BEGIN
  SELECT * INTO letter FROM pgcron.dead_letter d WHERE d.run_id = redrive.run_id FOR UPDATE;
  PERFORM pgcron.refuse('PC010', format('dead letter %s does not exist', run_id),
      'Dead letters are runs that ended dead or lost.', '`pgcron-ha dead list` lists them.')
    WHERE letter.run_id IS NULL;
  PERFORM pgcron.refuse('PC011', format('dead letter %s was already redriven', run_id),
      format('It runs again as run %s since %s.', letter.redriven_as, letter.closed_at),
      format('Look at run %s; `pgcron-ha runs retry` runs an ended run again.',
        letter.redriven_as))
    WHERE letter.redriven_as IS NOT NULL;
  new_id := pgcron.run_of_letter(letter, args, now(), actor,
      format('dead letter %s can''t be redriven', run_id));
  PERFORM pgcron.record_audit('redrive', 'run', redrive.run_id::text, redrive.actor, redrive.note,
      after => jsonb_strip_nulls(jsonb_build_object('run_id', new_id, 'args', redrive.args)));
  RETURN new_id;
END $$;
COMMENT ON FUNCTION pgcron.redrive IS
    'Sends a dead letter again, once; args NULL means its own. Returns the id of the new run.';

-- Closes the open ones of these dead letters, which nobody is going to send again, and returns
-- their ids. One that is being redriven at the moment is skipped. `redrive` still takes one by its
-- id.
CREATE FUNCTION pgcron.archive_dead_letters(run_ids bigint[], note text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS bigint[]
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.refuse('PC001', format('%s dead letters are too many', cardinality(run_ids)),
           'One call archives up to 1000 dead letters.', 'Give them in several calls.')
  WHERE cardinality(run_ids) > 1000;
  WITH open AS MATERIALIZED (
    SELECT d.run_id FROM pgcron.dead_letter d WHERE d.run_id = ANY(run_ids) AND d.closed_at IS NULL
    ORDER BY d.run_id FOR UPDATE SKIP LOCKED),
  archived AS (
    UPDATE pgcron.dead_letter d
    SET closed_at = now(), closed_by = coalesce(actor, session_user),
        note = archive_dead_letters.note
    FROM open o WHERE d.run_id = o.run_id RETURNING d.run_id),
  result AS (SELECT coalesce(array_agg(a.run_id ORDER BY a.run_id), '{}') AS ids FROM archived a),
  recorded AS MATERIALIZED (
    SELECT pgcron.record_audit('archive', 'run',
             CASE WHEN cardinality(ids) = 1 THEN ids[1]::text END, actor,
             archive_dead_letters.note,
             after => jsonb_build_object('count', cardinality(ids), 'run_ids', ids))
    FROM result WHERE ids <> '{}')
  SELECT ids FROM result LEFT JOIN recorded ON true $$;
COMMENT ON FUNCTION pgcron.archive_dead_letters IS
    'Closes open dead letters that nobody will send again, up to 1000. Returns those it closed.';

-- Whether a dead letter, which belongs to the team, fits all filters that are given. An error class
-- of '' is that of letters without one. Of states only redriven and archived are filters.
CREATE FUNCTION pgcron.letter_fits(letter pgcron.dead_letter, fingerprint text, handler text,
    queue text, error_class text, schedule text, tags text[], owner text, team text,
    since timestamptz, until timestamptz, state text DEFAULT NULL) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN (letter_fits.fingerprint IS NULL OR letter.fingerprint = letter_fits.fingerprint)
  AND (letter_fits.handler IS NULL OR letter.handler = letter_fits.handler)
  AND (letter_fits.queue IS NULL OR letter.queue = letter_fits.queue)
  AND (letter_fits.error_class IS NULL
       OR coalesce(letter.error_class, '') = letter_fits.error_class)
  AND (letter_fits.schedule IS NULL OR letter.schedule = letter_fits.schedule)
  AND (letter_fits.tags IS NULL OR letter.tags @> letter_fits.tags)
  AND (owner IS NULL OR team = owner)
  AND (since IS NULL OR letter.died_at >= since) AND (until IS NULL OR letter.died_at < until)
  AND CASE state WHEN 'redriven' THEN letter.redriven_as IS NOT NULL
           WHEN 'archived' THEN letter.closed_at IS NOT NULL AND letter.redriven_as IS NULL
           ELSE true END;

CREATE FUNCTION pgcron.require_letters(filters int) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC001', 'no dead letters are named',
           'At least one filter says which ones are meant.', 'Write until => now() for all.')
  WHERE filters = 0 $$;

-- Locks the oldest open letters that fit all that is given, but for those that others have locked.
CREATE FUNCTION pgcron.hold_letters(run_ids bigint[], fingerprint text, handler text, queue text,
    error_class text, schedule text, tags text[], owner text, since timestamptz,
    until timestamptz, at_most int) RETURNS bigint[]
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.require_letters(num_nonnulls(run_ids, fingerprint, handler, queue, error_class,
           schedule, tags, owner, since, until));
  SELECT ARRAY(SELECT d.run_id FROM pgcron.dead_letter d
               CROSS JOIN LATERAL pgcron.team_of(d.schedule_id, d.queue) t
               WHERE d.closed_at IS NULL
                 AND (hold_letters.run_ids IS NULL OR d.run_id = ANY(hold_letters.run_ids))
                 AND pgcron.letter_fits(d, hold_letters.fingerprint, hold_letters.handler,
                     hold_letters.queue, hold_letters.error_class, hold_letters.schedule,
                     hold_letters.tags, hold_letters.owner, t.team, since, until)
                 AND pgcron.in_scope(d.schedule_id, d.queue, d.handler, d.schedule, d.tags, t.team)
               ORDER BY d.died_at, d.run_id LIMIT at_most FOR UPDATE OF d SKIP LOCKED) $$;

-- Runs the open letters again that fit all filters that are given, the oldest first, at most
-- `at_most` (1000) in a call. Each is redriven once, however many callers there are: a letter that
-- another call is redriving is skipped. Lost ones, which may have taken effect, are left out unless
-- also_lost is true, and so are letters whose unique key another run has, and those that can't be
-- run again: their args were erased, or their workflow has no definition. With `rate` that many
-- become due in each interval `per`, the first at `starting`: give the next call the last due_at
-- and one step more. Returns the letters, their new runs, and when those are due.
CREATE FUNCTION pgcron.redrive_many(fingerprint text DEFAULT NULL, handler text DEFAULT NULL,
    queue text DEFAULT NULL, error_class text DEFAULT NULL, schedule text DEFAULT NULL,
    tags text[] DEFAULT NULL, owner text DEFAULT NULL, since timestamptz DEFAULT NULL,
    until timestamptz DEFAULT NULL, also_lost boolean DEFAULT false, args jsonb DEFAULT NULL,
    rate int DEFAULT NULL, per interval DEFAULT '1 minute', starting timestamptz DEFAULT NULL,
    at_most int DEFAULT 1000, note text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS TABLE (dead_letter bigint, run_id bigint, due_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  letter pgcron.dead_letter;
  step interval;
  seen int;
  room int;
  made int := 0;
BEGIN
  PERFORM pgcron.require_letters(num_nonnulls(fingerprint, handler, queue, error_class, schedule,
        tags, owner, since, until));
  PERFORM pgcron.refuse('PC001', format('a rate of %s per %s is out of range', rate, per),
      'From 1 to 1000000 runs become due in an interval of up to a day.',
      'Write for example rate => 10, per => ''1 minute''.')
    WHERE (rate BETWEEN 1 AND 1000000 AND per > '0' AND per <= '1 day') IS FALSE
      OR (rate IS NOT NULL AND per IS NULL);
  PERFORM pgcron.refuse('PC001', format('at_most %s is out of range', at_most),
      'One call runs 1 to 1000 letters again.', 'Call it until it returns nothing.')
    WHERE (at_most BETWEEN 1 AND 1000) IS NOT TRUE;
  step := CASE WHEN rate IS NULL THEN interval '0' ELSE per / rate END;
  due_at := greatest(starting, now());
  LOOP
    seen := 0;
    room := at_most - made;
    FOR letter IN SELECT d.* FROM pgcron.dead_letter d
        CROSS JOIN LATERAL pgcron.team_of(d.schedule_id, d.queue) t
        WHERE d.closed_at IS NULL
          AND pgcron.letter_fits(d, redrive_many.fingerprint, redrive_many.handler,
              redrive_many.queue, redrive_many.error_class, redrive_many.schedule,
              redrive_many.tags, redrive_many.owner, t.team, since, until)
          AND (also_lost OR d.outcome = 'dead')
          AND pgcron.in_scope(d.schedule_id, d.queue, d.handler, d.schedule, d.tags, t.team)
          AND (d.unique_key IS NULL OR d.unique_scope = 'period'
               OR pgcron.run_with_key(d.unique_key, d.handler, d.namespace) IS NULL)
          AND (coalesce(redrive_many.args, d.args) ? '$erased') IS FALSE
          AND (d.handler <> 'workflow:ad_hoc'
               OR EXISTS (SELECT FROM pgcron.workflow_run w WHERE w.run = d.run_id))
        ORDER BY d.died_at, d.run_id LIMIT room FOR UPDATE OF d SKIP LOCKED LOOP
      seen := seen + 1;
      run_id := pgcron.run_of_letter(letter, redrive_many.args, due_at, actor);
      CONTINUE WHEN run_id IS NULL;      -- an older letter of these has its key now
      dead_letter := letter.run_id;
      made := made + 1;
      RETURN NEXT;
      due_at := due_at + step;
    END LOOP;
    EXIT WHEN made = at_most OR seen < room;
  END LOOP;
  PERFORM pgcron.record_audit('redrive', 'run', NULL, actor, note, after => jsonb_strip_nulls(
      jsonb_build_object('count', made, 'fingerprint', fingerprint, 'handler', handler,
        'queue', queue, 'error_class', error_class, 'schedule', schedule, 'tags', tags,
        'owner', owner, 'since', since, 'until', until, 'also_lost', also_lost, 'args', args,
        'rate', rate, 'per', CASE WHEN rate IS NOT NULL THEN per END)))
    WHERE made > 0;
END $$;
COMMENT ON FUNCTION pgcron.redrive_many IS
    'Runs dead letters again by filter, throttled with rate and per; each once. owner is that of '
    'the schedule, else the team of the queue.';
