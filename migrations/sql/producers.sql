-- What a service that enqueues may do: the queues, handlers and keys it was given, up to its
-- limits, in its own name. Two producers share nothing but what both were given.

CREATE TABLE pgcron.producer (
  role regrole PRIMARY KEY,
  -- Of its idempotency keys and unique keys: the name that the role had at first, with its number
  -- if a role that has another name since then had it before.
  namespace text COLLATE "C" NOT NULL UNIQUE,
  -- Which handlers it may enqueue into which queues, as patterns of LIKE: py:mail.% into mail-%
  rules text[] COLLATE "C" NOT NULL,
  concurrency_keys text[] COLLATE "C" NOT NULL CHECK (array_position(concurrency_keys, NULL) IS NULL
      OR pgcron.refuse('PC001', 'a concurrency key of a producer is NULL',
        'Each is a key, or how keys begin, with a star at its end.',
        'Write for example ''mail/*''.')),
  largest_weight int NOT NULL DEFAULT 1 CONSTRAINT a_producer_weighs_1_to_1000
    CHECK (pgcron.is_within('largest_weight', largest_weight, 1, 1000,
        'A run takes 1 to 1000 of the slots of the node that executes it.',
        'Leave it out for 1.')),
  highest_priority int NOT NULL DEFAULT 5 CONSTRAINT a_producer_has_priority_0_to_9
    CHECK (pgcron.is_within('highest_priority', highest_priority, 0, 9,
        'A priority is a number from 0 (first) to 9 (last).', 'Leave it out for 5.')),
  largest_args int NOT NULL DEFAULT 262144 CONSTRAINT a_producer_has_args_of_256_kib
    CHECK (pgcron.is_within('largest_args', largest_args, 2, 262144,
        'The args of a run have at most 262144 bytes (256 KiB).', 'Leave it out for 262144.')),
  backlog int CHECK (pgcron.is_within('backlog', backlog, 1, 1000000,
        'A limited backlog has 1 to 1000000 runs.', 'NULL is no limit.')),
  largest_log int CHECK (pgcron.is_within('largest_log', largest_log, 1, 81920000,
        'A limited log of an attempt has 1 to 81920000 bytes (10000 lines of 8 KiB).',
        'NULL is no limit but that of lines.'))
);
COMMENT ON TABLE pgcron.producer IS
    'Roles that enqueue, and their limits: one that has the rights of a role in this table makes '
    'only runs within them. Roles that may empty pgcron.run are exempt.';

CREATE TABLE pgcron.producer_backlog (
  role regrole PRIMARY KEY REFERENCES pgcron.producer ON DELETE CASCADE,
  live int,
  -- The last id that had been drawn.
  counted_to bigint
);
COMMENT ON TABLE pgcron.producer_backlog IS
    'How many live runs a producer with a limited backlog had when they were last counted.';

-- The role that calls, also within a function that executes with its owner's rights.
CREATE FUNCTION pgcron.caller() RETURNS name
LANGUAGE sql STABLE
RETURN CASE current_setting('role') WHEN 'none' THEN session_user
            ELSE current_setting('role')::name END;

-- The namespace of a producer's plain run; NULL where nothing has to be known of it later.
CREATE FUNCTION pgcron.namespace_of(p pgcron.producer) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN num_nonnulls(p.backlog, p.largest_log) > 0 THEN p.namespace END;

CREATE FUNCTION pgcron.largest_log_of(namespace text) RETURNS int
LANGUAGE sql STABLE
RETURN (SELECT p.largest_log FROM pgcron.producer p
        WHERE p.namespace = largest_log_of.namespace);

-- True. Raises PC011 when a producer's backlog has no room for so many more. What was made since
-- the last count, by anybody, is counted in until it could be too much: then its live runs are
-- counted. Runs of transactions that are not over are not seen. No lock is waited for.
CREATE FUNCTION pgcron.judge_backlog(p pgcron.producer, more int) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
  last_id bigint := coalesce(pg_sequence_last_value('pgcron.run_id_seq'), 0);
  counted int;
