-- How attempts end that failed, were refused, or whose node is gone.

-- ready, running -> dead
-- A run that can't be written, judged or ended as usual: it breaks a rule that is newer than its
-- row, or has a value that nobody can read. It ends dead with the reason as its error; who executes
-- it gives the claim's token, of a waiting run the token is NULL. What makes the row unreadable
-- stays behind. Returns whether it was this that ended the run.
CREATE FUNCTION pgcron.end_refused_run(run bigint, token uuid, reason text,
    node_name text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  ending pgcron.run;
  class text := 'RunRefused';
BEGIN
  -- Only the row's lock is taken: an UPDATE would be judged.
  PERFORM FROM pgcron.run r
    WHERE r.id = end_refused_run.run AND r.token IS NOT DISTINCT FROM end_refused_run.token
    FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  BEGIN
    SELECT r.* INTO STRICT ending FROM pgcron.run r WHERE r.id = end_refused_run.run;
    PERFORM pgcron.end_run(ending, 'dead', class, reason,
        left(md5(class || ' ' || ending.handler), 16), node_name);
  EXCEPTION WHEN others THEN
    IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
    WITH ended AS (
      DELETE FROM pgcron.run r WHERE r.id = end_refused_run.run
      RETURNING r.id, r.uuid, r.origin, r.schedule_id, r.schedule, r.scheduled_for, r.queue,
                r.priority, r.handler, r.delivery, r.attempt, r.due_at, r.created_at, r.created_by,
                r.claimed_at, r.started_at, r.owner, r.fence),
    letter AS (
      INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, schedule_id, schedule, scheduled_for,
            queue, priority, handler, args, delivery, timeout, retry_base, retry_cap, attempts,
            error_class, error, fingerprint)
      SELECT e.id, e.uuid, 'dead', e.schedule_id, e.schedule, e.scheduled_for, e.queue, e.priority,
             e.handler, '{}', e.delivery, '1 hour', '2 seconds', '1 hour', e.attempt, class, reason,
             left(md5(class || ' ' || e.handler), 16)
      FROM ended e ON CONFLICT DO NOTHING)
    INSERT INTO pgcron.history_overflow (id, uuid, origin, schedule_id, schedule, scheduled_for,
          queue, priority, handler, args, delivery, outcome, attempt, due_at, created_at,
          created_by, claimed_at, started_at, owner, node, fence, error)
    SELECT e.id, e.uuid, e.origin, e.schedule_id, e.schedule, e.scheduled_for, e.queue, e.priority,
           e.handler, '{}', e.delivery, 'dead', e.attempt, e.due_at, e.created_at, e.created_by,
           e.claimed_at, e.started_at, e.owner, node_name, e.fence, reason
    FROM ended e;
  END;
  RETURN true;
END $$;

-- running -> ready, dead, lost, cancelled
-- By the owner, fenced by the token: what is not returned was not the caller's any more.
CREATE FUNCTION pgcron.fail_runs(run_ids bigint[], tokens uuid[], kinds text[],
    retryables boolean[], retry_afters float8[], elapsed_seconds float8[], error_classes text[],
    errors text[], tracebacks text[], causes text[], fingerprints text[], node_name text)
  RETURNS TABLE (run_id bigint, verdict text)
LANGUAGE plpgsql AS $$
DECLARE
  held bigint[];
BEGIN
  SELECT array_agg(locked.id) INTO held
  FROM (SELECT r.id FROM unnest(run_ids, tokens) u(id, token)
        JOIN pgcron.run r ON r.id = u.id AND r.token = u.token WHERE r.id = ANY(run_ids)
        ORDER BY r.id FOR UPDATE OF r) locked;
  IF held IS NULL THEN RETURN; END IF;
  UPDATE pgcron.run r
  SET started_at = coalesce(r.started_at, clock_timestamp() - make_interval(secs => u.elapsed))
  FROM unnest(run_ids, elapsed_seconds) u(id, elapsed)
  WHERE r.id = ANY(held) AND r.id = u.id AND u.elapsed IS NOT NULL;
  RETURN QUERY SELECT e.run_id, e.verdict
    FROM (SELECT array_agg(u.id) ids, array_agg(u.kind) kinds, array_agg(u.retryable) retryables,
                 array_agg(u.retry_after) retry_afters, array_agg(u.error_class) error_classes,
                 array_agg(u.error) errors, array_agg(u.traceback) tracebacks,
                 array_agg(u.causes) causes, array_agg(u.fingerprint) fingerprints,
                 array_agg(node_name) node_names
          FROM unnest(run_ids, fail_runs.kinds, fail_runs.retryables, fail_runs.retry_afters,
              fail_runs.error_classes, fail_runs.errors, fail_runs.tracebacks, fail_runs.causes,
              fail_runs.fingerprints) u(id, kind, retryable, retry_after, error_class, error,
              traceback, causes, fingerprint)
          WHERE u.id = ANY(held)) g,
      LATERAL pgcron.end_attempts(g.ids, g.kinds, g.retryables, g.retry_afters, g.error_classes,
          g.errors, g.tracebacks, g.causes, g.fingerprints, g.node_names) e;
