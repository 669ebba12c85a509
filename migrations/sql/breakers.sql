-- What opens a circuit breaker, which node probes, and what happens to the runs that wait for it.
-- The tables are in breaker_tables.

-- A breaker opens, or opens again. The caller has locked its row.
CREATE FUNCTION pgcron.open_breaker(name text, failure text, because text) RETURNS void
LANGUAGE sql AS $$
  UPDATE pgcron.breaker b
  SET state = 'open',
      opened_at = CASE WHEN b.state = 'closed' THEN clock_timestamp() ELSE b.opened_at END,
      openings = b.openings + 1,
      open_until = clock_timestamp() + least(b.open_for * power(2, least(b.openings, 20)),
          b.open_for_at_most),
      reason = because, last_error = left(failure, 500), failed_at = '{}', probe_run = NULL,
      probe_attempt = NULL
  WHERE b.name = open_breaker.name;
  SELECT pgcron.notify(pgcron.channel(), 'breaker') $$;

-- Attempts that failed, as an array of objects: handler, run_id, fence, error. A batch may hold
-- several of one breaker; breakers are locked in the order of their names, after the runs. While a
-- breaker is open, further failures change nothing: those attempts began before. While it is half
-- open only its probe counts.
CREATE FUNCTION pgcron.count_failures(given jsonb) RETURNS void
LANGUAGE plpgsql SET lock_timeout = '500ms' AS $$
DECLARE
  row_found pgcron.breaker;
  failed record;
  latest timestamptz[];
BEGIN
  FOR row_found IN SELECT b.* FROM pgcron.breaker b
      WHERE b.name IN (SELECT m.breaker FROM pgcron.breaker_handler m
                       WHERE m.handler IN (SELECT f ->> 'handler'
                                           FROM jsonb_array_elements(given) f))
        AND pgcron.breaker_is_fine(b)
      ORDER BY b.name FOR UPDATE LOOP
    SELECT count(*)::int AS attempts, (array_agg(f.error ORDER BY f.place DESC))[1] AS error,
           bool_or(f.run_id = row_found.probe_run) AS is_probe
    INTO failed
    FROM ROWS FROM (jsonb_to_recordset(given) AS (handler text, run_id bigint, fence bigint,
          error text)) WITH ORDINALITY f(handler, run_id, fence, error, place)
    JOIN pgcron.breaker_handler m ON m.handler = f.handler AND m.breaker = row_found.name;
    IF row_found.state = 'half_open' AND failed.is_probe THEN
      PERFORM pgcron.open_breaker(row_found.name, failed.error,
          format('its probe, run %s, failed', row_found.probe_run));
    ELSIF row_found.state = 'closed' THEN
      latest := ARRAY(SELECT kept.at
                      FROM (SELECT one.at
                            FROM unnest(row_found.failed_at || array_fill(clock_timestamp(),
                                ARRAY[least(failed.attempts, row_found.failures)])) one(at)
                            WHERE one.at > clock_timestamp() - row_found.within
                            ORDER BY one.at DESC LIMIT row_found.failures) kept
                      ORDER BY kept.at);
      IF cardinality(latest) >= row_found.failures THEN
        PERFORM pgcron.open_breaker(row_found.name, failed.error,
            format('%s %s in %s s', row_found.failures,
              CASE row_found.failures WHEN 1 THEN 'failure' ELSE 'failures' END,
              trim_scale(extract(epoch FROM row_found.within)::numeric)));
      ELSE
        UPDATE pgcron.breaker b SET failed_at = latest, last_error = left(failed.error, 500)
        WHERE b.name = row_found.name;
      END IF;
    END IF;
  END LOOP;
END $$;

-- The breakers that are not closed: nodes read them while there are any, and when one has changed.
-- A probe that is over without a recorded failure is settled first: success closes the breaker;
-- after a probe that came back, was cancelled or whose node died, any node may probe next. So it
-- may after one that has not begun in time or is not due any more: others do not wait for it.
CREATE FUNCTION pgcron.look_at_breakers()
  RETURNS TABLE (name text, state text, handlers text[], fallback_queue text, probe_run bigint,
      seconds float8, reason text, last_error text)
LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
  probed pgcron.breaker;
