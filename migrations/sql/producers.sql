-- What a service that enqueues may do: the queues and handlers it was given, in its own name; and
-- its own runs.

CREATE TABLE pgcron.producer_rule (
  role regrole NOT NULL,
  queue text COLLATE "C" NOT NULL CONSTRAINT a_rule_says_which_queues
    CHECK (queue ~ '^[A-Za-z0-9_.-]{0,100}[*]?$' AND queue <> ''
      OR pgcron.refuse('PC001',
        format('%L is neither a queue nor how some begin', left(queue, 200)),
        'A rule names one queue, or how queues begin, with a star at its end.',
        'Write for example ''mail'', ''mail-*'', or ''*'' for every queue.')),
  handler text COLLATE "C" NOT NULL CONSTRAINT a_rule_says_which_handlers
    CHECK (handler ~ '^[A-Za-z0-9_.:-]{0,206}[*]?$' AND handler <> ''
      OR pgcron.refuse('PC001',
        format('%L is neither a handler nor how some begin', left(handler, 200)),
        'A rule names one handler, or how handlers begin, with a star at its end.',
        'Write for example ''py:report'', ''py:*'', or ''*'' for every handler.')),
  set_by text NOT NULL DEFAULT session_user,
  set_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (role, queue, handler)
);
COMMENT ON TABLE pgcron.producer_rule IS
    'What roles may enqueue: one that has the rights of a role in this table may enqueue what '
    'one of the rules allows, in its own name, and nothing else. Roles that may empty pgcron.run '
    'are exempt.';

CREATE FUNCTION pgcron.rule_fits(pattern text, name text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN right(pattern, 1) = '*' THEN starts_with(name, left(pattern, -1))
            ELSE name = pattern END;

-- A role with the rights of one that has rules makes only what a rule of its roles allows.
CREATE FUNCTION pgcron.judge_by_rules(queue text, handler text, who name) RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
DECLARE
  is_confined boolean;
  is_allowed boolean;
  allowed text;
BEGIN
  SELECT count(*) > 0,
         coalesce(bool_or(pgcron.rule_fits(p.queue, judge_by_rules.queue)
                          AND pgcron.rule_fits(p.handler, judge_by_rules.handler)),
           false),
         array_to_string((array_agg(DISTINCT format('%s into %s', p.handler, p.queue)))[:20], '; ')
  INTO is_confined, is_allowed, allowed
  FROM pgcron.producer_rule p WHERE pg_has_role(who, p.role, 'USAGE');
  IF is_confined AND NOT is_allowed THEN
    PERFORM pgcron.refuse('PC013',
        format('role %s may not enqueue handler %L into queue %L', quote_ident(who),
          left(handler, 200), left(queue, 200)),
        format('It may enqueue: %s.', allowed),
        format('Use one of them, or let the owner of the schema allow more: '
          'pgcron.confine_producer(%L, …).', who));
  END IF;
  RETURN is_confined;
END $$;

-- Whether it is the owner of the tables, or an operator.
CREATE FUNCTION pgcron.may_make_any_run() RETURNS boolean
LANGUAGE sql STABLE
RETURN has_table_privilege('pgcron.run'::regclass, 'TRUNCATE')
  OR has_column_privilege('pgcron.run'::regclass, 'origin', 'INSERT');

-- Keys that name runs. A role that is neither the owner nor an operator leaves a living one as it
-- is, and gives one only to a run that its own transaction makes, as pgcron.enqueue does. The
-- triggers decide whom that concerns, where no path of the caller's changes what is meant.
CREATE FUNCTION pgcron.a_living_key_stays() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM pgcron.refuse('PC013',
      format('%s key %L is in use',
        CASE TG_TABLE_NAME WHEN 'idempotency' THEN 'idempotency' ELSE 'unique' END,
        left(OLD.key, 200)),
      'Until its time is over it names the run that it was given with.',
      'Call pgcron.enqueue, which returns that run.');
  RETURN NULL;
END $$;
CREATE TRIGGER a_living_key_stays BEFORE UPDATE ON pgcron.idempotency FOR EACH ROW
  WHEN (OLD.expires_at > now() AND NOT pgcron.may_make_any_run())
  EXECUTE FUNCTION pgcron.a_living_key_stays();
-- on_conflict 'replace' prolongs it for the run after the one that a node has taken already.
CREATE TRIGGER a_living_key_stays BEFORE UPDATE ON pgcron.unique_period FOR EACH ROW
  WHEN (OLD.until > now() AND (NEW.run_id = OLD.run_id OR NEW.until <= OLD.until)
        AND NOT pgcron.may_make_any_run())
  EXECUTE FUNCTION pgcron.a_living_key_stays();

-- At the end of the transaction, since the key is taken before its run is made. No other run has
-- the very instant in created_at, which nobody may write.
CREATE FUNCTION pgcron.a_key_names_a_new_run() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  handler text;
  due_at timestamptz;
BEGIN
  SELECT r.handler, r.due_at INTO handler, due_at FROM pgcron.run r
  WHERE r.id = NEW.run_id AND r.created_at = now();
  IF NOT FOUND THEN      -- cancelled already
    SELECT v.handler, v.due_at INTO handler, due_at FROM pgcron.runs v
    WHERE v.id = NEW.run_id AND v.created_at = now() LIMIT 1;
  END IF;
  IF handler IS NULL THEN
    PERFORM pgcron.refuse('PC013',
        format('key %L names run %s, which this transaction did not make', left(NEW.key, 200),
          NEW.run_id),
        'A key is given to a run that is made with it.',
        'Call pgcron.enqueue, not after SET CONSTRAINTS ALL IMMEDIATE.');
  ELSIF TG_TABLE_NAME = 'unique_period' THEN
    IF NEW.handler <> handler OR NEW.until > greatest(now(), due_at) + interval '366 days' THEN
      PERFORM pgcron.refuse('PC013',
          format('unique key %L of handler %L until %s is not that of run %s', left(NEW.key, 200),
            left(NEW.handler, 200), NEW.until, NEW.run_id),
          'A unique key is of its run''s handler, and has a time of at most 366 days.',
          'Call pgcron.enqueue with unique_key and unique_for.');
    END IF;
  END IF;
  RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER a_key_names_a_new_run AFTER INSERT OR UPDATE ON pgcron.idempotency
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NOT pgcron.may_make_any_run())
  EXECUTE FUNCTION pgcron.a_key_names_a_new_run();
