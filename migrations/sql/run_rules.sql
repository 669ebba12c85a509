-- The rules of a live run, and how a row that breaks one is refused.

-- True, or raises: PC001, PC004 or PC013 for what an enqueuer wrote, check_violation with the
-- rule's name otherwise. The rules of a live run are in one function, and not in a CHECK each:
-- PostgreSQL reads the text of every constraint anew for every statement, which cost an INSERT more
-- than all else it did.
CREATE FUNCTION pgcron.judge_run(r pgcron.run) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
  -- Nothing that an enqueuer can do.
  broken text := CASE
      WHEN (r.state IN ('blocked', 'ready', 'running')) IS NOT TRUE
        THEN 'a_live_run_is_blocked_ready_or_running'
      WHEN ((r.state = 'running') = (r.owner IS NOT NULL) AND (r.owner IS NULL) = (r.token IS NULL)
            AND (r.owner IS NULL) = (r.fence IS NULL) AND (r.owner IS NULL) = (r.claimed_at IS NULL)
            AND (r.owner IS NOT NULL OR r.started_at IS NULL)) IS NOT TRUE
        THEN 'a_running_run_has_owner_token_fence_and_claim_time'
      WHEN (r.cancel_at IS NULL OR r.state = 'running') IS NOT TRUE
        THEN 'only_a_running_run_is_asked_to_stop'
      WHEN (r.kill_at IS NULL OR r.cancel_at IS NOT NULL) IS NOT TRUE
        THEN 'who_is_killed_was_asked_to_stop'
      WHEN (r.gate IS NULL OR r.gate IN ('no_node', 'breaker', 'overlap', 'previous', 'workflow'))
           IS NOT TRUE
        THEN 'a_gate_is_known'
      WHEN ((r.state = 'blocked') = (r.gate IS NOT NULL)) IS NOT TRUE
        THEN 'a_blocked_run_has_a_gate'
      WHEN (r.attempt >= 0
              AND r.attempt <= pgcron.attempts_allowed(r.max_attempts, r.delivery)
            OR r.attempt = 0) IS NOT TRUE THEN 'a_run_is_not_tried_more_than_allowed'
      WHEN (r.delivery <> 'at_most_once'
            OR (r.attempt <= 1 AND (r.attempt = 0 OR r.state = 'running'))) IS NOT TRUE
        THEN 'at_most_once_never_comes_back'
      WHEN (r.overlap IS NULL
            OR r.overlap IN ('skip', 'skip many', 'queue', 'replace', 'terminate', 'allow'))
           IS NOT TRUE THEN 'a_run_overlap_policy_is_known'
      WHEN (r.overlap IS NULL OR r.schedule_id IS NOT NULL) IS NOT TRUE
        THEN 'an_overlap_policy_belongs_to_a_schedule'
      WHEN (r.overlap_slot IS NULL
            OR (r.overlap IS NOT NULL
                AND (r.overlap_slot = 1 OR (r.overlap_slot > 1 AND r.overlap <> 'skip'))))
           IS NOT TRUE THEN 'an_overlap_slot_is_1_or_of_many_and_has_a_policy'
      WHEN (r.gate IS DISTINCT FROM 'overlap' OR (r.overlap IS NOT NULL AND r.overlap_slot IS NULL))
           IS NOT TRUE THEN 'who_waits_for_a_slot_has_none'
      WHEN (r.state = 'blocked' OR r.overlap IS NULL OR r.overlap_slot IS NOT NULL) IS NOT TRUE
        THEN 'who_is_not_blocked_holds_its_overlap_slot'
      WHEN (r.overlap_slot IS NULL OR r.state <> 'blocked' OR r.attempt > 0) IS NOT TRUE
        THEN 'a_blocked_run_holds_a_slot_only_between_attempts'
      WHEN ((r.key_slot IS NOT NULL) = (r.concurrency_key IS NOT NULL
              AND (r.state = 'running' OR coalesce(r.gate = 'workflow', false)))
            AND coalesce(r.key_slot, 1) >= 1) IS NOT TRUE
        THEN 'a_running_run_of_a_key_holds_a_slot_of_it'
      WHEN ((r.origin IN ('schedule', 'backfill')) = (r.scheduled_for IS NOT NULL)
            AND (r.scheduled_for IS NULL OR r.schedule_id IS NOT NULL)) IS NOT TRUE
        THEN 'only_fires_claim_an_occurrence'
      WHEN (r.attempt > 0 OR r.origin IN ('schedule', 'backfill', 'manual', 'enqueued', 'rerun',
              'redrive', 'step')) IS NOT TRUE THEN 'a_run_has_a_known_origin' END;