BEGIN
  FOR probed IN SELECT b.* FROM pgcron.breaker b
      WHERE b.state = 'half_open' AND pgcron.breaker_is_fine(b) ORDER BY b.name
      FOR UPDATE SKIP LOCKED LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pgcron.run r
                          WHERE r.id = probed.probe_run
                            AND (r.state = 'ready' AND r.attempt = probed.probe_attempt - 1
                                   AND r.due_at <= now()
                                   AND probed.open_until > clock_timestamp()
                                 OR r.state = 'running' AND r.attempt = probed.probe_attempt));
    IF EXISTS (SELECT FROM pgcron.ended_runs e
               WHERE e.id = probed.probe_run AND e.outcome = 'succeeded') THEN
      PERFORM pgcron.close_breaker(probed.name);
    ELSE
      UPDATE pgcron.breaker b
      SET state = 'open', open_until = clock_timestamp(), probe_run = NULL, probe_attempt = NULL
      WHERE b.name = probed.name;
    END IF;
  END LOOP;
  PERFORM pgcron.choose_probes();
  RETURN QUERY SELECT b.name, b.state,
           ARRAY(SELECT m.handler FROM pgcron.breaker_handler m WHERE m.breaker = b.name
                 ORDER BY m.handler),
           b.fallback_queue, b.probe_run,
           extract(epoch FROM b.open_until - clock_timestamp())::float8, b.reason, b.last_error
    FROM pgcron.breaker b WHERE b.state <> 'closed' AND pgcron.breaker_is_fine(b) ORDER BY b.name;
END $$;

-- The caller has locked the row.
CREATE FUNCTION pgcron.close_breaker(name text) RETURNS void
LANGUAGE sql AS $$
  UPDATE pgcron.breaker b
  SET state = 'closed', failed_at = '{}', opened_at = NULL, open_until = NULL, openings = 0,
      reason = NULL, probe_run = NULL, probe_attempt = NULL
  WHERE b.name = close_breaker.name;
  SELECT pgcron.notify(pgcron.channel(), 'breaker') $$;

-- blocked -> ready
-- Of a breaker whose time is over one run becomes ready, as its one probe, if a living node offers
-- its handler and its key is not full; while it waits or executes no other run of the breaker's
-- handlers begins. Any of the first thousand, as a limit of its queue or a rate may keep the last
-- one from beginning. The breaker's row decides: it is locked, and names the run. Nothing here
-- waits for a lock.
CREATE FUNCTION pgcron.choose_probes() RETURNS void
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  probed pgcron.breaker;
  candidate pgcron.run;
  offered text[];
  full_keys text[];
BEGIN
  FOR probed IN SELECT b.* FROM pgcron.breaker b
      WHERE b.state = 'open' AND b.open_until <= clock_timestamp() AND pgcron.breaker_is_fine(b)
      ORDER BY b.open_until LIMIT 10 FOR UPDATE SKIP LOCKED LOOP
    offered := ARRAY(SELECT m.handler FROM pgcron.breaker_handler m
                     JOIN pgcron.offer o USING (handler) JOIN pgcron.node n USING (incarnation)
                     WHERE m.breaker = probed.name AND n.state = 'alive');
    CONTINUE WHEN offered = '{}';  -- of many runs that nobody offers none is read
    full_keys := ARRAY(SELECT l.concurrency_key
                       FROM pgcron.concurrency_slots(ARRAY(
                           SELECT DISTINCT h.concurrency_key FROM pgcron.run h
                           WHERE h.key_slot IS NOT NULL)) l
                       WHERE l.room <= 0);
    FOR candidate IN SELECT r.* FROM pgcron.run r
        WHERE r.state = 'blocked' AND r.id = ANY(ARRAY(
              SELECT c.id FROM pgcron.run c
              WHERE c.state = 'blocked' AND c.gate IN ('breaker', 'overlap') AND c.due_at <= now()
                AND c.handler = ANY(offered)
                AND coalesce(c.concurrency_key, '') <> ALL(full_keys)
                AND (c.expire_at IS NULL OR c.expire_at > now())
                AND pgcron.is_served(c.handler, c.queue, c.requires)
                AND NOT EXISTS (SELECT FROM pgcron.queue q
                                WHERE q.name = c.queue AND q.paused_at IS NOT NULL)
              LIMIT 1000))
        ORDER BY random() LIMIT 10 FOR UPDATE SKIP LOCKED LOOP
      -- One that must have its schedule to itself has it, if nothing of it runs.
      CONTINUE WHEN candidate.overlap IS NOT NULL AND candidate.overlap_slot IS NULL
        AND (NOT EXISTS (SELECT FROM pgcron.schedule s WHERE s.id = candidate.schedule_id
                         FOR NO KEY UPDATE SKIP LOCKED)
             OR (SELECT t.runs FROM pgcron.overlap_taken(candidate.schedule_id) t) > 0);
      UPDATE pgcron.run r
      SET state = 'ready', gate = NULL,
          overlap_slot = coalesce(r.overlap_slot, CASE WHEN r.overlap IS NOT NULL THEN 1 END)
      WHERE r.id = candidate.id;
      UPDATE pgcron.breaker b
      SET state = 'half_open', probe_run = candidate.id, probe_attempt = candidate.attempt + 1,
          open_until = clock_timestamp() + b.open_for
      WHERE b.name = probed.name;
      PERFORM pgcron.notify(pgcron.channel(), 'breaker');
      EXIT;
    END LOOP;
  END LOOP;
