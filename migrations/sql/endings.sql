-- How runs end, and attempts.

-- The row of history of a run that ends. started_at: when the row does not say it.
CREATE FUNCTION pgcron.history_of(r pgcron.run, outcome text, error text,
    node_name text DEFAULT NULL, result jsonb DEFAULT NULL, finished_at timestamptz DEFAULT NULL,
    started_at timestamptz DEFAULT NULL, without_args boolean DEFAULT false)
  RETURNS SETOF pgcron.history
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT r.id, r.due_at, r.created_at, r.claimed_at,
         coalesce(r.started_at, history_of.started_at),
         coalesce(history_of.finished_at, now()), r.fence, r.owner, r.attempt, r.priority, r.uuid,
         r.origin, r.schedule_id, r.schedule, r.scheduled_for, r.nominal_for, r.parent_run, r.queue,
         r.concurrency_key, r.unique_key, r.unique_scope, r.requires, r.weight, r.tags,
         r.handler, CASE WHEN without_args THEN NULL ELSE r.args END, r.delivery,
         history_of.outcome, r.max_attempts, r.timeout, r.retry,
         r.snoozes, r.time_limits, r.created_by, r.created_login, r.namespace,
         history_of.node_name, r.cancel_reason, history_of.error, history_of.result;
END;

-- ready -> skipped, superseded, expired, cancelled, upstream_failed
-- blocked -> skipped, superseded, expired, cancelled, upstream_failed
-- Ends runs that are not running (a workflow is asked to stop, by_force at once); writes history
-- and the ledger in the same transaction. Rows that began to run meanwhile are left alone, and so
-- is one that did and waits for its retry when its start deadline is why. holders: for each run the
-- one that it had to wait for. Returns the runs that ended.
CREATE FUNCTION pgcron.end_waiting_runs(run_ids bigint[], outcome text, reason text,
    holders bigint[] DEFAULT NULL, by_force boolean DEFAULT false) RETURNS SETOF bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  ending bigint[];
  reasons text[];      -- in the same order, each with the run that it had to wait for
BEGIN
  PERFORM pgcron.stop_workflow(r.id, CASE WHEN by_force THEN 'abort' ELSE 'cancel' END,
      end_waiting_runs.reason)
    FROM pgcron.run r WHERE r.id = ANY(run_ids) AND r.gate = 'workflow';
  ending := ARRAY(SELECT r.id FROM pgcron.run r
                  WHERE r.id = ANY(run_ids) AND r.state <> 'running'
                    AND r.gate IS DISTINCT FROM 'workflow'
                    AND (outcome <> 'expired' OR r.attempt = 0)
                  ORDER BY r.id FOR UPDATE);
  IF ending = '{}' THEN RETURN; END IF;
  reasons := ARRAY(
      SELECT DISTINCT ON (id) concat(end_waiting_runs.reason, ' (run ' || holder || ')')
      FROM unnest(run_ids, holders) given(id, holder) JOIN unnest(ending) e(id) USING (id)
      ORDER BY id);
  UPDATE pgcron.occurrence o SET decision = outcome, reason = given.reason, decided_at = now()
  FROM unnest(ending, reasons) given(id, reason) JOIN pgcron.run r ON r.id = given.id
  WHERE r.scheduled_for IS NOT NULL AND o.schedule_id = r.schedule_id
    AND o.fire_at = r.scheduled_for;
  BEGIN
    INSERT INTO pgcron.history
    SELECT h.* FROM unnest(ending, reasons) given(id, reason) JOIN pgcron.run r ON r.id = given.id
    CROSS JOIN LATERAL pgcron.history_of(r, outcome, given.reason) h;
  -- no partition for now(): a run must be able to end all the same
  EXCEPTION WHEN check_violation THEN
    INSERT INTO pgcron.history_overflow
    SELECT h.* FROM unnest(ending, reasons) given(id, reason) JOIN pgcron.run r ON r.id = given.id
    CROSS JOIN LATERAL pgcron.history_of(r, outcome, given.reason) h;
  END;
  IF outcome IN ('skipped', 'superseded') THEN
    INSERT INTO pgcron.given_back (schedule_id, runs)
    SELECT s.id, count(*) FROM pgcron.run r JOIN pgcron.schedule s ON s.id = r.schedule_id
    WHERE r.id = ANY(ending) AND r.origin = 'schedule' AND r.attempt = 0 AND s.max_runs IS NOT NULL
    GROUP BY s.id;
  END IF;
  IF EXISTS (SELECT FROM pgcron.run r WHERE r.id = ANY(ending) AND r.overlap_slot IS NOT NULL) THEN
    PERFORM pgcron.wake_nodes('admit');
  END IF;
  PERFORM pgcron.step_ended(r.id, outcome, NULL, end_waiting_runs.reason) FROM pgcron.run r
    WHERE r.id = ANY(ending) AND r.origin = 'step';
  PERFORM pgcron.workflows_ended(ending, outcome);
  DELETE FROM pgcron.run r WHERE r.id = ANY(ending);
  RETURN QUERY SELECT unnest(ending);
