-- What a producer sees, and ends, of runs: its own.

-- A barrier: no function or operator of the reader's sees a row before it is known to be its own.
CREATE VIEW pgcron.own_runs WITH (security_barrier) AS
  SELECT v.id, v.uuid, v.handler, v.queue, v.priority, v.state, v.gate, v.delivery, v.attempt,
         v.max_attempts, v.due_at, v.started_at, v.finished_at, v.error, v.args, v.result,
         v.concurrency_key, v.requires, v.weight, v.tags, v.parent_run, v.created_at, v.created_by,
         v.created_login
  FROM pgcron.runs v
  WHERE coalesce(v.created_login, v.created_by) IN (session_user, current_user);
COMMENT ON VIEW pgcron.own_runs IS
    'The runs that the reader''s role has enqueued, and no others; best read by id.';

CREATE FUNCTION pgcron.cancel_own_run(run_id bigint, note text DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.refuse('PC010', format('run %s does not exist', run_id),
           'There is no such run, or another role has enqueued it.',
           'pgcron.own_runs lists your own.')
  WHERE NOT EXISTS (SELECT FROM pgcron.runs v
                    WHERE v.id = cancel_own_run.run_id
                      AND pgcron.is_own_run(v.created_by, v.created_login));
  SELECT pgcron.cancel_run(run_id, note, session_user) $$;
COMMENT ON FUNCTION pgcron.cancel_own_run IS
    'As cancel_run, for the role that enqueued it and may not touch the runs of others.';
