-- What the engine leaves out: runs that the database refuses to let it claim, move or end.

-- Waiting runs that the database refuses to let a node claim, with its reason, after a claim was
-- refused as a whole: each is claimed by itself and given back. No change remains.
CREATE FUNCTION pgcron.refused_runs(incarnation uuid, run_ids bigint[])
  RETURNS TABLE (run_id bigint, error text)
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  FOREACH run_id IN ARRAY refused_runs.run_ids LOOP
    BEGIN
      PERFORM FROM pgcron.run r WHERE r.id = run_id AND r.state <> 'running' FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
      UPDATE pgcron.run r
      SET state = 'ready', gate = NULL,
          overlap_slot = coalesce(r.overlap_slot, CASE r.overlap WHEN 'skip' THEN 1 END,
              CASE WHEN r.overlap IS NOT NULL THEN 32767 END)
      WHERE r.id = run_id;
      UPDATE pgcron.run r
      SET state = 'running', owner = refused_runs.incarnation,
          token = gen_random_uuid(), fence = 0, attempt = r.attempt + 1, claimed_at = now(),
          key_slot = CASE WHEN r.concurrency_key IS NOT NULL THEN 2147483647 END
      WHERE r.id = run_id;
      RAISE EXCEPTION USING ERRCODE = 'PTRY1';      -- it can be claimed: taken back
    EXCEPTION WHEN SQLSTATE 'PTRY1' OR unique_violation OR lock_not_available
      OR deadlock_detected THEN
        CONTINUE;
      WHEN OTHERS THEN
        error := left(SQLERRM, 500);
        RETURN NEXT;
    END;
  END LOOP;
END $$;

-- Whether an error with this SQLSTATE may come from the row that was written. Deadlocks and lost
-- transactions (40), limits (53), locks (55), interventions (57) and failures of the system (58) do
-- not: the same row may be written later.
CREATE FUNCTION pgcron.is_fault_of_row(state text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT left(state, 2) NOT IN ('40', '53', '55', '57', '58') $$;

-- ready -> blocked
-- blocked -> ready
-- Blocks waiting runs at a gate (NULL opens the one they wait at) and returns their ids. A run that
-- never began gives its overlap slot back, and waits for another one when the gate opens. A run
-- that the database refuses to write ends dead, with the reason; the others are written.
CREATE FUNCTION pgcron.set_gate(run_ids bigint[], gate text) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  written bigint[];
  is_to_decide boolean;
BEGIN
  IF run_ids = '{}' THEN RETURN; END IF;
  BEGIN
    WITH changed AS (
      UPDATE pgcron.run r
      SET state = CASE WHEN next.gate IS NULL THEN 'ready' ELSE 'blocked' END, gate = next.gate,
          overlap_slot = CASE WHEN next.gate IS NULL OR r.attempt > 0 THEN r.overlap_slot END
      FROM (SELECT w.id, coalesce(set_gate.gate,
                       CASE WHEN w.overlap IS NOT NULL AND w.overlap_slot IS NULL
                              THEN 'overlap' END) AS gate
            FROM pgcron.run w WHERE w.id = ANY(run_ids)) next
      WHERE r.id = ANY(run_ids) AND r.id = next.id AND r.state <> 'running'
      RETURNING r.id, r.overlap IS NOT NULL AND r.state = 'blocked' AS is_to_decide)
    SELECT array_agg(c.id), bool_or(c.is_to_decide) INTO written, is_to_decide FROM changed c;
    IF is_to_decide THEN PERFORM pgcron.wake_nodes('admit'); END IF;
    RETURN QUERY SELECT unnest(written);
    RETURN;
  EXCEPTION WHEN others THEN
    IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
    IF cardinality(run_ids) = 1 THEN
      PERFORM pgcron.end_refused_run(run_ids[1], NULL, SQLERRM);
      RETURN;
    END IF;
  END;
  RETURN QUERY SELECT one.* FROM unnest(run_ids) waiting(id)
    CROSS JOIN LATERAL pgcron.set_gate(ARRAY[waiting.id], set_gate.gate) one;
END $$;

-- ready -> skipped, superseded, expired, cancelled, upstream_failed, dead
-- blocked -> skipped, superseded, expired, cancelled, upstream_failed, dead
-- As end_waiting_runs, but skips locked runs, and those whose end waits for another lock; a run
-- that the database refuses to end that way ends dead. The others are ended. Returns the runs that
-- ended.
CREATE FUNCTION pgcron.end_each_waiting_run(run_ids bigint[], outcome text, reason text,
    holders bigint[] DEFAULT NULL) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  ended bigint[];
  locked bigint[];
  kept bigint[];
BEGIN
  locked := ARRAY(SELECT r.id FROM pgcron.run r WHERE r.id = ANY(run_ids) ORDER BY r.id
                  FOR UPDATE SKIP LOCKED);
  SELECT coalesce(array_agg(g.id), '{}'), array_agg(g.holder) INTO locked, kept
  FROM unnest(run_ids, holders) g(id, holder) WHERE g.id = ANY(locked);
  BEGIN
    ended := ARRAY(SELECT pgcron.end_waiting_runs(locked, outcome, reason, kept));
    RETURN QUERY SELECT unnest(ended);
    RETURN;
  EXCEPTION WHEN lock_not_available THEN
    IF cardinality(locked) = 1 THEN RETURN; END IF;
    PERFORM set_config('lock_timeout', '200ms', true);
  WHEN others THEN
    IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
    IF cardinality(locked) = 1 THEN
      RETURN QUERY SELECT locked[1] WHERE pgcron.end_refused_run(locked[1], NULL, SQLERRM);
      RETURN;
    END IF;
  END;
  RETURN QUERY SELECT pgcron.end_each_waiting_run(ARRAY[g.id], outcome, reason, ARRAY[g.holder])
    FROM unnest(locked, kept) g(id, holder);
END $$;

-- Why living nodes do not claim due runs of this queue, as their last beats say; NULL: nothing is
-- known.
CREATE FUNCTION pgcron.claim_trouble(queue text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT found.words
  FROM (SELECT 1 AS place, format('node %s claims nothing: %s', n.name, failing.error) AS words
        FROM pgcron.node n
        CROSS JOIN jsonb_to_recordset(n.health -> 'failing') failing(service text, error text)
        WHERE n.state = 'alive' AND n.lease_until > now() AND failing.service = 'dispatcher'
        UNION ALL
        SELECT 2, format('node %s goes on without %s: %s', n.name, aside.what, aside.error)
        FROM pgcron.node n
        CROSS JOIN jsonb_to_recordset(n.health -> 'without') aside(service text, what text,
            error text)
        WHERE n.state = 'alive' AND n.lease_until > now() AND aside.service = 'dispatcher'
          AND (NOT starts_with(aside.what, 'limits of queue ')
               OR aside.what = 'limits of queue ' || quote_literal(claim_trouble.queue))) found
  WHERE pgcron.scopes() IS NULL ORDER BY found.place, found.words LIMIT 1 $$;