END $$;

-- How one attempt ended. kind: failed, timed_out, lease_lost, cancelled or snoozed; causes: words
-- with a space between them, as retry policies name them.
CREATE TYPE pgcron.attempt_end AS (run_id bigint, kind text, retryable boolean,
  retry_after float8, error_class text, error text, traceback text, causes text, fingerprint text,
  node_name text);

-- What happens to a run whose attempt did not succeed: `retry`, or `snooze` (a retry that uses up
-- no attempt), after a delay, or its outcome; how the attempt is recorded; and why it is not
-- retried when that is not plain from its number.
CREATE FUNCTION pgcron.judge_attempt(run pgcron.run, ended pgcron.attempt_end, OUT verdict text,
    OUT delay interval, OUT recorded text, OUT because text)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  kind text := ended.kind;
  causes text[] := string_to_array(ended.causes, ' ') || kind;
  policy jsonb := run.retry;
  budget interval := pgcron.policy_interval(policy -> 'retry_for');
  most_snoozes int := coalesce((policy ->> 'snoozes')::int, 1000);
  after interval := make_interval(secs => ended.retry_after);
BEGIN
  recorded := kind;
  verdict := CASE
      WHEN kind = 'cancelled' OR run.cancel_at IS NOT NULL THEN 'cancelled'
      WHEN run.delivery = 'at_most_once'
        THEN CASE kind WHEN 'lease_lost' THEN 'lost' ELSE 'dead' END
      WHEN ended.retryable AND run.attempt < pgcron.attempts_allowed(run.max_attempts, run.delivery)
        THEN 'retry'
      ELSE 'dead' END;
  IF verdict = 'cancelled' THEN
    RETURN;
  ELSIF run.delivery = 'at_most_once' THEN
    IF kind = 'snoozed' THEN
      recorded := 'failed';
      because := 'a run that may be executed at most once can''t come back';
    END IF;
    RETURN;
  ELSIF kind = 'lease_lost' AND run.started_at IS NULL AND run.lost_early > 1 THEN
    -- It would end the others, too. The first node may just have held the run; the second one has
    -- recorded before that it prepares it (prepare_runs).
    verdict := 'dead';
    because := 'two nodes ended while they prepared this run, before its handler began';
    RETURN;
  ELSIF kind IN ('failed', 'timed_out', 'lease_lost') AND NOT causes && '{pgcron_ha.Retry}' THEN
    IF policy -> 'discard_on' ?| causes THEN
      verdict := 'dead';
      because := 'its policy discards it';
    ELSIF policy -> 'snooze_on' ?| causes AND kind <> 'lease_lost' THEN
      recorded := 'snoozed';
      SELECT pgcron.policy_interval(policy -> 'snooze_on' -> cause) INTO after
      FROM unnest(causes) WITH ORDINALITY named(cause, place) WHERE policy -> 'snooze_on' ? cause
      ORDER BY place LIMIT 1;
    ELSIF verdict = 'retry' AND kind <> 'lease_lost' AND NOT policy -> 'retry_on' ?| causes THEN
      verdict := 'dead';
      because := 'its policy retries other causes';
    END IF;
  END IF;
  IF recorded = 'snoozed' THEN
    verdict := 'snooze';
    IF coalesce(run.snoozes, 0) >= most_snoozes THEN
      verdict := 'dead';
      because := format('it was snoozed %s, which is the most',
          CASE run.snoozes WHEN 1 THEN 'once' ELSE coalesce(run.snoozes, 0) || ' times' END);
    END IF;
  END IF;
  IF verdict IN ('retry', 'snooze') THEN
    -- A node's end is retried at once the first time.
    delay := CASE WHEN after IS NOT NULL THEN after
                  WHEN kind = 'lease_lost' AND run.attempt = 1 THEN interval '0'
                  ELSE pgcron.policy_delay(policy,
                         greatest(run.attempt - coalesce(run.snoozes, 0), 1)) END;
    IF budget IS NOT NULL AND now() + delay > budget + coalesce((
            SELECT min(a.claimed_at) FROM pgcron.attempt a WHERE a.run_id = run.id),
          run.claimed_at) THEN
      verdict := 'dead';
      because := 'its policy retries for ' || budget;
    ELSIF now() + delay >= pgcron.give_up_at(run.time_limits) THEN
      verdict := 'dead';
      because := pgcron.given_up(run.time_limits);
    END IF;
  END IF;
  IF verdict = 'dead' AND recorded = 'snoozed' THEN
    recorded := CASE kind WHEN 'snoozed' THEN 'failed' ELSE kind END;
  END IF;
