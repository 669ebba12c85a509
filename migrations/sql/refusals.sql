-- What the engine leaves out: runs that no claim takes, and settings that break their rules.

-- Waiting runs that the database refuses to let a node claim, with its reason, after a claim was
-- refused as a whole: each is claimed by itself and given back. No change remains.
CREATE FUNCTION pgcron.refused_runs(incarnation uuid, run_ids bigint[])
  RETURNS TABLE (run_id bigint, error text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  tried record;
BEGIN
  FOREACH run_id IN ARRAY refused_runs.run_ids LOOP
    BEGIN
      SELECT r.priority INTO tried FROM pgcron.run r WHERE r.id = run_id AND r.state <> 'running'
      FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
      IF NOT tried.priority BETWEEN 0 AND 9 THEN
        RAISE check_violation USING MESSAGE = format('priority must be between 0 and 9, got %s',
            tried.priority);
      END IF;
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

-- Settings of queues, concurrency keys and circuit breakers that break their rules, as only a row
-- can that was written past its constraints. A queue or key starts nothing until it is corrected; a
-- breaker stays as it is. They hold up nothing else.
CREATE FUNCTION pgcron.broken_settings() RETURNS TABLE (kind text, name text, error text)
LANGUAGE sql STABLE
BEGIN ATOMIC
  SELECT s.kind, s.name,
         CASE WHEN NOT pgcron.rate_is_fine(s.rate, s.per)
                THEN format('its rate is %s in %s', coalesce(s.rate::text, 'NULL'),
                       coalesce(s.per::text, 'NULL'))
              ELSE format('%s must be between 1 and %s, got %s', s.what, s.most, s.number) END
  FROM (SELECT 'queue' AS kind, q.name, q.rate, q.per, 'max_running' AS what,
               q.max_running AS number, 100000 AS most
        FROM pgcron.queue q WHERE NOT q.is_plain
        UNION ALL
        SELECT 'key', l.concurrency_key, l.rate, l.per, 'slots', l.slots, 10000
        FROM pgcron.concurrency_limit l) s
  WHERE NOT pgcron.rate_is_fine(s.rate, s.per) OR NOT coalesce(s.number, 1) BETWEEN 1 AND s.most
  UNION ALL
  SELECT 'breaker', b.name, 'its numbers are out of range' FROM pgcron.breaker b
  WHERE NOT pgcron.breaker_is_fine(b);
END;

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

-- ready -> blocked
-- Blocks those of these runs at a gate that are ready, and returns their ids. Locked rows are left
-- for the next look.
CREATE FUNCTION pgcron.block_ready(run_ids bigint[], gate text) RETURNS SETOF bigint
LANGUAGE sql AS $$
  SELECT pgcron.set_gate(ARRAY(
      SELECT r.id FROM pgcron.run r WHERE r.state = 'ready' AND r.id = ANY(run_ids)
      FOR UPDATE SKIP LOCKED), block_ready.gate) $$;

-- ready -> skipped, superseded, expired, cancelled, upstream_failed, dead
-- blocked -> skipped, superseded, expired, cancelled, upstream_failed, dead
-- As end_waiting_runs, but skips locked runs, and a run that the database refuses to end that way
-- ends dead; the others are ended. Returns the runs that ended with the outcome.
CREATE FUNCTION pgcron.end_each_waiting_run(run_ids bigint[], outcome text, reason text,
    holders bigint[] DEFAULT NULL, by_force boolean DEFAULT false) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  ended bigint[];
  locked bigint[];
  kept bigint[];
BEGIN
  IF run_ids = '{}' THEN RETURN; END IF;
  locked := ARRAY(SELECT r.id FROM pgcron.run r WHERE r.id = ANY(run_ids) ORDER BY r.id
                  FOR UPDATE SKIP LOCKED);
  SELECT coalesce(array_agg(g.id), '{}'), array_agg(g.holder) INTO locked, kept
  FROM unnest(run_ids, holders) g(id, holder) WHERE g.id = ANY(locked);
  BEGIN
    ended := ARRAY(SELECT pgcron.end_waiting_runs(locked, outcome, reason, kept, by_force));
    RETURN QUERY SELECT unnest(ended);
    RETURN;
  EXCEPTION WHEN others THEN
    IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
    IF cardinality(locked) = 1 THEN
      PERFORM pgcron.end_refused_run(locked[1], NULL, SQLERRM);
      RETURN;
    END IF;
  END;
  RETURN QUERY SELECT pgcron.end_each_waiting_run(ARRAY[g.id], outcome, reason, ARRAY[g.holder],
           by_force)
    FROM unnest(locked, kept) g(id, holder);
END $$;

-- Why living nodes do not claim due runs of this queue, as their last beats say; NULL: nothing is
-- known.
CREATE FUNCTION pgcron.claim_trouble(queue text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT format('node %s %s: %s', n.name, CASE trouble.what WHEN '' THEN 'claims nothing'
                    ELSE 'goes on without ' || trouble.what END, trouble.error)
  FROM pgcron.node n
  CROSS JOIN LATERAL jsonb_to_recordset((n.health -> 'failing') || (n.health -> 'without'))
    trouble(service text, what text, error text)
  WHERE n.state = 'alive' AND n.lease_until > now() AND pgcron.scopes() IS NULL
    AND trouble.service = 'dispatcher'
    AND (NOT starts_with(trouble.what, 'limits of queue ')
         OR trouble.what = 'limits of queue ' || quote_literal(claim_trouble.queue))
  ORDER BY trouble.what <> '', 1 LIMIT 1 $$;