BEGIN
  IF broken IS NOT NULL THEN      -- worded as for a CHECK of that name
    RAISE EXCEPTION USING ERRCODE = 'check_violation',
      MESSAGE = format('new row for relation "run" violates check constraint "%s"', broken),
      DETAIL = format('Run %s would break the rule: %s.', r.id, replace(broken, '_', ' ')),
      HINT = 'Change runs with the functions of this schema.',
      SCHEMA = 'pgcron'::regnamespace::text, TABLE = 'run', CONSTRAINT = broken;
  ELSIF r.delivery = 'at_most_once' AND r.max_attempts <> 1 THEN
    RETURN pgcron.refuse('PC001', format('max_attempts %s with at_most_once', r.max_attempts),
        'A run that may be executed at most once can''t be tried again.',
        'Leave max_attempts out, or use at_least_once.');
  -- What an enqueuer wrote is judged when it comes; a claim must not pay for the patterns again.
  ELSIF r.attempt > 0 THEN
    RETURN true;
  END IF;
  RETURN (((NOT isfinite(r.due_at) OR pgcron.is_in_calendar(r.due_at))
           AND (r.expire_at IS NULL OR NOT isfinite(r.expire_at)
                OR pgcron.is_in_calendar(r.expire_at)))
      OR pgcron.refuse('PC001',
        format('due_at %s or expire_at %s is outside of the calendar', r.due_at,
          coalesce(r.expire_at::text, 'NULL')),
        'A run is due, and expires, in the years 1900 to 9998, or at infinity.',
        'Leave due_at out for now.'))
    AND pgcron.is_handler(r.handler) AND pgcron.is_queue(r.queue)
    AND (r.priority BETWEEN 0 AND 9
      OR pgcron.refuse('PC001', format('priority %s is out of range', r.priority),
        'A priority is a number from 0 (first) to 9 (last).', 'Leave it out for 5.'))
    AND (pgcron.args_are_fine(r.args) OR pgcron.refuse_args(r.args))
    AND pgcron.is_one_of('delivery', r.delivery, '{at_least_once,at_most_once,transactional}',
        'This version knows at_least_once, at_most_once and transactional.',
        'Leave it out for at_least_once.')
    AND (r.delivery <> 'transactional' OR r.handler ~ '^(py|sql):'
      OR pgcron.refuse('PC001',
        format('delivery transactional with handler %L', left(r.handler, 200)),
        'Only py: and sql: handlers can have their effects in the transaction that completes the '
        'run.',
        'Use at_least_once, and give the idempotency key to what must not do it twice.'))
    AND (r.delivery = 'at_least_once' OR r.handler NOT LIKE 'workflow:%'
      OR pgcron.refuse('PC001',
        format('delivery %s with workflow %L', r.delivery, left(r.handler, 200)),
        'A workflow begins once, whatever its delivery is: each of its steps has its own.',
        'Leave it out, and give it to the steps.'))
    AND (r.max_attempts IS NULL OR r.max_attempts BETWEEN 1 AND 100
      OR pgcron.refuse('PC001', format('max_attempts %s is out of range', r.max_attempts),
        'A run is tried 1 to 100 times.', 'Leave it out for 5 (1 with at_most_once).'))
    AND (r.timeout IS NULL OR (r.timeout > '0' AND r.timeout <= '30 days')
      OR pgcron.refuse('PC001', format('timeout %s is out of range', r.timeout),
        'A timeout must be positive and at most 30 days.', 'Write for example ''10 minutes''.'))
    AND (r.retry IS NULL OR pgcron.retry_policy_is_fine(r.retry))
    AND (r.time_limits IS NULL OR pgcron.time_limits_are_fine(r.time_limits)
      OR pgcron.refuse('PC001',
        format('time_limits %L can''t be read', left(r.time_limits::text, 200)),
        'It is what pgcron.time_limits returns.',
        'Use pgcron.enqueue with give_up_after and silence_timeout.'))
    AND (r.weight IS NULL OR r.weight BETWEEN 1 AND 1000
      OR pgcron.refuse('PC001', format('weight %s is out of range', r.weight),
        'A run takes 1 to 1000 of the slots of the node that executes it.', 'Leave it out for 1.'))
    AND (r.concurrency_key IS NULL OR pgcron.concurrency_key_is_fine(r.concurrency_key)
      OR (r.weight > 1 AND r.concurrency_key = pgcron.concurrency_key_of(NULL, r.weight))
      OR pgcron.refuse_concurrency_key(r.concurrency_key))
    AND (num_nonnulls(r.unique_key, r.unique_scope) = 0
      OR (pgcron.unique_key_is_fine(r.unique_key)
        AND coalesce(r.unique_scope, 'open') IN ('open', 'waiting', 'taken', 'period'))
      OR pgcron.refuse_unique_key(r.unique_key, r.unique_scope))
    AND (r.requires IS NULL OR pgcron.requires_is_fine(r.requires)
      OR pgcron.refuse('PC001',
        format('requires %L is not a list of labels', left(r.requires::text, 200)),
        'It has 1 to 16 labels, none of them twice: key=value, or a key alone for any value. Keys '
        'have 1 to 100 letters, digits, "_", ".", "/" and "-", values may have ":", "+" and "@", '
        'too.',
        'Write for example ''{gpu=a100,ssd}''; `pgcron-ha nodes` lists the labels of live nodes.'))
    AND (r.tags IS NULL OR pgcron.are_tags(r.tags))
    AND (r.concurrency_key IS NOT NULL OR coalesce(r.weight, 1) = 1
      OR pgcron.refuse('PC001', format('weight %s without a concurrency key', r.weight),
        'A run that takes more than one slot of a node has a concurrency key; pgcron.enqueue '
        'chooses it.',
        format('Call pgcron.enqueue, or write the concurrency key %L.',
          pgcron.concurrency_key_of(NULL, r.weight))))
    AND pgcron.is_short('created_by', r.created_by, 300);
