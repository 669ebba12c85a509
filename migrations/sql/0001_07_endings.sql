-- The wake-up, and the one way in which runs that are not running end.

CREATE FUNCTION pgcron.channel() RETURNS text
LANGUAGE sql STABLE AS $$ SELECT 'pgcron_' || 'pgcron'::regnamespace::oid::text $$;
COMMENT ON FUNCTION pgcron.channel() IS 'The NOTIFY channel of this installation. Notifications are hints; nothing depends on them.';

-- A NOTIFY takes a database-wide lock at commit, so it is sent only while some node has said that it is idle.
CREATE FUNCTION pgcron.wake_idle_nodes() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF EXISTS (SELECT FROM pgcron.node WHERE is_idle AND state = 'alive') THEN
    PERFORM pg_notify(pgcron.channel(), TG_TABLE_NAME);
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER wake_idle_nodes AFTER INSERT ON pgcron.run FOR EACH STATEMENT EXECUTE FUNCTION pgcron.wake_idle_nodes();

-- ready -> skipped, superseded, expired, cancelled
-- blocked -> cancelled
-- Rows that began to run meanwhile are left alone. Returns the runs that ended.
CREATE FUNCTION pgcron.end_waiting_runs(run_ids bigint[], outcome text, reason text) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  ending bigint[];
BEGIN
  SELECT array_agg(locked.id) INTO ending FROM
    (SELECT r.id FROM pgcron.run r WHERE r.id = ANY(run_ids) AND r.state <> 'running' ORDER BY r.id FOR UPDATE) locked;
  IF ending IS NULL THEN RETURN; END IF;
  UPDATE pgcron.occurrence o SET decision = outcome, reason = end_waiting_runs.reason, decided_at = now()
    FROM pgcron.run r
   WHERE r.id = ANY(ending) AND r.scheduled_for IS NOT NULL AND o.schedule_id = r.schedule_id AND o.fire_at = r.scheduled_for;
  BEGIN
    INSERT INTO pgcron.history (id, uuid, origin, schedule_id, schedule, scheduled_for, nominal_for, parent_run, queue, priority, handler, args,
                                delivery, outcome, attempt, max_attempts, due_at, created_at, created_by, error)
    SELECT r.id, r.uuid, r.origin, r.schedule_id, r.schedule, r.scheduled_for, r.nominal_for, r.parent_run, r.queue, r.priority, r.handler, r.args,
           r.delivery, end_waiting_runs.outcome, r.attempt, r.max_attempts, r.due_at, r.created_at, r.created_by, end_waiting_runs.reason
      FROM pgcron.run r WHERE r.id = ANY(ending);
  EXCEPTION WHEN check_violation THEN      -- no partition for now(): a run must be able to end all the same
    INSERT INTO pgcron.history_overflow (id, uuid, origin, schedule_id, schedule, scheduled_for, nominal_for, parent_run, queue, priority, handler, args,
                                         delivery, outcome, attempt, max_attempts, due_at, created_at, created_by, error)
    SELECT r.id, r.uuid, r.origin, r.schedule_id, r.schedule, r.scheduled_for, r.nominal_for, r.parent_run, r.queue, r.priority, r.handler, r.args,
           r.delivery, end_waiting_runs.outcome, r.attempt, r.max_attempts, r.due_at, r.created_at, r.created_by, end_waiting_runs.reason
      FROM pgcron.run r WHERE r.id = ANY(ending);
  END;
  DELETE FROM pgcron.run r WHERE r.id = ANY(ending);
  RETURN QUERY SELECT unnest(ending);
END $$;
COMMENT ON FUNCTION pgcron.end_waiting_runs(bigint[], text, text) IS 'Ends runs that are not running; writes history and the ledger in the same transaction.';