BEGIN
  IF (SELECT b.live + (last_id - b.counted_to) + more <= p.backlog
      FROM pgcron.producer_backlog b WHERE b.role = p.role) THEN
    RETURN true;
  END IF;
  SELECT count(*) INTO counted
  FROM (SELECT FROM pgcron.run r WHERE r.namespace = p.namespace LIMIT p.backlog) live;
  PERFORM pgcron.refuse('PC011',
      format('producer %s has a backlog of %s runs', pg_get_userbyid(p.role), counted),
      format('At most %s of its runs may wait or execute.', p.backlog),
      'Try again when some of them have ended.')
    WHERE counted + more > p.backlog;
  UPDATE pgcron.producer_backlog b SET live = counted, counted_to = last_id
  WHERE b.role = ANY(ARRAY(SELECT l.role FROM pgcron.producer_backlog l WHERE l.role = p.role
                           FOR NO KEY UPDATE SKIP LOCKED));
  RETURN true;
END $$;

-- The producer that a role is, or whose rights it has: one's own row before that of another role.
-- NULL for operators. Raises PC013 for a role that is neither, and for a run that no rule of these
-- producers allows. `asked` is written as a rule is. A handler or queue with a blank in its name
-- could match a wrong rule, but no run may have one.
CREATE FUNCTION pgcron.producer_of(who name, asked text) RETURNS pgcron.producer
LANGUAGE plpgsql STABLE AS $$
DECLARE
  p pgcron.producer := (SELECT f FROM pgcron.producer f WHERE pg_has_role(who, f.role, 'USAGE')
                        ORDER BY pg_get_userbyid(f.role) <> who, f.namespace LIMIT 1);
BEGIN
  PERFORM pgcron.refuse_no_producer(who)
    WHERE p.role IS NULL AND NOT has_function_privilege(who,
                                   'pgcron.retry_run(bigint,text,text)'::regprocedure, 'EXECUTE');
  PERFORM pgcron.refuse_run(p, who,
      format('handler %L into queue %L', left(split_part(asked, ' into ', 1), 200),
        left(split_part(asked, ' into ', 2), 200)),
      format('It may enqueue: %s.', pgcron.scope_words((array_agg(DISTINCT rule))[:20])))
    FROM pgcron.producer f CROSS JOIN unnest(f.rules) rule WHERE pg_has_role(who, f.role, 'USAGE')
    HAVING p.role IS NOT NULL AND asked IS NOT NULL AND bool_or(asked LIKE rule) IS NOT TRUE;
  RETURN p;
END $$;

CREATE FUNCTION pgcron.one_rule_fits(rules text[], name text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN EXISTS (SELECT FROM unnest(rules) rule WHERE pgcron.rule_fits(rule, name));

-- The producer that enqueues. NULL for roles that may make any run: the owner, and operators, who
-- run again what they like. Raises PC013 for a role that is neither, for a producer in the name of
-- another role, and for a run that it may not make, if one is given. Each enqueue calls it, so the
-- usual case makes one query: the role's own row, with a rule that fits.
CREATE FUNCTION pgcron.admit_caller(actor text, handler text DEFAULT NULL,
    queue text DEFAULT NULL, priority int DEFAULT NULL, weight int DEFAULT NULL,
    concurrency_key text DEFAULT NULL, args jsonb DEFAULT NULL, who name DEFAULT pgcron.caller())
  RETURNS pgcron.producer
LANGUAGE plpgsql STABLE AS $$
DECLARE
  asked text := handler || ' into ' || coalesce(queue, 'default');
  p pgcron.producer;
BEGIN
  IF has_table_privilege(who, 'pgcron.run'::regclass, 'TRUNCATE') THEN RETURN NULL; END IF;
  SELECT f.* INTO p FROM pgcron.producer f
  WHERE f.role = quote_ident(who)::regrole AND asked LIKE ANY (f.rules);
  IF p.role IS NULL THEN p := pgcron.producer_of(who, asked); END IF;
  IF actor <> who AND actor <> session_user AND p.role IS NOT NULL THEN
    PERFORM pgcron.refuse_maker(who, actor) FROM pg_roles other
      WHERE other.rolname = actor AND NOT pg_has_role(session_user, other.oid, 'MEMBER');
  END IF;
  IF handler IS NULL OR p.role IS NULL THEN
    RETURN p;
  ELSIF coalesce(priority, 5) < p.highest_priority THEN
    PERFORM pgcron.refuse_run(p, who, format('a run with priority %s', coalesce(priority, 5)),
        format('Its runs have priority %s to 9.', p.highest_priority));
  ELSIF weight > p.largest_weight THEN
    PERFORM pgcron.refuse_run(p, who, format('a run with weight %s', weight),
        format('Its runs have weight 1 to %s.', p.largest_weight));
  ELSIF concurrency_key IS NOT NULL
      AND concurrency_key IS DISTINCT FROM pgcron.concurrency_key_of(NULL, weight)
      AND NOT pgcron.one_rule_fits(p.concurrency_keys, concurrency_key) THEN
    PERFORM pgcron.refuse_run(p, who,
        format('a run with concurrency key %L', left(concurrency_key, 200)),
        format('Its concurrency keys: %s.', array_to_string(p.concurrency_keys, ', ')));
  ELSIF p.largest_args < 262144 AND octet_length(args::text) > p.largest_args THEN
    PERFORM pgcron.refuse_run(p, who,
        format('a run with args of %s bytes', octet_length(args::text)),
        format('The args of its runs have at most %s bytes.', p.largest_args));
  END IF;
  RETURN p;
END $$;

CREATE FUNCTION pgcron.refuse_run(p pgcron.producer, who name, fact text, rule text) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC013', format('role %s may not enqueue %s', quote_ident(who), fact), rule,
           format('Keep to it, or let the owner of the schema allow more: '
             'pgcron.confine_producer(%L, …).', pg_get_userbyid(p.role))) $$;