END $$;

-- True, or raises PC013 for what the role may not make. For each run that a role makes which does
-- not own the table; judged with the owner's rights and path. What pgcron.enqueue alone decides is
-- not written by hand.
CREATE FUNCTION pgcron.judge_guest(r pgcron.run, who name) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
  p pgcron.producer := pgcron.admit_caller(NULL, r.handler, r.queue, r.priority, r.weight,
      r.concurrency_key, r.args, who);
BEGIN
  IF p.role IS NULL THEN
    PERFORM pgcron.refuse_no_producer(who);
  ELSIF r.created_by NOT IN (who, session_user) THEN
    PERFORM pgcron.refuse_maker(who, r.created_by);
  ELSIF num_nonnulls(r.unique_key, r.namespace, r.created_login,
            pgcron.namespace_of(p)) > 0
      OR r.id IS DISTINCT FROM currval('pgcron.run_id_seq') THEN
    PERFORM pgcron.refuse('PC013',
        format('role %s may not write this run by INSERT', quote_ident(who)),
        'Its id is drawn for it; runs with a unique key, and those of a producer with a limited '
        'backlog or log, are made by functions.',
        'Call pgcron.enqueue or pgcron.enqueue_many.');
  END IF;
  RETURN true;
END $$;

-- What most rows are is tested first, by expressions that call none of our functions: a run as most
-- enqueue it. args is tested as text, in which a number can be longer than its value is. It is a
-- function as PostgreSQL parses the text of a CHECK anew for every statement: in the CHECK these
-- tests took a third of the time of an INSERT of one row. The call costs a row of many half a
-- microsecond. No name of this schema stands here: who inserts through a view may not use it.
CREATE FUNCTION pgcron.is_common_run(r pgcron.run) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RETURN r.attempt = 0 AND r.state = 'ready' AND r.origin IN ('enqueued', 'step')
    AND num_nonnulls(r.gate, r.concurrency_key, r.requires, r.owner, r.token, r.fence, r.claimed_at,
      r.overlap, r.overlap_slot, r.scheduled_for, r.started_at, r.cancel_at, r.kill_at, r.key_slot,
      r.unique_key, r.unique_scope, r.weight, r.max_attempts, r.timeout, r.retry,
      r.time_limits, r.expire_at, r.tags) = 0
    AND r.delivery = 'at_least_once'
    AND r.handler ~ '^[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]*$'
    AND octet_length(r.handler) <= 206 AND octet_length(r.created_by) <= 300
    AND (r.queue = 'default' OR (r.queue ~ '^[A-Za-z0-9_.-]+$' AND octet_length(r.queue) <= 100))
    AND r.priority BETWEEN 0 AND 9
    AND jsonb_typeof(r.args) = 'object' AND octet_length(r.args::text) <= 200
    AND r.due_at BETWEEN '1900-01-01 00:00Z' AND '9998-12-30 00:00Z';
END $$;

-- The first attempt, which the claim writes, is tested without the row, whose args would be read
-- for it. A role that may not empty the table is a guest.
ALTER TABLE pgcron.run ADD CONSTRAINT a_run_keeps_its_rules CHECK (
    (attempt = 1 AND state = 'running' AND num_nonnulls(owner, token, fence, claimed_at) = 4
     AND num_nonnulls(gate, requires) = 0 AND (concurrency_key IS NULL) = (key_slot IS NULL)
     AND (key_slot >= 1) IS NOT FALSE
     AND (overlap IS NULL) = (overlap_slot IS NULL))
    OR ((has_table_privilege('pgcron.run'::regclass, 'TRUNCATE')
         OR pgcron.judge_guest(run, current_user))
        AND (pgcron.is_common_run(run) OR pgcron.judge_run(run))));