CREATE CONSTRAINT TRIGGER a_key_names_a_new_run AFTER INSERT OR UPDATE ON pgcron.unique_period
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (NOT pgcron.may_make_any_run())
  EXECUTE FUNCTION pgcron.a_key_names_a_new_run();

-- A barrier: no function or operator of the reader's sees a row before it is known to be its own.
CREATE VIEW pgcron.own_runs WITH (security_barrier) AS
  SELECT v.id, v.uuid, v.handler, v.queue, v.priority, v.state, v.gate, v.delivery, v.attempt,
         v.max_attempts, v.due_at, v.started_at, v.finished_at, v.error, v.args, v.result,
         v.concurrency_key,
         v.requires, v.weight, v.tags, v.parent_run, v.created_at, v.created_by
  FROM pgcron.runs v WHERE v.created_by IN (session_user, current_user);
COMMENT ON VIEW pgcron.own_runs IS
    'The runs that the reader''s role has enqueued, and no others; best read by id.';

CREATE FUNCTION pgcron.cancel_own_run(run_id bigint, note text DEFAULT NULL) RETURNS text
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.refuse('PC010', format('run %s does not exist', run_id),
           'There is no such run, or another role has enqueued it.',
           'pgcron.own_runs lists your own.')
  WHERE NOT EXISTS (SELECT FROM pgcron.runs v
                    WHERE v.id = cancel_own_run.run_id AND v.created_by = session_user);
  SELECT pgcron.cancel_run(run_id, note, session_user) $$;
COMMENT ON FUNCTION pgcron.cancel_own_run IS
    'As cancel_run, for the role that enqueued it and may not touch the runs of others.';

CREATE FUNCTION pgcron.confine_producer(role text, queues text[] DEFAULT '{*}',
    handlers text[] DEFAULT '{*}', actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC010', format('role %L does not exist', left(confine_producer.role, 200)),
           'Rules are those of a role of the database server.', 'CREATE ROLE makes one.')
  WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_roles known
                    WHERE known.rolname = confine_producer.role);
  SELECT pgcron.refuse('PC001',
           format('role %L is to be confined to no queue or handler', confine_producer.role),
           'An empty list, or a name that is NULL, makes no rule, and a role without rules may '
           'enqueue anything.',
           'Name them, or leave the argument out for all; pgcron.unconfine_producer takes rules '
           'away, REVOKE the right to enqueue.')
  WHERE cardinality(queues) > 0 IS NOT TRUE OR cardinality(handlers) > 0 IS NOT TRUE
    OR array_position(queues, NULL) IS NOT NULL OR array_position(handlers, NULL) IS NOT NULL;
  SELECT pgcron.act_as(actor);
  INSERT INTO pgcron.producer_rule (role, queue, handler, set_by)
  SELECT quote_ident(confine_producer.role)::regrole, q, h, coalesce(actor, session_user)
  FROM unnest(queues) q CROSS JOIN unnest(handlers) h ON CONFLICT DO NOTHING $$;
COMMENT ON FUNCTION pgcron.confine_producer IS
    'A role, and each that has its rights, may enqueue these handlers into these queues from now '
    'on (mail, mail-*, *), beside what it was allowed before, and nothing else. For the owner of '
    'the schema.';

CREATE FUNCTION pgcron.unconfine_producer(role text, actor text DEFAULT NULL)
  RETURNS int
LANGUAGE sql AS $$
  SELECT pgcron.act_as(actor);
  WITH gone AS (
    DELETE FROM pgcron.producer_rule p USING pg_catalog.pg_roles known
    WHERE known.rolname = unconfine_producer.role AND p.role = known.oid RETURNING p.role)
  SELECT count(*)::int FROM gone $$;
COMMENT ON FUNCTION pgcron.unconfine_producer IS
    'Removes all rules of a role; returns how many there were.';