CREATE FUNCTION pgcron.refuse_maker(who name, actor text) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC013',
           format('role %s may not enqueue in the name of %L', quote_ident(who), left(actor, 200)),
           'What a producer makes is not said to be of another role.',
           'Leave created_by (in functions: actor) out.') $$;

-- Within a function that executes with the rights of a producer, that is who has called it.
CREATE FUNCTION pgcron.refuse_no_producer(who name) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC013', format('role %s is no producer', quote_ident(who)),
           'Who enqueues is a producer itself, or has the rights of one.',
           format('Execute what `pgcron-ha grants producer %s` prints.', who)) $$;

-- The namespace of the keys of who calls.
CREATE FUNCTION pgcron.own_namespace() RETURNS text
LANGUAGE sql STABLE
RETURN coalesce((pgcron.admit_caller(NULL)).namespace, '');

-- A form that is sent twice is one operation: NULL for the first, which says with end_operation
-- what run it has made; the others wait for its commit, and get that run. After the lifetime it is
-- another operation.
CREATE FUNCTION pgcron.begin_operation(key text, lifetime interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO pgcron.idempotency AS known
  VALUES (begin_operation.key, 0, now() + least(lifetime, '366 days'), pgcron.own_namespace())
  ON CONFLICT ON CONSTRAINT idempotency_pkey DO UPDATE SET run_id = 0,
    expires_at = EXCLUDED.expires_at
  WHERE known.expires_at <= now();
  IF FOUND THEN RETURN NULL; END IF;
  RETURN (SELECT i.run_id FROM pgcron.idempotency i
          WHERE i.namespace = pgcron.own_namespace() AND i.key = begin_operation.key);
END $$;

CREATE FUNCTION pgcron.end_operation(key text, run_id bigint) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  UPDATE pgcron.idempotency i SET run_id = end_operation.run_id
  WHERE i.namespace = pgcron.own_namespace() AND i.key = end_operation.key AND i.run_id = 0 $$;

CREATE FUNCTION pgcron.confine_producer(role text, queues text[] DEFAULT '{*}',
    handlers text[] DEFAULT '{*}', concurrency_keys text[] DEFAULT NULL,
    largest_weight int DEFAULT NULL, highest_priority int DEFAULT NULL,
    largest_args int DEFAULT NULL, backlog int DEFAULT NULL, largest_log int DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
  named oid := (SELECT known.oid FROM pg_roles known WHERE known.rolname = confine_producer.role);
BEGIN
  PERFORM pgcron.refuse('PC010', format('role %L does not exist', left(confine_producer.role, 200)),
      'Rules are those of a role of the database server.', 'CREATE ROLE makes one.')
    WHERE named IS NULL;
  PERFORM pgcron.refuse('PC001',
      format('role %L is to be confined to no queue or handler', confine_producer.role),
      'An empty list, or a name that is NULL, makes no rule.',
      'Name them, or leave the argument out for all; pgcron.delete_producer takes all away.')
    WHERE coalesce(queues, '{}') = '{}' OR coalesce(handlers, '{}') = '{}'
      OR array_position(queues || handlers, NULL) IS NOT NULL;
  PERFORM pgcron.refuse('PC001', format('%L is neither a queue nor how some begin', left(q, 200)),
      'A rule names one queue, or how queues begin, with a star at its end.',
      'Write for example ''mail'', ''mail-*'', or ''*'' for every queue.')
    FROM unnest(queues) q WHERE q = '' OR q !~ '^[A-Za-z0-9_.-]{0,100}[*]?$';
  PERFORM pgcron.refuse('PC001',
      format('%L is neither a handler nor how some begin', left(h, 200)),
      'A rule names one handler with its kind, or how handlers begin, with a star at its end.',
      'Write for example ''py:report'', ''py:*'', or ''*'' for every handler.')
    FROM unnest(handlers) h WHERE h !~ '^[A-Za-z0-9_.:-]{0,206}[*]?$' OR h !~ '[:*]';
  PERFORM pgcron.act_as(actor);
  -- Of roles that were dropped: one that has the name of one of them has its keys now.
  DELETE FROM pgcron.producer p WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = p.role);
  INSERT INTO pgcron.producer AS p (role, namespace, rules, concurrency_keys, largest_weight,
        highest_priority, largest_args, backlog, largest_log)
  VALUES (named, confine_producer.role || coalesce((
            SELECT ' ' || named FROM pgcron.producer o
            WHERE o.namespace = confine_producer.role AND o.role <> named), ''),
          ARRAY(SELECT replace(replace(h || ' into ' || q, '_', '\_'), '*', '%')
                FROM unnest(queues) q CROSS JOIN unnest(handlers) h),
          coalesce(confine_producer.concurrency_keys, ARRAY[confine_producer.role || '/*']),
          coalesce(confine_producer.largest_weight, 1),
          coalesce(confine_producer.highest_priority, 5),
          coalesce(confine_producer.largest_args, 262144), confine_producer.backlog,
          confine_producer.largest_log)
  ON CONFLICT ON CONSTRAINT producer_pkey DO UPDATE SET
    rules = ARRAY(SELECT unnest(p.rules) UNION SELECT unnest(EXCLUDED.rules)),
    concurrency_keys = coalesce(confine_producer.concurrency_keys, p.concurrency_keys),
    largest_weight = coalesce(confine_producer.largest_weight, p.largest_weight),
    highest_priority = coalesce(confine_producer.highest_priority, p.highest_priority),
    largest_args = coalesce(confine_producer.largest_args, p.largest_args),
    backlog = coalesce(confine_producer.backlog, p.backlog),
    largest_log = coalesce(confine_producer.largest_log, p.largest_log);
  INSERT INTO pgcron.producer_backlog VALUES (named) ON CONFLICT DO NOTHING;
END $$;
COMMENT ON FUNCTION pgcron.confine_producer IS
    'A role, and each that has its rights, may enqueue these handlers into these queues from now '
    'on (mail, mail-*, *), beside what it was allowed before, and nothing else; limits that are '
    'left out stay, or are concurrency keys that begin with its name and a slash, weight 1, '
    'priority 5 to 9, any backlog and any log. For the owner of the schema.';

CREATE FUNCTION pgcron.delete_producer(role text, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.act_as(actor);
  DELETE FROM pgcron.producer p WHERE p.role = to_regrole(quote_ident(delete_producer.role)) $$;
COMMENT ON FUNCTION pgcron.delete_producer IS
    'Removes all rules and limits of a role, which enqueues nothing more. For the owner of the '
    'schema.';