END $$;

-- running -> ready, dead, lost, cancelled
-- Ends attempts of rows that the caller has locked. Returns what happened to each run.
CREATE FUNCTION pgcron.end_attempts(ends pgcron.attempt_end[])
  RETURNS TABLE (run_id bigint, verdict text)
LANGUAGE plpgsql AS $$
DECLARE
  given pgcron.attempt_end;
  ending pgcron.run;
  judged record;
  broken_constraint text;
  failures jsonb := '[]';
BEGIN
  FOR given IN SELECT e.* FROM unnest(ends) e ORDER BY e.run_id LOOP
    SELECT * INTO STRICT ending FROM pgcron.run r WHERE r.id = given.run_id;
    IF given.retry_after IS NOT NULL THEN
      -- No handler can ask for an instant that there is not.
      given.retry_after := least(greatest(given.retry_after, 0), 31622400);
    END IF;
    judged := pgcron.judge_attempt(ending, given);
    run_id := ending.id;
    verdict := judged.verdict;
    given.kind := judged.recorded;
    IF judged.because IS NOT NULL THEN
      given.error := concat_ws(' ', given.error, format('(not retried: %s)', judged.because));
    END IF;
    given.fingerprint := coalesce(given.fingerprint,
        left(md5(concat_ws(' ', given.error_class, ending.handler)), 16));
    -- A breaker counts what went wrong with the handler: not what it refused for good, nor a
    -- caller's error (http 4xx), a node's end, a stop.
    IF given.kind IN ('failed', 'timed_out') AND given.retryable AND verdict <> 'cancelled'
        AND judged.because IS DISTINCT FROM 'its policy discards it'
        AND 'http:4xx' <> ALL (coalesce(string_to_array(given.causes, ' '), '{}'))
        AND EXISTS (SELECT FROM pgcron.breaker_handler m WHERE m.handler = ending.handler) THEN
      failures := failures || jsonb_build_object('handler', ending.handler, 'run_id', ending.id,
          'fence', ending.fence, 'error', coalesce(given.error, given.error_class, given.kind));
    END IF;
    BEGIN
      INSERT INTO pgcron.attempt (run_id, attempt, outcome, owner, node, fence, claimed_at,
            started_at, error_class, error, traceback, fingerprint)
      VALUES (ending.id, ending.attempt,
              CASE WHEN verdict = 'cancelled' THEN 'cancelled' ELSE given.kind END, ending.owner,
              given.node_name, ending.fence, ending.claimed_at, ending.started_at,
              given.error_class, given.error, given.traceback, given.fingerprint);
    -- no partition for now(): the run, then history, has the error all the same
    EXCEPTION WHEN check_violation THEN
      GET STACKED DIAGNOSTICS broken_constraint = CONSTRAINT_NAME;
      IF broken_constraint <> '' THEN RAISE; END IF;
      RAISE WARNING 'attempt % of run % is not recorded: %', ending.attempt, ending.id, SQLERRM;
    END;
    IF verdict IN ('retry', 'snooze') THEN
      -- A run of a schedule keeps its overlap slot while it waits: it is not over. The start
      -- deadline was kept by the first attempt; a retry after it would end as expired and hide the
      -- error.
      UPDATE pgcron.run r
      SET state = 'ready', owner = NULL, token = NULL, fence = NULL, claimed_at = NULL,
          started_at = NULL, key_slot = NULL, expire_at = pgcron.give_up_at(ending.time_limits),
          last_error = given.error, due_at = now() + judged.delay,
          lost_early = CASE WHEN given.kind = 'lease_lost' AND ending.started_at IS NULL THEN 1 END,
          snoozes = CASE verdict WHEN 'snooze' THEN coalesce(r.snoozes, 0) + 1 ELSE r.snoozes END,
          max_attempts = CASE verdict
              WHEN 'snooze' THEN pgcron.attempts_allowed(r.max_attempts, r.delivery) + 1
              ELSE r.max_attempts END
      WHERE r.id = ending.id;
    ELSE
      IF verdict = 'cancelled' THEN
        ending.cancel_reason := coalesce(ending.cancel_reason, given.error);
      END IF;
      PERFORM pgcron.end_run(ending, verdict, given.error_class, given.error, given.fingerprint,
          given.node_name);
    END IF;
    RETURN NEXT;
  END LOOP;
  IF failures <> '[]' THEN
    BEGIN
      PERFORM pgcron.count_failures(failures);
    -- a breaker that is locked, or that can't be written, keeps no run from ending
    EXCEPTION WHEN OTHERS THEN
      RAISE WARNING 'failures of % are not counted: %', failures -> 0 ->> 'handler', SQLERRM;
    END;
  END IF;