END $$;

-- ready -> succeeded
-- A node that was cut off has finished these runs, and has lost them meanwhile: what nobody has
-- begun since need not be done again. The fence number is that of the last attempt, which ended
-- lease_lost and stays so in the list of attempts. What somebody is claiming or cancelling just now
-- is left alone. Returns the runs that ended.
CREATE FUNCTION pgcron.finish_late(run_ids bigint[], fences bigint[], results text[],
    node_name text) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  late record;
  ending pgcron.run;
BEGIN
  FOR late IN SELECT r.id, last.owner, last.fence, last.claimed_at, last.started_at, last.ended_at,
             given.result
      FROM unnest(run_ids, fences, results) given(id, fence, result)
      JOIN pgcron.run r ON r.id = given.id
      CROSS JOIN LATERAL (SELECT a.* FROM pgcron.attempt a
                          WHERE a.run_id = r.id AND a.attempt >= r.attempt ORDER BY a.fence DESC
                          LIMIT 1) last
      WHERE r.id = ANY(run_ids) AND r.state = 'ready' AND r.delivery = 'at_least_once'
        AND last.fence = given.fence AND last.attempt = r.attempt AND last.outcome = 'lease_lost'
      FOR UPDATE OF r SKIP LOCKED LOOP
    SELECT r.* INTO STRICT ending FROM pgcron.run r WHERE r.id = late.id;
    ending.owner := late.owner; ending.fence := late.fence; ending.claimed_at := late.claimed_at;
    ending.started_at := coalesce(late.started_at, late.claimed_at);
    PERFORM pgcron.end_run(ending, 'succeeded', NULL, NULL, NULL, node_name, late.result::jsonb);
    RETURN NEXT late.id;
  END LOOP;
END $$;

-- Sessions that runs still name as their owner and that are not alive: each owner once, by one
-- index descent, not each running row.
CREATE FUNCTION pgcron.gone_owners(OUT owner uuid, OUT node_name text, OUT ended_because text)
  RETURNS SETOF record
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE owners(owner) AS (
    (SELECT r.owner FROM pgcron.run r WHERE r.state = 'running' ORDER BY r.owner LIMIT 1)
    UNION ALL
    SELECT (SELECT r.owner FROM pgcron.run r WHERE r.state = 'running' AND r.owner > o.owner
            ORDER BY r.owner LIMIT 1)
    FROM owners o WHERE o.owner IS NOT NULL)
  SELECT o.owner, coalesce(n.name, o.owner::text), coalesce(n.ended_because, 'its session is gone')
  FROM owners o LEFT JOIN pgcron.node n ON n.incarnation = o.owner
  WHERE o.owner IS NOT NULL AND (n.incarnation IS NULL OR n.state = 'dead') $$;

-- running -> ready, dead, lost, cancelled, succeeded
-- Ends attempts whose node is dead, or only some of them: retried, dead, lost (at_most_once),
-- cancelled, or as the service that was called has answered. By anybody, level-triggered: whatever
-- runs under a session that is not alive, or of that only some runs. Rows that somebody has locked
-- are left for the next look, and stand in nobody's way. A row is locked by its owner: one that was
-- reaped and claimed anew meanwhile has another.
CREATE FUNCTION pgcron.reap_runs(at_most int, only_these bigint[] DEFAULT NULL)
  RETURNS TABLE (run_id bigint, verdict text)
LANGUAGE plpgsql AS $$
BEGIN
  RETURN QUERY
    WITH gone AS MATERIALIZED (SELECT * FROM pgcron.gone_owners()),
    held AS MATERIALIZED (
      SELECT r.id, g.node_name, g.ended_because FROM gone g
      CROSS JOIN LATERAL (SELECT r.id FROM pgcron.run r
                          WHERE r.state = 'running' AND r.owner = g.owner
                            AND (only_these IS NULL OR r.id = ANY(only_these))
                          LIMIT at_most FOR UPDATE SKIP LOCKED) r
      LIMIT at_most)
    SELECT e.run_id, e.verdict
    FROM (SELECT array_agg(o.id) ids,
                 array_agg(format('Node %L ended (%s) while it executed this attempt.', o.node_name,
                             o.ended_because)) errors,
                 array_agg(o.node_name) node_names
          FROM held o) g,
      LATERAL pgcron.end_orphans(g.ids, g.errors, g.node_names) e
    WHERE g.ids IS NOT NULL;
END $$;
