-- What plain SQL can judge about a row, and how a refusal is worded.
--
-- A CHECK constraint is written `CHECK (fine OR pgcron.refuse(…))`, so that a raw INSERT, too, is
-- answered with a message (the fact), a detail (the rule), a hint (what now) and an SQLSTATE of
-- class PC.

-- Raises an error with SQLSTATE, message, detail and hint; boolean so that a CHECK can call it.
-- Volatile on purpose: a call with constant arguments in a CHECK must not be evaluated when the
-- statement is planned.
CREATE FUNCTION pgcron.refuse(code text, message text, detail text, hint text) RETURNS boolean
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
END $$;

CREATE FUNCTION pgcron.require_read_committed(what text) RETURNS void
LANGUAGE sql STABLE AS $$
  SELECT pgcron.refuse('PC001',
           what || ' are not decided under ' || current_setting('transaction_isolation'),
           'Each step must see what was committed before it.', 'Use READ COMMITTED.')
  WHERE current_setting('transaction_isolation') <> 'read committed' $$;

-- Notes and names of actors are for people: what is longer than a screen is a mistake, or fills the
-- disk.
CREATE FUNCTION pgcron.is_short(what text, given text, most int) RETURNS boolean
LANGUAGE sql
RETURN given IS NULL OR length(given) <= most
  OR pgcron.refuse('PC001', format('%s has %s characters', what, length(given)),
       format('It has at most %s: %s …', most, left(given, 40)),
       'Say it in a few words, and keep the rest elsewhere.');

CREATE FUNCTION pgcron.is_within(what text, given anyelement, low anyelement, high anyelement,
    rule text, hint text) RETURNS boolean
LANGUAGE plpgsql AS $$
BEGIN
  RETURN given IS NULL OR given BETWEEN low AND high
    OR pgcron.refuse('PC001', format('%s %s is out of range', what, given), rule, hint);
END $$;

CREATE FUNCTION pgcron.is_one_of(what text, given text, known text[], rule text, hint text)
  RETURNS boolean
LANGUAGE sql
RETURN given IS NULL OR given = ANY (known)
  OR pgcron.refuse('PC001', format('%s %L is not known', what, left(given, 100)), rule, hint);

-- A name that people read.
CREATE FUNCTION pgcron.is_label(what text, given text, hint text) RETURNS boolean
LANGUAGE sql
RETURN given IS NULL
  OR (length(given) BETWEEN 1 AND 200 AND btrim(given) <> '' AND given !~ '[\x01-\x1f\x7f-\x9f]')
  OR pgcron.refuse('PC001', format('the %s is empty, too long or has a control character', what),
       'It has 1 to 200 characters that can be shown.', hint);

CREATE FUNCTION pgcron.is_queue(queue text) RETURNS boolean
LANGUAGE sql
RETURN queue IS NULL OR queue = 'default'
  OR (queue ~ '^[A-Za-z0-9_.-]+$' AND length(queue) <= 100)
  OR pgcron.refuse('PC001', format('queue %L is not a queue name', left(queue, 200)),
       'A queue name has 1 to 100 letters, digits, "_", "." and "-".',
       'Write for example ''default''.');

