-- Stopping by force, and giving up.

-- The second step after cancel_run, or the first at once: its node ends it without any grace, as far as it can be ended by force.
-- 'cancelled': it had not begun and never will; 'requested': its node was asked to kill it; 'finished': it had ended already.
CREATE FUNCTION pgcron.kill_run(run bigint, reason text DEFAULT NULL, actor text DEFAULT NULL) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
  why text := concat_ws(': ', 'killed by ' || left(coalesce(actor, session_user), 300), left(reason, 500));
BEGIN
  PERFORM FROM pgcron.run r WHERE r.id = run FOR UPDATE;      -- so that it does not begin in between
  UPDATE pgcron.run r SET cancel_at = coalesce(r.cancel_at, now()), kill_at = coalesce(r.kill_at, now()),
         cancel_reason = CASE WHEN r.kill_at IS NULL THEN concat_ws('; ', r.cancel_reason, why) ELSE r.cancel_reason END
   WHERE r.id = run AND r.state = 'running';
  IF FOUND THEN
    PERFORM pgcron.notify(pgcron.channel(), 'cancel');      -- a hint: the owner's next beat is the truth
    RETURN 'requested';
  END IF;
  RETURN pgcron.cancel_run(run, reason, actor);
END $$;
COMMENT ON FUNCTION pgcron.kill_run(bigint, text, text) IS 'Ends a run by force: cancelled, requested or finished. What can''t be killed (a thread) is only asked.';

-- ready -> dead
-- Runs that have failed, wait for another attempt, and whose time in all is over: they die of their last error. One that never began
-- expires. Rows that somebody else has locked are left for the next look.
CREATE FUNCTION pgcron.give_up_runs(at_most int) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  waiting pgcron.run;
  last pgcron.attempt;
BEGIN
  FOR waiting IN
    SELECT r.* FROM pgcron.run r
     WHERE r.state = 'ready' AND r.expire_at IS NOT NULL AND r.expire_at <= now() AND r.attempt > 0 AND r.time_limits ? 'give_up_at' ORDER BY r.expire_at LIMIT at_most FOR UPDATE SKIP LOCKED LOOP
    SELECT * INTO last FROM pgcron.attempt a WHERE a.run_id = waiting.id ORDER BY a.attempt DESC, a.ended_at DESC LIMIT 1;
    PERFORM pgcron.end_run(waiting, 'dead', coalesce(last.error_class, 'GivenUp'),
      concat_ws(' ', waiting.last_error, format('(not retried: it is given up %s after it was due)', make_interval(secs => (waiting.time_limits ->> 'give_up_after')::float8))),
      coalesce(last.fingerprint, left(md5('GivenUp ' || waiting.handler), 16)), NULL);
    RETURN NEXT waiting.id;
  END LOOP;
END $$;
COMMENT ON FUNCTION pgcron.give_up_runs(int) IS 'Ends waiting runs whose time in all is over; writes history and the dead letters in the same transaction.';
