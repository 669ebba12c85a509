-- How attempts end that failed, were refused, or whose node is gone.

-- ready, running -> dead
-- A run that can't be written, judged or ended as usual: it breaks a rule that is newer than its
-- row, or has a value that can't be read. It ends dead with the reason as its error. The executing
-- node gives the claim's token; of a waiting run the token is NULL. What makes the row unreadable
-- is not kept. The last resort depends on no more than it must: it writes where no partition, index
-- or rule of history is in the way, and does not count for pause_after_failures. Returns whether
-- this call ended the run.
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
    PERFORM pgcron.end_run(ending, 'dead', class, reason, NULL, node_name);
  EXCEPTION WHEN others THEN
    IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
    SELECT rest.* INTO STRICT ending
    FROM (SELECT r.id, r.uuid, r.origin, r.schedule_id, r.schedule, r.scheduled_for, r.queue,
                 r.priority, r.handler, '{}'::jsonb AS args, r.delivery, r.attempt,
                 r.due_at, r.created_at, r.created_by, r.created_login, r.namespace, r.claimed_at,
                 r.started_at, r.owner, r.fence
          FROM pgcron.run r WHERE r.id = end_refused_run.run) kept
    CROSS JOIN LATERAL jsonb_populate_record(NULL::pgcron.run, to_jsonb(kept)) rest;
    IF ending.origin = 'step' THEN
      PERFORM pgcron.step_ended(ending.id, 'dead', NULL, reason);
    ELSE
      PERFORM pgcron.write_letter(ending, 'dead', class, reason, NULL);
    END IF;
    INSERT INTO pgcron.history_overflow
    SELECT h.* FROM pgcron.history_of(ending, 'dead', reason, node_name) h;
    PERFORM pgcron.workflows_ended(ARRAY[ending.id], 'dead');
    DELETE FROM pgcron.run r WHERE r.id = ending.id;
  END;
  RETURN true;
END $$;

-- running -> ready, dead, lost, cancelled
-- By the owner, fenced by the token: a run that is not returned is not the caller's any more. An
-- array of objects: what an attempt_end has, the token, and for how many seconds the handler has
-- executed (elapsed; none: it never began).
CREATE FUNCTION pgcron.fail_runs(ends jsonb) RETURNS TABLE (run_id bigint, verdict text)
LANGUAGE plpgsql AS $$
DECLARE
  run_ids bigint[] := ARRAY(SELECT (e -> 'run_id')::bigint FROM jsonb_array_elements(ends) e);
  held bigint[];
BEGIN
  held := ARRAY(SELECT r.id FROM jsonb_to_recordset(ends) e(run_id bigint, token uuid)
                JOIN pgcron.run r ON r.id = e.run_id AND r.token = e.token
                WHERE r.id = ANY(run_ids) ORDER BY r.id FOR UPDATE OF r);
  UPDATE pgcron.run r
  SET started_at = coalesce(r.started_at, clock_timestamp() - make_interval(secs => e.elapsed))
  FROM jsonb_to_recordset(ends) e(run_id bigint, token uuid, elapsed float8)
  WHERE r.id = ANY(held) AND r.id = e.run_id AND r.token = e.token AND e.elapsed IS NOT NULL;
  RETURN QUERY SELECT ended.*
    FROM pgcron.end_attempts(ARRAY(
        SELECT jsonb_populate_record(NULL::pgcron.attempt_end, e)
        FROM jsonb_array_elements(ends) e
        JOIN pgcron.run r ON r.id = (e -> 'run_id')::bigint AND r.token = (e ->> 'token')::uuid
        WHERE r.id = ANY(held))) ended;
END $$;

-- ready -> succeeded
-- blocked -> succeeded
-- A node that was cut off has finished these runs, and has lost them meanwhile: what no other node
-- has begun since need not be done again. The fence number is that of the last attempt, which ended
-- lease_lost and stays so in the list of attempts. Locked rows, which are being claimed or
-- cancelled, are left alone. Returns the runs that ended.
CREATE FUNCTION pgcron.finish_late(run_ids bigint[], fences bigint[], results text[],
    node_name text, without_args bigint[], declared jsonb) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  late record;
  ending pgcron.run;