-- A pattern is a name, or how names begin, with a star at its end.
CREATE FUNCTION pgcron.rule_fits(pattern text, name text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN right(pattern, 1) = '*' THEN starts_with(name, left(pattern, -1))
            ELSE name = pattern END;

CREATE FUNCTION pgcron.is_handler(handler text) RETURNS boolean
LANGUAGE sql
RETURN handler IS NULL
  OR (handler ~ '^[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]*$' AND length(handler) <= 206)
  OR pgcron.refuse('PC001', format('handler %L is not a handler name', left(handler, 200)),
       'A handler is written kind:name; the kinds are py, shell, http, sql and those of other '
       'executors, the name has letters, digits, "_", "." and "-".',
       coalesce('Did you mean ''py:' || substring(handler FROM '^[A-Za-z_]\w{0,99}$') || '''? ', '')
         || 'Write for example ''py:report'' or ''shell:backup''; `pgcron-ha nodes` lists what '
         'live nodes offer.');

-- Whether an instant lies in the years that every part of this can write.
CREATE FUNCTION pgcron.is_in_calendar(instant timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN instant >= to_timestamp(-2208988800) AND instant < to_timestamp(253370764800);

CREATE FUNCTION pgcron.is_too_deep(written jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN jsonb_path_exists(written,
         'strict $.**{100} ? (@.type() == "array" || @.type() == "object")');

-- An object of 256 KiB, nested 100 levels deep, and not what erased args leave; a short text can't
-- be too deep.
CREATE FUNCTION pgcron.args_are_fine(args jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN jsonb_typeof(args) = 'object' AND NOT args ? '$erased'
  AND (octet_length(args::text) <= 200
       OR (octet_length(args::text) <= 262144 AND NOT pgcron.is_too_deep(args)));

-- Raises PC004 for what is too large or too deep.
CREATE FUNCTION pgcron.refuse_size(what text, written jsonb) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN octet_length(written::text) > 262144
                THEN pgcron.refuse('PC004',
                       format('%s has %s bytes', what, octet_length(written::text)),
                       what || ' may have 262144 bytes (256 KiB) as JSON text.',
                       'Store it in a table or file of yours and give its key.')
              WHEN pgcron.is_too_deep(written)
                THEN pgcron.refuse('PC004', what || ' is nested more than 100 levels deep',
                       'Objects and lists may be nested 100 levels deep.',
                       'Write it flatter, or give the nested value as one text.') END $$;

CREATE FUNCTION pgcron.refuse_args(args jsonb) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT CASE WHEN jsonb_typeof(args) <> 'object' THEN pgcron.refuse('PC001',
                    format('args is a JSON %s', jsonb_typeof(args)),
                    'args must be a JSON object: names and values.',
                    'Write for example ''{"day": 1}''.')
              WHEN args ? '$erased' THEN pgcron.refuse('PC011', 'these args were erased',
                    'Nothing is run with args that were erased (pgcron.erase).',
                    'Give other args.')
              ELSE pgcron.refuse_size('args', args) END $$;

-- A key's name is anything that is not blank, without a star, which is the end of a
-- concurrency_limit for many keys.
CREATE FUNCTION pgcron.concurrency_key_is_fine(concurrency_key text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN length(concurrency_key) BETWEEN 1 AND 200 AND btrim(concurrency_key) <> ''
  AND concurrency_key !~ '[*\x01-\x1f\x7f-\x9f]';

-- Where a run waits: in its own key, or, if it takes more than one slot of a node and has none, in
-- the one of its weight, which has no limit.
CREATE FUNCTION pgcron.concurrency_key_of(concurrency_key text, weight int) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN concurrency_key IS NULL AND weight > 1 THEN '*weight ' || weight::text
  ELSE concurrency_key END;

CREATE FUNCTION pgcron.refuse_concurrency_key(concurrency_key text) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', format('%L is not a concurrency key', left(concurrency_key, 200)),
           'A concurrency key has 1 to 200 characters that can be shown, is not blank and has no '
           '"*".',
           'Write for example ''customer-7''; pgcron.set_concurrency says how many of its runs '
           'execute at once.') $$;

CREATE FUNCTION pgcron.rate_is_fine(rate int, per interval) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN num_nulls(rate, per) = 2
  OR (rate BETWEEN 1 AND 1000000 AND per BETWEEN '100 milliseconds' AND '31 days') IS TRUE;

CREATE FUNCTION pgcron.refuse_rate(rate int, per interval) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001',
           format('a rate of %s per %s is out of range', coalesce(rate::text, 'NULL'),
             coalesce(per::text, 'NULL')),
           'A rate is 1 to 1000000 starts in 100 milliseconds to 31 days; both are given, or '
           'neither.',
           'Write for example rate => 10, per => ''1 minute''.') $$;

-- Whether a text keeps to a number of lines and of characters in each, not counting blank lines and
-- spaces at their ends.
CREATE FUNCTION pgcron.lines_fit(written text, most_lines int, most_characters int) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT count(*) FILTER (WHERE line <> '') <= most_lines
         AND coalesce(max(length(line)), 0) <= most_characters
  FROM (SELECT btrim(each, E' \t\r') AS line FROM unnest(string_to_array(written, E'\n')) each)
    l $$;

CREATE FUNCTION pgcron.is_overlap(overlap text) RETURNS boolean
LANGUAGE sql
RETURN pgcron.is_one_of('overlap policy', overlap, '{skip,allow,queue,replace,terminate}',
       'The policies are skip (do not start while the last run is not over), allow, queue '
       '(wait for it), replace (stop it, then start) and terminate (as replace, by force).',
       'Leave it out for skip.');

CREATE FUNCTION pgcron.refuse_replacing(overlap text, max_running int) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT pgcron.refuse('PC001', format('overlap %s with max_running %s', overlap, max_running),
           'A run that takes the place of the last one runs alone.',
           'Leave max_running out (0 takes it back), or use overlap ''queue''.') $$;

-- Words that people sort schedules and runs by.
CREATE FUNCTION pgcron.are_tags(tags text[]) RETURNS boolean
LANGUAGE sql
RETURN (array_ndims(tags) = 1 AND cardinality(tags) <= 20
        AND (SELECT bool_and((tag ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/+@=-]{0,99}$') IS TRUE)
                    AND count(DISTINCT tag) = count(*) FROM unnest(tags) tag))
  OR pgcron.refuse('PC001', format('tags %s are not a list of tags', left(tags::text, 200)),
       'There are at most 20, none of them twice, each of 1 to 100 letters, digits, "_", ".", ":", '
       '"/", "+", "@", "=" and "-".', 'Write for example ''{nightly,team:billing}''.');

-- Titles and where they lead; a page makes links of them, so nothing but the web's.
CREATE FUNCTION pgcron.links_are_fine(links jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(links) = 'object'
                THEN (SELECT count(*) BETWEEN 1 AND 10
                             AND bool_and(jsonb_typeof(link.value) = 'string'
                                   AND length(link.key) BETWEEN 1 AND 100 AND btrim(link.key) <> ''
                                   AND link.key !~ '[\x01-\x1f\x7f-\x9f]'
                                   AND length(link.value #>> '{}') <= 2000
                                   AND link.value #>> '{}' ~ '^https?://[!-~]+$')
                      FROM jsonb_each(links) link)
              ELSE false END $$;

-- Labels of a node are names and values; a requirement is a list of words, each a label
-- (key=value), or a name alone for any value.
CREATE FUNCTION pgcron.labels_are_fine(labels jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(labels) = 'object'
                THEN (SELECT count(*) <= 64
                             AND coalesce(bool_and(jsonb_typeof(label.value) = 'string'
                                     AND label.key ~ '^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}$'
                                     AND label.value #>> '{}'
                                         ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99}$'),
                                   true)
                      FROM jsonb_each(labels) label)
              ELSE false END $$;

CREATE FUNCTION pgcron.requires_is_fine(requires text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT array_ndims(requires) = 1 AND cardinality(requires) <= 16
         AND (SELECT bool_and((word ~ '^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}'
                                      '(=[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99})?$') IS TRUE)
                     AND count(DISTINCT split_part(word, '=', 1)) = count(*)
              FROM unnest(requires) word) $$;