END $$;

-- Due runs that wait for a breaker are executed by its fallback handler, or moved to its fallback
-- queue; each run once. Not when the breaker's time is over: then one of them is the probe, and its
-- end decides about the others.
CREATE FUNCTION pgcron.use_fallbacks(at_most int) RETURNS SETOF bigint
LANGUAGE plpgsql AS $$
DECLARE
  broken pgcron.breaker;
  held bigint[];
BEGIN
  FOR broken IN SELECT b.* FROM pgcron.breaker b
      WHERE b.state = 'open' AND b.open_until > clock_timestamp()
        AND num_nonnulls(b.fallback_handler, b.fallback_queue) > 0 AND pgcron.breaker_is_fine(b)
      ORDER BY b.name LOOP
    held := ARRAY(SELECT r.id FROM pgcron.run r
                  WHERE r.gate = 'breaker'
                    AND r.handler IN (SELECT m.handler FROM pgcron.breaker_handler m
                                      WHERE m.breaker = broken.name)
                    AND r.handler IS DISTINCT FROM broken.fallback_handler
                    AND r.queue IS DISTINCT FROM broken.fallback_queue
                    AND (r.delivery <> 'transactional' OR broken.fallback_handler IS NULL
                         OR broken.fallback_handler ~ '^(py|sql):')
                    AND NOT EXISTS (SELECT FROM pgcron.fallback_run d WHERE d.run_id = r.id)
                  LIMIT use_fallbacks.at_most FOR UPDATE SKIP LOCKED);
    BEGIN
      INSERT INTO pgcron.fallback_run (run_id, breaker, handler, queue, reason)
      SELECT r.id, broken.name, r.handler, r.queue, broken.reason
      FROM pgcron.run r WHERE r.id = ANY(held) ON CONFLICT DO NOTHING;
      -- A run that is moved waits there as any other; one with another handler is as new to it.
      UPDATE pgcron.run r
      SET handler = coalesce(broken.fallback_handler, r.handler),
          queue = coalesce(broken.fallback_queue, r.queue)
      WHERE r.id = ANY(held);
      PERFORM pgcron.set_gate(held, NULL);
    EXCEPTION WHEN others THEN
      -- The runs at fault end; the others are sent there in the next call.
      IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
      PERFORM pgcron.end_refused_run(refused.run_id, NULL, refused.error)
        FROM pgcron.refused_runs(gen_random_uuid(), held) refused;
      IF NOT FOUND THEN RAISE; END IF;
      held := '{}';
    END;
    RETURN QUERY SELECT unnest(held);
  END LOOP;
END $$;