BEGIN
  FOR late IN SELECT r AS run, last.owner, last.fence, last.claimed_at, last.started_at,
             given.result
      FROM unnest(run_ids, fences, results) given(id, fence, result)
      JOIN pgcron.run r ON r.id = given.id
      CROSS JOIN LATERAL (SELECT a.* FROM pgcron.attempt a
                          WHERE a.run_id = r.id AND a.attempt >= r.attempt ORDER BY a.fence DESC
                          LIMIT 1) last
      WHERE r.id = ANY(run_ids) AND r.state <> 'running' AND r.delivery = 'at_least_once'
        -- a claim of a workflow has done nothing yet
        AND r.handler NOT LIKE 'workflow:%'
        AND last.fence = given.fence AND last.attempt = r.attempt AND last.outcome = 'lease_lost'
      FOR UPDATE OF r SKIP LOCKED LOOP
    ending := late.run;
    ending.owner := late.owner; ending.fence := late.fence; ending.claimed_at := late.claimed_at;
    ending.started_at := coalesce(late.started_at, late.claimed_at);
    IF ending.id = ANY(without_args) THEN ending.args := NULL; END IF;
    PERFORM pgcron.keep_declared(ending.id, declared -> ending.id::text);
    PERFORM pgcron.end_run(ending, 'succeeded', NULL, NULL, NULL, node_name, late.result::jsonb);
    RETURN NEXT ending.id;
  END LOOP;
END $$;

-- Sessions that runs still name as their owner and that are not alive: each owner once, by one
-- index descent, not each running row.
CREATE FUNCTION pgcron.gone_owners() RETURNS SETOF uuid
LANGUAGE sql STABLE AS $$
  WITH RECURSIVE owners(owner) AS (
    (SELECT r.owner FROM pgcron.run r WHERE r.state = 'running' ORDER BY r.owner LIMIT 1)
    UNION ALL
    SELECT (SELECT r.owner FROM pgcron.run r WHERE r.state = 'running' AND r.owner > o.owner
            ORDER BY r.owner LIMIT 1)
    FROM owners o WHERE o.owner IS NOT NULL)
  SELECT o.owner FROM owners o LEFT JOIN pgcron.node n ON n.incarnation = o.owner
  WHERE o.owner IS NOT NULL AND (n.incarnation IS NULL OR n.state = 'dead') $$;

-- running -> ready, dead, lost, cancelled, succeeded
-- Ends attempts whose node is dead, or only some of them: retried, dead, lost (at_most_once),
-- cancelled, or as the service that was called has answered, which was acknowledged. Any node may
-- call it: it looks for what runs under a session that is not alive. Rows that are locked are left
-- for the next call. A row is locked by its owner: one that was reaped and claimed anew meanwhile
-- has another.
CREATE FUNCTION pgcron.reap_runs(at_most int, only_these bigint[] DEFAULT NULL)
  RETURNS TABLE (run_id bigint, verdict text)
LANGUAGE plpgsql AS $$
DECLARE
  held bigint[];
  orphan record;
  ending pgcron.run;
  answer pgcron.callback;
  ends pgcron.attempt_end[];
  class text;
BEGIN
  held := ARRAY(
      SELECT r.id FROM pgcron.gone_owners() g(owner)
      CROSS JOIN LATERAL (SELECT r.id FROM pgcron.run r
                          WHERE r.state = 'running' AND r.owner = g.owner
                            AND (only_these IS NULL OR r.id = ANY(only_these))
                          LIMIT at_most FOR UPDATE SKIP LOCKED) r
      LIMIT at_most);
  -- A new statement: it sees what services answered until the rows were locked.
  FOR orphan IN SELECT r AS run, c AS answer, coalesce(n.name, r.owner::text) AS node_name,
             coalesce(n.ended_because, 'its session is gone') AS ended_because
      FROM pgcron.run r
      LEFT JOIN pgcron.callback c ON c.run_id = r.id AND c.fence = r.fence
      LEFT JOIN pgcron.node n ON n.incarnation = r.owner
      WHERE r.id = ANY(held) ORDER BY r.id LOOP
    ending := orphan.run;
    answer := orphan.answer;
    IF answer.status = 'succeeded' THEN
      ending.started_at := coalesce(ending.started_at, answer.opened_at);
      PERFORM pgcron.end_run(ending, 'succeeded', NULL, NULL, NULL, orphan.node_name,
          answer.result);
      run_id := ending.id;
      verdict := 'succeeded';
      RETURN NEXT;
    ELSIF answer.status IS NULL THEN
      ends := ends || ROW(ending.id, 'lease_lost', true, NULL, 'LeaseLost',
            format('Node %L ended (%s) while it executed this attempt.', orphan.node_name,
              orphan.ended_because),
            NULL, 'LeaseLost', NULL, orphan.node_name)::pgcron.attempt_end;
    ELSE
      class := CASE answer.status WHEN 'retry' THEN 'Retry' ELSE 'OperationFailed' END;
      ends := ends || ROW(ending.id, 'failed', answer.status <> 'discarded', answer.retry_after,
            class, answer.error, NULL,
            concat_ws(' ', class, CASE class WHEN 'Retry' THEN 'pgcron_ha.Retry' END), NULL,
            orphan.node_name)::pgcron.attempt_end;
    END IF;
  END LOOP;
  RETURN QUERY SELECT e.* FROM pgcron.end_attempts(ends) e;
  IF FOUND THEN PERFORM pgcron.wake_nodes('admit'); END IF;
END $$;
