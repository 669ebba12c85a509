-- Clients that wait for a run are notified, by NOTIFY, when it is over. The end of a run without
-- the mark notifies nobody.

CREATE FUNCTION pgcron.end_channel() RETURNS text
LANGUAGE sql STABLE
RETURN pgcron.channel() || '_ended';
COMMENT ON FUNCTION pgcron.end_channel IS
    'The NOTIFY channel on which the ids of awaited runs come when they are over. Notifications '
    'are hints; nothing depends on them.';

-- However a run ends, its row is deleted by the statement that ends it: so it is notified exactly
-- when that is committed.
CREATE FUNCTION pgcron.wake_waiting_clients() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.notify(pgcron.end_channel(), OLD.id::text);
  RETURN NULL;
END $$;
CREATE TRIGGER wake_waiting_clients AFTER DELETE ON pgcron.run FOR EACH ROW WHEN (OLD.awaited)
  EXECUTE FUNCTION pgcron.wake_waiting_clients();

-- Whether the caller's login has made a run, in any actor's name. session_user, since
-- functions that ask are their owner's.
CREATE FUNCTION pgcron.is_own_run(created_by text, created_login text) RETURNS boolean
LANGUAGE sql STABLE
RETURN session_user = coalesce(created_login, created_by);

-- A role reads its own; one that may read history reads all.
CREATE FUNCTION pgcron.may_read_run(created_by text, created_login text) RETURNS boolean
LANGUAGE sql STABLE
RETURN pgcron.is_own_run(created_by, created_login)
  OR has_table_privilege(session_user, 'pgcron.history', 'SELECT');

-- Locked rows are left out, so that no call waits here, and so are those that are probably being
-- claimed now: a claim skips what is locked, and might come back a second later. The mark is only a
-- hint: it need not be on disk before its lock is gone.
CREATE FUNCTION pgcron.await_runs(run_ids bigint[], OUT ended bigint[], OUT unmarked bigint[])
LANGUAGE plpgsql SECURITY DEFINER SET enable_seqscan = off AS $$
DECLARE
  may_be_skipped boolean;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  WITH marked AS (
    UPDATE pgcron.run r SET awaited = true
    WHERE r.id = ANY(ARRAY(SELECT w.id FROM pgcron.run w
                           WHERE w.id = ANY(run_ids) AND w.awaited IS NULL
                             AND pgcron.may_read_run(w.created_by, w.created_login)
                             AND (w.state = 'running'
                                  OR w.due_at NOT BETWEEN clock_timestamp() - interval '0.25 s' AND
                                     clock_timestamp() + interval '0.25 s')
                           FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING r.state = 'ready' AND r.due_at <= now() AS is_due)
  SELECT coalesce(bool_or(is_due), false) INTO may_be_skipped FROM marked;
  PERFORM pgcron.notify(pgcron.channel(), 'run')
    WHERE may_be_skipped AND EXISTS (SELECT FROM pgcron.node WHERE is_idle AND state = 'alive');
  -- A new statement: a run that ended before it was marked is not there any more.
  SELECT coalesce(array_agg(given.id) FILTER (WHERE r.id IS NULL), '{}'),
         coalesce(array_agg(given.id) FILTER (WHERE r.id IS NOT NULL AND r.awaited IS NULL), '{}')
  INTO ended, unmarked FROM unnest(run_ids) given(id)
  LEFT JOIN pgcron.run r ON r.id = given.id AND pgcron.may_read_run(r.created_by, r.created_login);
END $$;
COMMENT ON FUNCTION pgcron.await_runs IS
    'From now on the ends of these runs are sent on pgcron.end_channel(). ended: those that are '
    'not alive, or not the caller''s; unmarked: those to ask for again in a moment.';

CREATE FUNCTION pgcron.run_status(run_id bigint, OUT id bigint, OUT uuid uuid, OUT handler text,
    OUT schedule text, OUT state text, OUT attempt int, OUT due_at timestamptz,
    OUT started_at timestamptz, OUT finished_at timestamptz, OUT error text, OUT result jsonb,
    OUT done float8, OUT total float8, OUT note text) RETURNS SETOF record
LANGUAGE plpgsql STABLE SECURITY DEFINER AS $$
BEGIN
  RETURN QUERY SELECT v.id, v.uuid, v.handler, v.schedule, v.state, v.attempt, v.due_at,
           v.started_at, v.finished_at, v.error, v.result, p.done, p.total, p.note
    FROM pgcron.runs v
    LEFT JOIN pgcron.progress p ON p.run_id = v.id AND p.attempt = v.attempt AND v.state = 'running'
    WHERE v.id = run_status.run_id AND pgcron.may_read_run(v.created_by, v.created_login) LIMIT 1;
END $$;
COMMENT ON FUNCTION pgcron.run_status IS
    'The state and the result of a run: for the role that enqueued it, and for roles that may read '
    'history. No row: there is none.';