-- Breakers as an array of objects: a person's settings, or (set_by NULL) what a node's file and
-- applications declare, which leaves the settings of persons alone.
CREATE FUNCTION pgcron.put_breakers(given jsonb, set_by text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
  PERFORM pgcron.act_as(coalesce(put_breakers.set_by, 'pgcron_ha'),
      CASE WHEN put_breakers.set_by IS NULL THEN 'code' END);
  INSERT INTO pgcron.breaker AS b (name, failures, within, open_for, open_for_at_most,
        fallback_handler, fallback_queue, set_by)
  SELECT g.*, put_breakers.set_by
  FROM jsonb_to_recordset(given) g(name text, failures int, within interval, open_for interval,
      open_for_at_most interval, fallback_handler text, fallback_queue text)
  ORDER BY g.name
  ON CONFLICT (name) DO UPDATE SET failures = EXCLUDED.failures, within = EXCLUDED.within,
    open_for = EXCLUDED.open_for, open_for_at_most = EXCLUDED.open_for_at_most,
    fallback_handler = EXCLUDED.fallback_handler, fallback_queue = EXCLUDED.fallback_queue,
    set_by = EXCLUDED.set_by, set_at = now()
  WHERE put_breakers.set_by IS NOT NULL
    OR (b.set_by IS NULL
        AND (b.failures, b.within, b.open_for, b.open_for_at_most, b.fallback_handler,
              b.fallback_queue)
            IS DISTINCT FROM (EXCLUDED.failures, EXCLUDED.within, EXCLUDED.open_for,
              EXCLUDED.open_for_at_most, EXCLUDED.fallback_handler, EXCLUDED.fallback_queue));
  INSERT INTO pgcron.breaker_handler AS m (handler, breaker)
  SELECT DISTINCT ON (one.handler) one.handler, g.name
  FROM jsonb_to_recordset(given) g(name text, handlers text[])
  CROSS JOIN unnest(g.handlers) one(handler) ORDER BY one.handler, g.name
  ON CONFLICT (handler) DO UPDATE SET breaker = EXCLUDED.breaker
  WHERE m.breaker <> EXCLUDED.breaker
    AND (put_breakers.set_by IS NOT NULL
         OR (SELECT b.set_by IS NULL FROM pgcron.breaker b WHERE b.name = m.breaker));
END $$;

-- The settings of a breaker by hand: they count before what nodes declare. handlers: which ones
-- share it, besides the one that it is named after.
CREATE FUNCTION pgcron.set_breaker(breaker text, failures int DEFAULT 5,
    within interval DEFAULT '1 minute', open_for interval DEFAULT '30 seconds',
    open_for_at_most interval DEFAULT NULL, fallback_handler text DEFAULT NULL,
    fallback_queue text DEFAULT NULL, handlers text[] DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.put_breakers(
           jsonb_build_array(jsonb_build_object('name', breaker, 'failures', failures,
               'within', within, 'open_for', open_for,
               'open_for_at_most', coalesce(open_for_at_most, greatest(open_for, '10 minutes')),
               'fallback_handler', fallback_handler, 'fallback_queue', fallback_queue,
               'handlers', array_append(handlers, breaker))),
           coalesce(actor, session_user));
  SELECT pgcron.notify(pgcron.channel(), 'breaker') $$;
COMMENT ON FUNCTION pgcron.set_breaker IS
    'A handler (or those of one http service) that fails so often within a time is left alone for '
    'a while, then probed with one run at a time.';

CREATE FUNCTION pgcron.require_breaker(name text) RETURNS pgcron.breaker
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC010',
           format('breaker %L does not exist', left(require_breaker.name, 200)),
           'A breaker is named as the handler it was set for.',
           '`pgcron-ha breakers list` lists them.')
  WHERE NOT EXISTS (SELECT FROM pgcron.breaker b WHERE b.name = require_breaker.name FOR UPDATE);
  SELECT b.* FROM pgcron.breaker b WHERE b.name = require_breaker.name $$;

-- Closes a breaker by hand, whatever its state: what waits for it goes. True when it was not
-- closed.
CREATE FUNCTION pgcron.reset_breaker(breaker text, actor text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  row_found pgcron.breaker := pgcron.require_breaker(reset_breaker.breaker);
BEGIN
  PERFORM pgcron.close_breaker(row_found.name);
  UPDATE pgcron.breaker b
  SET reset_by = coalesce(reset_breaker.actor, session_user), reset_at = now()
  WHERE b.name = row_found.name;
  PERFORM pgcron.record_audit('reset', 'breaker', row_found.name, reset_breaker.actor,
      before => jsonb_build_object('state', row_found.state, 'reason', row_found.reason),
      after => '{"state": "closed"}')
    WHERE row_found.state <> 'closed';
  RETURN row_found.state <> 'closed';
END $$;
COMMENT ON FUNCTION pgcron.reset_breaker IS
    'Closes a breaker by hand; the runs that wait for it go at once.';

CREATE FUNCTION pgcron.delete_breaker(breaker text, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  SELECT pgcron.require_breaker(breaker);
  DELETE FROM pgcron.breaker b WHERE b.name = delete_breaker.breaker;
  SELECT pgcron.notify(pgcron.channel(), 'breaker') $$;
COMMENT ON FUNCTION pgcron.delete_breaker IS
    'Removes a breaker; a node that declares it makes it again when it starts.';