END $$;

CREATE FUNCTION pgcron.write_letter(ending pgcron.run, outcome text, error_class text, error text,
    fingerprint text) RETURNS void
LANGUAGE sql AS $$
  INSERT INTO pgcron.dead_letter
  SELECT letter.*
  FROM jsonb_populate_record(NULL::pgcron.dead_letter, to_jsonb(ending) || jsonb_build_object(
        'run_id', ending.id, 'uuid', pgcron.run_uuid(ending.uuid, ending.id, ending.created_at),
        'outcome', outcome, 'died_at', now(), 'attempts', ending.attempt,
        'max_attempts', ending.max_attempts - coalesce(ending.snoozes, 0),
        'error_class', error_class, 'error', error, 'fingerprint', coalesce(fingerprint,
          left(md5(concat_ws(' ', error_class, ending.handler)), 16)))) letter
  ON CONFLICT DO NOTHING $$;

-- One running row into history, and into the dead letters when it ended dead or lost; of a step its
-- workflow has the letter.
CREATE FUNCTION pgcron.end_run(ending pgcron.run, outcome text, error_class text, error text,
    fingerprint text, node_name text, result jsonb DEFAULT NULL,
    finished_at timestamptz DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  IF ending.origin = 'step' THEN
    PERFORM pgcron.step_ended(ending.id, outcome, end_run.result,
        CASE WHEN outcome = 'cancelled' THEN coalesce(ending.cancel_reason, error)
             ELSE error END);
  ELSIF outcome IN ('dead', 'lost') THEN
    PERFORM pgcron.write_letter(ending, outcome, error_class, error, fingerprint);
    IF ending.origin = 'schedule' THEN
      INSERT INTO pgcron.fire_failure (run_id, schedule_id, fire_at, failed_at)
      SELECT ending.id, s.id, ending.scheduled_for, clock_timestamp()
      FROM pgcron.schedule s WHERE s.id = ending.schedule_id AND s.pause_after_failures IS NOT NULL
      ON CONFLICT DO NOTHING;
      -- so that a node judges it at once
      IF FOUND THEN PERFORM pgcron.notify(pgcron.channel(), 'schedule'); END IF;
    END IF;
  END IF;
  BEGIN
    INSERT INTO pgcron.history
    SELECT h.* FROM pgcron.history_of(ending, outcome, error, node_name, result, finished_at) h;
  -- no partition for this instant: a run must be able to end all the same
  EXCEPTION WHEN check_violation THEN
    INSERT INTO pgcron.history_overflow
    SELECT h.* FROM pgcron.history_of(ending, outcome, error, node_name, result, finished_at) h;
  END;
  IF ending.handler LIKE 'workflow:%' THEN
    PERFORM pgcron.workflows_ended(ARRAY[ending.id], outcome);
  END IF;
  DELETE FROM pgcron.run r WHERE r.id = ending.id;
END $$;
