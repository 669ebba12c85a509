-- Retention by queue and outcome. Rules shorten what history keeps: a sweep goes through each day
-- that is over, a few pages at a time, and removes the runs whose time is over. It locks nothing
-- that a claim or the end of a run needs.

CREATE TABLE pgcron.retention_rule (
  queue text CONSTRAINT a_retention_rule_names_a_queue CHECK (pgcron.is_queue(queue)),
  outcome text CHECK (pgcron.is_one_of('outcome', outcome,
        '{succeeded,dead,cancelled,skipped,superseded,expired,lost,upstream_failed}',
        'Runs end succeeded, dead, lost, cancelled, expired, skipped, superseded or '
        'upstream_failed.',
        'Leave it out for every outcome.')),
  keep interval NOT NULL CONSTRAINT a_retention_rule_keeps_a_day
    CHECK (pgcron.is_within('retention', keep, '1 day', '36525 days',
        'Rows are kept for a day to 36525 days (a century).', 'Keep at least ''1 day''.')),
  set_by text NOT NULL DEFAULT session_user,
  set_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE pgcron.retention_rule IS
    'How long ended runs of a queue (NULL: every queue) that ended so (NULL: however) are kept, '
    'if not as long as history. The most specific rule counts: queue and outcome, queue, outcome, '
    'neither.';
CREATE UNIQUE INDEX retention_rule_once ON pgcron.retention_rule (coalesce(queue, ''),
    coalesce(outcome, ''));

CREATE TABLE pgcron.retention_sweep (
  partition text PRIMARY KEY,
  until timestamptz NOT NULL,
  -- The rules that it follows: changed ones begin it again, and so does another file, since page
  -- is a place in this one.
  rules text NOT NULL,
  began_at timestamptz NOT NULL,
  file oid,
  page bigint NOT NULL DEFAULT 0,
  ended_at timestamptz,
  removed bigint NOT NULL DEFAULT 0,
  remaining bigint NOT NULL DEFAULT 0,
  -- Removed since the file was last rewritten; nothing when its space was given back.
  gone bigint NOT NULL DEFAULT 0,
  bytes bigint,
  tries int NOT NULL DEFAULT 0,
  tried_at timestamptz
);
COMMENT ON TABLE pgcron.retention_sweep IS
    'How far the runs of a day of history have been looked at by the rules of retention, and '
    'whether its space was given back.';

-- How long a run of the queue that ended so is kept. The default that holds for what no rule is
-- about is history's own.
CREATE FUNCTION pgcron.history_keep(queue text, outcome text) RETURNS interval
LANGUAGE sql STABLE AS $$
  SELECT least(kept.keep,
           (SELECT r.keep FROM pgcron.retention_rule r
            WHERE (r.queue IS NULL OR r.queue = history_keep.queue)
              AND (r.outcome IS NULL OR r.outcome = history_keep.outcome)
            ORDER BY r.queue IS NULL, r.outcome IS NULL LIMIT 1))
  FROM pgcron.retention kept WHERE kept.relation = 'history' $$;

CREATE FUNCTION pgcron.set_retention(keep interval, queue text DEFAULT NULL,
    outcome text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC001',
           format('retention of %s is longer than that of history',
             justify_hours(set_retention.keep)),
           format('Rules shorten what is kept: after %s whole days of history are dropped.',
             h.keep),
           'Raise that first, by pgcron.set_table_retention(''history'', …), and shorten the '
           'others by rules.')
  FROM pgcron.retention h WHERE h.relation = 'history' AND set_retention.keep > h.keep;
  SELECT pgcron.act_as(actor);
  INSERT INTO pgcron.retention_rule AS r (queue, outcome, keep, set_by)
  VALUES (set_retention.queue, set_retention.outcome, justify_hours(set_retention.keep),
          coalesce(set_retention.actor, session_user))
  ON CONFLICT (coalesce(queue, ''), coalesce(outcome, '')) DO UPDATE SET keep = EXCLUDED.keep,
    set_by = EXCLUDED.set_by, set_at = now() $$;
COMMENT ON FUNCTION pgcron.set_retention IS
    'Keeps ended runs of a queue (or of every queue) that ended so (or however) for a shorter '
    'time than history. What is over is removed within the hour, day by day.';

CREATE FUNCTION pgcron.delete_retention(queue text DEFAULT NULL, outcome text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.act_as(actor);
  WITH gone AS (
    DELETE FROM pgcron.retention_rule r
    WHERE r.queue IS NOT DISTINCT FROM delete_retention.queue
      AND r.outcome IS NOT DISTINCT FROM delete_retention.outcome RETURNING 1)
  SELECT pgcron.refuse('PC010',
           format('there is no retention rule for %s and %s',
             coalesce('queue ' || quote_literal(left(delete_retention.queue, 200)), 'every queue'),
             coalesce('outcome ' || quote_literal(left(delete_retention.outcome, 200)),
               'every outcome')),
           'A rule is named by its queue and its outcome.',
           '`pgcron-ha retention list` lists them.')
  WHERE NOT EXISTS (SELECT FROM gone) $$;
COMMENT ON FUNCTION pgcron.delete_retention IS
    'Removes a retention rule: what it was about is kept as the next less specific rule says, or '
    'as long as history.';

CREATE FUNCTION pgcron.set_table_retention(relation text, keep interval,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.act_as(actor);
  WITH kept AS (
    UPDATE pgcron.retention r SET keep = justify_hours(set_table_retention.keep),
      set_by = coalesce(set_table_retention.actor, session_user), set_at = now()
    WHERE r.relation = set_table_retention.relation RETURNING 1)
  SELECT pgcron.refuse('PC010',
           format('%L is no table with a retention', left(set_table_retention.relation, 200)),
           'Those are occurrence, history, attempt, log and audit.',
           'SELECT relation, keep FROM pgcron.retention lists them.')
  WHERE NOT EXISTS (SELECT FROM kept) $$;
COMMENT ON FUNCTION pgcron.set_table_retention IS
    'How long occurrence (the ledger), history, attempt, log or audit is kept: whole partitions '
    'are dropped after it.';

-- What must stay of a schedule whatever the rules say: its newest 10 runs and 10 successes (what
-- depends on the previous one, how long a run may be expected to take), and the runs of its last
-- two fires. As with the expected duration no more than its newest 200 runs are looked at.
CREATE FUNCTION pgcron.runs_to_keep(of_schedule bigint) RETURNS SETOF bigint
LANGUAGE sql STABLE ROWS 20
BEGIN ATOMIC
  WITH newest AS MATERIALIZED (
    SELECT h.id, h.outcome FROM pgcron.history h WHERE h.schedule_id = of_schedule
    ORDER BY h.finished_at DESC LIMIT 200)
  (SELECT n.id FROM newest n WHERE n.outcome = 'succeeded' LIMIT 10)
  UNION ALL
  (SELECT n.id FROM newest n WHERE n.outcome NOT IN ('skipped', 'superseded') LIMIT 10)
  UNION ALL
  (SELECT o.run_id FROM pgcron.occurrence o
   WHERE o.schedule_id = of_schedule AND o.fire_at <= now()
     AND o.decision NOT IN ('skipped', 'superseded')
   ORDER BY o.fire_at DESC LIMIT 2);
END;

-- A fingerprint of the rules.
CREATE FUNCTION pgcron.retention_word() RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT md5(coalesce(jsonb_agg(jsonb_build_array(r.queue, r.outcome, extract(epoch FROM r.keep))
                 ORDER BY r.queue COLLATE "C", r.outcome COLLATE "C")::text,
               ''))
  FROM pgcron.retention_rule r $$;

-- Days of history to be swept: never swept yet, by other rules, not to the end, or since when
-- another rule has become due. A day is swept when it is over for a rule as a whole, as partitions
-- are dropped.
CREATE FUNCTION pgcron.unswept_partitions()
  RETURNS TABLE (partition text, until timestamptz, is_begun boolean)
LANGUAGE sql STABLE AS $$
  SELECT day.name, day.high,
         s.ended_at IS NULL AND s.rules = word.rules AND s.file = pg_relation_filenode(day.id)
  FROM pgcron.partitions_of('history') day
  CROSS JOIN (SELECT pgcron.retention_word() AS rules) word
  LEFT JOIN pgcron.retention_sweep s ON s.partition = day.name
  WHERE isfinite(day.low) AND NOT day.is_detached
    AND EXISTS (SELECT FROM pgcron.retention_rule r WHERE day.high <= now() - r.keep)
    AND (s.partition IS NULL OR s.rules <> word.rules OR s.ended_at IS NULL
         OR EXISTS (SELECT FROM pgcron.retention_rule r
                    WHERE day.high <= now() - r.keep AND day.high > s.began_at - r.keep))
  ORDER BY day.high $$;

-- Removes what is over from the next few pages of one day. While another session works on a day,
-- the next day is taken. No row: there is nothing to do now. What goes with a run: its attempts and
-- its lines; those of an open dead letter stay. What stays although it is over: what
-- pgcron.runs_to_keep says; runs made of another run of a schedule, by which a backfill sees that a
-- fire was made good; those whose fire time has come only within a day, and those that an
-- unfinished backfill has still to count.
CREATE FUNCTION pgcron.sweep_history(pages int DEFAULT 64, OUT partition text, OUT removed int,
    OUT removed_in_all bigint, OUT remaining bigint, OUT is_over boolean) RETURNS SETOF record
LANGUAGE plpgsql SECURITY DEFINER SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
DECLARE
  unswept record;
  day regclass;
  is_begun boolean;
  held pgcron.retention_sweep;
  seen int;
  next_page bigint;
  going bigint[];
  first_at timestamptz;
BEGIN
  FOR unswept IN SELECT u.partition, u.until FROM pgcron.unswept_partitions() u LOOP
    -- an INSERT that conflicts would wait for the session that holds the row
    IF NOT EXISTS (SELECT FROM pgcron.retention_sweep s WHERE s.partition = unswept.partition) THEN
      INSERT INTO pgcron.retention_sweep (partition, until, rules, began_at)
      VALUES (unswept.partition, unswept.until, '', now()) ON CONFLICT DO NOTHING;
    END IF;
    SELECT s.* INTO held FROM pgcron.retention_sweep s WHERE s.partition = unswept.partition
    FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN held.partition IS NULL;      -- another session is at it
    -- As it is now that it is locked: another one may have ended it a moment ago.
    SELECT u.is_begun, to_regclass(format('pgcron.%I', u.partition)) INTO is_begun, day
    FROM pgcron.unswept_partitions() u WHERE u.partition = held.partition;
    EXIT WHEN day IS NOT NULL;
  END LOOP;
  IF day IS NULL THEN RETURN; END IF;
  IF is_begun IS NOT TRUE THEN
    held.rules := pgcron.retention_word(); held.began_at := now();
    held.file := pg_relation_filenode(day);
    held.page := 0; held.remaining := 0;
  END IF;
  next_page := held.page + greatest(sweep_history.pages, 1);
  EXECUTE format($sweep$
    WITH page AS MATERIALIZED (
      SELECT h.ctid AS place, h.id, h.queue, h.outcome, h.origin, h.schedule_id, h.scheduled_for,
             h.parent_run,
             CASE WHEN h.attempt > 1 OR h.snoozes > 0 THEN h.created_at
                  ELSE coalesce(h.claimed_at, h.created_at) END AS first_at
        FROM ONLY %1$s h WHERE h.ctid >= $1 AND h.ctid < $2),
    kind AS MATERIALIZED (
      SELECT k.queue, k.outcome FROM (SELECT DISTINCT p.queue, p.outcome FROM page p) k
      WHERE $4 <= $3 - pgcron.history_keep(k.queue, k.outcome)),
    due AS MATERIALIZED (SELECT p.* FROM page p
        JOIN kind k ON k.queue = p.queue AND k.outcome = p.outcome),
    kept AS MATERIALIZED (
      SELECT k.id FROM (SELECT DISTINCT d.schedule_id FROM due d WHERE d.schedule_id IS NOT NULL) d
      JOIN pgcron.schedule s ON s.id = d.schedule_id
      CROSS JOIN LATERAL pgcron.runs_to_keep(s.id) k(id)),
    uncounted AS MATERIALIZED (SELECT b.run_id FROM pgcron.backfill_run b WHERE b.outcome IS NULL),
    going AS MATERIALIZED (
      SELECT d.*, d.outcome IN ('dead', 'lost')
          AND EXISTS (SELECT FROM pgcron.dead_letter l
              WHERE l.run_id = d.id AND l.closed_at IS NULL) AS is_letter
      FROM due d
       WHERE d.schedule_id IS NULL
          OR (d.parent_run IS NULL AND coalesce(d.scheduled_for <= now() - interval '1 day', true)
              AND d.id NOT IN (SELECT k.id FROM kept k WHERE k.id IS NOT NULL)
              AND (d.origin <> 'backfill' OR d.id NOT IN (SELECT u.run_id FROM uncounted u)))),
    removed AS (DELETE FROM ONLY %1$s h WHERE h.ctid = ANY(ARRAY(SELECT g.place FROM going g))
        RETURNING h.id)
    SELECT (SELECT count(*) FROM page), count(*),
           coalesce(array_agg(g.id) FILTER (WHERE NOT g.is_letter), '{}'),
           min(g.first_at) FROM going g JOIN removed r ON r.id = g.id $sweep$,
        day) INTO seen, removed, going, first_at
  USING format('(%s,0)', held.page)::tid, format('(%s,0)', next_page)::tid, held.began_at,
    held.until;
  IF going <> '{}' THEN
    -- By their time, so that no partition is looked into that can't have them; lines have the time
    -- of a node's clock.
    DELETE FROM pgcron.attempt a
    WHERE a.run_id = ANY(going) AND a.ended_at >= first_at
      AND a.ended_at < held.until + interval '1 hour';
    DELETE FROM pgcron.log l
    WHERE l.run_id = ANY(going) AND l.at >= first_at - interval '1 hour'
      AND l.at < held.until + interval '1 hour';
  END IF;
  partition := held.partition;
  is_over := next_page >= pg_relation_size(day) / current_setting('block_size')::int;
  UPDATE pgcron.retention_sweep s
  SET rules = held.rules, began_at = held.began_at, file = held.file,
      page = next_page, ended_at = CASE WHEN is_over THEN now() END,
      removed = s.removed + sweep_history.removed, gone = s.gone + sweep_history.removed,
      remaining = held.remaining + seen - sweep_history.removed,
      tries = CASE WHEN is_begun THEN s.tries ELSE 0 END
  WHERE s.partition = held.partition RETURNING s.removed, s.remaining
  INTO removed_in_all, remaining;
  RETURN NEXT;
END $$;

-- Days of which half or more is gone and that are so small (100,000 runs left, 1 GiB) that their
-- table is rewritten within about a second. Each for one caller an hour, and a day long: who looks
-- at old runs, or keeps a snapshot, is not disturbed. A larger one keeps its room until the day is
-- dropped, and so does each while no node has the owner's rights: only the owner rewrites tables.
CREATE FUNCTION pgcron.spent_partitions() RETURNS SETOF text
LANGUAGE sql VOLATILE AS $$
  DELETE FROM pgcron.retention_sweep s
  WHERE to_regclass(format('pgcron.%I', s.partition)) IS NULL
    AND s.until < pgcron.kept_since('history');
  UPDATE pgcron.retention_sweep s
  SET tries = s.tries + 1, tried_at = now(),
      bytes = pg_relation_size(to_regclass(format('pgcron.%I', s.partition)))
  WHERE s.partition = ANY(ARRAY(
        SELECT e.partition FROM pgcron.retention_sweep e
        WHERE e.ended_at IS NOT NULL AND e.gone > 0 AND e.gone >= e.remaining
          AND e.remaining <= 100000 AND e.tries < 24
          AND pg_has_role((SELECT c.relowner FROM pg_catalog.pg_class c
                  WHERE c.oid = 'pgcron.history'::regclass), 'USAGE')
          AND coalesce(e.tried_at < now() - interval '50 minutes', true)
          AND pg_relation_size(to_regclass(format('pgcron.%I', e.partition))) BETWEEN 1048576 AND
              1073741824
        ORDER BY e.until FOR UPDATE SKIP LOCKED))
  RETURNING s.partition $$;
