-- The schema that the migrations make, for review. Written by: python -m tests.db.dump_schema > tests/db/schema.sql

CREATE SCHEMA pgcron;

COMMENT ON SCHEMA pgcron IS 'pgcron_ha: cron and background jobs';

CREATE FUNCTION pgcron.a_key_names_a_new_run() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  maker text;
  handler text;
  due_at timestamptz;
BEGIN
  SELECT r.created_by, r.handler, r.due_at INTO maker, handler, due_at FROM pgcron.run r WHERE r.id = NEW.run_id AND r.created_at = now();
  IF maker IS NULL THEN      -- cancelled already
    SELECT v.created_by, v.handler, v.due_at INTO maker, handler, due_at FROM pgcron.runs v WHERE v.id = NEW.run_id AND v.created_at = now() LIMIT 1;
  END IF;
  IF maker IS NULL THEN
    PERFORM pgcron.refuse('PC013', format('key %L names run %s, which this transaction did not make', left(NEW.key, 200), NEW.run_id),
      'A key is given to a run that is made with it.', 'Call pgcron.enqueue, not after SET CONSTRAINTS ALL IMMEDIATE.');
  ELSIF TG_TABLE_NAME = 'unique_period' THEN
    IF NEW.handler <> handler OR NEW.until > greatest(now(), due_at) + interval '366 days' THEN
      PERFORM pgcron.refuse('PC013', format('unique key %L of handler %L until %s is not that of run %s', left(NEW.key, 200), left(NEW.handler, 200), NEW.until, NEW.run_id),
        'A unique key is of its run''s handler, and has a time of at most 366 days.', 'Call pgcron.enqueue with unique_key and unique_for.');
    END IF;
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.a_living_key_stays() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.refuse('PC013', format('%s key %L is in use', CASE TG_TABLE_NAME WHEN 'idempotency' THEN 'idempotency' ELSE 'unique' END, left(OLD.key, 200)),
    'Until its time is over it names the run that it was given with.', 'Call pgcron.enqueue, which returns that run.');
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.act_as(actor text, door text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT set_config('pgcron_ha.actor', coalesce(actor, ''), true), set_config('pgcron_ha.door', coalesce(door, ''), true) $$;

CREATE FUNCTION pgcron.actor() RETURNS text
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT COALESCE(NULLIF(current_setting('pgcron_ha.actor'::text, true), ''::text), (SESSION_USER)::text) AS "coalesce";
END;

CREATE FUNCTION pgcron.add_partition(relation text, low timestamp with time zone, high timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  partition text := relation || to_char(low AT TIME ZONE 'UTC', CASE WHEN high > low + interval '2 days' AND low = date_trunc('month', low, 'UTC') THEN '_YYYYMM' ELSE '_YYYYMMDD' END);
BEGIN
  IF low = '-infinity' THEN partition := relation || '_before'; END IF;
  IF EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.relname = partition AND c.relnamespace = 'pgcron'::regnamespace) THEN RETURN false; END IF;
  EXECUTE format('CREATE TABLE pgcron.%I (LIKE pgcron.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', partition, relation);
  EXECUTE format('ALTER TABLE pgcron.%I ATTACH PARTITION pgcron.%I FOR VALUES FROM (%s) TO (%L)', relation, partition,
                 CASE WHEN low = '-infinity' THEN 'MINVALUE' ELSE quote_literal(low) END, high);
  RETURN true;
END $$;

CREATE FUNCTION pgcron.answer_callback(run bigint, fence bigint, token_hash bytea, status text, result jsonb DEFAULT NULL::jsonb, error text DEFAULT NULL::text, retry_after double precision DEFAULT NULL::double precision, done double precision DEFAULT NULL::double precision, total double precision DEFAULT NULL::double precision, note text DEFAULT NULL::text, lines text[] DEFAULT '{}'::text[]) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  none bytea := decode(repeat('00', 32), 'hex');
  expected bytea;
  kept pgcron.callback;
BEGIN
  SELECT c.token_hash INTO expected FROM pgcron.callback c WHERE c.run_id = answer_callback.run AND c.fence = answer_callback.fence;
  IF octet_length(answer_callback.token_hash) IS DISTINCT FROM 32
     OR NOT pgcron.is_same_hash(coalesce(expected, none), answer_callback.token_hash) OR expected IS NULL THEN RETURN 'unknown'; END IF;
  SELECT c.* INTO STRICT kept FROM pgcron.callback c WHERE c.run_id = answer_callback.run AND c.fence = answer_callback.fence FOR UPDATE;
  IF kept.status IS NOT NULL AND answer_callback.status IS NOT NULL THEN
    RETURN CASE WHEN (kept.status, kept.result, kept.error, kept.retry_after)
                     IS NOT DISTINCT FROM (answer_callback.status, answer_callback.result, answer_callback.error, answer_callback.retry_after)
                THEN 'again' ELSE 'other' END;
  END IF;
  IF kept.status IS NOT NULL OR kept.closed_at IS NOT NULL THEN RETURN 'gone'; END IF;
  PERFORM FROM pgcron.run r WHERE r.id = kept.run_id AND r.fence = kept.fence AND r.state = 'running' FOR SHARE;
  IF NOT FOUND THEN RETURN 'gone'; END IF;
  UPDATE pgcron.callback c
     SET answered_at = CASE WHEN answer_callback.status IS NOT NULL THEN clock_timestamp() END, status = answer_callback.status, result = answer_callback.result,
         error = answer_callback.error, retry_after = answer_callback.retry_after, has_news = true, done = coalesce(answer_callback.done, c.done),
         total = CASE WHEN answer_callback.done IS NULL THEN c.total ELSE answer_callback.total END,
         note = CASE WHEN answer_callback.done IS NULL THEN c.note ELSE answer_callback.note END,
         lines = (c.lines || answer_callback.lines)[1:1000]      -- more than a node fetches in a second, and bounded when none does
   WHERE c.run_id = kept.run_id AND c.fence = kept.fence;
  PERFORM pgcron.notify(pgcron.channel(), 'callback');
  RETURN 'taken';
END $$;

COMMENT ON FUNCTION pgcron.answer_callback(run bigint, fence bigint, token_hash bytea, status text, result jsonb, error text, retry_after double precision, done double precision, total double precision, note text, lines text[]) IS 'Takes what a called service says of a run: status succeeded, failed, discarded, retry, or NULL while it goes on. Answers taken, again, other, gone or unknown.';

CREATE FUNCTION pgcron.parts_of_calendar(content text) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT coalesce(array_agg(DISTINCT found[1] ORDER BY found[1]), '{}') FROM unnest(string_to_array(content, E'\n')) line
   CROSS JOIN LATERAL regexp_match(line, E'^[ \\t\\r]*(?:not[ \\t]+)?calendar[ \\t]+([A-Za-z0-9][A-Za-z0-9_.-]*)', 'i') found
   WHERE line ILIKE '%calendar%' AND found IS NOT NULL $$;

CREATE FUNCTION pgcron.refuse(code text, message text, detail text, hint text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = code, MESSAGE = message, DETAIL = detail, HINT = hint;
END $$;

COMMENT ON FUNCTION pgcron.refuse(code text, message text, detail text, hint text) IS 'Raises an error with SQLSTATE, message, detail and hint; boolean so that a CHECK can call it.';

CREATE FUNCTION pgcron.refuse_calendar(content text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC005',
    format('the calendar has %s bytes, or a control character', octet_length(content)),
    'A calendar is text of up to 65536 bytes, with a rule in each line.',
    'Split a longer one, and name the parts with `calendar` lines.') $$;

CREATE FUNCTION pgcron.refuse_words(what text, given text, most integer) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN pgcron.refuse('PC001', format('%s has %s characters', what, length(given)), format('It has at most %s: %s …', most, left(given, 40)), 'Say it in a few words, and keep the rest elsewhere.');
END $$;

CREATE TABLE pgcron.calendar (
    id bigint NOT NULL,
    name text NOT NULL,
    content text NOT NULL,
    version integer DEFAULT 1 NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_by text NOT NULL,
    parts text[] GENERATED ALWAYS AS (pgcron.parts_of_calendar(content)) STORED NOT NULL,
    source text,
    CONSTRAINT a_calendar_is_readable CHECK ((((octet_length(content) <= 65536) AND (content !~ '[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]'::text)) OR pgcron.refuse_calendar(content))),
    CONSTRAINT a_calendar_name_is_one_word CHECK (((name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$'::text) OR pgcron.refuse('PC005'::text, format('%L is not a name of a calendar'::text, "left"(name, 200)), 'A name has 1 to 100 letters, digits, "_", "." and "-", and begins with a letter or a digit.'::text, 'Write for example ''holidays''.'::text))),
    CONSTRAINT a_source_has_a_name CHECK (((source IS NULL) OR (((length(source) >= 1) AND (length(source) <= 200)) AND (btrim(source) <> ''::text)) OR pgcron.refuse('PC001'::text, 'the name of the source is empty or too long'::text, 'A source is a file or a folder of schedules; its name has 1 to 200 characters.'::text, 'Give it a short name, for example ''billing''.'::text))),
    CONSTRAINT calendar_updated_by_is_short CHECK (((updated_by IS NULL) OR (length(updated_by) <= 300) OR pgcron.refuse_words('updated_by'::text, updated_by, 300)))
);

COMMENT ON TABLE pgcron.calendar IS 'Named days that schedules share. Written by put_calendar and delete_calendar, which see to the schedules that use them.';

CREATE FUNCTION pgcron.apply_calendars(contents jsonb, source text, take_over boolean DEFAULT false, actor text DEFAULT NULL::text, schedules text[] DEFAULT '{}'::text[]) RETURNS TABLE(name text, change text, previous pgcron.calendar, content pgcron.calendar, users bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  foreign_one pgcron.calendar;
  before jsonb;
BEGIN
  PERFORM pgcron.act_as(apply_calendars.actor, 'file');
  PERFORM pg_advisory_xact_lock(hashtextextended(pgcron.channel() || '/apply', 0));      -- as apply_schedules, and before it
  PERFORM pgcron.lock_calendars();
  PERFORM FROM pgcron.schedule s WHERE s.name = ANY(apply_calendars.schedules) OR s.source = apply_calendars.source
       OR (s.calendars IS NOT NULL AND s.calendars ?| ARRAY(SELECT jsonb_object_keys(apply_calendars.contents))) ORDER BY s.id FOR UPDATE;
  SELECT c.* INTO foreign_one FROM pgcron.calendar c WHERE apply_calendars.contents ? c.name AND c.source <> apply_calendars.source ORDER BY c.name LIMIT 1;
  IF foreign_one.id IS NOT NULL AND NOT take_over THEN
    PERFORM pgcron.refuse('PC011', format('calendar %L is defined by the files of %L and of %L', foreign_one.name, foreign_one.source, apply_calendars.source),
      'One name has one source: two would undo each other.', 'Remove it from one of them, choose another name, or take it over (--take-over).');
  END IF;
  SELECT jsonb_object_agg(c.name, to_jsonb(c)) INTO before FROM pgcron.calendar c WHERE apply_calendars.contents ? c.name;
  PERFORM pgcron.write_calendars(apply_calendars.contents, apply_calendars.actor, apply_calendars.source);
  RETURN QUERY
    SELECT c.name, CASE WHEN p.id IS NULL THEN 'added' WHEN p.version = c.version THEN 'unchanged' ELSE 'changed' END, p, c,
           (SELECT count(*) FROM pgcron.schedule s WHERE s.calendars IS NOT NULL AND s.calendars ? c.name)
      FROM pgcron.calendar c CROSS JOIN LATERAL jsonb_populate_record(NULL::pgcron.calendar, before -> c.name) p
     WHERE apply_calendars.contents ? c.name ORDER BY c.name;
END $$;

COMMENT ON FUNCTION pgcron.apply_calendars(contents jsonb, source text, take_over boolean, actor text, schedules text[]) IS 'Makes the calendars of a source what its files say, all at once.';

CREATE FUNCTION pgcron.apply_edit(edited bigint, timing_changes boolean DEFAULT false) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  cursor_before pgcron.cursor;
  schedule_now pgcron.schedule;
  edit_time timestamptz;
  untold text;
  told_until timestamptz;
  taken_back int;
  first_delayed timestamptz;
BEGIN
  SELECT * INTO cursor_before FROM pgcron.cursor WHERE schedule_id = edited FOR UPDATE;
  SELECT * INTO schedule_now FROM pgcron.schedule WHERE id = edited;
  IF cursor_before IS NULL OR schedule_now IS NULL THEN RETURN; END IF;
  IF schedule_now.enabled THEN cursor_before := pgcron.with_pending_pause(cursor_before); END IF;
  PERFORM FROM pgcron.run WHERE schedule_id = edited AND origin = 'schedule' AND state = 'ready' AND attempt = 0 ORDER BY id FOR UPDATE;
  edit_time := clock_timestamp();
  WITH gone AS (
    DELETE FROM pgcron.run WHERE schedule_id = edited AND origin = 'schedule' AND state = 'ready' AND attempt = 0
                             AND due_at > edit_time
                             AND (scheduled_for > edit_time OR (NOT (timing_changes OR cursor_before.timing_is_new) AND pgcron.is_delayed(schedule_now, scheduled_for, due_at)))
                           RETURNING scheduled_for),
  forgotten AS (
    DELETE FROM pgcron.occurrence o WHERE o.schedule_id = edited
      AND (o.fire_at IN (SELECT scheduled_for FROM gone) OR (o.fire_at > edit_time AND o.run_id IS NULL)))
  SELECT count(*), min(scheduled_for) FILTER (WHERE scheduled_for <= edit_time) INTO taken_back, first_delayed FROM gone;
  untold := pgcron.untold(cursor_before, edit_time);
  told_until := edit_time;
  IF NOT (timing_changes OR cursor_before.timing_is_new) THEN
    IF untold = 'edited' OR (NOT schedule_now.enabled AND untold <> 'completed') THEN
      untold := NULL;      -- decided late, as the timing is the same; or told when the pause is over
    ELSIF untold = 'paused' THEN
      told_until := CASE schedule_now.after_pause WHEN 'catchup' THEN cursor_before.watermark
                                                  ELSE greatest(least(cursor_before.paused_until, edit_time), cursor_before.watermark, cursor_before.since) END;
    END IF;
  ELSIF NOT schedule_now.enabled AND untold <> 'completed' AND NOT (untold = 'paused' AND schedule_now.after_pause = 'catchup') THEN
    untold := NULL;
  END IF;
  IF untold IS NOT NULL AND told_until > cursor_before.watermark THEN
    PERFORM pgcron.tell_missed(cursor_before, told_until, untold);
  END IF;
  UPDATE pgcron.cursor SET generation = generation + 1, since = edit_time, next_fire = NULL, status = 'unchecked', error = NULL, retry_at = NULL,
         canonical = NULL, is_paused = NOT schedule_now.enabled, edit_is_pending = false, timing_is_new = false,
         pause_note = CASE WHEN NOT schedule_now.enabled THEN concat_ws(': ', schedule_now.paused_by, schedule_now.paused_note) END, paused_until = schedule_now.paused_until,
         runs_made = CASE WHEN schedule_now.max_runs IS NULL THEN 0 ELSE greatest(runs_made - taken_back, 0) END,
         watermark = least(first_delayed - interval '1 microsecond',
                           CASE WHEN untold IS NOT NULL THEN told_until WHEN status = 'valid' AND next_fire > edit_time THEN edit_time ELSE least(watermark, edit_time) END)
   WHERE schedule_id = edited;
  UPDATE pgcron.schedule_version SET since = edit_time WHERE schedule_id = edited AND since IS NULL;
END $$;

COMMENT ON FUNCTION pgcron.apply_edit(edited bigint, timing_changes boolean) IS 'Removes the outdated future runs of an edited schedule and starts a new generation. Needs READ COMMITTED.';

CREATE FUNCTION pgcron.handler_is_fine(handler text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT ((handler ~ '^[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]*$'::text) AND (length(handler) <= 206));
END;

CREATE FUNCTION pgcron.lane_is_fine(lane text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT (((length(lane) >= 1) AND (length(lane) <= 200)) AND (btrim(lane) <> ''::text) AND (lane !~ '[*\x01-\x1f\x7f-\x9f]'::text));
END;

CREATE FUNCTION pgcron.refuse_args(args jsonb) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT CASE WHEN jsonb_typeof(args) <> 'object' THEN
    pgcron.refuse('PC001', format('args is a JSON %s', jsonb_typeof(args)), 'args must be a JSON object: names and values.',
                  'Write for example ''{"day": 1}''.')
  WHEN octet_length(args::text) <= 262144 THEN
    pgcron.refuse('PC004', 'args is nested more than 100 levels deep',
                  'Objects and lists of args may stand in each other 100 levels deep.',
                  'Write it flatter, or pass the nested value as one text.')
  ELSE
    pgcron.refuse('PC004', format('args has %s bytes', octet_length(args::text)), 'args may have 262144 bytes (256 KiB) as JSON text.',
                  'Store the payload in a table or file of yours and pass its key.') END $$;

CREATE FUNCTION pgcron.refuse_handler(handler text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('handler %L is not a handler name', left(handler, 200)),
    'A handler is written kind:name; the kinds are py, shell, http, sql and those of other executors, the name has letters, digits, "_", "." and "-".',
    'Write for example ''py:report'' or ''shell:backup''; `pgcron-ha nodes` lists what live nodes offer.') $$;

CREATE FUNCTION pgcron.refuse_lane(lane text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('lane %L is not the name of a lane', left(lane, 200)),
    'A lane has 1 to 200 characters that can be shown, is not blank and has no "*".', 'Write for example ''customer-7''; pgcron.set_lane says how many of its runs execute at once.') $$;

CREATE FUNCTION pgcron.refuse_overlap(overlap text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('overlap policy %L is not known', left(overlap, 100)),
    'The policies are skip (do not start while the last run is not over), allow, queue (wait for it), replace (stop it, then start) and terminate (as replace, by force).', 'Leave it out for skip.') $$;

CREATE FUNCTION pgcron.refuse_replacing(overlap text, max_running integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('overlap %s with max_running %s', overlap, max_running), 'A run that takes the place of the last one runs alone.',
    'Leave max_running out (0 takes it back), or use overlap ''queue''.') $$;

CREATE FUNCTION pgcron.refuse_requires(requires text[]) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('requires %L is not a list of labels', left(requires::text, 200)),
    'It has 1 to 16 labels, none of them twice: key=value, or a key alone for any value. Keys have 1 to 100 letters, digits, "_", ".", "/" and "-", values may have ":", "+" and "@", too.',
    'Write for example ''{gpu=a100,ssd}''; `pgcron-ha nodes` lists the labels of live nodes.') $$;

CREATE FUNCTION pgcron.refuse_spec(spec text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC002',
    format('the spec is empty, or has %s characters, or one that is not ASCII', length(spec)),
    'A spec has 1 to 4096 ASCII characters, one line for each rule, exclusion or bound.',
    'Write for example ''0 3 * * *''.') $$;

CREATE FUNCTION pgcron.refuse_weight(weight integer) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('weight %s is out of range', weight), 'A run takes 1 to 1000 of the slots of the node that executes it.', 'Leave it out for 1.') $$;

CREATE FUNCTION pgcron.requires_is_fine(requires text[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
  SELECT array_ndims(requires) = 1 AND cardinality(requires) <= 16
     AND (SELECT bool_and((word ~ '^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}(=[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99})?$') IS TRUE) AND count(DISTINCT split_part(word, '=', 1)) = count(*)
            FROM unnest(requires) word) $_$;

CREATE FUNCTION pgcron.retry_policy_is_fine(policy jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
  known_keys text[] := '{backoff,base,cap,jitter,retry_for,retry_on,discard_on,snooze_on,snoozes}';
  a_cause text := 'A cause is the name of an error''s class, exit:N, signal:N, http:N, an SQLSTATE, failed, timed_out or lease_lost; there may be 50.';
BEGIN
  IF jsonb_typeof(policy) <> 'object' THEN
    RETURN pgcron.refuse_retry('it is a JSON ' || jsonb_typeof(policy), 'A retry policy is a JSON object.');
  ELSIF octet_length(policy::text) > 8192 THEN
    RETURN pgcron.refuse('PC004', format('retry has %s bytes', octet_length(policy::text)), 'A retry policy may have 8192 bytes as JSON text.', 'Name fewer causes.');
  ELSIF policy - known_keys <> '{}' THEN
    RETURN pgcron.refuse_retry(format('%L is no key of a policy', left((SELECT min(key) FROM jsonb_object_keys(policy - known_keys) key), 100)),
      'The keys are ' || array_to_string(known_keys, ', ') || '.');
  ELSIF policy ? 'backoff' AND NOT (policy -> 'backoff' IN ('"exponential"', '"linear"', '"fixed"') OR pgcron.delays_are_fine(policy -> 'backoff')) THEN
    RETURN pgcron.refuse_retry(format('backoff %s is not known', left((policy -> 'backoff')::text, 100)),
      'It is "exponential", "linear", "fixed" or a list of 1 to 100 delays: seconds or intervals of up to 366 days.');
  ELSIF policy ? 'base' AND (pgcron.policy_interval(policy -> 'base') BETWEEN '1 microsecond' AND '1 day') IS NOT TRUE THEN
    RETURN pgcron.refuse_retry(format('base %s is out of range', left((policy -> 'base')::text, 100)), 'The first retry waits up to this long: more than nothing, at most a day.');
  ELSIF policy ? 'cap' AND (pgcron.policy_interval(policy -> 'cap') BETWEEN '1 microsecond' AND '30 days') IS NOT TRUE THEN
    RETURN pgcron.refuse_retry(format('cap %s is out of range', left((policy -> 'cap')::text, 100)), 'No retry waits longer than this: more than nothing, at most 30 days.');
  ELSIF policy ? 'jitter' AND jsonb_typeof(policy -> 'jitter') <> 'boolean' THEN
    RETURN pgcron.refuse_retry(format('jitter is a JSON %s', jsonb_typeof(policy -> 'jitter')), 'It is true or false.');
  ELSIF policy ? 'retry_for' AND (pgcron.policy_interval(policy -> 'retry_for') > '0') IS NOT TRUE THEN
    RETURN pgcron.refuse_retry(format('retry_for %s is out of range', left((policy -> 'retry_for')::text, 100)),
      'No retry begins later than this after the first attempt: more than nothing, at most 366 days.');
  ELSIF policy ? 'retry_on' AND NOT pgcron.causes_are_fine(policy -> 'retry_on') THEN
    RETURN pgcron.refuse_retry(format('retry_on %s is no list of causes', left((policy -> 'retry_on')::text, 100)), a_cause);
  ELSIF policy ? 'discard_on' AND NOT pgcron.causes_are_fine(policy -> 'discard_on') THEN
    RETURN pgcron.refuse_retry(format('discard_on %s is no list of causes', left((policy -> 'discard_on')::text, 100)), a_cause);
  ELSIF policy ? 'snooze_on' AND NOT pgcron.snoozes_are_fine(policy -> 'snooze_on') THEN
    RETURN pgcron.refuse_retry(format('snooze_on %s does not name causes and delays', left((policy -> 'snooze_on')::text, 100)), 'It is an object of causes and delays. ' || a_cause);
  ELSIF policy ? 'snoozes' AND ((policy ->> 'snoozes') ~ E'^\\d{1,4}$' AND jsonb_typeof(policy -> 'snoozes') = 'number' AND (policy ->> 'snoozes')::numeric <= 1000) IS NOT TRUE THEN
    RETURN pgcron.refuse_retry(format('snoozes %s is out of range', left((policy -> 'snoozes')::text, 100)), 'A run may be snoozed 0 to 1000 times.');
  END IF;
  RETURN true;
END $_$;

COMMENT ON FUNCTION pgcron.retry_policy_is_fine(policy jsonb) IS 'True for a retry policy; raises PC001 or PC004 with message, detail and hint otherwise.';

CREATE FUNCTION pgcron.time_limits_fit(give_up_after interval, silence_timeout interval) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  -- In seconds, as runs keep it: a year of an interval has 360 days when it is compared, and 365.25 as seconds.
  IF extract(epoch FROM give_up_after) <= 0 OR extract(epoch FROM give_up_after) > 31622400 THEN
    RETURN pgcron.refuse('PC001', format('give_up_after %s is out of range', give_up_after),
      'A run is given up so long after it was due, whatever it is doing: more than nothing, at most 366 days.', 'Leave it out to wait for its last attempt.');
  ELSIF extract(epoch FROM silence_timeout) < 1 OR extract(epoch FROM silence_timeout) > 2592000 THEN
    RETURN pgcron.refuse('PC001', format('silence_timeout %s is out of range', silence_timeout),
      'A run that gives no sign for so long is stopped: 1 second to 30 days.', 'Write for example ''5 minutes'', or leave it out.');
  END IF;
  RETURN true;
END $$;

CREATE TABLE pgcron.schedule (
    id bigint NOT NULL,
    uuid uuid DEFAULT gen_random_uuid() NOT NULL,
    name text NOT NULL,
    spec text NOT NULL,
    timezone text DEFAULT 'UTC'::text NOT NULL,
    dst text DEFAULT 'vixie'::text NOT NULL,
    handler text NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    queue text DEFAULT 'default'::text NOT NULL,
    priority smallint DEFAULT 5 NOT NULL,
    enabled boolean DEFAULT true NOT NULL,
    paused_note text,
    paused_by text,
    overlap text DEFAULT 'skip'::text NOT NULL,
    max_running integer,
    max_queued integer,
    queue_drops text,
    catchup text DEFAULT 'latest'::text NOT NULL,
    catchup_window interval DEFAULT '01:00:00'::interval NOT NULL,
    start_deadline interval,
    timeout interval DEFAULT '01:00:00'::interval NOT NULL,
    max_attempts integer,
    retry_base interval DEFAULT '00:00:02'::interval NOT NULL,
    retry_cap interval DEFAULT '01:00:00'::interval NOT NULL,
    retry jsonb,
    delivery text DEFAULT 'at_least_once'::text NOT NULL,
    lane text,
    requires text[],
    give_up_after interval,
    silence_timeout interval,
    weight integer DEFAULT 1 NOT NULL,
    paused_until timestamp with time zone,
    after_pause text DEFAULT 'drop'::text NOT NULL,
    jitter interval,
    spread_window interval,
    depends_on_previous boolean DEFAULT false NOT NULL,
    max_runs integer,
    pause_after_failures integer,
    probe_after interval,
    calendars jsonb,
    managed_by text DEFAULT 'sql'::text NOT NULL,
    source text,
    version integer DEFAULT 1 NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_catchup_policy_is_known CHECK (((catchup ~ '^(latest( ([2-9]|[1-9][0-9]|100))?|all|none)$'::text) OR pgcron.refuse('PC001'::text, format('catch-up policy %L is not known'::text, "left"(catchup, 100)), 'The policies are latest (run the newest late fire), latest 2 to latest 100, all (of the catch-up window) and none.'::text, 'Leave it out for latest.'::text))),
    CONSTRAINT a_catchup_window_is_at_most_a_century CHECK (((catchup_window <= '36525 days'::interval) OR pgcron.refuse('PC001'::text, format('catch-up window %s is longer than a century'::text, catchup_window), 'It says how old a missed fire may be to be run late: at most 36525 days.'::text, 'Write for example ''30 days''.'::text))),
    CONSTRAINT a_catchup_window_is_positive CHECK (((catchup_window > '00:00:00'::interval) OR pgcron.refuse('PC001'::text, format('catch-up window %s is not positive'::text, catchup_window), 'It says how old a missed fire may be to be run late.'::text, 'Write for example ''1 hour''; catchup ''none'' runs nothing late.'::text))),
    CONSTRAINT a_dst_policy_is_known CHECK (((dst = ANY (ARRAY['vixie'::text, 'robfig'::text, 'skip'::text])) OR pgcron.refuse('PC001'::text, format('DST policy %L is not known'::text, "left"(dst, 100)), 'The policies are vixie, robfig and skip.'::text, 'Leave it out for vixie, which is what cron does.'::text))),
    CONSTRAINT a_fire_is_delayed_in_one_way CHECK (((jitter IS NULL) OR (spread_window IS NULL) OR pgcron.refuse('PC001'::text, format('jitter %s with spread_window %s'::text, jitter, spread_window), 'A fire is delayed by another time each (jitter) or by the same at each (spread_window).'::text, 'Choose one of them.'::text))),
    CONSTRAINT a_full_queue_drops_the_newest_or_oldest CHECK (((queue_drops IS NULL) OR (queue_drops = ANY (ARRAY['newest'::text, 'oldest'::text])) OR pgcron.refuse('PC001'::text, format('queue_drops %L is not known'::text, "left"(queue_drops, 100)), 'A full queue drops the newest or the oldest of its runs.'::text, 'Leave it out for newest.'::text))),
    CONSTRAINT a_jitter_is_at_most_a_day CHECK (((jitter IS NULL) OR ((jitter > '00:00:00'::interval) AND (jitter <= '1 day'::interval)) OR pgcron.refuse('PC001'::text, format('jitter %s is out of range'::text, jitter), 'Each fire is due so much later at most: more than nothing, up to 1 day.'::text, 'Write for example ''10 minutes''; leave it out for none.'::text))),
    CONSTRAINT a_pause_ends_at_an_instant CHECK (((paused_until IS NULL) OR isfinite(paused_until) OR pgcron.refuse('PC001'::text, format('paused_until %s is no instant'::text, paused_until), 'A pause ends at an instant, or when somebody resumes the schedule.'::text, 'Leave it out to pause until somebody resumes it.'::text))),
    CONSTRAINT a_pause_ends_within_the_calendar CHECK (((paused_until IS NULL) OR (NOT isfinite(paused_until)) OR (paused_until < to_timestamp(('253370764800'::bigint)::double precision)) OR pgcron.refuse('PC001'::text, format('paused_until %s is outside of the calendar'::text, paused_until), 'A pause ends in the year 9998 at the latest.'::text, 'Leave it out for a pause without an end.'::text))),
    CONSTRAINT a_probe_comes_after_1_second_to_1_day CHECK (((probe_after IS NULL) OR ((probe_after >= '00:00:01'::interval) AND (probe_after <= '1 day'::interval)) OR pgcron.refuse('PC001'::text, format('probe_after %s is out of range'::text, probe_after), 'A schedule that failures have paused is probed after 1 second to 1 day.'::text, 'Write for example ''10 minutes''; leave it out to stay paused until somebody resumes it.'::text))),
    CONSTRAINT a_retry_base_is_positive CHECK ((((retry_base > '00:00:00'::interval) AND (retry_base <= '1 day'::interval)) OR pgcron.refuse('PC001'::text, format('retry_base %s is out of range'::text, retry_base), 'The first retry waits up to this long; it doubles with each attempt.'::text, 'Write for example ''2 seconds''.'::text))),
    CONSTRAINT a_retry_cap_is_positive CHECK ((((retry_cap > '00:00:00'::interval) AND (retry_cap <= '30 days'::interval)) OR pgcron.refuse('PC001'::text, format('retry_cap %s is out of range'::text, retry_cap), 'No retry waits longer than this.'::text, 'Write for example ''1 hour''.'::text))),
    CONSTRAINT a_retry_policy_is_readable CHECK (((retry IS NULL) OR pgcron.retry_policy_is_fine(retry))),
    CONSTRAINT a_schedule_delivery_is_known CHECK (((delivery = ANY (ARRAY['at_least_once'::text, 'at_most_once'::text, 'transactional'::text])) OR pgcron.refuse('PC001'::text, format('delivery %L is not known'::text, "left"(delivery, 100)), 'This version knows at_least_once, at_most_once and transactional.'::text, 'Leave it out for at_least_once.'::text))),
    CONSTRAINT a_schedule_ends_after_1_to_1000000000_runs CHECK (((max_runs IS NULL) OR ((max_runs >= 1) AND (max_runs <= 1000000000)) OR pgcron.refuse('PC001'::text, format('max_runs %s is out of range'::text, max_runs), 'A schedule ends after 1 to 1000000000 runs.'::text, 'Leave it out for a schedule that goes on.'::text))),
    CONSTRAINT a_schedule_gives_up_in_reason CHECK (((give_up_after IS NULL) OR pgcron.time_limits_fit(give_up_after, NULL::interval))),
    CONSTRAINT a_schedule_is_managed_by_a_door CHECK (((managed_by = ANY (ARRAY['sql'::text, 'code'::text, 'file'::text, 'cli'::text, 'ui'::text])) OR pgcron.refuse('PC001'::text, format('managed_by %L is not known'::text, "left"(managed_by, 100)), 'A schedule is managed by cli, code, file, sql or ui.'::text, 'Leave it out: it stays as it is, and a new schedule belongs to the door that makes it.'::text))),
    CONSTRAINT a_schedule_name_has_1_to_200_characters CHECK (((((length(name) >= 1) AND (length(name) <= 200)) AND (btrim(name) <> ''::text) AND (name !~ '[\x01-\x1f\x7f-\x9f]'::text)) OR pgcron.refuse('PC001'::text, 'the schedule''s name is empty, too long or has a control character'::text, 'A name has 1 to 200 characters that can be shown.'::text, 'Give it a short name, for example ''nightly''.'::text))),
    CONSTRAINT a_schedule_names_a_handler CHECK ((pgcron.handler_is_fine(handler) OR pgcron.refuse_handler(handler))),
    CONSTRAINT a_schedule_names_a_lane CHECK (((lane IS NULL) OR pgcron.lane_is_fine(lane) OR pgcron.refuse_lane(lane))),
    CONSTRAINT a_schedule_names_a_queue CHECK ((((queue ~ '^[A-Za-z0-9_.-]+$'::text) AND (length(queue) <= 100)) OR pgcron.refuse('PC001'::text, format('queue %L is not a queue name'::text, "left"(queue, 200)), 'A queue name has 1 to 100 letters, digits, "_", "." and "-".'::text, 'Write for example ''default''.'::text))),
    CONSTRAINT a_schedule_pauses_after_1_to_1000_failures CHECK (((pause_after_failures IS NULL) OR ((pause_after_failures >= 1) AND (pause_after_failures <= 1000)) OR pgcron.refuse('PC001'::text, format('pause_after_failures %s is out of range'::text, pause_after_failures), 'A schedule pauses itself after 1 to 1000 failures in a row.'::text, 'Leave it out to go on whatever fails.'::text))),
    CONSTRAINT a_schedule_priority_is_0_to_9 CHECK ((((priority >= 0) AND (priority <= 9)) OR pgcron.refuse('PC001'::text, format('priority %s is out of range'::text, priority), 'A priority is a number from 0 (first) to 9 (last).'::text, 'Leave it out for 5.'::text))),
    CONSTRAINT a_schedule_requires_labels CHECK (((requires IS NULL) OR pgcron.requires_is_fine(requires) OR pgcron.refuse_requires(requires))),
    CONSTRAINT a_schedule_silence_timeout_is_in_reason CHECK (((silence_timeout IS NULL) OR pgcron.time_limits_fit(NULL::interval, silence_timeout))),
    CONSTRAINT a_schedule_timeout_is_positive CHECK ((((timeout > '00:00:00'::interval) AND (timeout <= '30 days'::interval)) OR pgcron.refuse('PC001'::text, format('timeout %s is out of range'::text, timeout), 'A timeout is longer than nothing and at most 30 days.'::text, 'Write for example ''10 minutes''.'::text))),
    CONSTRAINT a_schedule_weight_is_1_to_1000 CHECK ((((weight >= 1) AND (weight <= 1000)) OR pgcron.refuse_weight(weight))),
    CONSTRAINT a_source_has_a_name CHECK (((source IS NULL) OR (((length(source) >= 1) AND (length(source) <= 200)) AND (btrim(source) <> ''::text)) OR pgcron.refuse('PC001'::text, 'the name of the source is empty or too long'::text, 'A source is a file or a folder of schedules; its name has 1 to 200 characters.'::text, 'Give it a short name, for example ''billing''.'::text))),
    CONSTRAINT a_spec_is_readable CHECK ((((length(spec) <= 4096) AND (spec ~ '^[\x09\x0a\x0d\x20-\x7e]*$'::text) AND (spec ~ '[!-~]'::text)) OR pgcron.refuse_spec(spec))),
    CONSTRAINT a_spread_window_is_at_most_a_day CHECK (((spread_window IS NULL) OR ((spread_window > '00:00:00'::interval) AND (spread_window <= '1 day'::interval)) OR pgcron.refuse('PC001'::text, format('spread_window %s is out of range'::text, spread_window), 'All fires are due later by one delay within it: more than nothing, up to 1 day.'::text, 'Write for example ''30 minutes''; leave it out for none.'::text))),
    CONSTRAINT a_start_deadline_is_at_most_a_century CHECK (((start_deadline IS NULL) OR (start_deadline <= '36525 days'::interval) OR pgcron.refuse('PC001'::text, format('start deadline %s is longer than a century'::text, start_deadline), 'A run that has not started this long after its fire time expires: at most 36525 days.'::text, 'Leave it out to wait for ever.'::text))),
    CONSTRAINT a_start_deadline_is_positive CHECK (((start_deadline IS NULL) OR (start_deadline > '00:00:00'::interval) OR pgcron.refuse('PC001'::text, format('start deadline %s is not positive'::text, start_deadline), 'A run that has not started this long after its fire time expires.'::text, 'Leave it out to wait for ever.'::text))),
    CONSTRAINT all_late_fires_are_those_of_31_days_at_most CHECK (((catchup <> 'all'::text) OR (catchup_window <= '31 days'::interval) OR pgcron.refuse('PC001'::text, format('catch-up all with a window of %s'::text, catchup_window), 'All late fires run only within a bound: 31 days at most.'::text, 'Give a shorter catchup_window.'::text))),
    CONSTRAINT an_overlap_policy_is_known CHECK (((overlap = ANY (ARRAY['skip'::text, 'allow'::text, 'queue'::text, 'replace'::text, 'terminate'::text])) OR pgcron.refuse_overlap(overlap))),
    CONSTRAINT at_most_1_to_1000_wait CHECK (((max_queued IS NULL) OR ((max_queued >= 1) AND (max_queued <= 1000)) OR pgcron.refuse('PC001'::text, format('max_queued %s is out of range'::text, max_queued), 'So many runs may wait with overlap queue: 1 to 1000.'::text, 'Leave it out for 1000.'::text))),
    CONSTRAINT at_most_once_means_one_attempt CHECK (((delivery <> 'at_most_once'::text) OR (COALESCE(max_attempts, 1) = 1) OR pgcron.refuse('PC001'::text, format('max_attempts %s with at_most_once'::text, max_attempts), 'A run that may be executed at most once can''t be tried again.'::text, 'Leave max_attempts out, or use at_least_once.'::text))),
    CONSTRAINT at_once_run_1_to_1000 CHECK (((max_running IS NULL) OR ((max_running >= 1) AND (max_running <= 1000)) OR pgcron.refuse('PC001'::text, format('max_running %s is out of range'::text, max_running), 'So many runs of a schedule may execute at once: 1 to 1000.'::text, 'Leave it out for 1 (for no limit with overlap allow).'::text))),
    CONSTRAINT only_a_pause_ends_by_itself CHECK (((paused_until IS NULL) OR (NOT enabled) OR pgcron.refuse('PC001'::text, format('paused_until %s of a schedule that is not paused'::text, paused_until), 'It says when a pause ends by itself.'::text, 'Pause it: pgcron.pause_schedule(name, until => …).'::text))),
    CONSTRAINT only_a_queue_has_a_length CHECK (((overlap = 'queue'::text) OR (num_nonnulls(max_queued, queue_drops) = 0) OR pgcron.refuse('PC001'::text, format('%s with overlap %L'::text,
CASE
    WHEN (max_queued IS NULL) THEN 'queue_drops'::text
    ELSE 'max_queued'::text
END, overlap), 'Only with overlap queue is there a bound to what waits.'::text, 'Use overlap ''queue'', or take them back: max_queued 0, queue_drops ''''.'::text))),
    CONSTRAINT only_py_and_sql_handlers_share_a_transaction CHECK (((delivery <> 'transactional'::text) OR (handler ~ '^(py|sql):'::text) OR pgcron.refuse('PC001'::text, format('delivery transactional with handler %L'::text, "left"(handler, 200)), 'Only py: and sql: handlers can have their effects in the transaction that completes the run.'::text, 'Use at_least_once, and give the idempotency key to whoever must not do it twice.'::text))),
    CONSTRAINT only_what_pauses_after_failures_is_probed CHECK (((probe_after IS NULL) OR (pause_after_failures IS NOT NULL) OR pgcron.refuse('PC001'::text, format('probe_after %s without pause_after_failures'::text, probe_after), 'What is probed is a schedule that failures have paused.'::text, 'Say after how many: pause_after_failures.'::text))),
    CONSTRAINT schedule_args_are_an_object_of_256_kib CHECK ((((jsonb_typeof(args) = 'object'::text) AND ((octet_length((args)::text) <= 200) OR ((octet_length((args)::text) <= 262144) AND (NOT jsonb_path_exists(args, 'strict $.**{100}?(@.type() == "array" || @.type() == "object")'::jsonpath))))) OR pgcron.refuse_args(args))),
    CONSTRAINT schedule_attempts_are_1_to_100 CHECK (((max_attempts IS NULL) OR ((max_attempts >= 1) AND (max_attempts <= 100)) OR pgcron.refuse('PC001'::text, format('max_attempts %s is out of range'::text, max_attempts), 'A run is tried 1 to 100 times.'::text, 'Leave it out for 5 (1 with at_most_once).'::text))),
    CONSTRAINT schedule_paused_by_is_short CHECK (((paused_by IS NULL) OR (length(paused_by) <= 300) OR pgcron.refuse_words('paused_by'::text, paused_by, 300))),
    CONSTRAINT schedule_paused_note_is_short CHECK (((paused_note IS NULL) OR (length(paused_note) <= 2000) OR pgcron.refuse_words('paused_note'::text, paused_note, 2000))),
    CONSTRAINT several_late_fires_need_overlap_allow CHECK (((catchup = ANY (ARRAY['latest'::text, 'none'::text])) OR (overlap = ANY (ARRAY['allow'::text, 'queue'::text])) OR pgcron.refuse('PC001'::text, format('catch-up policy %L with overlap %L'::text, "left"(catchup, 100), overlap), 'Late fires are due together, and all but one of them would not run.'::text, 'Use overlap ''queue'', so that they run one after the other, or ''allow''; or catch-up ''latest''.'::text))),
    CONSTRAINT what_happens_after_a_pause_is_known CHECK (((after_pause = ANY (ARRAY['drop'::text, 'catchup'::text])) OR pgcron.refuse('PC001'::text, format('after_pause %L is not known'::text, "left"(after_pause, 100)), 'What a pause held back is dropped (drop), or the catch-up policy decides about it (catchup).'::text, 'Leave it out for drop.'::text))),
    CONSTRAINT what_replaces_runs_alone CHECK (((overlap <> ALL (ARRAY['replace'::text, 'terminate'::text])) OR (COALESCE(max_running, 1) = 1) OR pgcron.refuse_replacing(overlap, max_running))),
    CONSTRAINT who_catches_up_on_a_pause_catches_up CHECK (((after_pause <> 'catchup'::text) OR (catchup <> 'none'::text) OR pgcron.refuse('PC001'::text, 'after_pause ''catchup'' with catch-up policy ''none'''::text, 'The catch-up policy decides about what a pause held back, and none runs nothing late.'::text, 'Use after_pause ''drop'', or catch-up ''latest'' with a window as long as the pause.'::text))),
    CONSTRAINT who_depends_on_the_last_run_waits_for_it CHECK (((NOT depends_on_previous) OR ((overlap = ANY (ARRAY['skip'::text, 'queue'::text])) AND (COALESCE(max_running, 1) = 1)) OR pgcron.refuse('PC001'::text, format('depends_on_previous with overlap %L%s'::text, overlap,
CASE
    WHEN (max_running > 1) THEN format(' and max_running %s'::text, max_running)
    ELSE ''::text
END), 'Whether the fire before it succeeded is known when it is over: with overlap skip or queue, one run at a time.'::text, 'Use overlap ''skip'' or ''queue'', and leave max_running out.'::text)))
)
WITH (fillfactor='90');

COMMENT ON TABLE pgcron.schedule IS 'What people write: when, what and how. INSERT, UPDATE and DELETE by plain SQL just work.';

CREATE FUNCTION pgcron.apply_schedules(definitions jsonb, source text, prune boolean DEFAULT false, take_over boolean DEFAULT false, actor text DEFAULT NULL::text) RETURNS TABLE(name text, change text, previous pgcron.schedule, content pgcron.schedule)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  definition jsonb;
  defaults jsonb := pgcron.schedule_defaults() || jsonb_build_object('managed_by', 'file', 'source', apply_schedules.source);
  foreign_one pgcron.schedule;
  names text[];
BEGIN
  PERFORM pgcron.judge_definitions(apply_schedules.definitions, apply_schedules.source);
  names := ARRAY(SELECT d ->> 'name' FROM jsonb_array_elements(apply_schedules.definitions) d);
  PERFORM pgcron.act_as(apply_schedules.actor, 'file');
  PERFORM pg_advisory_xact_lock(hashtextextended(pgcron.channel() || '/apply', 0));      -- one after the other: two may make the same name
  PERFORM FROM pgcron.schedule s WHERE s.name = ANY(names) OR s.source = apply_schedules.source ORDER BY s.id FOR UPDATE;
  SELECT s.* INTO foreign_one FROM pgcron.schedule s WHERE s.name = ANY(names) AND s.source <> apply_schedules.source ORDER BY s.name LIMIT 1;
  IF foreign_one.id IS NOT NULL AND NOT take_over THEN
    PERFORM pgcron.refuse('PC011', format('schedule %L is defined by the files of %L and of %L', foreign_one.name, foreign_one.source, apply_schedules.source),
      'One name has one source: two would undo each other.', 'Remove it from one of them, choose another name, or take it over (--take-over).');
  END IF;
  FOR definition IN SELECT d FROM jsonb_array_elements(apply_schedules.definitions) d ORDER BY d ->> 'name' LOOP
    name := definition ->> 'name';
    previous := NULL;
    SELECT s.* INTO previous FROM pgcron.schedule s WHERE s.name = definition ->> 'name';
    PERFORM pgcron.put_defined_schedule(definition, previous, defaults);
    SELECT s.* INTO content FROM pgcron.schedule s WHERE s.name = definition ->> 'name';
    change := CASE WHEN previous.id IS NULL THEN 'added' WHEN previous.version = content.version THEN 'unchanged' ELSE 'changed' END;
    RETURN NEXT;
  END LOOP;
  IF prune THEN
    RETURN QUERY SELECT p.name, 'pruned', p.previous, NULL::pgcron.schedule FROM pgcron.prune_schedules(apply_schedules.source, names, apply_schedules.actor) p;
  END IF;
END $$;

COMMENT ON FUNCTION pgcron.apply_schedules(definitions jsonb, source text, prune boolean, take_over boolean, actor text) IS 'Makes the schedules of a source what its files say, in one transaction.';

CREATE FUNCTION pgcron.ask_preview(asked bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF current_setting('transaction_read_only')::boolean THEN RETURN; END IF;      -- a standby, or a reader: others ask
  INSERT INTO pgcron.schedule_preview AS p (schedule_id, asked_at) VALUES (asked, now())
  ON CONFLICT (schedule_id) DO UPDATE SET asked_at = EXCLUDED.asked_at WHERE p.asked_at IS NULL;
END $$;

CREATE FUNCTION pgcron.assert_token(run bigint, token uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM FROM pgcron.run r WHERE r.id = assert_token.run AND r.token = assert_token.token;
  IF NOT FOUND THEN PERFORM pgcron.refuse_claim(assert_token.run); END IF;
  INSERT INTO pgcron.assertion (run, token) VALUES (assert_token.run, assert_token.token) ON CONFLICT DO NOTHING;
END $$;

COMMENT ON FUNCTION pgcron.assert_token(run bigint, token uuid) IS 'Raises PC012 now, or at the end of the caller''s transaction, if the token does not hold the run (any more): it can''t commit after the run was taken away. Nobody waits for the caller before its COMMIT.';

CREATE TABLE pgcron.run (
    id bigint NOT NULL,
    uuid uuid DEFAULT gen_random_uuid() NOT NULL,
    origin text DEFAULT 'enqueued'::text NOT NULL,
    schedule_id bigint,
    schedule text,
    scheduled_for timestamp with time zone,
    nominal_for timestamp with time zone,
    parent_run bigint,
    queue text DEFAULT 'default'::text NOT NULL,
    priority smallint DEFAULT 5 NOT NULL,
    handler text DEFAULT ''::text NOT NULL,
    args jsonb DEFAULT '{}'::jsonb NOT NULL,
    delivery text DEFAULT 'at_least_once'::text NOT NULL,
    state text DEFAULT 'ready'::text NOT NULL,
    hold text,
    due_at timestamp with time zone DEFAULT now() NOT NULL,
    expire_at timestamp with time zone,
    attempt integer DEFAULT 0 NOT NULL,
    max_attempts integer,
    timeout interval DEFAULT '01:00:00'::interval NOT NULL,
    retry_base interval DEFAULT '00:00:02'::interval NOT NULL,
    retry_cap interval DEFAULT '01:00:00'::interval NOT NULL,
    retry jsonb,
    overlap text,
    overlap_slot smallint,
    snoozes smallint,
    lane text COLLATE pg_catalog."C",
    lane_slot integer,
    unique_key text COLLATE pg_catalog."C",
    unique_scope text,
    requires text[] COLLATE pg_catalog."C",
    weight integer,
    owner uuid,
    token uuid,
    fence bigint,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    cancel_at timestamp with time zone,
    cancel_reason text,
    kill_at timestamp with time zone,
    time_limits jsonb,
    last_error text,
    lost_early smallint,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text DEFAULT SESSION_USER NOT NULL,
    awaited boolean,
    CONSTRAINT run_created_by_is_short CHECK (((created_by IS NULL) OR (length(created_by) <= 300) OR pgcron.refuse_words('created_by'::text, created_by, 300)))
)
WITH (fillfactor='60', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='2000', autovacuum_vacuum_cost_delay='0', autovacuum_analyze_scale_factor='0', autovacuum_analyze_threshold='20000');

COMMENT ON TABLE pgcron.run IS 'One wish to execute a handler, while it is alive. Ended runs are in history.';

COMMENT ON COLUMN pgcron.run.hold IS 'unserved: no live node that takes from this queue offers the handler and has the labels that are required; one that joins lets the run go. circuit: the handler''s breaker is open (pgcron.breaker). overlap: as many runs of its schedule execute as may. previous: the fire before it must succeed first.';

COMMENT ON COLUMN pgcron.run.max_attempts IS 'NULL means 5, or 1 with at_most_once. Each snooze adds one.';

COMMENT ON COLUMN pgcron.run.retry IS 'A retry policy, see pgcron.retry_policy_is_fine; NULL is the default.';

COMMENT ON COLUMN pgcron.run.snoozes IS 'How many of its attempts came back without having used up one; NULL is none.';

COMMENT ON COLUMN pgcron.run.lane IS 'A key of the user''s: of the runs that have it no more execute at once than the lane has slots (pgcron.lane_limit).';

COMMENT ON COLUMN pgcron.run.lane_slot IS 'Which of the lane''s slots the run holds while it runs.';

COMMENT ON COLUMN pgcron.run.unique_key IS 'Of the runs of a handler with one key only one has it, see pgcron.has_key.';

COMMENT ON COLUMN pgcron.run.unique_scope IS 'How long it has its key: open (also NULL) until it ends, waiting until a node takes it, period for a time that is kept elsewhere. taken: waiting, and given back.';

COMMENT ON COLUMN pgcron.run.requires IS 'Labels (key=value, or a key for any value): only nodes that announce all of them may claim the run.';

COMMENT ON COLUMN pgcron.run.weight IS 'So many of its node''s slots the run takes; NULL is one. What takes more waits in a lane: *weight 4 if it has none of its own.';

COMMENT ON COLUMN pgcron.run.kill_at IS 'Since when its node is asked to end it by force, without any grace.';

COMMENT ON COLUMN pgcron.run.time_limits IS 'Limits that few runs have, as pgcron.time_limits makes them; NULL is none.';

COMMENT ON COLUMN pgcron.run.lost_early IS '1: its last node ended before its handler was seen to begin. 2: another node has begun to prepare it since; when that ends, too, the run is dead.';

COMMENT ON COLUMN pgcron.run.awaited IS 'Somebody waits for its end, which is told on pgcron.end_channel(); NULL is nobody.';

CREATE FUNCTION pgcron.ended_two_nodes(run pgcron.run, kind text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT kind = 'lease_lost' AND run.started_at IS NULL AND coalesce(run.lost_early, 0) > 1 $$;

CREATE FUNCTION pgcron.attempt_verdict(run pgcron.run, kind text, retryable boolean) RETURNS text
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((kind = 'cancelled'::text) OR ((run).cancel_at IS NOT NULL)) THEN 'cancelled'::text
             WHEN ((run).delivery = 'at_most_once'::text) THEN
             CASE kind
                 WHEN 'lease_lost'::text THEN 'lost'::text
                 ELSE 'dead'::text
             END
             WHEN pgcron.ended_two_nodes(run, kind) THEN 'dead'::text
             WHEN (retryable AND ((run).attempt < COALESCE((run).max_attempts, 5))) THEN 'retry'::text
             ELSE 'dead'::text
         END AS "case";
END;

CREATE FUNCTION pgcron.await_runs(run_ids bigint[], OUT ended bigint[], OUT unmarked bigint[]) RETURNS record
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  may_be_skipped boolean;
BEGIN
  PERFORM set_config('synchronous_commit', 'off', true);
  WITH marked AS (
    UPDATE pgcron.run r SET awaited = true
     WHERE r.id = ANY(ARRAY(SELECT w.id FROM pgcron.run w
                             WHERE w.id = ANY(run_ids) AND w.awaited IS NULL AND pgcron.may_read_run(w.created_by)
                               AND (w.state = 'running' OR w.due_at NOT BETWEEN clock_timestamp() - interval '0.25 s' AND clock_timestamp() + interval '0.25 s')
                               FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING r.state = 'ready' AND r.hold IS NULL AND r.due_at <= now() AS is_due)
  SELECT coalesce(bool_or(is_due), false) INTO may_be_skipped FROM marked;
  IF may_be_skipped AND EXISTS (SELECT FROM pgcron.node WHERE is_idle AND state = 'alive') THEN
    PERFORM pgcron.notify(pgcron.channel(), 'run');
  END IF;
  -- A new statement: a run that ended before it was marked is not there any more.
  SELECT coalesce(array_agg(given.id) FILTER (WHERE r.id IS NULL), '{}'), coalesce(array_agg(given.id) FILTER (WHERE r.id IS NOT NULL AND r.awaited IS NULL), '{}')
    INTO ended, unmarked FROM unnest(run_ids) given(id) LEFT JOIN pgcron.run r ON r.id = given.id;
END $$;

COMMENT ON FUNCTION pgcron.await_runs(run_ids bigint[], OUT ended bigint[], OUT unmarked bigint[]) IS 'From now on the ends of these runs are told on pgcron.end_channel(). ended: those that are not alive; unmarked: those of others, and those to ask for again in a moment.';

CREATE FUNCTION pgcron.backfill(schedule text, since timestamp with time zone, until timestamp with time zone DEFAULT NULL::timestamp with time zone, direction text DEFAULT 'forward'::text, parallelism integer DEFAULT 1, overlap text DEFAULT NULL::text, if_ran text DEFAULT 'skip'::text, args jsonb DEFAULT NULL::jsonb, note text DEFAULT NULL::text, actor text DEFAULT NULL::text, planned integer DEFAULT NULL::integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  filled pgcron.schedule;
  other pgcron.backfill;
  new_id bigint;
  ends timestamptz := coalesce(backfill.until, now());
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  IF backfill.since IS NULL THEN
    PERFORM pgcron.refuse('PC001', 'since is NULL', 'A backfill says where its range begins.', 'Write for example since => ''2026-01-01T00:00Z''.');
  END IF;
  SELECT s.* INTO filled FROM pgcron.schedule s WHERE s.id = pgcron.schedule_id(backfill.schedule) FOR KEY SHARE;
  IF filled.id IS NULL THEN      -- deleted meanwhile: refused, unless it was made anew
    RETURN pgcron.backfill(backfill.schedule, backfill.since, backfill.until, backfill.direction, backfill.parallelism, backfill.overlap, backfill.if_ran, backfill.args,
                           backfill.note, backfill.actor, backfill.planned);
  END IF;
  PERFORM pgcron.run_overlap(backfill.overlap, filled);
  PERFORM FROM pgcron.cursor c WHERE c.schedule_id = filled.id FOR UPDATE;
  SELECT b.* INTO other FROM pgcron.backfill b
   WHERE b.schedule_id = filled.id AND b.state IN ('open', 'paused', 'stopping') AND b.since < ends AND b.until > backfill.since ORDER BY b.id LIMIT 1;
  IF other.id IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', format('backfill %s of schedule %L is %s and has a part of this range', other.id, left(filled.name, 200), other.state),
      format('It goes from %s to %s; two would run an instant twice.', other.since, other.until), format('Wait until it is done, stop it (`pgcron-ha backfills stop %s`), or ask for another range.', other.id));
  END IF;
  INSERT INTO pgcron.backfill AS made (schedule_id, schedule, definition, since, until, direction, parallelism, overlap, if_ran, args, note, planned, created_by)
  VALUES (filled.id, filled.name, to_jsonb(filled), backfill.since, ends, coalesce(backfill.direction, 'forward'), coalesce(backfill.parallelism, 1),
          backfill.overlap, coalesce(backfill.if_ran, 'skip'), backfill.args, left(backfill.note, 500), backfill.planned, coalesce(backfill.actor, session_user))
  RETURNING made.id INTO new_id;
  PERFORM pgcron.wake_backfills();
  RETURN new_id;
END $$;

COMMENT ON FUNCTION pgcron.backfill(schedule text, since timestamp with time zone, until timestamp with time zone, direction text, parallelism integer, overlap text, if_ran text, args jsonb, note text, actor text, planned integer) IS 'Asks for runs of the schedule''s instants from since on and before until (now); returns the backfill''s id. At most parallelism of its runs are open at once; the view backfills shows how far it is. Jitter, spread and start deadline do not count; with depends_on_previous it goes forward, one by one, and a failure pauses it.';

CREATE FUNCTION pgcron.backfills_stop_with_their_schedule() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  UPDATE pgcron.backfill b SET state = 'stopping', changed_at = now(), changed_by = pgcron.actor(),
         error = jsonb_build_object('message', 'the schedule was deleted', 'detail', NULL, 'hint', NULL)
   WHERE b.schedule_id = OLD.id AND b.state IN ('open', 'paused');
  RETURN OLD;
END $$;

CREATE TABLE pgcron.breaker (
    name text NOT NULL,
    failures integer DEFAULT 5 NOT NULL,
    within interval DEFAULT '00:01:00'::interval NOT NULL,
    open_for interval DEFAULT '00:00:30'::interval NOT NULL,
    open_for_at_most interval DEFAULT '00:10:00'::interval NOT NULL,
    fallback_handler text,
    fallback_queue text,
    set_by text,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    state text DEFAULT 'closed'::text NOT NULL,
    failed_at timestamp with time zone[] DEFAULT '{}'::timestamp with time zone[] NOT NULL,
    opened_at timestamp with time zone,
    open_until timestamp with time zone,
    openings integer DEFAULT 0 NOT NULL,
    reason text,
    last_error text,
    probe_run bigint,
    probe_fence bigint,
    reset_by text,
    reset_at timestamp with time zone,
    CONSTRAINT a_breaker_is_closed_open_or_half_open CHECK ((state = ANY (ARRAY['closed'::text, 'open'::text, 'half_open'::text]))),
    CONSTRAINT a_breaker_is_named_as_a_handler CHECK ((pgcron.handler_is_fine(name) OR pgcron.refuse_handler(name))),
    CONSTRAINT a_breaker_is_open_1_second_to_1_day CHECK ((((open_for >= '00:00:01'::interval) AND (open_for <= '1 day'::interval)) OR pgcron.refuse('PC001'::text, format('open_for %s is out of range'::text, open_for), 'A breaker opens for 1 second to 1 day at first; each probe that fails doubles it.'::text, 'Leave it out for ''30 seconds''.'::text))),
    CONSTRAINT a_breaker_is_open_no_longer_than_a_week CHECK ((((open_for_at_most >= open_for) AND (open_for_at_most <= '7 days'::interval)) OR pgcron.refuse('PC001'::text, format('open_for_at_most %s is out of range'::text, open_for_at_most), 'It is at least open_for and at most 7 days.'::text, 'Leave it out for ''10 minutes''.'::text))),
    CONSTRAINT a_breaker_opens_after_1_to_100_failures CHECK ((((failures >= 1) AND (failures <= 100)) OR pgcron.refuse('PC001'::text, format('failures %s is out of range'::text, failures), 'A breaker opens after 1 to 100 failures.'::text, 'Leave it out for 5.'::text))),
    CONSTRAINT a_fallback_is_a_handler_name CHECK (((fallback_handler IS NULL) OR pgcron.handler_is_fine(fallback_handler) OR pgcron.refuse_handler(fallback_handler))),
    CONSTRAINT a_fallback_is_a_handler_or_a_queue CHECK (((fallback_handler IS NULL) OR (fallback_queue IS NULL) OR pgcron.refuse('PC001'::text, format('breaker %L has two fallbacks'::text, name), 'What waits is executed by another handler, or moved to another queue, or waits.'::text, 'Name one of them.'::text))),
    CONSTRAINT a_fallback_is_another_handler CHECK (((fallback_handler IS NULL) OR (fallback_handler <> name) OR pgcron.refuse('PC001'::text, format('the fallback of breaker %L is its own handler'::text, name), 'While a breaker is open none of its handlers is executed.'::text, 'Name another handler, or a queue, or leave it out.'::text))),
    CONSTRAINT a_fallback_queue_is_simple CHECK (((fallback_queue IS NULL) OR ((fallback_queue ~ '^[A-Za-z0-9_.-]+$'::text) AND (length(fallback_queue) <= 100)) OR pgcron.refuse('PC001'::text, format('queue %L is not a queue name'::text, "left"(fallback_queue, 200)), 'A queue name has 1 to 100 letters, digits, "_", "." and "-".'::text, 'Write for example ''default''.'::text))),
    CONSTRAINT a_probe_belongs_to_a_half_open_breaker CHECK ((((state = 'half_open'::text) = (probe_run IS NOT NULL)) AND ((probe_run IS NULL) = (probe_fence IS NULL)))),
    CONSTRAINT an_open_breaker_says_until_when_and_why CHECK (((state = 'closed'::text) OR ((open_until IS NOT NULL) AND (opened_at IS NOT NULL) AND (reason IS NOT NULL)))),
    CONSTRAINT breaker_reset_by_is_short CHECK (((reset_by IS NULL) OR (length(reset_by) <= 300) OR pgcron.refuse_words('reset_by'::text, reset_by, 300))),
    CONSTRAINT breaker_set_by_is_short CHECK (((set_by IS NULL) OR (length(set_by) <= 300) OR pgcron.refuse_words('set_by'::text, set_by, 300))),
    CONSTRAINT failures_count_for_1_second_to_1_day CHECK ((((within >= '00:00:01'::interval) AND (within <= '1 day'::interval)) OR pgcron.refuse('PC001'::text, format('within %s is out of range'::text, within), 'A failure counts for 1 second to 1 day.'::text, 'Leave it out for ''1 minute''.'::text)))
);

COMMENT ON TABLE pgcron.breaker IS 'Circuit breakers. set_by NULL: declared by the nodes that offer the handler; else a person''s setting, which the nodes leave alone.';

COMMENT ON COLUMN pgcron.breaker.failed_at IS 'The latest failures, no more than open it.';

COMMENT ON COLUMN pgcron.breaker.openings IS 'How often in a row it opened: after a probe that failed it stays open twice as long as before, up to open_for_at_most.';

COMMENT ON COLUMN pgcron.breaker.probe_fence IS 'Fence number of the claim that probes: when no run has it any more, the probe is over.';

CREATE FUNCTION pgcron.breaker_is_fine(b pgcron.breaker) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT (b.failures BETWEEN 1 AND 100 AND b.within BETWEEN '1 second' AND '1 day'
          AND b.open_for BETWEEN '1 second' AND '1 day'
          AND b.open_for_at_most BETWEEN b.open_for AND '7 days' AND b.openings >= 0
          AND (b.state = 'closed' OR b.open_until IS NOT NULL)) IS TRUE $$;

CREATE TABLE pgcron.cursor (
    schedule_id bigint NOT NULL,
    generation bigint DEFAULT 1 NOT NULL,
    since timestamp with time zone NOT NULL,
    watermark timestamp with time zone NOT NULL,
    next_fire timestamp with time zone,
    status text DEFAULT 'unchecked'::text NOT NULL,
    error jsonb,
    retry_at timestamp with time zone,
    canonical text,
    is_paused boolean DEFAULT false NOT NULL,
    pause_note text,
    paused_until timestamp with time zone,
    resumed_by text,
    resumed_at timestamp with time zone,
    edit_is_pending boolean DEFAULT false NOT NULL,
    timing_is_new boolean DEFAULT false NOT NULL,
    runs_made integer DEFAULT 0 NOT NULL,
    CONSTRAINT a_schedule_is_unchecked_valid_or_invalid CHECK ((status = ANY (ARRAY['unchecked'::text, 'valid'::text, 'invalid'::text]))),
    CONSTRAINT an_invalid_schedule_says_why CHECK (((status = 'invalid'::text) = (error IS NOT NULL))),
    CONSTRAINT only_what_is_invalid_is_tried_again CHECK (((retry_at IS NULL) OR (status = 'invalid'::text)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0.02', autovacuum_vacuum_threshold='500', autovacuum_vacuum_cost_delay='0');

COMMENT ON TABLE pgcron.cursor IS 'Machine-written, apart from schedule so that edits and the materializer do not wait for each other. Every fire up to watermark is decided.';

COMMENT ON COLUMN pgcron.cursor.since IS 'When this generation began: fires after it are those of the schedule as it stands.';

COMMENT ON COLUMN pgcron.cursor.next_fire IS 'A hint for the poll: NULL must be computed, infinity never fires again.';

COMMENT ON COLUMN pgcron.cursor.retry_at IS 'When a schedule that the database refused is tried again; NULL: nodes can''t read it, and look again after an edit, or with another version.';

COMMENT ON COLUMN pgcron.cursor.is_paused IS 'What the schedule''s enabled meant when the last edit was applied: resuming writes the pause into missed.';

COMMENT ON COLUMN pgcron.cursor.paused_until IS 'When the pause under way ends by itself: fires after it are not the pause''s, however late a node resumes the schedule.';

COMMENT ON COLUMN pgcron.cursor.resumed_by IS 'Who ended the last pause: a person, or pgcron_ha at the time that the pause had.';

COMMENT ON COLUMN pgcron.cursor.edit_is_pending IS 'The edit came in a transaction that could not see new rows; a node removes the outdated runs.';

COMMENT ON COLUMN pgcron.cursor.timing_is_new IS 'The pending edit changes when the schedule fires, not only what and how.';

COMMENT ON COLUMN pgcron.cursor.runs_made IS 'Of the schedule''s max_runs: fires that were decided as runs since it has such a bound, less those that were taken back.';

CREATE FUNCTION pgcron.bridge_clocks(before pgcron.cursor, shift interval, earlier timestamp with time zone[], later timestamp with time zone[], note text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  boundary timestamptz := (SELECT c.watermark FROM pgcron.cursor c WHERE c.schedule_id = before.schedule_id);
  lost timestamptz[];
  decided timestamptz;
BEGIN
  INSERT INTO pgcron.occurrence_override (schedule_id, fire_at, action, note, actor)
  SELECT before.schedule_id, fire, 'skip', format('%s; by the clocks of before it was decided for %s', bridge_clocks.note, fire + shift), 'pgcron_ha' FROM unnest(later) fire
   WHERE fire > boundary AND fire + shift <= boundary AND EXISTS (SELECT FROM pgcron.occurrence o WHERE o.schedule_id = before.schedule_id AND o.fire_at = fire + shift)
  ON CONFLICT DO NOTHING;
  lost := ARRAY(SELECT fire FROM unnest(earlier) fire
                 WHERE fire <= boundary AND fire > boundary - shift AND fire > before.since
                   AND NOT EXISTS (SELECT FROM pgcron.occurrence o WHERE o.schedule_id = before.schedule_id AND o.fire_at = fire)
                   AND NOT EXISTS (SELECT FROM pgcron.missed m WHERE m.schedule_id = before.schedule_id AND fire BETWEEN m.first_at AND m.last_at) ORDER BY 1);
  IF cardinality(lost) = 0 THEN RETURN; END IF;
  -- Late fires, which the catch-up policy decides; those that have a decided one after them are told.
  decided := greatest((SELECT max(o.fire_at) FROM pgcron.occurrence o WHERE o.schedule_id = before.schedule_id AND o.fire_at > lost[1] AND o.fire_at <= boundary),
                      (SELECT max(m.last_at) FROM pgcron.missed m WHERE m.schedule_id = before.schedule_id AND m.last_at > lost[1] AND m.last_at <= boundary));
  INSERT INTO pgcron.missed (schedule_id, first_at, last_at, fires, reason, note)
  SELECT before.schedule_id, fire, fire, 1, 'edited', bridge_clocks.note FROM unnest(lost) fire WHERE fire <= decided ON CONFLICT DO NOTHING;
  UPDATE pgcron.cursor c SET watermark = greatest(lost[1] - interval '1 microsecond', decided) WHERE c.schedule_id = before.schedule_id;
END $$;

CREATE FUNCTION pgcron.broken_settings() RETURNS TABLE(kind text, name text, error text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT 'queue', q.name,
         CASE WHEN NOT pgcron.rate_is_fine(q.rate, q.per)
              THEN format('its rate is %s in %s', coalesce(q.rate::text, 'NULL'),
                          coalesce(q.per::text, 'NULL'))
              ELSE format('max_running must be between 1 and 100000, got %s', q.max_running) END
    FROM pgcron.queue q
   WHERE NOT q.is_plain AND (NOT pgcron.rate_is_fine(q.rate, q.per)
                             OR NOT coalesce(q.max_running, 1) BETWEEN 1 AND 100000)
  UNION ALL
  SELECT 'key', l.lane,
         CASE WHEN NOT pgcron.rate_is_fine(l.rate, l.per)
              THEN format('its rate is %s in %s', coalesce(l.rate::text, 'NULL'),
                          coalesce(l.per::text, 'NULL'))
              ELSE format('slots must be between 1 and 10000, got %s', l.slots) END
    FROM pgcron.lane_limit l
   WHERE NOT pgcron.rate_is_fine(l.rate, l.per) OR NOT coalesce(l.slots, 1) BETWEEN 1 AND 10000
  UNION ALL
  SELECT 'breaker', b.name, 'its numbers are out of range'
    FROM pgcron.breaker b
   WHERE NOT pgcron.breaker_is_fine(b) $$;

CREATE FUNCTION pgcron.calendars_named(spec text) RETURNS SETOF text
    LANGUAGE sql IMMUTABLE ROWS 2
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT DISTINCT found[1] FROM regexp_matches(spec COLLATE "C", E'^[ \\t\\r]*(?:not|only)[ \\t]+in[ \\t]+([A-Za-z0-9][A-Za-z0-9_.-]*)', 'gin') found $$;

CREATE FUNCTION pgcron.calendars_of(spec text) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH RECURSIVE used(name) AS (
    SELECT named FROM pgcron.calendars_named(calendars_of.spec) named
    UNION
    SELECT unnest(c.parts) FROM used JOIN pgcron.calendar c ON c.name = used.name)
  SELECT jsonb_object_agg(c.name, c.content ORDER BY c.name) FROM used JOIN pgcron.calendar c ON c.name = used.name $$;

COMMENT ON FUNCTION pgcron.calendars_of(spec text) IS 'The contents of the calendars that a spec needs, by name.';

CREATE FUNCTION pgcron.cancel_own_run(run bigint, reason text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM pgcron.runs v WHERE v.id = cancel_own_run.run AND v.created_by = session_user) THEN
    PERFORM pgcron.refuse('PC010', format('run %s does not exist', run), 'There is no such run, or another role has enqueued it.', 'pgcron.own_runs lists your own.');
  END IF;
  RETURN pgcron.cancel_run(run, reason, session_user);
END $$;

COMMENT ON FUNCTION pgcron.cancel_own_run(run bigint, reason text) IS 'As cancel_run, for who enqueued it and may not touch the runs of others.';

CREATE FUNCTION pgcron.cancel_run(run bigint, reason text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  found_state text;
  why text := concat_ws(': ', 'cancelled by ' || left(coalesce(actor, session_user), 300), left(reason, 500));
BEGIN
  SELECT r.state INTO found_state FROM pgcron.run r WHERE r.id = run FOR UPDATE;
  IF found_state IS NULL THEN
    PERFORM pgcron.ended_run(run);
    RETURN 'finished';
  ELSIF found_state = 'running' THEN
    UPDATE pgcron.run r SET cancel_at = coalesce(r.cancel_at, now()), cancel_reason = coalesce(r.cancel_reason, why) WHERE r.id = run;
    PERFORM pgcron.notify(pgcron.channel(), 'cancel');      -- a hint: the owner's next beat is the truth
    RETURN 'requested';
  END IF;
  PERFORM pgcron.end_waiting_runs(ARRAY[run], 'cancelled', why);
  RETURN 'cancelled';
END $$;

COMMENT ON FUNCTION pgcron.cancel_run(run bigint, reason text, actor text) IS 'Ends a run: cancelled (had not begun), requested (its node stops it) or finished.';

CREATE FUNCTION pgcron.causes_are_fine(causes jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
  SELECT CASE WHEN jsonb_typeof(causes) = 'array' THEN
    jsonb_array_length(causes) BETWEEN 1 AND 50 AND causes::text ~ E'^\\["[A-Za-z0-9_][A-Za-z0-9_.:]*"(, "[A-Za-z0-9_][A-Za-z0-9_.:]*")*\\]$' ELSE false END $_$;

CREATE FUNCTION pgcron.channel() RETURNS text
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT ('pgcron_'::text || (('pgcron'::regnamespace)::oid)::text);
END;

COMMENT ON FUNCTION pgcron.channel() IS 'The NOTIFY channel of this installation. Notifications are hints; nothing depends on them.';

CREATE FUNCTION pgcron.check_ledger(schedule text DEFAULT NULL::text, at_most integer DEFAULT 100, since timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS TABLE(rule text, schedule_id bigint, fire_at timestamp with time zone, run_id bigint, detail text)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH chosen AS (SELECT CASE WHEN check_ledger.schedule IS NOT NULL THEN coalesce(pgcron.schedule_of_versions(check_ledger.schedule), pgcron.schedule_id(check_ledger.schedule)) END AS id),
  -- A range of ids is one or all by the same index; an OR would read every row.
  asked AS MATERIALIZED (SELECT coalesce(chosen.id, 0) AS low, coalesce(chosen.id, 9223372036854775807) AS high,
                        coalesce(check_ledger.since, now() - interval '1 day') AS since,
                        (SELECT greatest(now() - kept.keep, pgcron.history_thinned_until()) FROM pgcron.retention kept WHERE kept.relation = 'history') AS history_since,
                        (SELECT now() - kept.keep FROM pgcron.retention kept WHERE kept.relation = 'occurrence') AS ledger_since
                   FROM chosen),
  decided AS MATERIALIZED (
    SELECT o.*, r.id AS live_run, r.origin AS live_origin, past.outcome, past.origin, letter.run_id AS letter,
           -- Somebody cancelled it or let it go ahead of its time: it stands, whatever becomes of the schedule until then.
           (o.decision <> 'run' AND o.decided_at < o.fire_at) OR coalesce(past.began, r.claimed_at, CASE WHEN r.attempt > 0 THEN now() END) < o.fire_at AS is_early
      FROM asked a JOIN pgcron.occurrence o ON o.schedule_id BETWEEN a.low AND a.high AND o.fire_at >= a.since
      LEFT JOIN pgcron.run r ON r.id = o.run_id
      LEFT JOIN LATERAL (SELECT h.outcome, h.origin, coalesce(h.claimed_at, h.finished_at) AS began FROM pgcron.history h WHERE h.id = o.run_id UNION ALL
                         SELECT h.outcome, h.origin, coalesce(h.claimed_at, h.finished_at) FROM pgcron.history_overflow h WHERE h.id = o.run_id LIMIT 1) past ON true
      LEFT JOIN pgcron.dead_letter letter ON letter.run_id = o.run_id)
  (SELECT 'a run is gone', d.schedule_id, d.fire_at, d.run_id, 'the fire became a run that is neither alive nor in history'
     FROM decided d CROSS JOIN asked a
    WHERE d.run_id IS NOT NULL AND d.live_run IS NULL AND d.outcome IS NULL AND d.letter IS NULL AND d.decided_at > a.history_since LIMIT at_most)
  UNION ALL
  (SELECT 'a run is alive and over', d.schedule_id, d.fire_at, d.run_id, 'the run is alive, and history has its end' FROM decided d
    WHERE d.live_run IS NOT NULL AND d.outcome IS NOT NULL LIMIT at_most)
  UNION ALL
  (SELECT 'decision and outcome disagree', d.schedule_id, d.fire_at, d.run_id, format('the ledger says %s, history says %s', d.decision, d.outcome) FROM decided d
    WHERE d.outcome IS NOT NULL AND (d.outcome <> d.decision AND d.decision <> 'run' OR d.decision = 'run' AND d.outcome IN ('skipped', 'superseded', 'expired')) LIMIT at_most)
  UNION ALL
  (SELECT 'a fire that does not run has a live run', d.schedule_id, d.fire_at, d.run_id, format('the ledger says %s', d.decision) FROM decided d
    WHERE d.live_run IS NOT NULL AND d.decision <> 'run' LIMIT at_most)
  UNION ALL
  (SELECT 'a run has no fire', r.schedule_id, r.scheduled_for, r.id, 'the ledger has another run for its fire time, or none'
     FROM asked a JOIN pgcron.run r ON r.scheduled_for IS NOT NULL AND r.origin IN ('schedule', 'backfill') AND r.schedule_id BETWEEN a.low AND a.high
    WHERE r.scheduled_for > a.ledger_since AND NOT EXISTS (SELECT FROM pgcron.occurrence o WHERE o.schedule_id = r.schedule_id AND o.fire_at = r.scheduled_for AND o.run_id = r.id) LIMIT at_most)
  UNION ALL
  (SELECT 'a run that is over has no fire', h.schedule_id, h.scheduled_for, h.id, 'the ledger has another run for its fire time, or none'
     FROM asked a JOIN pgcron.history h ON h.finished_at >= a.since AND h.schedule_id IS NOT NULL AND h.schedule_id BETWEEN a.low AND a.high
    WHERE h.scheduled_for > a.ledger_since AND h.origin IN ('schedule', 'backfill')
      AND NOT EXISTS (SELECT FROM pgcron.occurrence o WHERE o.schedule_id = h.schedule_id AND o.fire_at = h.scheduled_for AND o.run_id = h.id) LIMIT at_most)
  UNION ALL
  (SELECT 'a fire lies beyond what is decided', d.schedule_id, d.fire_at, d.run_id, format('all fires up to %s are decided, and none after', c.watermark)
     FROM decided d JOIN pgcron.cursor c ON c.schedule_id = d.schedule_id
    WHERE d.fire_at > c.watermark AND NOT c.edit_is_pending AND d.is_early IS NOT TRUE AND coalesce(d.live_origin, d.origin, 'schedule') = 'schedule'
      AND NOT EXISTS (SELECT FROM pgcron.occurrence_override o WHERE o.schedule_id = d.schedule_id AND o.fire_at = d.fire_at)
      AND NOT EXISTS (SELECT FROM pgcron.failure_pause p WHERE p.schedule_id = d.schedule_id) LIMIT at_most)      -- its probes
  UNION ALL
  (SELECT 'ranges overlap', m.schedule_id, m.first_at, NULL, format('the range up to %s goes on when the next begins at %s', m.last_at, m.next_at)
     FROM (SELECT e.*, lead(e.first_at) OVER (PARTITION BY e.schedule_id ORDER BY e.first_at) AS next_at
             FROM asked a JOIN pgcron.missed e ON e.schedule_id BETWEEN a.low AND a.high AND e.last_at >= a.since) m
    WHERE m.next_at <= m.last_at LIMIT at_most)
  UNION ALL
  (SELECT 'a range lies beyond what is decided', m.schedule_id, m.first_at, NULL, format('it ends at %s, and all fires up to %s are decided', m.last_at, c.watermark)
     FROM asked a JOIN pgcron.missed m ON m.schedule_id BETWEEN a.low AND a.high AND m.last_at >= a.since JOIN pgcron.cursor c ON c.schedule_id = m.schedule_id
    WHERE m.last_at > c.watermark LIMIT at_most)
  UNION ALL
  (SELECT 'the next fire is decided', c.schedule_id, c.next_fire, NULL, format('all fires up to %s are decided', c.watermark)
     FROM asked a JOIN pgcron.cursor c ON c.schedule_id BETWEEN a.low AND a.high WHERE c.status = 'valid' AND c.next_fire <= c.watermark LIMIT at_most)
  UNION ALL
  (SELECT 'a schedule has no cursor', s.id, NULL, NULL, 'nothing of it can be decided'
     FROM asked a JOIN pgcron.schedule s ON s.id BETWEEN a.low AND a.high WHERE NOT EXISTS (SELECT FROM pgcron.cursor c WHERE c.schedule_id = s.id) LIMIT at_most)
  UNION ALL
  (SELECT 'the version is not kept', s.id, NULL, NULL, format('version %s is in force', s.version)
     FROM asked a JOIN pgcron.schedule s ON s.id BETWEEN a.low AND a.high
    WHERE NOT EXISTS (SELECT FROM pgcron.schedule_version v WHERE v.schedule_id = s.id AND v.version = s.version) LIMIT at_most) $$;

COMMENT ON FUNCTION pgcron.check_ledger(schedule text, at_most integer, since timestamp with time zone) IS 'Rows that break the invariant of the ledger: nothing is missing, nothing is double. None is how it must be. Looks at what fired, ended or was dropped since (a day).';

CREATE FUNCTION pgcron.choose_awaited(incarnation uuid, heavy bigint[], OUT id bigint, OUT weight integer) RETURNS record
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE pgcron.node mine SET awaits = chosen.id
    FROM (SELECT r.id, r.weight FROM unnest(choose_awaited.heavy) WITH ORDINALITY given(id, place) JOIN pgcron.run r ON r.id = given.id
           WHERE r.due_at <= now() - interval '2 seconds' AND r.weight <= (SELECT n.slots FROM pgcron.node n WHERE n.incarnation = choose_awaited.incarnation)
             AND NOT EXISTS (SELECT FROM pgcron.node other WHERE other.awaits = r.id AND other.state = 'alive' AND other.lease_until > now())
           ORDER BY given.place LIMIT 1) chosen
   WHERE mine.incarnation = choose_awaited.incarnation AND mine.state = 'alive'
  RETURNING chosen.id, chosen.weight $$;

CREATE FUNCTION pgcron.circle_of_calendar(name text) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  way text[];
  met text[] := ARRAY[circle_of_calendar.name];
  named_by jsonb := '{}';
  place int := 1;
  part text;
BEGIN
  WHILE place <= cardinality(met) LOOP      -- each calendar once, the nearest first
    FOR part IN SELECT unnest(c.parts) FROM pgcron.calendar c WHERE c.name = met[place] LOOP
      IF part = met[1] THEN
        way := ARRAY[met[place], part];
        WHILE way[1] <> part LOOP way := (named_by ->> way[1]) || way; END LOOP;
        RETURN way;
      ELSIF part <> ALL(met) THEN
        met := met || part;
        named_by := named_by || jsonb_build_object(part, met[place]);
      END IF;
    END LOOP;
    place := place + 1;
  END LOOP;
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.claim_keys(runs jsonb, new_ids bigint[], actor text) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ids bigint[];
  single record;
BEGIN
  IF EXISTS (SELECT FROM jsonb_to_recordset(runs) AS wish(idempotency_key text, key_lifetime interval) WHERE wish.idempotency_key IS NOT NULL AND wish.key_lifetime <= '0') THEN
    PERFORM pgcron.refuse_wish(runs);
  END IF;
  INSERT INTO pgcron.idempotency AS known (key, run_id, expires_at)
  SELECT DISTINCT ON (wish.key) wish.key, wish.new_id, now() + coalesce(wish.lifetime, '1 day')
    FROM ROWS FROM (jsonb_to_recordset(runs) AS (idempotency_key text, key_lifetime interval), unnest(new_ids)) wish(key, lifetime, new_id)
   WHERE wish.key IS NOT NULL ORDER BY wish.key, wish.new_id
  ON CONFLICT (key) DO UPDATE SET run_id = EXCLUDED.run_id, expires_at = EXCLUDED.expires_at WHERE known.expires_at <= now();
  -- Only a new statement can see a key that was inserted meanwhile.
  ids := ARRAY(SELECT coalesce(known.run_id, wish.new_id)
                 FROM ROWS FROM (jsonb_to_recordset(runs) AS (idempotency_key text), unnest(new_ids)) WITH ORDINALITY wish(key, new_id, position)
                 LEFT JOIN pgcron.idempotency known ON known.key = wish.key ORDER BY wish.position);
  FOR single IN
    SELECT element.wish, element.position FROM jsonb_array_elements(runs) WITH ORDINALITY element(wish, position)
     WHERE num_nonnulls(wish ->> 'unique_key', wish ->> 'unique_scope', wish ->> 'unique_for', wish ->> 'on_conflict', wish ->> 'debounce', wish ->> 'debounce_max') > 0
     ORDER BY wish ->> 'unique_key' COLLATE "C", wish ->> 'handler' COLLATE "C", position LOOP
    ids[single.position] := pgcron.enqueue_wish(single.wish, claim_keys.actor);
  END LOOP;
  RETURN ids;
END $$;

CREATE FUNCTION pgcron.claim_lanes(incarnation uuid, queues text[], priorities smallint[], handlers text[], free integer, ahead integer, look integer) RETURNS TABLE(verdict text, id bigint, uuid uuid, handler text, args jsonb, attempt integer, max_attempts integer, queue text, priority smallint, schedule text, fire_time timestamp with time zone, token uuid, fence bigint, timeout double precision, delivery text, due double precision, origin text)
    LANGUAGE plpgsql ROWS 100
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  lanes bigint[];
  has_others boolean;
  chosen bigint[];
  left_waiting bigint[];
  skipped bigint[];
BEGIN
  PERFORM pgcron.require_read_committed('lanes');
  WITH due AS MATERIALIZED (
    SELECT heads.schedule_id, bool_or(heads.overlap <> 'skip') AS is_other FROM (
        SELECT head.schedule_id, head.overlap FROM (
          SELECT asked.queue, asked.priority FROM unnest(claim_lanes.queues, claim_lanes.priorities) WITH ORDINALITY AS asked(queue, priority, position)
          ORDER BY EXISTS (SELECT FROM pgcron.queue q WHERE q.name = asked.queue AND NOT q.is_plain), asked.position) path
        CROSS JOIN LATERAL (
          SELECT c.schedule_id, c.overlap FROM pgcron.run c
          WHERE c.state = 'ready' AND c.hold IS NULL AND c.lane IS NULL AND c.requires IS NULL AND c.overlap IS NOT NULL AND c.queue = path.queue AND c.priority = path.priority
            AND c.due_at <= now() AND c.handler = ANY(claim_lanes.handlers)
          ORDER BY c.due_at, c.id LIMIT claim_lanes.look) head
        LIMIT claim_lanes.look) heads
     GROUP BY heads.schedule_id)
  SELECT array_agg(due.schedule_id), bool_or(due.is_other) INTO lanes, has_others
    FROM due WHERE pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashint8(due.schedule_id));
  IF lanes IS NULL THEN RETURN; END IF;
  IF has_others THEN
    RETURN QUERY SELECT * FROM pgcron.decide_lanes(claim_lanes.incarnation, claim_lanes.queues, claim_lanes.priorities, claim_lanes.handlers, claim_lanes.free, claim_lanes.ahead, lanes);
    RETURN;
  END IF;

  IF claim_lanes.free + claim_lanes.ahead > 0 THEN
    SELECT array_agg(ranked.id) FILTER (WHERE ranked.place <= claim_lanes.free OR ranked.delivery = 'at_least_once'),
           array_agg(ranked.id) FILTER (WHERE ranked.place > claim_lanes.free AND ranked.delivery <> 'at_least_once')
      INTO chosen, left_waiting FROM (
        SELECT head.id, head.delivery, row_number() OVER (ORDER BY array_position(claim_lanes.priorities, head.priority), head.due_at, head.id) AS place
          FROM unnest(lanes) AS lane(schedule_id)
         CROSS JOIN LATERAL (
           SELECT w.id, w.overlap_slot, w.priority, w.due_at, w.delivery FROM pgcron.run w
            WHERE w.schedule_id = lane.schedule_id AND w.state = 'ready' AND w.hold IS NULL AND w.lane IS NULL AND w.requires IS NULL AND w.overlap = 'skip' AND w.due_at <= now()
              AND w.queue = ANY(claim_lanes.queues) AND w.handler = ANY(claim_lanes.handlers) AND (w.expire_at IS NULL OR w.expire_at > now())
              AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = w.queue AND NOT q.is_plain)
            ORDER BY w.overlap_slot NULLS LAST, w.priority, w.due_at, w.id LIMIT 1) head
         WHERE (head.overlap_slot IS NOT NULL
                OR (SELECT h.id FROM pgcron.run h WHERE h.schedule_id = lane.schedule_id AND h.overlap_slot IS NOT NULL LIMIT 1) IS NULL)
           AND EXISTS (SELECT FROM pgcron.claiming_node n WHERE n.incarnation = claim_lanes.incarnation)
         ORDER BY place LIMIT claim_lanes.free + claim_lanes.ahead) ranked;
    RETURN QUERY
      UPDATE pgcron.run r
         SET state = 'running', owner = claim_lanes.incarnation, token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid, fence = nextval('pgcron.fence'),
             attempt = r.attempt + 1, claimed_at = now(), overlap_slot = 1
       WHERE r.id = ANY(ARRAY(
         SELECT l.id FROM pgcron.run l
          WHERE l.id = ANY(chosen) AND l.state = 'ready' AND l.hold IS NULL AND l.lane IS NULL AND l.requires IS NULL AND l.overlap IS NOT NULL AND l.due_at <= now()
            AND l.queue = ANY(claim_lanes.queues) AND l.handler = ANY(claim_lanes.handlers) AND (l.expire_at IS NULL OR l.expire_at > now())
          ORDER BY l.id FOR UPDATE SKIP LOCKED))
      RETURNING 'claim', r.id, r.uuid, r.handler, r.args, r.attempt, coalesce(r.max_attempts, CASE r.delivery WHEN 'at_most_once' THEN 1 ELSE 5 END),
                r.queue, r.priority, r.schedule, coalesce(r.scheduled_for, r.nominal_for), r.token, r.fence, date_part('epoch', r.timeout), r.delivery,
                date_part('epoch', r.due_at), r.origin;
  END IF;

  skipped := ARRAY(
    SELECT w.id FROM unnest(lanes) AS lane(schedule_id) JOIN pgcron.run w ON w.schedule_id = lane.schedule_id
     WHERE w.state = 'ready' AND w.hold IS NULL AND w.lane IS NULL AND w.requires IS NULL AND w.overlap = 'skip' AND w.due_at <= now() AND w.overlap_slot IS NULL
       AND (SELECT h.id FROM pgcron.run h WHERE h.schedule_id = w.schedule_id AND h.overlap_slot IS NOT NULL LIMIT 1) IS NOT NULL
     ORDER BY w.id LIMIT 1000 FOR UPDATE OF w SKIP LOCKED);
  IF skipped <> '{}' THEN
    PERFORM pgcron.end_waiting_runs(skipped, 'skipped', 'the last run is not over');
  END IF;
  RETURN QUERY
    SELECT told.verdict, told.id, NULL::uuid, NULL::text, NULL::jsonb, NULL::int, NULL::int, NULL::text, NULL::smallint, NULL::text,
           NULL::timestamptz, NULL::uuid, NULL::bigint, NULL::float8, NULL::text, NULL::float8, NULL::text
      FROM (SELECT 'skip', s.id FROM unnest(skipped) s(id) UNION ALL SELECT 'wait', s.id FROM unnest(left_waiting) s(id)) told(verdict, id);
END $$;

COMMENT ON FUNCTION pgcron.claim_lanes(incarnation uuid, queues text[], priorities smallint[], handlers text[], free integer, ahead integer, look integer) IS 'Decides due runs of schedules with an overlap policy: claims up to free + ahead of them (ahead: none that may start only once), skips what finds its lane held.';

CREATE FUNCTION pgcron.claim_limited(incarnation uuid, queues text[], beyond text[], handlers text[], free integer, ahead integer, look integer, aged boolean DEFAULT false) RETURNS TABLE(verdict text, id bigint, uuid uuid, handler text, args jsonb, attempt integer, max_attempts integer, queue text, priority smallint, schedule text, fire_time timestamp with time zone, token uuid, fence bigint, timeout double precision, delivery text, due double precision, origin text, lane text, weight integer)
    LANGUAGE plpgsql ROWS 100
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  limited text[];
  rooms int[];
  pair_queues text[] := '{}';
  pair_lanes text[] := '{}';
  pair_priorities smallint[] := '{}';
  pair_rooms int[] := '{}';
  room int := claim_limited.free + claim_limited.ahead;
  asked record;
  walked record;
  schedules bigint[];
  lanes text[];
  chosen bigint[];
  slots int[];
  left_waiting bigint[];
  granted_at timestamptz;
  skipped bigint[];
  labels text[] := (SELECT pgcron.label_words(n.labels) FROM pgcron.node n WHERE n.incarnation = claim_limited.incarnation);
  placed_queues text[] := '{}';
  placed record;
  too_heavy bigint[];
  keeps_for bigint;
  kept record;
  open_queues text[] := claim_limited.queues;
  others bigint[];
  superseded bigint[];
  overlap_slots smallint[];
BEGIN
  PERFORM pgcron.require_read_committed('limits');
  SELECT n.awaits INTO keeps_for FROM pgcron.node n WHERE n.incarnation = claim_limited.incarnation;
  IF keeps_for IS NOT NULL THEN
    SELECT r.queue, r.lane, r.priority, r.weight INTO kept FROM pgcron.run r
     WHERE r.id = keeps_for AND r.state = 'ready' AND r.hold IS NULL AND r.weight > 1 AND r.due_at <= now() AND r.queue = ANY(claim_limited.queues);
    UPDATE pgcron.node n SET awaits = NULL WHERE n.incarnation = claim_limited.incarnation AND (kept.weight IS NULL OR kept.weight <= claim_limited.free);
    IF kept.weight > claim_limited.free THEN
      verdict := 'await'; id := keeps_for; weight := kept.weight;
      RETURN NEXT;
      RETURN;
    ELSIF kept.weight IS NULL THEN
      keeps_for := NULL;
    ELSE
      open_queues := ARRAY[kept.queue];
    END IF;
  END IF;
  limited := ARRAY(SELECT q.name FROM pgcron.queue q WHERE q.name = ANY(open_queues) AND NOT q.is_plain AND q.paused_at IS NULL ORDER BY q.name);
  limited := ARRAY(SELECT name FROM unnest(limited) name WHERE pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashtext('queue ' || name)));
  IF limited <> '{}' THEN
    rooms := ARRAY(
      SELECT greatest(0, least(coalesce(CASE WHEN q.max_running < 0 THEN 0 ELSE q.max_running END - running.runs, 2147483647), rated.room)) FROM unnest(limited) WITH ORDINALITY name(queue, position)
        JOIN pgcron.queue q ON q.name = name.queue
        LEFT JOIN LATERAL (SELECT w.room FROM pgcron.rate_room('queue', q.name, q.rate, q.per, clock_timestamp()) w WHERE q.rate IS NOT NULL) rated ON true
       CROSS JOIN LATERAL (SELECT count(*)::int AS runs FROM pgcron.run r WHERE r.state = 'running' AND r.owner IS NOT NULL AND r.queue = name.queue) running
       ORDER BY name.position);
    FOR asked IN SELECT q.name, w.next_at FROM pgcron.queue q CROSS JOIN LATERAL pgcron.rate_room('queue', q.name, q.rate, q.per, clock_timestamp()) w
                  WHERE q.name = ANY(limited) AND q.rate IS NOT NULL AND w.room = 0 LOOP
      verdict := 'walked'; queue := asked.name; due := date_part('epoch', asked.next_at - clock_timestamp());
      RETURN NEXT;
    END LOOP;
    limited := ARRAY(SELECT name FROM unnest(limited, rooms) open(name, room) WHERE room > 0);
    rooms := ARRAY(SELECT room FROM unnest(rooms) room WHERE room > 0);
  END IF;

  FOR asked IN SELECT a.queue, a.beyond FROM unnest(claim_limited.queues, claim_limited.beyond) a(queue, beyond)
                WHERE a.queue = ANY(open_queues) AND (a.queue = ANY(limited) OR NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = a.queue AND NOT q.is_plain)) LOOP
    IF keeps_for IS NOT NULL THEN
      pair_queues := ARRAY[kept.queue]; pair_lanes := ARRAY[kept.lane]; pair_priorities := ARRAY[kept.priority]; pair_rooms := ARRAY[room];
      CONTINUE;
    END IF;
    SELECT * INTO walked FROM pgcron.walk_lanes(asked.queue, asked.beyond, claim_limited.look);
    SELECT coalesce(bool_or(w.due_at <= now()), false) AS is_due, min(w.due_at) FILTER (WHERE w.due_at > now()) AS next_due
      INTO placed FROM pgcron.walk_requirements(asked.queue, labels) w;
    IF placed.is_due THEN placed_queues := placed_queues || asked.queue; END IF;
    walked.next_due := least(walked.next_due, placed.next_due);
    IF walked.ended_at IS NOT NULL OR walked.lanes <> '{}' OR walked.next_due IS NOT NULL THEN
      pair_queues := pair_queues || array_fill(asked.queue, ARRAY[cardinality(walked.lanes)]);
      pair_lanes := pair_lanes || walked.lanes;
      pair_priorities := pair_priorities || walked.priorities;
      pair_rooms := pair_rooms || walked.rooms;
      verdict := 'walked'; queue := asked.queue; lane := walked.ended_at; due := CASE WHEN walked.next_due IS NOT NULL THEN date_part('epoch', least(walked.next_due, to_timestamp(253370764800)) - now()) END;
      RETURN NEXT;
    END IF;
  END LOOP;
  IF pair_lanes = '{}' AND limited = '{}' AND placed_queues = '{}' THEN RETURN; END IF;

  schedules := ARRAY(
    SELECT s.schedule_id FROM (
      SELECT DISTINCT h.schedule_id FROM pgcron.limited_heads(pair_queues, pair_lanes, pair_priorities, pair_rooms, limited, claim_limited.handlers, greatest(room, 1),
                                                                      labels, placed_queues) h
       WHERE h.schedule_id IS NOT NULL) s
     WHERE pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashint8(s.schedule_id)));
  lanes := ARRAY(
    SELECT l.lane FROM (SELECT DISTINCT p.lane FROM unnest(pair_lanes) p(lane)) l
     WHERE pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashtext('lane ' || l.lane)));

  IF schedules <> '{}' THEN      -- those among them with another policy than skip, see overlap
    others := ARRAY(SELECT s.id FROM unnest(schedules) s(id) WHERE EXISTS (
      SELECT FROM pgcron.run o WHERE o.schedule_id = s.id AND o.state = 'ready' AND o.overlap <> 'skip' AND o.due_at <= now()));
    IF others <> '{}' THEN
      superseded := ARRAY(SELECT pgcron.replace_older(others, claim_limited.handlers));
      FOR verdict, id IN SELECT s.verdict, s.id FROM pgcron.settle_queues(others) s WHERE s.verdict <> 'go' LOOP
        queue := NULL; lane := NULL; due := NULL;
        RETURN NEXT;
      END LOOP;
    END IF;
  END IF;
  granted_at := clock_timestamp();
  IF room > 0 THEN
    SELECT array_agg(picked.id) FILTER (WHERE NOT picked.is_too_heavy AND (picked.position <= claim_limited.free OR (picked.delivery = 'at_least_once' AND picked.weight = 1 AND picked.position <= room))),
           array_agg(picked.slot) FILTER (WHERE NOT picked.is_too_heavy AND (picked.position <= claim_limited.free OR (picked.delivery = 'at_least_once' AND picked.weight = 1 AND picked.position <= room))),
           array_agg(picked.own_slot) FILTER (WHERE NOT picked.is_too_heavy AND (picked.position <= claim_limited.free OR (picked.delivery = 'at_least_once' AND picked.weight = 1 AND picked.position <= room))),
           array_agg(picked.id) FILTER (WHERE NOT picked.is_too_heavy AND picked.position > claim_limited.free AND picked.position <= room
                                        AND (picked.delivery <> 'at_least_once' OR picked.weight > 1)),
           array_agg(picked.id) FILTER (WHERE picked.is_too_heavy)
      INTO chosen, slots, overlap_slots, left_waiting, too_heavy FROM (
      WITH held AS MATERIALIZED (
        SELECT l.lane, l.slots, h.runs, quota.starts AS quota, CASE WHEN h.runs > 0 THEN
                 ARRAY(SELECT generate_series(1, h.runs + least(l.slots, room)) EXCEPT SELECT unnest(h.taken) ORDER BY 1) END AS open
          FROM pgcron.lane_slots(lanes) l
         CROSS JOIN LATERAL (SELECT count(*)::int AS runs, array_agg(r.lane_slot) AS taken FROM pgcron.run r WHERE r.lane = l.lane AND r.lane_slot IS NOT NULL) h
          LEFT JOIN LATERAL (SELECT w.room AS starts FROM pgcron.rate_room('lane', l.lane, l.rate, l.per, granted_at) w WHERE l.rate IS NOT NULL) quota ON true),
      head AS MATERIALIZED (
        SELECT d.*, CASE WHEN claim_limited.aged THEN 0 ELSE d.priority END AS level, d.weight > greatest(claim_limited.free, 1) AS is_too_heavy, l.slots, l.runs, l.quota, l.open
          FROM pgcron.limited_heads(pair_queues, pair_lanes, pair_priorities, pair_rooms, limited, claim_limited.handlers, room, labels, placed_queues) d
          LEFT JOIN held l ON l.lane = d.lane
         WHERE (d.lane IS NULL OR l.lane IS NOT NULL) AND (keeps_for IS NULL OR d.id = keeps_for)
           AND (d.schedule_id IS NULL OR (d.schedule_id = ANY(schedules) AND (d.overlap_slot IS NOT NULL OR d.overlap <> 'skip' OR
                (SELECT o.id FROM pgcron.run o WHERE o.schedule_id = d.schedule_id AND o.overlap_slot IS NOT NULL LIMIT 1) IS NULL)))
           AND EXISTS (SELECT FROM pgcron.claiming_node n WHERE n.incarnation = claim_limited.incarnation)),
      single AS (
        SELECT h.*, row_number() OVER (PARTITION BY h.schedule_id, h.overlap_slot IS NULL ORDER BY h.level, h.due_at, h.id) AS of_schedule FROM head h),
      kind AS MATERIALIZED (
        SELECT k.schedule_id, k.overlap, o.open FROM (SELECT DISTINCT h.schedule_id, h.overlap FROM head h WHERE h.overlap <> 'skip') k
         CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, k.overlap, room) o),
      laned AS (
        SELECT s.*, CASE WHEN s.schedule_id IS NOT NULL THEN coalesce(s.overlap_slot, CASE s.overlap WHEN 'skip' THEN 1 ELSE kind.open[s.of_schedule] END) END::smallint AS own_slot,
               row_number() OVER (PARTITION BY s.lane, CASE WHEN s.lane IS NULL THEN s.queue END, s.is_too_heavy ORDER BY s.level, s.due_at, s.id) AS place
          FROM single s LEFT JOIN kind ON kind.schedule_id = s.schedule_id AND kind.overlap = s.overlap
         WHERE s.schedule_id IS NULL OR s.overlap_slot IS NOT NULL OR CASE s.overlap WHEN 'skip' THEN s.of_schedule = 1 ELSE kind.open[s.of_schedule] IS NOT NULL END),
      fair AS (
        SELECT l.*, CASE WHEN claim_limited.aged THEN 0 ELSE coalesce(l.runs, 0) + l.place END AS turn FROM laned l
         WHERE l.lane IS NULL OR l.place <= coalesce(least(l.slots - l.runs, l.quota), 2147483647)),
      queued AS (
        SELECT f.*, row_number() OVER (PARTITION BY f.queue, f.is_too_heavy ORDER BY f.level, f.turn, f.due_at, f.id) AS of_queue FROM fair f)
      SELECT q.id, q.delivery, q.weight, q.is_too_heavy, q.own_slot, sum(q.weight) OVER (ORDER BY q.is_too_heavy, q.level, q.turn, q.due_at, q.id) AS position,
             CASE WHEN q.lane IS NOT NULL THEN CASE WHEN q.open IS NULL THEN q.place ELSE q.open[q.place] END END::int AS slot
        FROM queued q LEFT JOIN unnest(limited, rooms) most(queue, runs) ON most.queue = q.queue
       WHERE most.queue IS NULL OR q.of_queue <= most.runs
       ORDER BY position) picked;
    RETURN QUERY
      UPDATE pgcron.run r
         SET state = 'running', owner = claim_limited.incarnation, token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid, fence = nextval('pgcron.fence'),
             attempt = r.attempt + 1, claimed_at = granted_at, overlap_slot = given.own_slot, lane_slot = given.slot
        FROM unnest(chosen, slots, overlap_slots) given(id, slot, own_slot)
       WHERE given.id = r.id AND r.id = ANY(ARRAY(
         SELECT l.id FROM pgcron.run l
          WHERE l.id = ANY(chosen) AND l.state = 'ready' AND l.hold IS NULL AND l.due_at <= now()
            AND l.handler = ANY(claim_limited.handlers) AND (l.expire_at IS NULL OR l.expire_at > now()) AND (l.requires IS NULL OR l.requires <@ labels)
          ORDER BY l.id FOR UPDATE SKIP LOCKED))
      RETURNING 'claim', r.id, r.uuid, r.handler, r.args, r.attempt, coalesce(r.max_attempts, CASE r.delivery WHEN 'at_most_once' THEN 1 ELSE 5 END),
                r.queue, r.priority, r.schedule, coalesce(r.scheduled_for, r.nominal_for), r.token, r.fence, date_part('epoch', r.timeout), r.delivery,
                date_part('epoch', r.due_at), r.origin, r.lane, coalesce(r.weight, 1);
    FOR asked IN
      SELECT 'lane' AS kind, l.lane AS name, l.per, count(*)::int AS starts FROM pgcron.lane_slots(lanes) l
        JOIN pgcron.run r ON r.lane = l.lane AND r.id = ANY(chosen) AND r.claimed_at = granted_at AND r.owner = claim_limited.incarnation
       WHERE l.rate IS NOT NULL GROUP BY l.lane, l.per
      UNION ALL
      SELECT 'queue', q.name, q.per, count(*)::int FROM pgcron.queue q
        JOIN pgcron.run r ON r.queue = q.name AND r.id = ANY(chosen) AND r.claimed_at = granted_at AND r.owner = claim_limited.incarnation
       WHERE q.name = ANY(limited) AND q.rate IS NOT NULL GROUP BY q.name, q.per LOOP
      PERFORM pgcron.count_starts(asked.kind, asked.name, asked.per, granted_at, asked.starts);
    END LOOP;
  END IF;

  IF schedules <> '{}' THEN
    skipped := ARRAY(
      SELECT w.id FROM unnest(schedules) AS one(schedule_id) JOIN pgcron.run w ON w.schedule_id = one.schedule_id
       WHERE w.state = 'ready' AND w.hold IS NULL AND w.overlap = 'skip' AND w.due_at <= now() AND w.overlap_slot IS NULL
         AND (SELECT h.id FROM pgcron.run h WHERE h.schedule_id = w.schedule_id AND h.overlap_slot IS NOT NULL LIMIT 1) IS NOT NULL
       ORDER BY w.id LIMIT 1000 FOR UPDATE OF w SKIP LOCKED);
    IF skipped <> '{}' THEN
      PERFORM pgcron.end_waiting_runs(skipped, 'skipped', 'the last run is not over');
    END IF;
    RETURN QUERY
      SELECT told.verdict, told.id, NULL::uuid, NULL::text, NULL::jsonb, NULL::int, NULL::int, NULL::text, NULL::smallint, NULL::text,
             NULL::timestamptz, NULL::uuid, NULL::bigint, NULL::float8, NULL::text, NULL::float8, NULL::text, NULL::text, NULL::int
        FROM (SELECT 'skip', s.id FROM unnest(skipped) s(id)
              UNION ALL SELECT 'supersede', s.id FROM unnest(superseded) s(id)
              UNION ALL SELECT 'skip', s FROM pgcron.skip_beyond(others) s
              UNION ALL SELECT 'mine', r.id FROM pgcron.run r WHERE r.id = ANY(chosen) AND r.owner = claim_limited.incarnation AND r.schedule_id = ANY(others)) told(verdict, id);
  END IF;
  RETURN QUERY
    SELECT 'wait', s.id, NULL::uuid, NULL::text, NULL::jsonb, NULL::int, NULL::int, NULL::text, NULL::smallint, NULL::text,
           NULL::timestamptz, NULL::uuid, NULL::bigint, NULL::float8, NULL::text, NULL::float8, NULL::text, NULL::text, NULL::int FROM unnest(left_waiting) s(id);
  IF too_heavy <> '{}' AND keeps_for IS NULL THEN
    SELECT a.id, a.weight INTO kept FROM pgcron.choose_awaited(claim_limited.incarnation, too_heavy) a;
    IF kept.id IS NOT NULL THEN
      verdict := 'await'; id := kept.id; weight := kept.weight; queue := NULL; lane := NULL; due := NULL;
      RETURN NEXT;
    END IF;
  END IF;
  IF room > coalesce(cardinality(chosen), 0) AND pair_lanes <> '{}' AND keeps_for IS NULL THEN
    verdict := 'parked'; id := NULL; weight := NULL; queue := NULL; lane := NULL;
    due := pgcron.park_lanes(pair_queues, pair_lanes, pair_priorities, claim_limited.handlers);
    IF due > 0 THEN RETURN NEXT; END IF;
  END IF;
END $$;

COMMENT ON FUNCTION pgcron.claim_limited(incarnation uuid, queues text[], beyond text[], handlers text[], free integer, ahead integer, look integer, aged boolean) IS 'Claims up to free + ahead due runs that have a lane, wait in a limited queue or require labels that the node has, never more than their lane has slots or their queue may run.';

CREATE FUNCTION pgcron.claim_probe(incarnation uuid, queues text[], handlers text[]) RETURNS TABLE(breaker text, id bigint, uuid uuid, handler text, args jsonb, attempt integer, max_attempts integer, queue text, priority smallint, schedule text, fire_time timestamp with time zone, token uuid, fence bigint, timeout double precision, delivery text, due double precision, origin text, weight integer)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  probed pgcron.breaker;
  candidate pgcron.run;
  claimed bigint;
BEGIN
  PERFORM pgcron.require_read_committed('probes');
  IF NOT EXISTS (SELECT FROM pgcron.claiming_node n WHERE n.incarnation = claim_probe.incarnation) THEN
    RETURN;
  END IF;
  FOR probed IN
    SELECT b.* FROM pgcron.breaker b
     WHERE b.state = 'open' AND b.open_until <= clock_timestamp() AND pgcron.breaker_is_fine(b)
       AND EXISTS (SELECT FROM pgcron.breaker_handler m WHERE m.breaker = b.name AND m.handler = ANY(claim_probe.handlers))
     ORDER BY b.open_until LIMIT 10 FOR UPDATE SKIP LOCKED LOOP
    FOR candidate IN
      SELECT r.* FROM pgcron.run r
       WHERE r.hold = 'circuit' AND r.handler IN (SELECT m.handler FROM pgcron.breaker_handler m WHERE m.breaker = probed.name AND m.handler = ANY(claim_probe.handlers))
         AND r.queue = ANY(claim_probe.queues) AND r.due_at <= now() AND (r.expire_at IS NULL OR r.expire_at > now())
         AND (r.requires IS NULL OR r.requires <@ (SELECT pgcron.label_words(n.labels) FROM pgcron.node n WHERE n.incarnation = claim_probe.incarnation))
         AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = r.queue AND q.paused_at IS NOT NULL)
       LIMIT 10 FOR UPDATE SKIP LOCKED LOOP
      UPDATE pgcron.run r SET hold = NULL WHERE r.id = candidate.id;
      IF candidate.lane IS NOT NULL OR candidate.requires IS NOT NULL OR EXISTS (SELECT FROM pgcron.queue q WHERE q.name = candidate.queue AND NOT q.is_plain) THEN
        SELECT c.id INTO claimed FROM pgcron.claim_limited(claim_probe.incarnation, ARRAY[candidate.queue], ARRAY[coalesce(left(candidate.lane, -1), '')],
                                                           ARRAY[candidate.handler], coalesce(candidate.weight, 1), 0, 1000) c WHERE c.verdict = 'claim';
      ELSIF candidate.overlap IS NOT NULL THEN
        SELECT c.id INTO claimed FROM pgcron.claim_lanes(claim_probe.incarnation, ARRAY[candidate.queue], ARRAY[candidate.priority], ARRAY[candidate.handler],
                                                         1, 0, 1000) c WHERE c.verdict = 'claim';
      ELSE
        UPDATE pgcron.run r SET state = 'running', owner = claim_probe.incarnation, token = gen_random_uuid(), fence = nextval('pgcron.fence'),
               attempt = r.attempt + 1, claimed_at = now()
         WHERE r.id = candidate.id RETURNING r.id INTO claimed;
      END IF;
      EXIT WHEN claimed IS NOT NULL;
    END LOOP;
    CONTINUE WHEN claimed IS NULL;
    UPDATE pgcron.breaker b SET state = 'half_open', probe_run = r.id, probe_fence = r.fence FROM pgcron.run r WHERE b.name = probed.name AND r.id = claimed;
    RETURN QUERY
      SELECT probed.name, r.id, r.uuid, r.handler, r.args, r.attempt, coalesce(r.max_attempts, CASE r.delivery WHEN 'at_most_once' THEN 1 ELSE 5 END), r.queue,
             r.priority, r.schedule, coalesce(r.scheduled_for, r.nominal_for), r.token, r.fence, date_part('epoch', r.timeout), r.delivery, date_part('epoch', r.due_at),
             r.origin, coalesce(r.weight, 1)
        FROM pgcron.run r WHERE r.id = claimed;
    RETURN;
  END LOOP;
END $$;

COMMENT ON FUNCTION pgcron.claim_probe(incarnation uuid, queues text[], handlers text[]) IS 'Claims one held run of a breaker whose time is over, as its one probe; no row when there is none to claim.';

CREATE FUNCTION pgcron.claim_trouble(queue text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT found.words FROM (
    SELECT 1 AS place, format('node %s claims nothing: %s', n.name, failing.error) AS words
      FROM pgcron.node n
     CROSS JOIN jsonb_to_recordset(n.health -> 'failing') failing(service text, error text)
     WHERE n.state = 'alive' AND n.lease_until > now() AND failing.service = 'dispatcher'
    UNION ALL
    SELECT 2, format('node %s goes on without %s: %s', n.name, aside.what, aside.error)
      FROM pgcron.node n
     CROSS JOIN jsonb_to_recordset(n.health -> 'without') aside(service text, what text, error text)
     WHERE n.state = 'alive' AND n.lease_until > now() AND aside.service = 'dispatcher'
       AND (NOT starts_with(aside.what, 'limits of queue ')
            OR aside.what = 'limits of queue ' || quote_literal(claim_trouble.queue))) found
   ORDER BY found.place, found.words LIMIT 1 $$;

CREATE FUNCTION pgcron.close_breaker(name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  UPDATE pgcron.breaker b SET state = 'closed', failed_at = '{}', opened_at = NULL, open_until = NULL, openings = 0, reason = NULL, probe_run = NULL, probe_fence = NULL
   WHERE b.name = close_breaker.name;
  PERFORM pgcron.notify(pgcron.channel(), 'breaker');
END $$;

CREATE FUNCTION pgcron.confine_producer(role text, queues text[] DEFAULT '{*}'::text[], handlers text[] DEFAULT '{*}'::text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles known WHERE known.rolname = role) THEN
    PERFORM pgcron.refuse('PC010', format('role %L does not exist', left(role, 200)), 'Rules are those of a role of the database server.', 'CREATE ROLE makes one.');
  END IF;
  IF cardinality(queues) > 0 IS NOT TRUE OR cardinality(handlers) > 0 IS NOT TRUE OR array_position(queues, NULL) IS NOT NULL OR array_position(handlers, NULL) IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001', format('role %L is to be confined to no queue or handler', role), 'An empty list, or a name that is NULL, makes no rule, and a role without rules may enqueue anything.',
      'Name them, or leave the argument out for all; pgcron.free_producer takes rules away, REVOKE the right to enqueue.');
  END IF;
  INSERT INTO pgcron.producer_rule (role, queue, handler)
  SELECT quote_ident(confine_producer.role)::regrole, q, h FROM unnest(queues) q CROSS JOIN unnest(handlers) h ON CONFLICT DO NOTHING;
END $$;

COMMENT ON FUNCTION pgcron.confine_producer(role text, queues text[], handlers text[]) IS 'A role, and whoever has its rights, may enqueue these handlers into these queues from now on (mail, mail-*, *), beside what it was allowed before, and nothing else. For the owner of the schema.';

CREATE FUNCTION pgcron.cordon_node(node text, reason text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
  PERFORM pgcron.require_node(cordon_node.node);
  INSERT INTO pgcron.cordon AS c (node, incarnation, reason, set_by)
  VALUES (cordon_node.node, (SELECT n.incarnation FROM pgcron.node n WHERE n.incarnation::text = cordon_node.node), cordon_node.reason,
          coalesce(cordon_node.actor, session_user))
  ON CONFLICT (node) DO UPDATE SET reason = EXCLUDED.reason, set_by = EXCLUDED.set_by, lifted_by = NULL, lifted_at = NULL,
    set_at = CASE WHEN c.lifted_at IS NULL THEN c.set_at ELSE EXCLUDED.set_at END;
  PERFORM pgcron.notify(pgcron.channel(), 'node');
  RETURN (SELECT count(*) FROM pgcron.node n WHERE n.state <> 'dead' AND (n.name = cordon_node.node OR n.incarnation::text = cordon_node.node));
END $$;

COMMENT ON FUNCTION pgcron.cordon_node(node text, reason text, actor text) IS 'The nodes of that name (until it is lifted, also after a restart), or the process of that incarnation, claim nothing more; what they hold goes on. Returns how many live.';

CREATE FUNCTION pgcron.count_failures(handlers text[], run_ids bigint[], fences bigint[], errors text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  row_found pgcron.breaker;
  failed record;
  latest timestamptz[];
BEGIN
  FOR row_found IN
    SELECT b.* FROM pgcron.breaker b
     WHERE b.name IN (SELECT m.breaker FROM pgcron.breaker_handler m WHERE m.handler = ANY(handlers)) AND pgcron.breaker_is_fine(b) ORDER BY b.name FOR UPDATE LOOP
    SELECT count(*)::int AS attempts, (array_agg(f.error ORDER BY f.place DESC))[1] AS error,
           bool_or(f.run_id = row_found.probe_run AND f.fence = row_found.probe_fence) AS is_probe INTO failed
      FROM unnest(handlers, run_ids, fences, errors) WITH ORDINALITY f(handler, run_id, fence, error, place)
      JOIN pgcron.breaker_handler m ON m.handler = f.handler AND m.breaker = row_found.name;
    IF row_found.state = 'half_open' AND failed.is_probe THEN
      PERFORM pgcron.open_breaker(row_found.name, failed.error, format('its probe, run %s, failed', row_found.probe_run));
    ELSIF row_found.state = 'closed' THEN
      latest := ARRAY(
        SELECT one.at FROM unnest(row_found.failed_at || array_fill(clock_timestamp(), ARRAY[least(failed.attempts, row_found.failures)])) WITH ORDINALITY one(at, place)
         WHERE one.at > clock_timestamp() - row_found.within ORDER BY one.place DESC LIMIT row_found.failures);
      IF cardinality(latest) >= row_found.failures THEN
        PERFORM pgcron.open_breaker(row_found.name, failed.error, format('%s %s in %s', row_found.failures, CASE row_found.failures WHEN 1 THEN 'failure' ELSE 'failures' END, pgcron.short_interval(row_found.within)));
      ELSE
        UPDATE pgcron.breaker b SET failed_at = ARRAY(SELECT one.at FROM unnest(latest) one(at) ORDER BY one.at), last_error = left(failed.error, 500)
         WHERE b.name = row_found.name;
      END IF;
    END IF;
  END LOOP;
END $$;

CREATE FUNCTION pgcron.count_starts(kind text, name text, per interval, at timestamp with time zone, starts integer) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  INSERT INTO pgcron.rate_window AS w (kind, name, slices, starts)
  VALUES (count_starts.kind, count_starts.name, ARRAY[pgcron.rate_slice(count_starts.at, count_starts.per)], ARRAY[count_starts.starts])
  ON CONFLICT ON CONSTRAINT rate_window_pkey DO UPDATE SET (slices, starts) = (
    SELECT array_agg(kept.slice ORDER BY kept.slice), array_agg(kept.starts ORDER BY kept.slice) FROM (
      SELECT least(s.slice, EXCLUDED.slices[1]) AS slice, least(sum(s.starts), 2147483647)::int AS starts
        FROM unnest(w.slices || EXCLUDED.slices, w.starts || EXCLUDED.starts) s(slice, starts)
       WHERE s.slice >= EXCLUDED.slices[1] - 256 GROUP BY 1) kept) $$;

CREATE FUNCTION pgcron.decide_dependents(ahead interval DEFAULT '00:00:05'::interval, most integer DEFAULT 1000) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  dependent record;
  freed bigint[] := '{}';
  decided int := 0;
BEGIN
  IF NOT EXISTS (SELECT FROM pgcron.run r WHERE r.hold = 'previous' AND r.due_at <= now() + ahead) THEN RETURN 0; END IF;
  PERFORM pgcron.require_read_committed('dependent runs');
  FOR dependent IN
    WITH soon AS MATERIALIZED (
      SELECT DISTINCT ON (due.schedule_id) due.id FROM (
        SELECT r.id, r.schedule_id, r.scheduled_for FROM pgcron.run r WHERE r.hold = 'previous' AND r.due_at <= now() + ahead ORDER BY r.due_at LIMIT 20000) due
       ORDER BY due.schedule_id, due.scheduled_for LIMIT most),
    held AS MATERIALIZED (
      SELECT r.id, r.schedule_id, r.scheduled_for, r.due_at, r.overlap FROM pgcron.run r
       WHERE r.id IN (SELECT soon.id FROM soon) AND r.hold = 'previous' ORDER BY r.id FOR UPDATE SKIP LOCKED)
    SELECT h.id, h.overlap, h.due_at <= now() AS is_due, told.* FROM held h CROSS JOIN LATERAL pgcron.judge_previous(h.schedule_id, h.scheduled_for) told
  LOOP
    IF dependent.verdict = 'fine' THEN
      freed := freed || dependent.id;
    ELSIF dependent.is_due AND dependent.verdict = 'failed' THEN
      PERFORM pgcron.end_waiting_runs(ARRAY[dependent.id], 'upstream_failed', dependent.reason);
      decided := decided + 1;
    ELSIF dependent.is_due AND dependent.verdict = 'open' AND dependent.has_begun AND dependent.overlap = 'skip' THEN
      PERFORM pgcron.end_waiting_runs(ARRAY[dependent.id], 'skipped', 'the last run is not over');
      decided := decided + 1;
    END IF;
  END LOOP;
  IF freed <> '{}' THEN
    PERFORM pgcron.set_hold(freed, NULL);
    IF EXISTS (SELECT FROM pgcron.node n WHERE n.is_idle AND n.state = 'alive') THEN PERFORM pgcron.notify(pgcron.channel(), 'run'); END IF;
  END IF;
  RETURN decided + cardinality(freed);
END $$;

COMMENT ON FUNCTION pgcron.decide_dependents(ahead interval, most integer) IS 'Lets runs go that waited for the one before them, or ends them where it failed; every node calls it now and then.';

CREATE FUNCTION pgcron.decide_lanes(incarnation uuid, queues text[], priorities smallint[], handlers text[], free integer, ahead integer, lanes bigint[]) RETURNS TABLE(verdict text, id bigint, uuid uuid, handler text, args jsonb, attempt integer, max_attempts integer, queue text, priority smallint, schedule text, fire_time timestamp with time zone, token uuid, fence bigint, timeout double precision, delivery text, due double precision, origin text)
    LANGUAGE plpgsql ROWS 100
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  settled jsonb;
  chosen bigint[];
  slots smallint[];
  left_waiting bigint[];
BEGIN
  settled := (SELECT jsonb_object_agg(s.id, 'supersede') FROM pgcron.replace_older(lanes, decide_lanes.handlers) s(id));
  settled := coalesce(settled, '{}') || coalesce((SELECT jsonb_object_agg(s.id, s.verdict) FROM pgcron.settle_queues(lanes) s WHERE s.verdict <> 'go'), '{}');
  IF decide_lanes.free + decide_lanes.ahead > 0 THEN
    SELECT array_agg(ranked.id) FILTER (WHERE ranked.position <= decide_lanes.free OR ranked.delivery = 'at_least_once'),
           array_agg(ranked.slot) FILTER (WHERE ranked.position <= decide_lanes.free OR ranked.delivery = 'at_least_once'),
           array_agg(ranked.id) FILTER (WHERE ranked.position > decide_lanes.free AND ranked.delivery <> 'at_least_once')
      INTO chosen, slots, left_waiting FROM (
        WITH head AS MATERIALIZED (
          SELECT head.* FROM unnest(lanes) AS lane(schedule_id)
           CROSS JOIN LATERAL (
             SELECT w.id, w.schedule_id, w.overlap, w.overlap_slot, w.priority, w.due_at, w.delivery,
                    row_number() OVER (PARTITION BY w.overlap_slot IS NULL ORDER BY w.priority, w.due_at, w.id) AS place FROM pgcron.run w
              WHERE w.schedule_id = lane.schedule_id AND w.state = 'ready' AND w.hold IS NULL AND w.lane IS NULL AND w.requires IS NULL AND w.overlap IS NOT NULL AND w.due_at <= now()
                AND w.queue = ANY(decide_lanes.queues) AND w.handler = ANY(decide_lanes.handlers) AND (w.expire_at IS NULL OR w.expire_at > now())
                AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = w.queue AND NOT q.is_plain)
              ORDER BY w.overlap_slot NULLS LAST, w.priority, w.due_at, w.id LIMIT 1000) head),
        kind AS MATERIALIZED (
          SELECT k.schedule_id, k.overlap, o.room, o.open FROM (SELECT DISTINCT h.schedule_id, h.overlap FROM head h) k
           CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, k.overlap, decide_lanes.free + decide_lanes.ahead) o)
        SELECT head.id, head.delivery, coalesce(head.overlap_slot, kind.open[head.place]) AS slot,
               row_number() OVER (ORDER BY array_position(decide_lanes.priorities, head.priority), head.due_at, head.id) AS position
          FROM head JOIN kind ON kind.schedule_id = head.schedule_id AND kind.overlap = head.overlap
         WHERE (head.overlap_slot IS NOT NULL OR (head.place <= kind.room AND kind.open[head.place] IS NOT NULL))
           AND EXISTS (SELECT FROM pgcron.claiming_node n WHERE n.incarnation = decide_lanes.incarnation)
         ORDER BY position LIMIT decide_lanes.free + decide_lanes.ahead) ranked;
    RETURN QUERY
      UPDATE pgcron.run r
         SET state = 'running', owner = decide_lanes.incarnation, token = md5((SELECT gen_random_uuid()::text) || r.id)::uuid, fence = nextval('pgcron.fence'),
             attempt = r.attempt + 1, claimed_at = now(), overlap_slot = given.slot
        FROM unnest(chosen, slots) given(id, slot)
       WHERE given.id = r.id AND r.id = ANY(ARRAY(
         SELECT l.id FROM pgcron.run l
          WHERE l.id = ANY(chosen) AND l.state = 'ready' AND l.hold IS NULL AND l.lane IS NULL AND l.requires IS NULL AND l.overlap IS NOT NULL AND l.due_at <= now()
            AND l.queue = ANY(decide_lanes.queues) AND l.handler = ANY(decide_lanes.handlers) AND (l.expire_at IS NULL OR l.expire_at > now())
          ORDER BY l.id FOR UPDATE SKIP LOCKED))
      RETURNING 'claim', r.id, r.uuid, r.handler, r.args, r.attempt, coalesce(r.max_attempts, CASE r.delivery WHEN 'at_most_once' THEN 1 ELSE 5 END),
                r.queue, r.priority, r.schedule, coalesce(r.scheduled_for, r.nominal_for), r.token, r.fence, date_part('epoch', r.timeout), r.delivery,
                date_part('epoch', r.due_at), r.origin;
  END IF;
  RETURN QUERY
    SELECT told.verdict, told.id, NULL::uuid, NULL::text, NULL::jsonb, NULL::int, NULL::int, NULL::text, NULL::smallint, NULL::text,
           NULL::timestamptz, NULL::uuid, NULL::bigint, NULL::float8, NULL::text, NULL::float8, NULL::text
      FROM (SELECT s.value, s.key::bigint FROM jsonb_each_text(settled) s
            UNION ALL SELECT 'skip', s FROM pgcron.skip_beyond(lanes) s
            UNION ALL SELECT 'wait', s.id FROM unnest(left_waiting) s(id)
            UNION ALL SELECT 'mine', r.id FROM pgcron.run r WHERE r.id = ANY(chosen) AND r.owner = decide_lanes.incarnation AND r.overlap NOT IN ('skip', 'skip many')) told(verdict, id);
END $$;

CREATE FUNCTION pgcron.declare_breakers(declared jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  INSERT INTO pgcron.breaker AS b (name, failures, within, open_for, open_for_at_most, fallback_handler, fallback_queue)
  SELECT d.name, d.failures, make_interval(secs => d.within), make_interval(secs => d.open_for), make_interval(secs => d.open_for_at_most), d.fallback_handler, d.fallback_queue
    FROM jsonb_to_recordset(declared) d(name text, failures int, within float8, open_for float8, open_for_at_most float8, fallback_handler text, fallback_queue text) ORDER BY d.name
  ON CONFLICT (name) DO UPDATE SET failures = EXCLUDED.failures, within = EXCLUDED.within, open_for = EXCLUDED.open_for, open_for_at_most = EXCLUDED.open_for_at_most,
    fallback_handler = EXCLUDED.fallback_handler, fallback_queue = EXCLUDED.fallback_queue, set_at = now()
  WHERE b.set_by IS NULL AND (b.failures, b.within, b.open_for, b.open_for_at_most, b.fallback_handler, b.fallback_queue)
        IS DISTINCT FROM (EXCLUDED.failures, EXCLUDED.within, EXCLUDED.open_for, EXCLUDED.open_for_at_most, EXCLUDED.fallback_handler, EXCLUDED.fallback_queue);
  INSERT INTO pgcron.breaker_handler AS m (handler, breaker)
  SELECT DISTINCT ON (one.handler) one.handler, d.name FROM jsonb_to_recordset(declared) d(name text, handlers text[]) CROSS JOIN unnest(d.handlers) one(handler) ORDER BY one.handler, d.name
  ON CONFLICT (handler) DO UPDATE SET breaker = EXCLUDED.breaker WHERE m.breaker <> EXCLUDED.breaker AND (SELECT b.set_by IS NULL FROM pgcron.breaker b WHERE b.name = m.breaker);
END $$;

CREATE FUNCTION pgcron.delays_are_fine(delays jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF jsonb_typeof(delays) <> 'array' OR jsonb_array_length(delays) NOT BETWEEN 1 AND 100 THEN RETURN false; END IF;
  RETURN NOT EXISTS (SELECT FROM jsonb_array_elements(delays) delay WHERE pgcron.policy_interval(delay) IS NULL);
END $$;

CREATE FUNCTION pgcron.delete_calendar(name text, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  users text;
BEGIN
  PERFORM pgcron.lock_calendars();
  PERFORM FROM pgcron.calendar c WHERE c.name = delete_calendar.name FOR UPDATE;
  IF NOT FOUND THEN
    PERFORM pgcron.refuse('PC010', format('calendar %L does not exist', left(delete_calendar.name, 200)), 'A calendar is named exactly as it was made.', '`pgcron-ha calendars list` lists them.');
  END IF;
  users := pgcron.users_of_calendar(delete_calendar.name);
  IF users IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', format('calendar %L is used', delete_calendar.name), 'By ' || users || '.', 'Take it out of their specs first.');
  END IF;
  DELETE FROM pgcron.calendar c WHERE c.name = delete_calendar.name;
END $$;

COMMENT ON FUNCTION pgcron.delete_calendar(name text, actor text) IS 'Deletes a calendar that nobody uses.';

CREATE FUNCTION pgcron.delete_schedule(name text, actor text DEFAULT NULL::text, door text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.act_as(delete_schedule.actor, delete_schedule.door);
  DELETE FROM pgcron.schedule WHERE id = pgcron.schedule_id(delete_schedule.name);
END $$;

COMMENT ON FUNCTION pgcron.delete_schedule(name text, actor text, door text) IS 'Ends what has not started and removes the schedule; its history stays, and its name can be used again.';

CREATE FUNCTION pgcron.divert_runs(at_most integer) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  broken pgcron.breaker;
  held bigint[];
BEGIN
  FOR broken IN
    SELECT b.* FROM pgcron.breaker b WHERE b.state = 'open' AND b.open_until > clock_timestamp() AND num_nonnulls(b.fallback_handler, b.fallback_queue) > 0 AND pgcron.breaker_is_fine(b) ORDER BY b.name LOOP
    held := ARRAY(
      SELECT r.id FROM pgcron.run r
       WHERE r.hold = 'circuit' AND r.handler IN (SELECT m.handler FROM pgcron.breaker_handler m WHERE m.breaker = broken.name)
         AND r.handler IS DISTINCT FROM broken.fallback_handler AND r.queue IS DISTINCT FROM broken.fallback_queue
         AND (r.delivery <> 'transactional' OR broken.fallback_handler IS NULL OR broken.fallback_handler ~ '^(py|sql):')
         AND NOT EXISTS (SELECT FROM pgcron.diversion d WHERE d.run_id = r.id)
       LIMIT divert_runs.at_most FOR UPDATE SKIP LOCKED);
    BEGIN
      INSERT INTO pgcron.diversion (run_id, breaker, handler, queue, reason)
      SELECT r.id, broken.name, r.handler, r.queue, concat(broken.reason, ', last: ' || broken.last_error) FROM pgcron.run r WHERE r.id = ANY(held) ON CONFLICT DO NOTHING;
      -- A run that is moved waits there as any other; one with another handler is as new to it.
      UPDATE pgcron.run r SET hold = NULL, handler = coalesce(broken.fallback_handler, r.handler), queue = coalesce(broken.fallback_queue, r.queue) WHERE r.id = ANY(held);
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

CREATE FUNCTION pgcron.door() RETURNS text
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT COALESCE(NULLIF(current_setting('pgcron_ha.door'::text, true), ''::text), 'sql'::text) AS "coalesce";
END;

CREATE FUNCTION pgcron.due_demand(queue text, most integer, OUT slots bigint, OUT looked integer) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  light record;
  placed record;
  keyed record;
  limits record;
  begin_now bigint;
BEGIN
  SELECT q.paused_at, least(q.max_running - running.runs, rated.room) AS room INTO limits
    FROM pgcron.queue q
    LEFT JOIN LATERAL (
      SELECT count(*)::int AS runs FROM (
        SELECT FROM pgcron.run r WHERE r.state = 'running' AND r.owner IS NOT NULL AND r.queue = q.name LIMIT q.max_running) r WHERE q.max_running IS NOT NULL) running ON true
    LEFT JOIN LATERAL (SELECT w.room FROM pgcron.rate_room('queue', q.name, q.rate, q.per, clock_timestamp()) w WHERE q.rate IS NOT NULL) rated ON true
   WHERE q.name = due_demand.queue;
  slots := 0; looked := 0;
  IF limits.paused_at IS NOT NULL OR limits.room <= 0 THEN RETURN; END IF;

  SELECT count(*) AS looked, count(*) FILTER (WHERE due.schedule_id IS NULL AND due.is_alive)
         + count(DISTINCT due.schedule_id) FILTER (WHERE due.is_alive AND NOT EXISTS (
             SELECT FROM pgcron.run h WHERE h.schedule_id = due.schedule_id AND h.overlap_slot IS NOT NULL AND (h.state = 'running' OR h.due_at > now()))) AS runs
    INTO light FROM (
    SELECT found.schedule_id, coalesce(found.expire_at > now(), true) AS is_alive FROM generate_series(0, 9) level CROSS JOIN LATERAL (
      (SELECT NULL::bigint AS schedule_id, r.expire_at FROM pgcron.run r
        WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL AND r.overlap IS NULL AND r.delivery = 'at_least_once'
          AND r.queue = due_demand.queue AND r.priority = level AND r.due_at <= now() ORDER BY r.due_at, r.id LIMIT due_demand.most)
      UNION ALL
      (SELECT NULL, r.expire_at FROM pgcron.run r
        WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL AND r.overlap IS NULL AND r.delivery <> 'at_least_once'
          AND r.queue = due_demand.queue AND r.priority = level AND r.due_at <= now() ORDER BY r.due_at, r.id LIMIT due_demand.most)
      UNION ALL
      (SELECT CASE r.overlap WHEN 'skip' THEN r.schedule_id END, r.expire_at FROM pgcron.run r      -- of other policies only what may begin has no hold
        WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL AND r.overlap IS NOT NULL
          AND r.queue = due_demand.queue AND r.priority = level AND r.due_at <= now() ORDER BY r.due_at, r.id LIMIT due_demand.most)) found
    LIMIT due_demand.most) due;
  looked := light.looked;

  SELECT count(*) AS looked, count(*) FILTER (WHERE due.is_alive) AS runs INTO placed FROM (
    SELECT coalesce(found.expire_at > now(), true) AS is_alive FROM pgcron.walk_requirements(due_demand.queue, NULL) place CROSS JOIN LATERAL (
      SELECT r.expire_at FROM pgcron.run r
       WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NOT NULL AND r.queue = due_demand.queue AND r.requires = place.requires
         AND r.priority = place.priority AND r.due_at <= now() ORDER BY r.due_at, r.id LIMIT due_demand.most - looked) found
    LIMIT due_demand.most - looked) due;
  looked := looked + placed.looked;

  SELECT coalesce(sum(of_lane.looked), 0)::int AS looked, coalesce(sum(of_lane.runs), 0) AS runs, coalesce(sum(of_lane.slots), 0) AS slots INTO keyed FROM (
    SELECT count(*) AS looked, least(count(*) FILTER (WHERE due.is_alive), max(due.room)) AS runs,
           ceil(sum(due.weight) FILTER (WHERE due.is_alive) * least(1, max(due.room)::numeric / nullif(count(*) FILTER (WHERE due.is_alive), 0))) AS slots FROM (
      SELECT pair.lane, pair.room, coalesce(found.weight, 1) AS weight, coalesce(found.expire_at > now(), true) AS is_alive
        FROM pgcron.walk_lanes(due_demand.queue, '', due_demand.most - looked) walked
       CROSS JOIN LATERAL unnest(walked.lanes, walked.priorities, walked.rooms) pair(lane, priority, room)
       CROSS JOIN LATERAL (
         SELECT r.weight, r.expire_at FROM pgcron.run r
          WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NOT NULL AND r.queue = due_demand.queue AND r.lane = pair.lane AND r.priority = pair.priority
            AND r.due_at <= now() ORDER BY r.due_at, r.id LIMIT least(pair.room, due_demand.most - looked)) found
       WHERE due_demand.most > looked LIMIT due_demand.most - looked) due
    GROUP BY due.lane) of_lane;
  looked := looked + keyed.looked;

  begin_now := light.runs + placed.runs + keyed.runs;
  slots := ceil((light.runs + placed.runs + keyed.slots) * least(1, coalesce(limits.room::numeric / nullif(begin_now, 0), 1)));
END $$;

CREATE FUNCTION pgcron.edit_occurrence(name text, instant timestamp with time zone, args jsonb, note text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF edit_occurrence.args IS NULL THEN PERFORM pgcron.refuse_args('null'); END IF;
  PERFORM pgcron.override_occurrence(edit_occurrence.name, edit_occurrence.instant,
    ROW(NULL, NULL, 'edit', NULL, edit_occurrence.args, edit_occurrence.note, coalesce(edit_occurrence.actor, session_user), NULL)::pgcron.occurrence_override);
END $$;

COMMENT ON FUNCTION pgcron.edit_occurrence(name text, instant timestamp with time zone, args jsonb, note text, actor text) IS 'One fire to come gets other args.';

CREATE FUNCTION pgcron.edit_schedule(name text, changes jsonb, expected_version integer DEFAULT NULL::integer, note text DEFAULT NULL::text, actor text DEFAULT NULL::text, door text DEFAULT NULL::text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
  known bigint;
  assigned text;
  new_version int;
BEGIN
  IF jsonb_typeof(changes) <> 'object' THEN
    PERFORM pgcron.refuse('PC001', format('the changes are a JSON %s', jsonb_typeof(changes)), 'They are an object: columns of pgcron.schedule, and what each shall be.', 'Write for example {"spec": "@daily"}.');
  END IF;
  PERFORM pgcron.refuse_columns(ARRAY(SELECT jsonb_object_keys(changes)), '{name}');
  IF changes -> 'spec' = 'null' OR changes -> 'handler' = 'null' THEN
    PERFORM pgcron.refuse('PC001', 'a schedule has no spec or no handler', 'It says when it fires, and what runs then.', 'Leave out what is to stay as it is.');
  END IF;
  PERFORM pgcron.expect_version(edit_schedule.name, expected_version);
  PERFORM pgcron.act_as(edit_schedule.actor, edit_schedule.door);
  known := pgcron.schedule_id(edit_schedule.name);
  SELECT string_agg(format(CASE WHEN changes -> k = 'null' THEN '%1$I = DEFAULT' ELSE '%1$I = (SELECT n.%1$I FROM jsonb_populate_record(NULL::pgcron.schedule, $1) n)' END, k), ', ')
    INTO assigned FROM jsonb_object_keys(changes) k;
  PERFORM set_config('pgcron_ha.version_note', coalesce(edit_schedule.note, ''), true);
  EXECUTE format('UPDATE pgcron.schedule s SET %s WHERE s.id = $2 RETURNING s.version', coalesce(assigned, 'spec = s.spec')) INTO new_version USING changes, known;
  PERFORM set_config('pgcron_ha.version_note', '', true);
  RETURN new_version;
EXCEPTION WHEN data_exception OR not_null_violation THEN
  PERFORM pgcron.refuse_value(edit_schedule.name, SQLERRM);
END $_$;

COMMENT ON FUNCTION pgcron.edit_schedule(name text, changes jsonb, expected_version integer, note text, actor text, door text) IS 'Changes some columns of a schedule, null to their defaults, if it has the version that is expected (PC014); returns its version. The note is kept with the version.';

CREATE FUNCTION pgcron.end_attempts(run_ids bigint[], kinds text[], retryables boolean[], retry_afters double precision[], error_classes text[], errors text[], tracebacks text[], causes text[], fingerprints text[], node_names text[]) RETURNS TABLE(run_id bigint, verdict text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  given record;
  ending pgcron.run;
  delay interval;
  because text;
  broken_constraint text;
  usual_lock_timeout text := current_setting('lock_timeout');
  failed_handlers text[];
  failed_runs bigint[];
  failed_fences bigint[];
  failures text[];
BEGIN
  FOR given IN
    -- No retry lies further ahead than a year, so that no handler can ask for an instant that there is not.
    SELECT u.id, u.kind, u.retryable, CASE WHEN u.retry_after IS NOT NULL THEN least(greatest(u.retry_after, 0), 31622400) END AS retry_after, u.error_class, u.error, u.traceback, u.causes, u.fingerprint, u.node_name
      FROM unnest(run_ids, kinds, retryables, retry_afters, error_classes, errors, tracebacks, end_attempts.causes, fingerprints, node_names)
           u(id, kind, retryable, retry_after, error_class, error, traceback, causes, fingerprint, node_name) ORDER BY u.id LOOP
    SELECT * INTO STRICT ending FROM pgcron.run r WHERE r.id = given.id;
    run_id := given.id;
    given.fingerprint := coalesce(given.fingerprint, left(md5(concat_ws(' ', given.error_class, ending.handler)), 16));
    because := NULL;
    IF ending.retry IS NULL AND given.kind <> 'snoozed' AND ending.time_limits IS NULL THEN
      verdict := pgcron.attempt_verdict(ending, given.kind, given.retryable);
    ELSE
      SELECT judged.verdict, judged.delay, judged.recorded, judged.because INTO verdict, delay, given.kind, because
        FROM pgcron.judge_attempt(ending, given.kind, given.retryable, given.retry_after, string_to_array(given.causes, ' ')) judged;
      given.error := concat_ws(' ', given.error, '(not retried: ' || because || ')');
    END IF;
    IF verdict = 'dead' AND pgcron.ended_two_nodes(ending, given.kind) THEN
      given.error := given.error || ' (not retried: two nodes ended while they prepared this run, before its handler began)';
    END IF;
    -- A breaker counts what went wrong with the handler: not what it refused for good, nor a caller's error (http 4xx), a node's end, a stop.
    IF given.kind IN ('failed', 'timed_out') AND given.retryable AND verdict <> 'cancelled' AND because IS DISTINCT FROM 'its policy discards it'
       AND 'http:4xx' <> ALL (coalesce(string_to_array(given.causes, ' '), '{}')) AND EXISTS (SELECT FROM pgcron.breaker_handler m WHERE m.handler = ending.handler) THEN
      failed_handlers := failed_handlers || ending.handler; failed_runs := failed_runs || ending.id;
      failed_fences := failed_fences || ending.fence; failures := failures || coalesce(given.error, given.error_class, given.kind);
    END IF;
    BEGIN
      INSERT INTO pgcron.attempt (run_id, attempt, outcome, owner, node, fence, claimed_at, started_at, error_class, error, traceback, fingerprint)
      VALUES (ending.id, ending.attempt, CASE WHEN verdict = 'cancelled' THEN 'cancelled' ELSE given.kind END, ending.owner, given.node_name, ending.fence,
              ending.claimed_at, ending.started_at, given.error_class, given.error, given.traceback, given.fingerprint);
    EXCEPTION WHEN check_violation THEN    -- no partition for now(): the error still stands in the run, then in history
      GET STACKED DIAGNOSTICS broken_constraint = CONSTRAINT_NAME;
      IF broken_constraint <> '' THEN RAISE; END IF;
      RAISE WARNING 'attempt % of run % is not recorded: %', ending.attempt, ending.id, SQLERRM;
    END;
    IF verdict = 'retry' AND ending.retry IS NULL AND ending.time_limits IS NULL THEN
      -- A run of a schedule keeps its overlap slot while it waits: it is not over. A crash is retried at once the first time. The start
      -- deadline was kept by the first attempt; a retry after it would end as expired and hide the error.
      UPDATE pgcron.run r SET state = 'ready', owner = NULL, token = NULL, fence = NULL, claimed_at = NULL, started_at = NULL, lane_slot = NULL, expire_at = NULL, last_error = given.error,
             lost_early = CASE WHEN given.kind = 'lease_lost' AND ending.started_at IS NULL THEN 1 END,
             due_at = now() + CASE WHEN given.retry_after IS NOT NULL THEN make_interval(secs => given.retry_after)
                                   WHEN given.kind = 'lease_lost' AND ending.attempt = 1 THEN interval '0'
                                   ELSE pgcron.retry_delay(ending.attempt - coalesce(ending.snoozes, 0), ending.retry_base, ending.retry_cap) END
       WHERE r.id = ending.id;
    ELSIF verdict IN ('retry', 'snooze') THEN
      UPDATE pgcron.run r SET state = 'ready', owner = NULL, token = NULL, fence = NULL, claimed_at = NULL, started_at = NULL, lane_slot = NULL, expire_at = pgcron.give_up_at(ending.time_limits), last_error = given.error,
             lost_early = CASE WHEN given.kind = 'lease_lost' AND ending.started_at IS NULL THEN 1 END,
             due_at = now() + delay, snoozes = CASE verdict WHEN 'snooze' THEN coalesce(r.snoozes, 0) + 1 ELSE r.snoozes END,
             max_attempts = CASE verdict WHEN 'snooze' THEN coalesce(r.max_attempts, 5) + 1 ELSE r.max_attempts END
       WHERE r.id = ending.id;
    ELSE
      IF verdict = 'cancelled' THEN ending.cancel_reason := coalesce(ending.cancel_reason, given.error); END IF;
      PERFORM pgcron.end_run(ending, verdict, given.error_class, given.error, given.fingerprint, given.node_name);
    END IF;
    RETURN NEXT;
  END LOOP;
  IF failed_handlers IS NOT NULL THEN
    BEGIN
      PERFORM set_config('lock_timeout', '500ms', true);
      PERFORM pgcron.count_failures(failed_handlers, failed_runs, failed_fences, failures);
      PERFORM set_config('lock_timeout', usual_lock_timeout, true);
    EXCEPTION WHEN OTHERS THEN      -- a breaker that is locked, or that can't be written, keeps no run from ending
      RAISE WARNING 'failures of % are not counted: %', failed_handlers[1], SQLERRM;
    END;
  END IF;
END $$;

CREATE FUNCTION pgcron.end_channel() RETURNS text
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT (pgcron.channel() || '_ended'::text);
END;

COMMENT ON FUNCTION pgcron.end_channel() IS 'The NOTIFY channel on which the ids of awaited runs come when they are over. Notifications are hints; nothing depends on them.';

CREATE FUNCTION pgcron.end_each_waiting_run(run_ids bigint[], outcome text, reason text) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ended bigint[];
BEGIN
  run_ids := ARRAY(SELECT r.id FROM pgcron.run r WHERE r.id = ANY(run_ids) ORDER BY r.id
                   FOR UPDATE SKIP LOCKED);
  BEGIN
    ended := ARRAY(SELECT pgcron.end_waiting_runs(run_ids, outcome, reason));
    RETURN QUERY SELECT unnest(ended);
    RETURN;
  EXCEPTION WHEN others THEN
    IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
    IF cardinality(run_ids) = 1 THEN
      RETURN QUERY SELECT run_ids[1] WHERE pgcron.end_refused_run(run_ids[1], NULL, SQLERRM);
      RETURN;
    END IF;
  END;
  RETURN QUERY SELECT pgcron.end_each_waiting_run(ARRAY[waiting.id], outcome, reason)
                 FROM unnest(run_ids) waiting(id);
END $$;

CREATE FUNCTION pgcron.end_late_fires(grace interval, most integer) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  silent_since timestamptz;
  ended int := 0;
  late record;
BEGIN
  IF EXISTS (SELECT FROM pgcron.node n WHERE n.state <> 'dead' AND n.lease_until > now()) THEN
    RETURN 0;
  END IF;
  SELECT coalesce(max(n.lease_until - n.lease_ttl), '-infinity') INTO silent_since
    FROM pgcron.node n;
  FOR late IN
    SELECT judged.reason, array_agg(judged.id ORDER BY judged.id) AS runs FROM (
      SELECT placed.id,
             CASE WHEN placed.catchup = 'none' THEN 'it was late, and its schedule does not catch up'
                  WHEN placed.is_old THEN 'it was late, and older than the catch-up window'
                  WHEN placed.place > placed.kept
                  THEN 'it was late, and a newer late fire runs in its place' END AS reason
        FROM (
          SELECT r.id, s.catchup, r.due_at < now() - s.catchup_window AS is_old,
                 row_number() OVER (PARTITION BY s.id ORDER BY r.scheduled_for DESC) AS place,
                 CASE WHEN s.catchup = 'latest' THEN 1
                      WHEN s.catchup LIKE 'latest %' THEN split_part(s.catchup, ' ', 2)::int END
                 - (c.next_fire <= now() - grace AND NOT c.is_paused)::int AS kept
            FROM pgcron.schedule s
            JOIN pgcron.cursor c ON c.schedule_id = s.id
           CROSS JOIN LATERAL (
             SELECT w.* FROM pgcron.run w
              WHERE w.schedule_id = s.id AND w.state = 'ready' AND w.origin = 'schedule'
                AND w.attempt = 0 AND w.due_at > silent_since AND w.due_at <= now() - grace) r
           WHERE s.catchup <> 'all' AND NOT EXISTS (
             SELECT FROM pgcron.occurrence_override o
              WHERE o.schedule_id = s.id AND o.fire_at = r.scheduled_for)) placed) judged
     WHERE judged.reason IS NOT NULL GROUP BY judged.reason LOOP
    SELECT ended + count(*) INTO ended
      FROM pgcron.end_each_waiting_run(late.runs[:most], 'skipped', late.reason);
  END LOOP;
  RETURN ended;
END $$;

CREATE FUNCTION pgcron.end_orphans(run_ids bigint[], errors text[], node_names text[]) RETURNS TABLE(run_id bigint, verdict text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  given record;
  ending pgcron.run;
BEGIN
  FOR given IN
    SELECT c.run_id, c.result, c.opened_at, o.node_name FROM unnest(end_orphans.run_ids, node_names) o(id, node_name) JOIN pgcron.callback c ON c.run_id = o.id
     WHERE c.status = 'succeeded' AND c.fence = (SELECT r.fence FROM pgcron.run r WHERE r.id = o.id) ORDER BY c.run_id LOOP
    SELECT r.* INTO STRICT ending FROM pgcron.run r WHERE r.id = given.run_id;
    ending.started_at := coalesce(ending.started_at, given.opened_at);
    PERFORM pgcron.end_run(ending, 'succeeded', NULL, NULL, NULL, given.node_name, given.result);
    run_id := given.run_id;
    verdict := 'succeeded';
    RETURN NEXT;
  END LOOP;
  RETURN QUERY
    SELECT e.run_id, e.verdict FROM (
      SELECT array_agg(r.id) ids, array_agg(CASE WHEN c.status IS NULL THEN 'lease_lost' ELSE 'failed' END) kinds,
             array_agg(c.status IS DISTINCT FROM 'discarded') retryables, array_agg(c.retry_after) retry_afters,
             array_agg(CASE WHEN c.status IS NULL THEN 'LeaseLost' WHEN c.status = 'retry' THEN 'Retry' ELSE 'OperationFailed' END) error_classes,
             array_agg(CASE WHEN c.status IS NULL THEN o.error ELSE c.error END) errors, array_agg(NULL::text) tracebacks,
             array_agg(CASE WHEN c.status IS NULL THEN 'LeaseLost' WHEN c.status = 'retry' THEN 'Retry pgcron_ha.Retry' ELSE 'OperationFailed' END) causes,
             array_agg(NULL::text) fingerprints, array_agg(o.node_name) node_names
        FROM unnest(end_orphans.run_ids, errors, end_orphans.node_names) o(id, error, node_name) JOIN pgcron.run r ON r.id = o.id
        LEFT JOIN pgcron.callback c ON c.run_id = r.id AND c.fence = r.fence) g,
      LATERAL pgcron.end_attempts(g.ids, g.kinds, g.retryables, g.retry_afters, g.error_classes, g.errors, g.tracebacks, g.causes, g.fingerprints, g.node_names) e
     WHERE g.ids IS NOT NULL;
END $$;

CREATE FUNCTION pgcron.end_refused_run(run bigint, token uuid, reason text, node_name text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ending pgcron.run;
  class text := 'RunRefused';
BEGIN
  -- Only the row's lock is taken: an UPDATE would be judged.
  PERFORM FROM pgcron.run r WHERE r.id = end_refused_run.run AND r.token IS NOT DISTINCT FROM end_refused_run.token FOR UPDATE;
  IF NOT FOUND THEN RETURN false; END IF;
  BEGIN
    SELECT r.* INTO STRICT ending FROM pgcron.run r WHERE r.id = end_refused_run.run;
    PERFORM pgcron.end_run(ending, 'dead', class, reason, left(md5(class || ' ' || ending.handler), 16), node_name);
  EXCEPTION WHEN others THEN
    IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
    WITH ended AS (
      DELETE FROM pgcron.run r WHERE r.id = end_refused_run.run
      RETURNING r.id, r.uuid, r.origin, r.schedule_id, r.schedule, r.scheduled_for, r.queue, r.priority, r.handler, r.delivery, r.attempt, r.due_at, r.created_at, r.created_by, r.claimed_at, r.started_at,
                r.owner, r.fence),
    letter AS (
      INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, schedule_id, schedule, scheduled_for, queue, priority, handler, args, delivery, timeout, retry_base, retry_cap, attempts, error_class, error,
                                      fingerprint)
      SELECT e.id, e.uuid, 'dead', e.schedule_id, e.schedule, e.scheduled_for, e.queue, e.priority, e.handler, '{}', e.delivery, '1 hour', '2 seconds', '1 hour', e.attempt, class, reason,
             left(md5(class || ' ' || e.handler), 16) FROM ended e ON CONFLICT DO NOTHING)
    INSERT INTO pgcron.history_overflow (id, uuid, origin, schedule_id, schedule, scheduled_for, queue, priority, handler, args, delivery, outcome, attempt, due_at, created_at, created_by, claimed_at,
                                         started_at, owner, node, fence, error)
    SELECT e.id, e.uuid, e.origin, e.schedule_id, e.schedule, e.scheduled_for, e.queue, e.priority, e.handler, '{}', e.delivery, 'dead', e.attempt, e.due_at, e.created_at, e.created_by, e.claimed_at,
           e.started_at, e.owner, node_name, e.fence, reason FROM ended e;
  END;
  RETURN true;
END $$;

COMMENT ON FUNCTION pgcron.end_refused_run(run bigint, token uuid, reason text, node_name text) IS 'Ends a run that the database refuses to write as usual: dead, with the reason as its error; token NULL for one that waits. False: the run is not there, or not this claim''s.';

CREATE FUNCTION pgcron.end_run(ending pgcron.run, outcome text, error_class text, error text, fingerprint text, node_name text, result jsonb DEFAULT NULL::jsonb, finished_at timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF outcome IN ('dead', 'lost') THEN
    INSERT INTO pgcron.dead_letter (run_id, uuid, outcome, schedule_id, schedule, scheduled_for, queue, lane, unique_key, unique_scope, requires, weight, priority, handler, args, delivery, max_attempts,
                                    timeout, retry_base, retry_cap, retry, time_limits, attempts, error_class, error, fingerprint)
    VALUES (ending.id, ending.uuid, end_run.outcome, ending.schedule_id, ending.schedule, ending.scheduled_for, ending.queue, ending.lane, ending.unique_key, ending.unique_scope, ending.requires, ending.weight, ending.priority, ending.handler,
            ending.args, ending.delivery, ending.max_attempts - coalesce(ending.snoozes, 0), ending.timeout, ending.retry_base, ending.retry_cap, ending.retry,
            ending.time_limits, ending.attempt, end_run.error_class, end_run.error, end_run.fingerprint)
    ON CONFLICT DO NOTHING;
    IF ending.origin = 'schedule' THEN PERFORM pgcron.note_fire_failure(ending, end_run.error); END IF;
  END IF;
  BEGIN
    INSERT INTO pgcron.history (id, uuid, origin, schedule_id, schedule, scheduled_for, nominal_for, parent_run, queue, lane, unique_key, unique_scope, requires, weight, priority, handler, args, delivery, outcome,
                                attempt, max_attempts, timeout, retry_base, retry_cap, retry, snoozes, time_limits, due_at, created_at, created_by, claimed_at, started_at, owner, node, fence, cancel_reason, error,
                                result, finished_at)
    VALUES (ending.id, ending.uuid, ending.origin, ending.schedule_id, ending.schedule, ending.scheduled_for, ending.nominal_for, ending.parent_run, ending.queue,
            ending.lane, ending.unique_key, ending.unique_scope, ending.requires, ending.weight, ending.priority, ending.handler, ending.args, ending.delivery, end_run.outcome, ending.attempt, ending.max_attempts,
            nullif(ending.timeout, '1 hour'), nullif(ending.retry_base, '2 seconds'), nullif(ending.retry_cap, '1 hour'), ending.retry, ending.snoozes, ending.time_limits, ending.due_at, ending.created_at,
            ending.created_by, ending.claimed_at, ending.started_at, ending.owner, node_name, ending.fence, ending.cancel_reason, end_run.error,
            end_run.result, coalesce(end_run.finished_at, now()));
  EXCEPTION WHEN check_violation THEN      -- no partition for this instant: a run must be able to end all the same
    INSERT INTO pgcron.history_overflow (id, uuid, origin, schedule_id, schedule, scheduled_for, nominal_for, parent_run, queue, lane, unique_key, unique_scope, requires, weight, priority, handler, args, delivery, outcome,
                                attempt, max_attempts, timeout, retry_base, retry_cap, retry, snoozes, time_limits, due_at, created_at, created_by, claimed_at, started_at, owner, node, fence, cancel_reason, error,
                                result, finished_at)
    VALUES (ending.id, ending.uuid, ending.origin, ending.schedule_id, ending.schedule, ending.scheduled_for, ending.nominal_for, ending.parent_run, ending.queue,
            ending.lane, ending.unique_key, ending.unique_scope, ending.requires, ending.weight, ending.priority, ending.handler, ending.args, ending.delivery, end_run.outcome, ending.attempt, ending.max_attempts,
            nullif(ending.timeout, '1 hour'), nullif(ending.retry_base, '2 seconds'), nullif(ending.retry_cap, '1 hour'), ending.retry, ending.snoozes, ending.time_limits, ending.due_at, ending.created_at,
            ending.created_by, ending.claimed_at, ending.started_at, ending.owner, node_name, ending.fence, ending.cancel_reason, end_run.error,
            end_run.result, coalesce(end_run.finished_at, now()));
  END;
  DELETE FROM pgcron.run r WHERE r.id = ending.id;
END $$;

CREATE FUNCTION pgcron.end_waiting_runs(run_ids bigint[], outcome text, reason text) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ending bigint[];
BEGIN
  SELECT array_agg(locked.id) INTO ending FROM
    (SELECT r.id FROM pgcron.run r
      WHERE r.id = ANY(run_ids) AND r.state <> 'running' AND (outcome <> 'expired' OR r.attempt = 0) ORDER BY r.id FOR UPDATE) locked;
  IF ending IS NULL THEN RETURN; END IF;
  UPDATE pgcron.occurrence o SET decision = outcome, reason = end_waiting_runs.reason, decided_at = now()
    FROM pgcron.run r
   WHERE r.id = ANY(ending) AND r.scheduled_for IS NOT NULL AND o.schedule_id = r.schedule_id AND o.fire_at = r.scheduled_for;
  BEGIN
    INSERT INTO pgcron.history (id, uuid, origin, schedule_id, schedule, scheduled_for, nominal_for, parent_run, queue, lane, unique_key, unique_scope, requires, weight, priority, handler, args,
                                delivery, outcome, attempt, max_attempts, timeout, retry_base, retry_cap, retry, snoozes, time_limits, due_at, created_at, created_by, error)
    SELECT r.id, r.uuid, r.origin, r.schedule_id, r.schedule, r.scheduled_for, r.nominal_for, r.parent_run, r.queue, r.lane, r.unique_key, r.unique_scope, r.requires, r.weight, r.priority, r.handler, r.args,
           r.delivery, end_waiting_runs.outcome, r.attempt, r.max_attempts,
           nullif(r.timeout, '1 hour'), nullif(r.retry_base, '2 seconds'), nullif(r.retry_cap, '1 hour'), r.retry, r.snoozes, r.time_limits, r.due_at, r.created_at, r.created_by, end_waiting_runs.reason
      FROM pgcron.run r WHERE r.id = ANY(ending);
  EXCEPTION WHEN check_violation THEN      -- no partition for now(): a run must be able to end all the same
    INSERT INTO pgcron.history_overflow (id, uuid, origin, schedule_id, schedule, scheduled_for, nominal_for, parent_run, queue, lane, unique_key, unique_scope, requires, weight, priority, handler, args,
                                         delivery, outcome, attempt, max_attempts, timeout, retry_base, retry_cap, retry, snoozes, time_limits, due_at, created_at, created_by, error)
    SELECT r.id, r.uuid, r.origin, r.schedule_id, r.schedule, r.scheduled_for, r.nominal_for, r.parent_run, r.queue, r.lane, r.unique_key, r.unique_scope, r.requires, r.weight, r.priority, r.handler, r.args,
           r.delivery, end_waiting_runs.outcome, r.attempt, r.max_attempts,
           nullif(r.timeout, '1 hour'), nullif(r.retry_base, '2 seconds'), nullif(r.retry_cap, '1 hour'), r.retry, r.snoozes, r.time_limits, r.due_at, r.created_at, r.created_by, end_waiting_runs.reason
      FROM pgcron.run r WHERE r.id = ANY(ending);
  END;
  IF outcome IN ('skipped', 'superseded') AND EXISTS (SELECT FROM pgcron.run r WHERE r.id = ANY(ending) AND r.origin = 'schedule') THEN PERFORM pgcron.give_back_runs(ending); END IF;
  DELETE FROM pgcron.run r WHERE r.id = ANY(ending);
  RETURN QUERY SELECT unnest(ending);
END $$;

COMMENT ON FUNCTION pgcron.end_waiting_runs(run_ids bigint[], outcome text, reason text) IS 'Ends runs that are not running; writes history and the ledger in the same transaction.';

CREATE TABLE pgcron.history (
    id bigint NOT NULL,
    uuid uuid NOT NULL,
    origin text NOT NULL,
    schedule_id bigint,
    schedule text,
    scheduled_for timestamp with time zone,
    nominal_for timestamp with time zone,
    parent_run bigint,
    queue text NOT NULL,
    lane text,
    unique_key text,
    unique_scope text,
    requires text[],
    weight integer,
    priority smallint NOT NULL,
    handler text NOT NULL,
    args jsonb NOT NULL,
    delivery text NOT NULL,
    outcome text NOT NULL,
    attempt integer NOT NULL,
    max_attempts integer,
    timeout interval,
    retry_base interval,
    retry_cap interval,
    retry jsonb,
    snoozes smallint,
    time_limits jsonb,
    due_at timestamp with time zone NOT NULL,
    created_at timestamp with time zone NOT NULL,
    created_by text NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone DEFAULT now() NOT NULL,
    owner uuid,
    node text,
    fence bigint,
    cancel_reason text,
    error text,
    result jsonb,
    CONSTRAINT an_outcome_is_known CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text, 'superseded'::text, 'expired'::text, 'lost'::text, 'upstream_failed'::text])))
)
PARTITION BY RANGE (finished_at);

COMMENT ON TABLE pgcron.history IS 'How each run ended, append-only, readable without its schedule. Old partitions are dropped.';

COMMENT ON COLUMN pgcron.history.timeout IS 'As are retry_base and retry_cap: NULL means the default of pgcron.run, so that most rows do not pay for what few have.';

CREATE FUNCTION pgcron.ended_run(run bigint) RETURNS pgcron.history
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ended pgcron.history;
BEGIN
  SELECT * INTO ended FROM pgcron.history h WHERE h.id = run LIMIT 1;
  IF ended.id IS NULL THEN SELECT * INTO ended FROM pgcron.history_overflow h WHERE h.id = run LIMIT 1; END IF;
  IF ended.id IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('run %s does not exist', run), 'It was never enqueued, its transaction was rolled back, or retention removed it.',
                          'SELECT id FROM pgcron.runs lists runs; so does `pgcron-ha runs list`.');
  END IF;
  RETURN ended;
END $$;

CREATE FUNCTION pgcron.enqueue(handler text, args jsonb DEFAULT '{}'::jsonb, queue text DEFAULT 'default'::text, priority integer DEFAULT 5, due_at timestamp with time zone DEFAULT NULL::timestamp with time zone, idempotency_key text DEFAULT NULL::text, key_lifetime interval DEFAULT '1 day'::interval, timeout interval DEFAULT '01:00:00'::interval, max_attempts integer DEFAULT NULL::integer, delivery text DEFAULT 'at_least_once'::text, retry jsonb DEFAULT NULL::jsonb, actor text DEFAULT NULL::text, lane text DEFAULT NULL::text, requires text[] DEFAULT NULL::text[], unique_key text DEFAULT NULL::text, unique_scope text DEFAULT NULL::text, unique_for interval DEFAULT NULL::interval, on_conflict text DEFAULT NULL::text, debounce interval DEFAULT NULL::interval, debounce_max interval DEFAULT NULL::interval, start_within interval DEFAULT NULL::interval, give_up_after interval DEFAULT NULL::interval, silence_timeout interval DEFAULT NULL::interval, weight integer DEFAULT NULL::integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  new_id bigint;
  known_id bigint;
  expires timestamptz;
  limits jsonb;
BEGIN
  IF num_nonnulls(unique_key, unique_scope, unique_for, on_conflict, debounce, debounce_max) > 0 THEN
    IF idempotency_key IS NOT NULL THEN
      PERFORM pgcron.refuse_unique('idempotency_key is given with unique_key', 'Each says which run a second call gets: an idempotency key the run it named, whatever became of it; a unique key the one that has it now.');
    END IF;
    RETURN pgcron.enqueue_unique(handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry, actor, lane, requires,
                                 unique_key, unique_scope, unique_for, on_conflict, debounce, debounce_max, start_within, give_up_after, silence_timeout, weight);
  END IF;
  IF num_nonnulls(start_within, give_up_after, silence_timeout) > 0 THEN
    limits := pgcron.time_limits(give_up_after, silence_timeout, coalesce(due_at, now()));
    expires := pgcron.expire_at(start_within, limits, coalesce(due_at, now()));
  END IF;
  IF idempotency_key IS NOT NULL THEN
    IF key_lifetime <= '0' THEN
      PERFORM pgcron.refuse('PC001', format('key_lifetime %s is not positive', key_lifetime), 'It says how long an idempotency key is remembered.', 'Leave it out for ''1 day''.');
    END IF;
    new_id := nextval('pgcron.run_id_seq');
    INSERT INTO pgcron.idempotency AS known VALUES (idempotency_key, new_id, now() + coalesce(key_lifetime, '1 day'))
    ON CONFLICT (key) DO UPDATE SET run_id = EXCLUDED.run_id, expires_at = EXCLUDED.expires_at WHERE known.expires_at <= now()
    RETURNING known.run_id INTO known_id;
    IF known_id IS NULL THEN      -- a living key; only a new statement can see one that was inserted meanwhile
      RETURN (SELECT i.run_id FROM pgcron.idempotency i WHERE i.key = idempotency_key);
    END IF;
    INSERT INTO pgcron.run (id, handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry, created_by, lane, requires, expire_at, time_limits, weight)
    VALUES (new_id, coalesce(handler, ''), coalesce(args, '{}'), coalesce(queue, 'default'), coalesce(priority, 5), coalesce(due_at, now()),
            coalesce(timeout, '1 hour'), max_attempts, coalesce(delivery, 'at_least_once'), retry, coalesce(actor, session_user), pgcron.lane_of(lane, weight), nullif(requires, '{}'), expires, limits, nullif(weight, 1));
  ELSE
    INSERT INTO pgcron.run (handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry, created_by, lane, requires, expire_at, time_limits, weight)
    VALUES (coalesce(handler, ''), coalesce(args, '{}'), coalesce(queue, 'default'), coalesce(priority, 5), coalesce(due_at, now()),
            coalesce(timeout, '1 hour'), max_attempts, coalesce(delivery, 'at_least_once'), retry, coalesce(actor, session_user), pgcron.lane_of(lane, weight), nullif(requires, '{}'), expires, limits, nullif(weight, 1))
    RETURNING id INTO new_id;
  END IF;
  RETURN new_id;
END $$;

COMMENT ON FUNCTION pgcron.enqueue(handler text, args jsonb, queue text, priority integer, due_at timestamp with time zone, idempotency_key text, key_lifetime interval, timeout interval, max_attempts integer, delivery text, retry jsonb, actor text, lane text, requires text[], unique_key text, unique_scope text, unique_for interval, on_conflict text, debounce interval, debounce_max interval, start_within interval, give_up_after interval, silence_timeout interval, weight integer) IS 'Enqueues one run in the caller''s transaction; returns its id. Of the runs of one lane no more execute at once than pgcron.set_lane says; only nodes with all labels that it requires take it; a run takes weight (1) of a node''s slots.';

CREATE FUNCTION pgcron.enqueue_many(runs jsonb, actor text DEFAULT NULL::text) RETURNS bigint[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  has_keys boolean := pgcron.judge_wishes(runs);
  new_ids bigint[];
  ids bigint[];
BEGIN
  new_ids := ARRAY(SELECT nextval('pgcron.run_id_seq') FROM generate_series(1, jsonb_array_length(runs)));
  ids := CASE WHEN has_keys THEN pgcron.claim_keys(runs, new_ids, enqueue_many.actor) ELSE new_ids END;
  INSERT INTO pgcron.run (id, handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry, created_by, lane, requires, expire_at, time_limits, weight)
  SELECT wish.new_id, coalesce(wish.handler, ''), coalesce(wish.args, '{}'), coalesce(wish.queue, 'default'), coalesce(wish.priority, 5),
         coalesce(wish.due_at, now()), coalesce(wish.timeout, '1 hour'), wish.max_attempts, coalesce(wish.delivery, 'at_least_once'),
         nullif(wish.retry, 'null'), coalesce(enqueue_many.actor, session_user), pgcron.lane_of(wish.lane, wish.weight), nullif(wish.requires, '{}'),
         CASE WHEN num_nonnulls(wish.start_within, wish.give_up_after) > 0 THEN
           pgcron.expire_at(wish.start_within, pgcron.time_limits(wish.give_up_after, NULL, coalesce(wish.due_at, now())), coalesce(wish.due_at, now())) END,
         CASE WHEN num_nonnulls(wish.give_up_after, wish.silence_timeout) > 0 THEN pgcron.time_limits(wish.give_up_after, wish.silence_timeout, coalesce(wish.due_at, now())) END, nullif(wish.weight, 1)
    FROM ROWS FROM (jsonb_to_recordset(runs) AS (handler text, args jsonb, queue text, priority int, due_at timestamptz, timeout interval, max_attempts int,
                                                 delivery text, retry jsonb, lane text, requires text[], start_within interval, give_up_after interval, silence_timeout interval, weight int), unnest(new_ids), unnest(ids))
         wish(handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry, lane, requires, start_within, give_up_after, silence_timeout, weight, new_id, id)
   WHERE wish.new_id = wish.id;
  RETURN ids;
EXCEPTION WHEN OTHERS THEN
  IF SQLSTATE ~ '^(PC|22)' AND SQLERRM !~ E'^run \\d+ of \\d+: ' THEN PERFORM pgcron.refuse_wish(runs); END IF;
  RAISE;
END $$;

COMMENT ON FUNCTION pgcron.enqueue_many(runs jsonb, actor text) IS 'Enqueues up to 10000 runs, an array of objects with the arguments of enqueue, in the caller''s transaction; returns their ids in order.';

CREATE FUNCTION pgcron.enqueue_unique(handler text, args jsonb, queue text, priority integer, due_at timestamp with time zone, timeout interval, max_attempts integer, delivery text, retry jsonb, actor text, lane text, requires text[], unique_key text, unique_scope text, unique_for interval, on_conflict text, debounce interval, debounce_max interval, start_within interval, give_up_after interval, silence_timeout interval, weight integer) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  manner text := CASE WHEN debounce IS NOT NULL THEN 'replace' ELSE coalesce(enqueue_unique.on_conflict, 'return') END;
  scope text := CASE WHEN unique_for IS NOT NULL THEN 'period' ELSE coalesce(enqueue_unique.unique_scope, CASE manner WHEN 'replace' THEN 'waiting' ELSE 'open' END) END;
  wanted timestamptz := coalesce(now() + debounce, enqueue_unique.due_at);
  waits_for_ever boolean := current_setting('lock_timeout') = '0';
  met bigint;
  met_until timestamptz;
  made bigint;
BEGIN
  IF NOT pgcron.handler_is_fine(coalesce(enqueue_unique.handler, '')) THEN PERFORM pgcron.refuse_handler(coalesce(enqueue_unique.handler, '')); END IF;
  PERFORM pgcron.judge_unique(enqueue_unique.unique_key, enqueue_unique.unique_scope, unique_for, enqueue_unique.on_conflict, debounce, debounce_max, enqueue_unique.due_at);
  IF waits_for_ever THEN PERFORM set_config('lock_timeout', '10s', true); END IF;
  -- Each round that ends without an answer saw somebody else's run come or go meanwhile.
  FOR round IN 1..1000 LOOP
    IF scope <> 'period' THEN
      SELECT r.id INTO met FROM pgcron.run r
       WHERE r.unique_key = enqueue_unique.unique_key AND r.handler = coalesce(enqueue_unique.handler, '') AND pgcron.has_key(r.unique_key, r.unique_scope, r.attempt);
    ELSE
      SELECT p.run_id, p.until INTO met, met_until FROM pgcron.unique_period p
       WHERE p.key = enqueue_unique.unique_key AND p.handler = coalesce(enqueue_unique.handler, '') AND p.until > now();
    END IF;
    IF met IS NOT NULL THEN
      CASE manner
        WHEN 'refuse' THEN PERFORM pgcron.refuse_met('the run was not made', met, enqueue_unique.unique_key, met_until);
        WHEN 'return' THEN made := met;
        ELSE
          IF pgcron.replace_run(met, enqueue_unique.unique_key, coalesce(enqueue_unique.handler, ''), coalesce(enqueue_unique.args, '{}'), coalesce(enqueue_unique.priority, 5), wanted,
                                debounce_max, CASE scope WHEN 'period' THEN 'infinity' ELSE now() END)
             -- One that a node has taken and that has its key all the same is left as it is.
             OR (scope <> 'period' AND EXISTS (SELECT FROM pgcron.run r WHERE r.id = met AND pgcron.has_key(r.unique_key, r.unique_scope, r.attempt) AND r.attempt > 0)) THEN
            made := met;
          END IF;
      END CASE;
      EXIT WHEN made IS NOT NULL;
      CONTINUE WHEN scope <> 'period';
    END IF;
    IF scope = 'period' THEN
      made := pgcron.take_period(enqueue_unique.unique_key, coalesce(enqueue_unique.handler, ''), met, coalesce(met_until, wanted, now()), unique_for);
      CONTINUE WHEN made IS NULL;
      wanted := coalesce(met_until, wanted);
    END IF;
    INSERT INTO pgcron.run (id, handler, args, queue, priority, due_at, timeout, max_attempts, delivery, retry, created_by, lane, requires, weight, unique_key, unique_scope, expire_at, time_limits)
    VALUES (coalesce(made, nextval('pgcron.run_id_seq')), coalesce(enqueue_unique.handler, ''), coalesce(enqueue_unique.args, '{}'), coalesce(enqueue_unique.queue, 'default'),
            coalesce(enqueue_unique.priority, 5), coalesce(wanted, now()), coalesce(enqueue_unique.timeout, '1 hour'), enqueue_unique.max_attempts,
            coalesce(enqueue_unique.delivery, 'at_least_once'), enqueue_unique.retry, coalesce(actor, session_user), pgcron.lane_of(enqueue_unique.lane, enqueue_unique.weight), nullif(enqueue_unique.requires, '{}'), nullif(enqueue_unique.weight, 1),
            enqueue_unique.unique_key, scope,
            CASE WHEN num_nonnulls(start_within, give_up_after) > 0 THEN pgcron.expire_at(start_within, pgcron.time_limits(give_up_after, NULL, coalesce(wanted, now())), coalesce(wanted, now())) END,
            CASE WHEN num_nonnulls(give_up_after, silence_timeout) > 0 THEN pgcron.time_limits(give_up_after, silence_timeout, coalesce(wanted, now())) END)
    ON CONFLICT (unique_key, handler) WHERE pgcron.has_key(unique_key, unique_scope, attempt) DO NOTHING RETURNING id INTO made;
    EXIT WHEN made IS NOT NULL;
  END LOOP;
  IF made IS NULL THEN
    PERFORM pgcron.refuse('PC011', format('unique key %L changes hands all the time', left(enqueue_unique.unique_key, 200)), 'Somebody else had it each time that it was looked at.', 'Ask again.');
  END IF;
  IF waits_for_ever THEN PERFORM set_config('lock_timeout', '0', true); END IF;
  RETURN made;
END $$;

CREATE FUNCTION pgcron.enqueue_wish(wish jsonb, actor text) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.enqueue(wish ->> 'handler', nullif(wish -> 'args', 'null'), wish ->> 'queue', (wish ->> 'priority')::int, (wish ->> 'due_at')::timestamptz,
                        wish ->> 'idempotency_key', (wish ->> 'key_lifetime')::interval, (wish ->> 'timeout')::interval, (wish ->> 'max_attempts')::int,
                        wish ->> 'delivery', nullif(wish -> 'retry', 'null'), lane => wish ->> 'lane',
                        requires => ARRAY(SELECT jsonb_array_elements_text(nullif(wish -> 'requires', 'null'))),
                        weight => (wish ->> 'weight')::int, actor => enqueue_wish.actor, unique_key => wish ->> 'unique_key', unique_scope => wish ->> 'unique_scope',
                        unique_for => (wish ->> 'unique_for')::interval, on_conflict => wish ->> 'on_conflict', debounce => (wish ->> 'debounce')::interval,
                        debounce_max => (wish ->> 'debounce_max')::interval, start_within => (wish ->> 'start_within')::interval,
                        give_up_after => (wish ->> 'give_up_after')::interval, silence_timeout => (wish ->> 'silence_timeout')::interval) $$;

CREATE FUNCTION pgcron.ensure_partitions() RETURNS integer
    LANGUAGE plpgsql
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  kept pgcron.retention;
  missing record;
  ended timestamptz;
  today timestamptz;
  made int := 0;
BEGIN
  PERFORM pg_advisory_xact_lock('pgcron'::regnamespace::oid::int, 1);
  FOR kept IN SELECT * FROM pgcron.retention ORDER BY relation LOOP
    today := date_trunc(kept.period, now(), 'UTC');
    -- What lies before the first partition (late finishers of a stepped clock, old back-fills) has one of its own.
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_inherits i WHERE i.inhparent = format('pgcron.%I', kept.relation)::regclass) THEN
      made := made + pgcron.add_partition(kept.relation, '-infinity', today)::int;
    END IF;
    ended := pgcron.partitions_end(kept.relation);
    IF ended < today - 7 * ('1 ' || kept.period)::interval THEN
      made := made + pgcron.add_partition(kept.relation, ended, today)::int;
    END IF;
  END LOOP;
  FOR missing IN
    SELECT k.relation, greatest(g.start, k.ended) AS low, g.start + k.step AS high
      FROM (SELECT r.relation, r.period, ('1 ' || r.period)::interval AS step, r.ahead, pgcron.partitions_end(r.relation) AS ended FROM pgcron.retention r) k
     CROSS JOIN LATERAL generate_series(date_trunc(k.period, k.ended, 'UTC'), now() + k.ahead, k.step) g(start)
     WHERE greatest(g.start, k.ended) < now() + k.ahead ORDER BY 2, 1 LOOP
    EXIT WHEN made >= 50;
    made := made + pgcron.add_partition(missing.relation, missing.low, missing.high)::int;
  END LOOP;
  RETURN made;
END $$;

COMMENT ON FUNCTION pgcron.ensure_partitions() IS 'Makes partitions that are missing up to each table''s `ahead`, at most 50 or so; returns how many. Safe to call from many sessions.';

CREATE FUNCTION pgcron.expect_version(name text, expected integer) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  known pgcron.schedule;
BEGIN
  IF expected IS NULL THEN RETURN; END IF;
  IF expected < 0 THEN
    PERFORM pgcron.refuse('PC001', format('expected version %s is negative', expected), 'Versions count from 1; 0 means that there is no such schedule yet.', 'Leave it out to edit whatever is there.');
  END IF;
  SELECT * INTO known FROM pgcron.schedule s WHERE s.name = expect_version.name FOR NO KEY UPDATE;
  IF known.id IS NOT NULL AND known.version <> expected THEN
    PERFORM pgcron.refuse_version(known, expected);
  ELSIF known.id IS NULL AND expected > 0 THEN
    PERFORM pgcron.refuse('PC014', format('schedule %L has no version %s any more', left(name, 200), expected), 'It was deleted or renamed meanwhile.',
                          '`pgcron-ha schedules versions` tells by whom; expect version 0 to create it.');
  END IF;
END $$;

COMMENT ON FUNCTION pgcron.expect_version(name text, expected integer) IS 'Locks the schedule until the transaction ends, if it has the version that is expected; else raises PC014, which names who changed it and when.';

CREATE FUNCTION pgcron.expected_duration(schedule_id bigint) RETURNS interval
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT CASE WHEN count(*) >= 5 THEN greatest(1.5 * percentile_cont(0.95) WITHIN GROUP (ORDER BY took.length), interval '10 seconds') END
    FROM (SELECT last.finished_at - last.started_at AS length FROM (
            SELECT h.outcome, h.started_at, h.finished_at FROM pgcron.history h WHERE h.schedule_id = expected_duration.schedule_id ORDER BY h.finished_at DESC LIMIT 200) last
           WHERE last.outcome = 'succeeded' AND last.started_at IS NOT NULL LIMIT 50) took $$;

COMMENT ON FUNCTION pgcron.expected_duration(schedule_id bigint) IS 'What lasts longer overruns: 1.5 times the 95th percentile of the last 50 successes of the schedule, 10 seconds at least; NULL while fewer than 5 are known.';

CREATE FUNCTION pgcron.expire_at(start_within interval, limits jsonb, due_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF start_within <= '0' OR start_within > '366 days' THEN
    PERFORM pgcron.refuse('PC001', format('start_within %s is out of range', start_within),
      'A run that has not started so long after it was due expires: more than nothing, at most 366 days.', 'Leave it out to wait for ever.');
  END IF;
  RETURN least(due_at + start_within, pgcron.give_up_at(limits));
END $$;

CREATE FUNCTION pgcron.fail_runs(run_ids bigint[], tokens uuid[], kinds text[], retryables boolean[], retry_afters double precision[], elapsed_seconds double precision[], error_classes text[], errors text[], tracebacks text[], causes text[], fingerprints text[], node_name text) RETURNS TABLE(run_id bigint, verdict text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  held bigint[];
BEGIN
  SELECT array_agg(locked.id) INTO held FROM (
    SELECT r.id FROM unnest(run_ids, tokens) u(id, token) JOIN pgcron.run r ON r.id = u.id AND r.token = u.token
     WHERE r.id = ANY(run_ids) ORDER BY r.id FOR UPDATE OF r) locked;
  IF held IS NULL THEN RETURN; END IF;
  UPDATE pgcron.run r SET started_at = coalesce(r.started_at, clock_timestamp() - make_interval(secs => u.elapsed))
    FROM unnest(run_ids, elapsed_seconds) u(id, elapsed) WHERE r.id = ANY(held) AND r.id = u.id AND u.elapsed IS NOT NULL;
  RETURN QUERY
    SELECT e.run_id, e.verdict FROM (
      SELECT array_agg(u.id) ids, array_agg(u.kind) kinds, array_agg(u.retryable) retryables, array_agg(u.retry_after) retry_afters,
             array_agg(u.error_class) error_classes, array_agg(u.error) errors, array_agg(u.traceback) tracebacks, array_agg(u.causes) causes,
             array_agg(u.fingerprint) fingerprints, array_agg(node_name) node_names
        FROM unnest(run_ids, fail_runs.kinds, fail_runs.retryables, fail_runs.retry_afters, fail_runs.error_classes, fail_runs.errors, fail_runs.tracebacks,
                    fail_runs.causes, fail_runs.fingerprints)
             u(id, kind, retryable, retry_after, error_class, error, traceback, causes, fingerprint) WHERE u.id = ANY(held)) g,
      LATERAL pgcron.end_attempts(g.ids, g.kinds, g.retryables, g.retry_afters, g.error_classes, g.errors, g.tracebacks, g.causes, g.fingerprints, g.node_names) e;
END $$;

CREATE FUNCTION pgcron.finish_late(run_ids bigint[], fences bigint[], results text[], node_name text) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  late record;
  ending pgcron.run;
BEGIN
  FOR late IN
    SELECT r.id, last.owner, last.fence, last.claimed_at, last.started_at, last.ended_at, given.result
      FROM unnest(run_ids, fences, results) given(id, fence, result) JOIN pgcron.run r ON r.id = given.id
     CROSS JOIN LATERAL (SELECT a.* FROM pgcron.attempt a WHERE a.run_id = r.id AND a.attempt >= r.attempt ORDER BY a.fence DESC LIMIT 1) last
     WHERE r.id = ANY(run_ids) AND r.state = 'ready' AND r.delivery = 'at_least_once'
       AND last.fence = given.fence AND last.attempt = r.attempt AND last.outcome = 'lease_lost'
       FOR UPDATE OF r SKIP LOCKED LOOP
    SELECT r.* INTO STRICT ending FROM pgcron.run r WHERE r.id = late.id;
    ending.owner := late.owner; ending.fence := late.fence; ending.claimed_at := late.claimed_at;
    ending.started_at := coalesce(late.started_at, late.claimed_at);
    PERFORM pgcron.end_run(ending, 'succeeded', NULL, NULL, NULL, node_name, late.result::jsonb);
    RETURN NEXT late.id;
  END LOOP;
END $$;

COMMENT ON FUNCTION pgcron.finish_late(run_ids bigint[], fences bigint[], results text[], node_name text) IS 'Completes runs that a node finished while it was cut off, and that wait because its lease ran out: those that nobody has begun since.';

CREATE FUNCTION pgcron.finish_run(run bigint, token uuid, elapsed double precision DEFAULT NULL::double precision, result jsonb DEFAULT NULL::jsonb, node text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $_$
DECLARE
  ending pgcron.run;
BEGIN
  IF octet_length(finish_run.result::text) > 262144 THEN
    PERFORM pgcron.refuse('PC004', format('the result has %s bytes', octet_length(finish_run.result::text)), 'A result may have 262144 bytes (256 KiB) as JSON text.',
                          'Store it in a table of yours and give its key.');
  ELSIF octet_length(finish_run.result::text) > 200 AND jsonb_path_exists(finish_run.result, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")') THEN
    PERFORM pgcron.refuse('PC004', 'the result is nested more than 100 levels deep',
                          'Objects and lists of a result may stand in each other 100 levels deep.', 'Write it flatter.');
  END IF;
  SELECT r.* INTO ending FROM pgcron.run r WHERE r.id = finish_run.run AND r.token = finish_run.token FOR UPDATE;
  IF NOT FOUND THEN PERFORM pgcron.refuse_claim(finish_run.run); END IF;
  -- It held until here, and nobody can take it away from here on.
  DELETE FROM pgcron.assertion a WHERE a.transaction = pg_current_xact_id() AND a.run = finish_run.run;
  ending.started_at := coalesce(ending.started_at, clock_timestamp() - finish_run.elapsed * interval '1 second');
  PERFORM pgcron.end_run(ending, 'succeeded', NULL, NULL, NULL, finish_run.node, finish_run.result, clock_timestamp());
END $_$;

COMMENT ON FUNCTION pgcron.finish_run(run bigint, token uuid, elapsed double precision, result jsonb, node text) IS 'Completes a run inside the caller''s transaction: its effects and the completion are committed together or not at all. Raises PC012 if the token does not hold the run.';

CREATE FUNCTION pgcron.forget_breaker(name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.require_breaker(forget_breaker.name);
  DELETE FROM pgcron.breaker b WHERE b.name = forget_breaker.name;
  PERFORM pgcron.notify(pgcron.channel(), 'breaker');
END $$;

COMMENT ON FUNCTION pgcron.forget_breaker(name text) IS 'Removes a breaker that nobody declares any more.';

CREATE FUNCTION pgcron.forget_failures(of_schedule bigint) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  DELETE FROM pgcron.failure_pause p WHERE p.schedule_id = of_schedule;
  DELETE FROM pgcron.fire_failure f WHERE f.schedule_id = of_schedule $$;

CREATE FUNCTION pgcron.forget_lane(lane text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  DELETE FROM pgcron.lane_limit l WHERE l.lane = forget_lane.lane;
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;

COMMENT ON FUNCTION pgcron.forget_lane(lane text) IS 'Removes what set_lane has said.';

CREATE FUNCTION pgcron.free_producer(role text) RETURNS integer
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH gone AS (DELETE FROM pgcron.producer_rule p USING pg_catalog.pg_roles known WHERE known.rolname = free_producer.role AND p.role = known.oid RETURNING p.role)
  SELECT count(*)::int FROM gone $$;

COMMENT ON FUNCTION pgcron.free_producer(role text) IS 'Removes all rules of a role; returns how many there were.';

CREATE FUNCTION pgcron.give_back_runs(run_ids bigint[]) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  INSERT INTO pgcron.given_back (schedule_id, runs)
  SELECT s.id, count(*) FROM pgcron.run r JOIN pgcron.schedule s ON s.id = r.schedule_id
   WHERE r.id = ANY(run_ids) AND r.origin = 'schedule' AND r.attempt = 0 AND s.max_runs IS NOT NULL GROUP BY s.id $$;

CREATE FUNCTION pgcron.give_up_at(limits jsonb) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT ((limits ->> 'give_up_at'::text))::timestamp with time zone AS timestamptz;
END;

CREATE FUNCTION pgcron.give_up_runs(at_most integer) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

COMMENT ON FUNCTION pgcron.give_up_runs(at_most integer) IS 'Ends waiting runs whose time in all is over; writes history and the dead letters in the same transaction.';

CREATE FUNCTION pgcron.gone_owners(OUT owner uuid, OUT node_name text, OUT ended_because text) RETURNS SETOF record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH RECURSIVE owners(owner) AS (
    (SELECT r.owner FROM pgcron.run r WHERE r.state = 'running' ORDER BY r.owner LIMIT 1)
    UNION ALL
    SELECT (SELECT r.owner FROM pgcron.run r WHERE r.state = 'running' AND r.owner > o.owner ORDER BY r.owner LIMIT 1) FROM owners o WHERE o.owner IS NOT NULL)
  SELECT o.owner, coalesce(n.name, o.owner::text), coalesce(n.ended_because, 'its session is gone')
    FROM owners o LEFT JOIN pgcron.node n ON n.incarnation = o.owner
   WHERE o.owner IS NOT NULL AND (n.incarnation IS NULL OR n.state = 'dead') $$;

CREATE FUNCTION pgcron.has_key(unique_key text, unique_scope text, attempt integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT ((unique_key IS NOT NULL) AND ((COALESCE(unique_scope, 'open'::text) = 'open'::text) OR ((unique_scope = 'waiting'::text) AND (attempt = 0))));
END;

COMMENT ON FUNCTION pgcron.has_key(unique_key text, unique_scope text, attempt integer) IS 'Whether a live run keeps others with its unique key from being made.';

CREATE FUNCTION pgcron.has_parked(queue text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH RECURSIVE parked(handler, queue, requires, hold, steps) AS (
    (SELECT r.handler, r.queue, coalesce(r.requires, '{}'), r.hold, 1 FROM pgcron.run r WHERE r.hold NOT IN ('overlap', 'previous') ORDER BY r.handler, r.queue, coalesce(r.requires, '{}') LIMIT 1)
    UNION ALL
    SELECT next.*, parked.steps + 1 FROM parked CROSS JOIN LATERAL (
      SELECT r.handler, r.queue, coalesce(r.requires, '{}') AS requires, r.hold FROM pgcron.run r
       WHERE r.hold NOT IN ('overlap', 'previous') AND (r.handler, r.queue, coalesce(r.requires, '{}')) > (parked.handler, parked.queue, parked.requires)
       ORDER BY r.handler, r.queue, coalesce(r.requires, '{}') LIMIT 1) next
    WHERE parked.steps < 1000)
  SELECT EXISTS (
    SELECT FROM parked WHERE parked.hold = 'unserved' AND parked.queue = coalesce(has_parked.queue, parked.queue)
       AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = parked.queue AND q.paused_at IS NOT NULL)) $$;

CREATE FUNCTION pgcron.history_keep(queue text, outcome text) RETURNS interval
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT least(kept.keep, (SELECT r.keep FROM pgcron.retention_rule r
                            WHERE (r.queue IS NULL OR r.queue = history_keep.queue) AND (r.outcome IS NULL OR r.outcome = history_keep.outcome)
                            ORDER BY r.queue IS NULL, r.outcome IS NULL LIMIT 1))
    FROM pgcron.retention kept WHERE kept.relation = 'history' $$;

COMMENT ON FUNCTION pgcron.history_keep(queue text, outcome text) IS 'How long a run of the queue that ended so is kept.';

CREATE FUNCTION pgcron.history_thinned_until() RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT max(s.until) FROM pgcron.retention_sweep s WHERE s.removed > 0 $$;

CREATE FUNCTION pgcron.most_at_once(overlap text, definition jsonb) RETURNS integer
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE COALESCE(overlap, (definition ->> 'overlap'::text))
             WHEN 'allow'::text THEN 1000
             WHEN 'queue'::text THEN LEAST((COALESCE(((definition ->> 'max_running'::text))::integer, 1) + COALESCE(((definition ->> 'max_queued'::text))::integer, 1000)), 1000)
             WHEN 'skip'::text THEN COALESCE(((definition ->> 'max_running'::text))::integer, 1)
             ELSE 1
         END AS "case";
END;

CREATE TABLE pgcron.backfill (
    id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    schedule text NOT NULL,
    definition jsonb NOT NULL,
    since timestamp with time zone NOT NULL,
    until timestamp with time zone NOT NULL,
    direction text NOT NULL,
    parallelism integer NOT NULL,
    overlap text,
    if_ran text NOT NULL,
    args jsonb,
    note text,
    state text DEFAULT 'open'::text NOT NULL,
    reached timestamp with time zone,
    planned integer,
    already integer DEFAULT 0 NOT NULL,
    created integer DEFAULT 0 NOT NULL,
    succeeded integer DEFAULT 0 NOT NULL,
    failed integer DEFAULT 0 NOT NULL,
    error jsonb,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    created_by text NOT NULL,
    changed_at timestamp with time zone DEFAULT now() NOT NULL,
    changed_by text,
    ended_at timestamp with time zone,
    CONSTRAINT a_backfill_has_1_to_1000_runs_at_once CHECK ((((parallelism >= 1) AND (parallelism <= 1000)) OR pgcron.refuse('PC001'::text, format('parallelism %s is out of range'::text, parallelism), 'Of a backfill 1 to 1000 runs are open at once.'::text, 'Leave it out for 1.'::text))),
    CONSTRAINT a_backfill_has_a_direction CHECK (((direction = ANY (ARRAY['forward'::text, 'backward'::text])) OR pgcron.refuse('PC001'::text, format('direction %L is not known'::text, "left"(direction, 100)), 'A backfill goes forward (the oldest instant first) or backward.'::text, 'Leave it out for forward.'::text))),
    CONSTRAINT a_backfill_has_up_to_a_million_instants CHECK (((planned IS NULL) OR (planned <= 1000000) OR pgcron.refuse('PC004'::text, format('the range has more than 1000000 instants of the schedule, %s at least'::text, planned), 'A backfill has up to 1000000 instants.'::text, 'Ask for several ranges, one after the other.'::text))),
    CONSTRAINT a_backfill_lies_in_the_past CHECK ((((since < until) AND (until <= created_at) AND ((until - since) <= '3660 days'::interval)) OR pgcron.refuse('PC001'::text, format('a backfill from %s to %s'::text, since, until),
CASE
    WHEN (since >= until) THEN 'Its range begins at since and ends before until, which is later.'::text
    WHEN (until > created_at) THEN 'Only instants that have passed are filled in; the others are the schedule''s own.'::text
    ELSE 'Its range spans up to 3660 days (ten years).'::text
END,
CASE
    WHEN ((until > created_at) AND (since < until)) THEN 'Write an until that is not later than now.'::text
    ELSE 'Ask for several ranges, each with since before until.'::text
END))),
    CONSTRAINT a_backfill_makes_no_runs_only_to_drop_them CHECK (((parallelism <= pgcron.most_at_once(overlap, definition)) OR pgcron.refuse('PC001'::text, format('parallelism %s with overlap %L'::text, parallelism, COALESCE(overlap, (definition ->> 'overlap'::text))), format('Of the runs that are due together all but %s would not run.'::text, pgcron.most_at_once(overlap, definition)), format('Use overlap ''allow'' for the backfill, or parallelism %s.'::text, pgcron.most_at_once(overlap, definition))))),
    CONSTRAINT a_backfill_overlap_policy_is_known CHECK (((overlap IS NULL) OR (overlap = ANY (ARRAY['skip'::text, 'allow'::text, 'queue'::text, 'replace'::text, 'terminate'::text])) OR pgcron.refuse_overlap(overlap))),
    CONSTRAINT a_backfill_says_what_of_instants_that_ran CHECK (((if_ran = ANY (ARRAY['skip'::text, 'failed'::text, 'all'::text])) OR pgcron.refuse('PC001'::text, format('if_ran %L is not known'::text, "left"(if_ran, 100)), 'Instants that were decided already are left alone (skip), run again if they did not succeed (failed), or all run again (all).'::text, 'Leave it out for skip.'::text))),
    CONSTRAINT a_backfill_state_is_known CHECK ((state = ANY (ARRAY['open'::text, 'paused'::text, 'stopping'::text, 'stopped'::text, 'done'::text]))),
    CONSTRAINT a_backfill_that_is_over_says_when CHECK (((state = ANY (ARRAY['stopped'::text, 'done'::text])) = (ended_at IS NOT NULL))),
    CONSTRAINT backfill_args_are_an_object_of_256_kib CHECK (((args IS NULL) OR ((jsonb_typeof(args) = 'object'::text) AND ((octet_length((args)::text) <= 200) OR ((octet_length((args)::text) <= 262144) AND (NOT jsonb_path_exists(args, 'strict $.**{100}?(@.type() == "array" || @.type() == "object")'::jsonpath))))) OR pgcron.refuse_args(args))),
    CONSTRAINT backfill_changed_by_is_short CHECK (((changed_by IS NULL) OR (length(changed_by) <= 300) OR pgcron.refuse_words('changed_by'::text, changed_by, 300))),
    CONSTRAINT backfill_created_by_is_short CHECK (((created_by IS NULL) OR (length(created_by) <= 300) OR pgcron.refuse_words('created_by'::text, created_by, 300))),
    CONSTRAINT backfill_note_is_short CHECK (((note IS NULL) OR (length(note) <= 2000) OR pgcron.refuse_words('note'::text, note, 2000))),
    CONSTRAINT runs_that_depend_on_the_one_before_are_filled_in_one_by_one CHECK (((NOT COALESCE(((definition ->> 'depends_on_previous'::text))::boolean, false)) OR ((direction = 'forward'::text) AND (parallelism = 1)) OR pgcron.refuse('PC001'::text, format('direction %s and parallelism %s with depends_on_previous'::text, direction, parallelism), 'Each run of the schedule needs that of the instant before: they are made one after the other, the oldest first.'::text, 'Leave both out, or set depends_on_previous to false first.'::text)))
)
WITH (fillfactor='50');

COMMENT ON TABLE pgcron.backfill IS 'Ranges of schedules that somebody wants to have run, and how far nodes have come with them.';

COMMENT ON COLUMN pgcron.backfill.definition IS 'The schedule as it stood when the backfill was asked for: later edits of the schedule do not change it.';

COMMENT ON COLUMN pgcron.backfill.since IS 'Instants from since on and before until are filled in.';

COMMENT ON COLUMN pgcron.backfill.overlap IS 'Of its runs; NULL is the schedule''s, with its max_running.';

COMMENT ON COLUMN pgcron.backfill.reached IS 'The last instant that was looked at, in its direction; NULL before the first.';

COMMENT ON COLUMN pgcron.backfill.already IS 'Instants that were left alone, since they had been decided before.';

CREATE FUNCTION pgcron.hold_backfill(backfill bigint, verb text) RETURNS pgcron.backfill
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  held pgcron.backfill;
BEGIN
  SELECT b.* INTO held FROM pgcron.backfill b WHERE b.id = hold_backfill.backfill FOR UPDATE;
  IF held.id IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('backfill %s does not exist', coalesce(hold_backfill.backfill::text, 'NULL')), 'It was never asked for, or was forgotten with the ledger of its time.', '`pgcron-ha backfills list` lists them.');
  ELSIF held.state NOT IN ('open', 'paused') THEN
    PERFORM pgcron.refuse('PC011', format('backfill %s is %s', held.id, held.state), format('Only one that is under way can be %s.', verb), 'Ask for a new one, which leaves alone what has run.');
  END IF;
  RETURN held;
END $$;

CREATE FUNCTION pgcron.interval_or_null(written text) RETURNS interval
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN CASE WHEN written::interval BETWEEN '0' AND '366 days' THEN written::interval END;
EXCEPTION WHEN data_exception THEN
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.is_broken(handler text, queue text) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT EXISTS (SELECT FROM pgcron.breaker_handler m JOIN pgcron.breaker b ON b.name = m.breaker
                  WHERE m.handler = is_broken.handler AND b.state <> 'closed' AND pgcron.breaker_is_fine(b) AND b.fallback_queue IS DISTINCT FROM is_broken.queue) $$;

CREATE FUNCTION pgcron.is_delayed(of pgcron.schedule, fire_at timestamp with time zone, due_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT due_at > fire_at AND due_at < fire_at + coalesce(of.jitter, of.spread_window) AND fire_at > pgcron.timing_since(of)
     AND NOT EXISTS (SELECT FROM pgcron.occurrence_override o WHERE o.schedule_id = of.id AND o.fire_at = is_delayed.fire_at AND o.action = 'move') $$;

CREATE FUNCTION pgcron.is_fault_of_row(state text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT left(state, 2) NOT IN ('40', '53', '55', '57', '58') $$;

CREATE FUNCTION pgcron.is_same_calendar(content text, other text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT coalesce(rtrim(content, E' \t\r\n') = rtrim(other, E' \t\r\n'), false) $$;

CREATE FUNCTION pgcron.is_same_hash(one bytea, other bytea) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT coalesce(bit_or(get_byte(one, n) # get_byte(other, n)) = 0, false) FROM generate_series(0, 31) n $$;

CREATE FUNCTION pgcron.is_served(handler text, queue text, requires text[]) RETURNS boolean
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT EXISTS (SELECT FROM pgcron.offer o JOIN pgcron.node n USING (incarnation)
                  WHERE o.handler = is_served.handler AND n.state = 'alive' AND is_served.queue = ANY(n.queues)
                    AND (is_served.requires IS NULL OR is_served.requires <@ pgcron.label_words(n.labels))) $$;

CREATE FUNCTION pgcron.judge_assertions() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
DECLARE
  asserted record;
BEGIN
  FOR asserted IN SELECT a.run, a.token FROM pgcron.assertion a WHERE a.transaction = pg_current_xact_id() ORDER BY a.run LOOP
    PERFORM FROM pgcron.run r WHERE r.id = asserted.run AND r.token = asserted.token FOR SHARE;
    IF NOT FOUND THEN PERFORM pgcron.refuse_claim(asserted.run); END IF;
    DELETE FROM pgcron.assertion a WHERE a.transaction = pg_current_xact_id() AND a.run = asserted.run AND a.token = asserted.token;
  END LOOP;
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.judge_attempt(run pgcron.run, kind text, retryable boolean, retry_after double precision, causes text[], OUT verdict text, OUT delay interval, OUT recorded text, OUT because text) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  policy jsonb := run.retry;
  budget interval := pgcron.policy_interval(policy -> 'retry_for');
  most_snoozes int := coalesce((policy ->> 'snoozes')::int, 1000);
  after interval := make_interval(secs => retry_after);
BEGIN
  recorded := kind;
  causes := coalesce(causes, '{}') || kind;
  verdict := pgcron.attempt_verdict(run, kind, retryable);
  IF verdict = 'cancelled' THEN
    RETURN;
  ELSIF run.delivery = 'at_most_once' THEN
    IF kind = 'snoozed' THEN recorded := 'failed'; because := 'a run that may be executed at most once can''t come back'; END IF;
    RETURN;
  ELSIF kind IN ('failed', 'timed_out', 'lease_lost') AND NOT causes && '{pgcron_ha.Retry}' THEN
    IF policy -> 'discard_on' ?| causes THEN
      verdict := 'dead';
      because := 'its policy discards it';
    ELSIF policy -> 'snooze_on' ?| causes AND kind <> 'lease_lost' THEN
      recorded := 'snoozed';
      SELECT pgcron.policy_interval(policy -> 'snooze_on' -> cause) INTO after FROM unnest(causes) WITH ORDINALITY named(cause, place)
       WHERE policy -> 'snooze_on' ? cause ORDER BY place LIMIT 1;
    ELSIF verdict = 'retry' AND kind <> 'lease_lost' AND NOT policy -> 'retry_on' ?| causes THEN
      verdict := 'dead';
      because := 'its policy retries other causes';
    END IF;
  END IF;
  IF recorded = 'snoozed' THEN
    verdict := CASE WHEN coalesce(run.snoozes, 0) < most_snoozes THEN 'snooze' ELSE 'dead' END;
    because := CASE verdict WHEN 'dead' THEN format('it was snoozed %s, which is the most', CASE run.snoozes WHEN 1 THEN 'once' ELSE coalesce(run.snoozes, 0) || ' times' END) END;
  END IF;
  IF verdict IN ('retry', 'snooze') THEN
    delay := CASE WHEN after IS NOT NULL THEN after
                  WHEN kind = 'lease_lost' AND run.attempt = 1 THEN interval '0'
                  ELSE pgcron.policy_delay(policy, greatest(run.attempt - coalesce(run.snoozes, 0), 1), run.retry_base, run.retry_cap) END;
    IF now() + delay > budget + coalesce((SELECT min(a.claimed_at) FROM pgcron.attempt a WHERE a.run_id = run.id), run.claimed_at) THEN
      verdict := 'dead';
      because := 'its policy retries for ' || budget;
    ELSIF now() + delay >= pgcron.give_up_at(run.time_limits) THEN
      verdict := 'dead';
      because := 'it is given up ' || make_interval(secs => (run.time_limits ->> 'give_up_after')::float8) || ' after it was due';
    END IF;
  END IF;
  IF verdict = 'dead' AND recorded = 'snoozed' THEN recorded := CASE kind WHEN 'snoozed' THEN 'failed' ELSE kind END; END IF;
END $$;

CREATE TABLE pgcron.dead_letter (
    run_id bigint NOT NULL,
    uuid uuid NOT NULL,
    outcome text NOT NULL,
    died_at timestamp with time zone DEFAULT now() NOT NULL,
    schedule_id bigint,
    schedule text,
    scheduled_for timestamp with time zone,
    queue text NOT NULL,
    lane text,
    unique_key text,
    unique_scope text,
    requires text[],
    weight integer,
    priority smallint NOT NULL,
    handler text NOT NULL,
    args jsonb NOT NULL,
    delivery text NOT NULL,
    max_attempts integer,
    timeout interval NOT NULL,
    retry_base interval NOT NULL,
    retry_cap interval NOT NULL,
    retry jsonb,
    time_limits jsonb,
    attempts integer NOT NULL,
    error_class text,
    error text,
    fingerprint text,
    requeued_as bigint,
    requeued_at timestamp with time zone,
    requeued_by text,
    CONSTRAINT a_dead_letter_is_dead_or_lost CHECK ((outcome = ANY (ARRAY['dead'::text, 'lost'::text]))),
    CONSTRAINT a_requeued_letter_says_when_and_as_what CHECK (((requeued_as IS NULL) = (requeued_at IS NULL)))
);

COMMENT ON TABLE pgcron.dead_letter IS 'Runs that ended dead or lost, kept apart from history, whose partitions are dropped.';

CREATE TABLE pgcron.history_overflow (
    id bigint CONSTRAINT history_id_not_null NOT NULL,
    uuid uuid CONSTRAINT history_uuid_not_null NOT NULL,
    origin text CONSTRAINT history_origin_not_null NOT NULL,
    schedule_id bigint,
    schedule text,
    scheduled_for timestamp with time zone,
    nominal_for timestamp with time zone,
    parent_run bigint,
    queue text CONSTRAINT history_queue_not_null NOT NULL,
    lane text,
    unique_key text,
    unique_scope text,
    requires text[],
    weight integer,
    priority smallint CONSTRAINT history_priority_not_null NOT NULL,
    handler text CONSTRAINT history_handler_not_null NOT NULL,
    args jsonb CONSTRAINT history_args_not_null NOT NULL,
    delivery text CONSTRAINT history_delivery_not_null NOT NULL,
    outcome text CONSTRAINT history_outcome_not_null NOT NULL,
    attempt integer CONSTRAINT history_attempt_not_null NOT NULL,
    max_attempts integer,
    timeout interval,
    retry_base interval,
    retry_cap interval,
    retry jsonb,
    snoozes smallint,
    time_limits jsonb,
    due_at timestamp with time zone CONSTRAINT history_due_at_not_null NOT NULL,
    created_at timestamp with time zone CONSTRAINT history_created_at_not_null NOT NULL,
    created_by text CONSTRAINT history_created_by_not_null NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    finished_at timestamp with time zone DEFAULT now() CONSTRAINT history_finished_at_not_null NOT NULL,
    owner uuid,
    node text,
    fence bigint,
    cancel_reason text,
    error text,
    result jsonb,
    CONSTRAINT an_outcome_is_known CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text, 'superseded'::text, 'expired'::text, 'lost'::text, 'upstream_failed'::text])))
);

COMMENT ON TABLE pgcron.history_overflow IS 'Takes what has no partition, so that a run can always end; the janitor moves it over.';

CREATE TABLE pgcron.occurrence (
    schedule_id bigint NOT NULL,
    fire_at timestamp with time zone NOT NULL,
    decision text NOT NULL,
    reason text,
    run_id bigint,
    decided_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_decision_is_known CHECK ((decision = ANY (ARRAY['run'::text, 'skipped'::text, 'superseded'::text, 'expired'::text, 'cancelled'::text, 'upstream_failed'::text]))),
    CONSTRAINT a_fire_that_does_not_run_says_why CHECK (((decision = 'run'::text) OR (reason IS NOT NULL))),
    CONSTRAINT a_fire_that_runs_names_its_run CHECK (((decision <> 'run'::text) OR (run_id IS NOT NULL)))
)
PARTITION BY RANGE (fire_at);

COMMENT ON TABLE pgcron.occurrence IS 'The ledger and the permanent fence: one row for each fire time that was decided singly.';

CREATE TABLE pgcron.occurrence_override (
    schedule_id bigint NOT NULL,
    fire_at timestamp with time zone NOT NULL,
    action text NOT NULL,
    due_at timestamp with time zone,
    args jsonb,
    note text,
    actor text DEFAULT SESSION_USER NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_fire_lies_within_the_calendar CHECK ((((fire_at >= to_timestamp(('-2208988800'::bigint)::double precision)) AND (fire_at < to_timestamp(('253370764800'::bigint)::double precision)) AND ((due_at IS NULL) OR ((due_at >= to_timestamp(('-2208988800'::bigint)::double precision)) AND (due_at < to_timestamp(('253370764800'::bigint)::double precision))))) OR pgcron.refuse('PC001'::text, format('fire %s%s is outside of the calendar'::text, fire_at, (' at '::text || due_at)), 'A fire lies, and is moved, within the years 1900 to 9998.'::text, 'SELECT * FROM pgcron.preview(…) shows those to come.'::text))),
    CONSTRAINT a_move_says_where_to CHECK (((action = 'move'::text) = (due_at IS NOT NULL))),
    CONSTRAINT an_edit_has_args CHECK (((action <> 'edit'::text) OR (args IS NOT NULL))),
    CONSTRAINT an_override_skips_moves_or_edits CHECK ((action = ANY (ARRAY['skip'::text, 'move'::text, 'edit'::text]))),
    CONSTRAINT occurrence_override_actor_is_short CHECK (((actor IS NULL) OR (length(actor) <= 300) OR pgcron.refuse_words('actor'::text, actor, 300))),
    CONSTRAINT occurrence_override_note_is_short CHECK (((note IS NULL) OR (length(note) <= 2000) OR pgcron.refuse_words('note'::text, note, 2000))),
    CONSTRAINT override_args_are_an_object_of_256_kib CHECK (((args IS NULL) OR ((jsonb_typeof(args) = 'object'::text) AND ((octet_length((args)::text) <= 200) OR ((octet_length((args)::text) <= 262144) AND (NOT jsonb_path_exists(args, 'strict $.**{100}?(@.type() == "array" || @.type() == "object")'::jsonpath))))) OR pgcron.refuse_args(args)))
);

COMMENT ON TABLE pgcron.occurrence_override IS 'One fire skipped, moved or given other args, applied when it is materialized.';

CREATE FUNCTION pgcron.judge_backfill(b pgcron.backfill, instants timestamp with time zone[]) RETURNS TABLE(place bigint, fire_at timestamp with time zone, verdict text, parent bigint)
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 WITH RECURSIVE given AS MATERIALIZED (
          SELECT g_1.place,
             g_1.fire_at,
             (o.schedule_id IS NOT NULL) AS is_decided,
             o.decision,
             o.run_id,
             (v.action = 'skip'::text) AS is_to_skip,
             (EXISTS ( SELECT
                    FROM pgcron.run r
                   WHERE ((r.schedule_id = (judge_backfill.b).schedule_id) AND (r.scheduled_for = g_1.fire_at) AND (r.scheduled_for IS NOT NULL)))) AS is_live
            FROM ((unnest(judge_backfill.instants) WITH ORDINALITY g_1(fire_at, place)
              LEFT JOIN pgcron.occurrence o ON (((o.schedule_id = (judge_backfill.b).schedule_id) AND (o.fire_at = g_1.fire_at))))
              LEFT JOIN pgcron.occurrence_override v ON (((v.schedule_id = (judge_backfill.b).schedule_id) AND (v.fire_at = g_1.fire_at))))
         ), family(root, id) AS (
          SELECT g_1.run_id,
             g_1.run_id
            FROM given g_1
           WHERE ((g_1.run_id IS NOT NULL) AND ((judge_backfill.b).if_ran <> 'skip'::text))
         UNION
          SELECT f.root,
             child.id
            FROM (family f
              CROSS JOIN LATERAL ( SELECT r.id
                    FROM pgcron.run r
                   WHERE (r.parent_run = f.id)
                 UNION ALL
                  SELECT h.id
                    FROM pgcron.history h
                   WHERE (h.parent_run = f.id)
                 UNION ALL
                  SELECT h.id
                    FROM pgcron.history_overflow h
                   WHERE (h.parent_run = f.id)) child)
         ), told AS MATERIALIZED (
          SELECT f.root,
             bool_or((r.id IS NOT NULL)) AS is_alive,
             bool_or((NOT (ended.outcome IS DISTINCT FROM 'succeeded'::text))) AS has_succeeded,
             bool_or(((ended.outcome <> 'succeeded'::text) OR (d.run_id IS NOT NULL))) AS has_failed
            FROM (((family f
              LEFT JOIN pgcron.run r ON ((r.id = f.id)))
              LEFT JOIN LATERAL ( SELECT h.outcome
                    FROM pgcron.history h
                   WHERE (h.id = f.id)
                 UNION ALL
                  SELECT h.outcome
                    FROM pgcron.history_overflow h
                   WHERE (h.id = f.id)
          LIMIT 1) ended ON (true))
              LEFT JOIN pgcron.dead_letter d ON ((d.run_id = f.id)))
           GROUP BY f.root
         )
  SELECT g.place,
     g.fire_at,
         CASE
             WHEN (NOT g.is_decided) THEN
             CASE
                 WHEN (g.is_live OR g.is_to_skip) THEN 'leave'::text
                 ELSE 'claim'::text
             END
             WHEN (((judge_backfill.b).if_ran = 'skip'::text) OR g.is_live OR t.is_alive) THEN 'leave'::text
             WHEN ((judge_backfill.b).if_ran = 'all'::text) THEN 'again'::text
             WHEN ((g.run_id IS NOT NULL) AND (NOT t.has_succeeded) AND (t.has_failed OR (g.decision <> 'run'::text))) THEN 'again'::text
             ELSE 'leave'::text
         END AS "case",
     g.run_id
    FROM (given g
      LEFT JOIN told t ON ((t.root = g.run_id)));
END;

CREATE FUNCTION pgcron.judge_by_rules(queue text, handler text, who name) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  is_confined boolean;
  is_allowed boolean;
BEGIN
  SELECT count(*) > 0, coalesce(bool_or(pgcron.rule_fits(p.queue, judge_by_rules.queue) AND pgcron.rule_fits(p.handler, judge_by_rules.handler)), false)
    INTO is_confined, is_allowed FROM pgcron.producer_rule p WHERE pg_has_role(who, p.role, 'USAGE');
  IF is_confined AND NOT is_allowed THEN PERFORM pgcron.refuse_producer(who, queue, handler); END IF;
  RETURN is_confined;
END $$;

CREATE FUNCTION pgcron.judge_claims(id bigint, created_by text, who name, is_confined boolean) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF has_column_privilege(who, 'pgcron.run', 'origin', 'INSERT') THEN RETURN true; END IF;
  IF created_by NOT IN (who, session_user) AND (is_confined OR NOT has_table_privilege(who, 'pgcron.history', 'SELECT')
       AND EXISTS (SELECT FROM pg_roles other WHERE other.rolname = judge_claims.created_by AND NOT pg_has_role(session_user, other.oid, 'MEMBER'))) THEN
    PERFORM pgcron.refuse('PC013', format('role %s may not enqueue in the name of %L', quote_ident(who), left(created_by, 200)),
      'Who is named in created_by may read the run and its result.', 'Leave created_by (in functions: actor) out.');
  ELSIF (id BETWEEN 1 AND pg_sequence_last_value('pgcron.run_id_seq')) IS NOT TRUE THEN
    PERFORM pgcron.refuse('PC013', format('id %s was not drawn from pgcron.run_id_seq', id), 'It would be the id of another run one day.', 'Leave the id out, or take nextval(''pgcron.run_id_seq'').');
  END IF;
  RETURN true;
END $$;

CREATE FUNCTION pgcron.judge_definitions(definitions jsonb, source text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  bad jsonb;
  double text;
BEGIN
  IF source IS NULL THEN
    PERFORM pgcron.refuse('PC001', 'the source is NULL', 'A source is a file or a folder of schedules.', 'Give it a short name, for example ''billing''.');
  ELSIF jsonb_typeof(definitions) IS DISTINCT FROM 'array' THEN
    PERFORM pgcron.refuse('PC001', format('the definitions are %s', coalesce('a JSON ' || jsonb_typeof(definitions), 'NULL')), 'They are an array of objects.',
                          'Write for example [{"name": "nightly", "spec": "@daily", "handler": "py:report"}].');
  END IF;
  SELECT d INTO bad FROM jsonb_array_elements(definitions) d
   WHERE jsonb_typeof(d) <> 'object' OR jsonb_typeof(d -> 'name') IS DISTINCT FROM 'string' OR jsonb_typeof(d -> 'spec') IS DISTINCT FROM 'string' OR jsonb_typeof(d -> 'handler') IS DISTINCT FROM 'string' LIMIT 1;
  IF bad IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001', format('%s defines no schedule', left(bad::text, 200)), 'A definition has a name, a spec and a handler, each a text.', 'Give it what it lacks.');
  END IF;
  SELECT d ->> 'name' INTO double FROM jsonb_array_elements(definitions) d GROUP BY 1 HAVING count(*) > 1 LIMIT 1;
  IF double IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001', format('schedule %L is defined twice', left(double, 200)), 'One name has one definition.', 'Remove one of them.');
  END IF;
  PERFORM pgcron.refuse_columns(ARRAY(SELECT DISTINCT jsonb_object_keys(d) FROM jsonb_array_elements(definitions) d), '{}');
END $$;

CREATE FUNCTION pgcron.judge_failures(failing bigint) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  definition pgcron.schedule;
  held pgcron.failure_pause;
  failures int;
  latest pgcron.fire_failure;
BEGIN
  PERFORM pgcron.act_as('pgcron_ha', 'clock');
  SELECT * INTO definition FROM pgcron.schedule s WHERE s.id = failing FOR NO KEY UPDATE;
  IF definition.id IS NULL OR definition.pause_after_failures IS NULL THEN
    DELETE FROM pgcron.fire_failure f WHERE f.schedule_id = failing;
    DELETE FROM pgcron.failure_pause p WHERE p.schedule_id = failing;
    RETURN NULL;
  END IF;
  UPDATE pgcron.fire_failure f SET is_judged = true WHERE f.schedule_id = failing AND NOT f.is_judged;
  SELECT * INTO held FROM pgcron.failure_pause p WHERE p.schedule_id = failing;
  IF held.schedule_id IS NOT NULL THEN
    RETURN pgcron.judge_probe(definition, held);
  ELSIF NOT definition.enabled THEN
    RETURN NULL;
  END IF;
  DELETE FROM pgcron.fire_failure f
   WHERE f.schedule_id = failing AND f.failed_at <= pgcron.last_success(failing, (SELECT min(e.failed_at) FROM pgcron.fire_failure e WHERE e.schedule_id = failing));
  SELECT count(*) INTO failures FROM pgcron.fire_failure f WHERE f.schedule_id = failing;
  IF failures < definition.pause_after_failures THEN RETURN NULL; END IF;
  SELECT * INTO latest FROM pgcron.fire_failure f WHERE f.schedule_id = failing ORDER BY f.failed_at DESC LIMIT 1;
  INSERT INTO pgcron.failure_pause (schedule_id, failures, since, probe_at, look_at)
  VALUES (failing, failures, clock_timestamp(), clock_timestamp() + definition.probe_after, clock_timestamp() + definition.probe_after);
  RETURN pgcron.pause_for_failures(failing, failures, format('run %s', latest.run_id), latest.error);
END $$;

COMMENT ON FUNCTION pgcron.judge_failures(failing bigint) IS 'Pauses a schedule that has failed pause_after_failures times in a row; settles the probe of one that is paused so.';

CREATE FUNCTION pgcron.judge_guest(r pgcron.run, who name) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  is_confined boolean := pg_relation_size('pgcron.producer_rule') > 0 AND pgcron.judge_by_rules(r.queue, r.handler, who);
BEGIN
  IF (r.created_by IN (who, session_user) AND r.id BETWEEN 1 AND pg_sequence_last_value('pgcron.run_id_seq')) IS NOT TRUE THEN
    PERFORM pgcron.judge_claims(r.id, r.created_by, who, is_confined);
  END IF;
  RETURN pgcron.judge_run_of_guest(r);
END $$;

COMMENT ON FUNCTION pgcron.judge_guest(r pgcron.run, who name) IS 'True, or raises PC013 for what the role may not make, or whatever pgcron.judge_run raises.';

CREATE FUNCTION pgcron.judge_parts(names text[]) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  calendar text;
  unknown text;
  circle text[];
BEGIN
  SELECT c.name, part INTO calendar, unknown FROM pgcron.calendar c CROSS JOIN LATERAL unnest(c.parts) part
   WHERE c.name = ANY(names) AND NOT EXISTS (SELECT FROM pgcron.calendar o WHERE o.name = part) ORDER BY 1, 2 LIMIT 1;
  IF unknown IS NOT NULL THEN
    PERFORM pgcron.refuse('PC005', format('calendar %L names calendar %L, which is not known', calendar, unknown), 'A calendar names others that exist, spelled exactly.', 'Make the other one first.');
  END IF;
  FOREACH calendar IN ARRAY names LOOP
    circle := pgcron.circle_of_calendar(calendar);
    IF circle IS NOT NULL THEN
      PERFORM pgcron.refuse('PC005', format('calendar %L contains itself: %s', calendar, array_to_string(circle, ' > ')), 'A calendar may name others, but not in a circle.', 'Remove one of the `calendar` lines.');
    END IF;
  END LOOP;
END $$;

CREATE FUNCTION pgcron.judge_previous(schedule_id bigint, fire timestamp with time zone, OUT verdict text, OUT reason text, OUT has_begun boolean) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
  last pgcron.occurrence;
  alive pgcron.run;
  ended pgcron.history;
BEGIN
  verdict := 'fine';
  SELECT * INTO last FROM pgcron.occurrence o
   WHERE o.schedule_id = judge_previous.schedule_id AND o.fire_at < fire AND o.decision NOT IN ('skipped', 'superseded') ORDER BY o.fire_at DESC LIMIT 1;
  IF last.run_id IS NULL THEN RETURN; END IF;
  SELECT * INTO alive FROM pgcron.run r WHERE r.id = last.run_id;
  IF alive.id IS NOT NULL THEN
    verdict := 'open'; has_begun := alive.state = 'running' OR alive.attempt > 0;
    RETURN;
  END IF;
  SELECT * INTO ended FROM (SELECT h.* FROM pgcron.history h WHERE h.id = last.run_id AND h.finished_at >= last.decided_at - interval '1 day'
                            UNION ALL SELECT v.* FROM pgcron.history_overflow v WHERE v.id = last.run_id) e LIMIT 1;
  IF ended.outcome IN ('dead', 'lost', 'cancelled', 'expired', 'upstream_failed')
     AND NOT EXISTS (SELECT FROM pgcron.history h WHERE h.schedule_id = judge_previous.schedule_id AND h.finished_at >= ended.finished_at AND h.outcome = 'succeeded') THEN
    verdict := 'failed';
    reason := CASE ended.outcome WHEN 'upstream_failed' THEN last.reason ELSE format('run %s of the fire before ended %s', ended.id, ended.outcome) END;
  END IF;
END $$;

CREATE TABLE pgcron.failure_pause (
    schedule_id bigint NOT NULL,
    failures integer NOT NULL,
    pauses integer DEFAULT 1 NOT NULL,
    since timestamp with time zone NOT NULL,
    probe_at timestamp with time zone,
    look_at timestamp with time zone,
    probe_fire timestamp with time zone,
    probe_run bigint
);

COMMENT ON TABLE pgcron.failure_pause IS 'Schedules that failures have paused: the first fire after probe_at is let through; its success resumes the schedule, its failure pauses it for twice as long.';

COMMENT ON COLUMN pgcron.failure_pause.look_at IS 'When a node looks for that fire (again): it may lie far ahead.';

CREATE FUNCTION pgcron.judge_probe(definition pgcron.schedule, held pgcron.failure_pause) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ended record;
  wait interval := least(definition.probe_after * power(2, least(held.pauses, 20)), interval '1 day');
BEGIN
  IF held.probe_run IS NULL OR EXISTS (SELECT FROM pgcron.run r WHERE r.id = held.probe_run) THEN RETURN NULL; END IF;
  SELECT h.outcome, h.error INTO ended FROM (SELECT h.id, h.outcome, h.error FROM pgcron.history h UNION ALL SELECT o.id, o.outcome, o.error FROM pgcron.history_overflow o) h WHERE h.id = held.probe_run LIMIT 1;
  IF ended.outcome = 'succeeded' THEN
    UPDATE pgcron.schedule s SET enabled = true WHERE s.id = definition.id;      -- which forgets its failures, too
    RETURN 'resumed';
  ELSIF ended.outcome IN ('dead', 'lost') THEN
    UPDATE pgcron.failure_pause p SET failures = p.failures + 1, pauses = p.pauses + 1, probe_run = NULL, probe_fire = NULL, probe_at = clock_timestamp() + wait, look_at = clock_timestamp() + wait
     WHERE p.schedule_id = definition.id;
    RETURN pgcron.pause_for_failures(definition.id, held.failures + 1, format('run %s, the probe', held.probe_run), ended.error);
  END IF;
  UPDATE pgcron.failure_pause p SET probe_run = NULL, probe_fire = NULL, probe_at = CASE WHEN ended.outcome IS NULL THEN p.probe_at ELSE greatest(p.probe_at, p.probe_fire) END,
         look_at = clock_timestamp() WHERE p.schedule_id = definition.id;
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.judge_retention_rule() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  longest interval := (SELECT kept.keep FROM pgcron.retention kept WHERE kept.relation = 'history');
BEGIN
  IF NEW.keep > longest THEN
    PERFORM pgcron.refuse('PC001', format('retention of %s is longer than that of history', NEW.keep), format('Rules shorten what is kept: after %s whole days of history are dropped.', longest),
      'Raise that first, by pgcron.set_table_retention(''history'', …), and shorten the others by rules.');
  ELSIF TG_OP = 'INSERT' AND (SELECT count(*) FROM pgcron.retention_rule) >= 1000 THEN
    PERFORM pgcron.refuse('PC004', 'there are 1000 retention rules', 'Up to 1000 rules are kept.', 'Use a rule for every queue, and further ones for what differs.');
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION pgcron.judge_run(r pgcron.run) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
  broken text := CASE
    WHEN NOT pg_catalog.has_table_privilege('pgcron.run'::pg_catalog.regclass, 'TRUNCATE')
      THEN CASE WHEN pgcron.judge_guest(r, current_user) THEN NULL ELSE 'a_guest_keeps_the_rules' END
    WHEN (r.state IN ('blocked', 'ready', 'running')) IS NOT TRUE THEN 'a_live_run_is_blocked_ready_or_running'
    WHEN ((r.state = 'running') = (r.owner IS NOT NULL) AND (r.owner IS NULL) = (r.token IS NULL) AND (r.owner IS NULL) = (r.fence IS NULL)
          AND (r.owner IS NULL) = (r.claimed_at IS NULL) AND (r.owner IS NOT NULL OR r.started_at IS NULL)) IS NOT TRUE
      THEN 'a_running_run_has_owner_token_fence_and_claim_time'
    WHEN (r.cancel_at IS NULL OR r.state = 'running') IS NOT TRUE THEN 'only_a_running_run_is_asked_to_stop'
    WHEN (r.kill_at IS NULL OR r.cancel_at IS NOT NULL) IS NOT TRUE THEN 'who_is_killed_was_asked_to_stop'
    WHEN (r.hold IS NULL OR r.hold IN ('unserved', 'circuit', 'overlap', 'previous')) IS NOT TRUE THEN 'a_hold_has_a_known_reason'
    WHEN (r.hold IS NULL OR r.state = 'ready') IS NOT TRUE THEN 'a_held_run_waits'
    WHEN (r.attempt >= 0 AND r.attempt <= coalesce(r.max_attempts, CASE WHEN r.delivery = 'at_most_once' THEN 1 ELSE 5 END)
          OR r.attempt = 0) IS NOT TRUE THEN 'a_run_is_not_tried_more_than_allowed'
    WHEN (r.delivery <> 'at_most_once' OR (r.attempt <= 1 AND (r.attempt = 0 OR r.state = 'running'))) IS NOT TRUE THEN 'at_most_once_never_comes_back'
    WHEN (r.delivery <> 'at_most_once' OR coalesce(r.max_attempts, 1) = 1) IS NOT TRUE THEN 'at_most_once_means_one_attempt'
    WHEN (r.overlap IS NULL OR r.overlap IN ('skip', 'skip many', 'queue', 'replace', 'terminate', 'allow')) IS NOT TRUE THEN 'a_run_overlap_policy_is_known'
    WHEN (r.overlap IS NULL OR r.schedule_id IS NOT NULL) IS NOT TRUE THEN 'an_overlap_policy_belongs_to_a_schedule'
    WHEN (r.overlap_slot IS NULL OR (r.overlap IS NOT NULL AND (r.overlap_slot = 1 OR (r.overlap_slot > 1 AND r.overlap <> 'skip')))) IS NOT TRUE
      THEN 'an_overlap_slot_is_1_or_of_many_and_has_a_policy'
    WHEN (r.hold IS DISTINCT FROM 'overlap' OR (r.overlap IS NOT NULL AND r.overlap_slot IS NULL)) IS NOT TRUE THEN 'who_waits_for_a_slot_has_none'
    WHEN (r.state <> 'running' OR r.overlap IS NULL OR r.overlap_slot IS NOT NULL) IS NOT TRUE THEN 'a_running_run_holds_its_overlap_slot'
    WHEN (r.overlap_slot IS NULL OR r.state = 'running' OR r.attempt > 0) IS NOT TRUE THEN 'a_waiting_run_holds_a_slot_only_between_attempts'
    WHEN ((r.lane_slot IS NOT NULL) = (r.state = 'running' AND r.lane IS NOT NULL) AND coalesce(r.lane_slot, 1) >= 1) IS NOT TRUE
      THEN 'a_running_run_of_a_lane_holds_a_slot_of_it'
    WHEN ((r.origin IN ('schedule', 'backfill')) = (r.scheduled_for IS NOT NULL) AND (r.scheduled_for IS NULL OR r.schedule_id IS NOT NULL)) IS NOT TRUE
      THEN 'only_fires_claim_an_occurrence'
    -- What an enqueuer wrote is judged when it comes; a claim must not pay for the patterns again.
    WHEN r.attempt > 0 THEN NULL
    WHEN (NOT isfinite(r.due_at) OR (r.due_at >= to_timestamp(-2208988800) AND r.due_at < to_timestamp(253370764800))) IS NOT TRUE
         OR (r.expire_at IS NOT NULL AND isfinite(r.expire_at) AND (r.expire_at < to_timestamp(-2208988800) OR r.expire_at >= to_timestamp(253370764800)))
      THEN pgcron.refuse_instants(r.due_at, r.expire_at)
    WHEN (r.origin IN ('schedule', 'backfill', 'manual', 'enqueued', 'rerun', 'redrive')) IS NOT TRUE THEN 'a_run_has_a_known_origin'
    WHEN (r.handler ~ '^[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]*$' AND length(r.handler) <= 206) IS NOT TRUE THEN 'a_run_names_a_handler'
    WHEN (r.queue = 'default' OR (r.queue ~ '^[A-Za-z0-9_.-]+$' AND length(r.queue) <= 100)) IS NOT TRUE THEN 'a_run_names_a_queue'
    WHEN (r.priority BETWEEN 0 AND 9) IS NOT TRUE THEN 'a_run_priority_is_0_to_9'
    WHEN (jsonb_typeof(r.args) = 'object'
      AND (octet_length(r.args::text) <= 200 OR (octet_length(r.args::text) <= 262144 AND NOT jsonb_path_exists(r.args, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")')))) IS NOT TRUE THEN 'run_args_are_an_object_of_256_kib'
    WHEN (r.delivery IN ('at_least_once', 'at_most_once', 'transactional')) IS NOT TRUE THEN 'a_run_delivery_is_known'
    WHEN (r.delivery <> 'transactional' OR r.handler ~ '^(py|sql):') IS NOT TRUE THEN 'only_py_and_sql_handlers_share_a_transaction'
    WHEN (r.max_attempts IS NULL OR r.max_attempts BETWEEN 1 AND 100) IS NOT TRUE THEN 'run_attempts_are_1_to_100'
    WHEN (r.timeout > '0' AND r.timeout <= '30 days') IS NOT TRUE THEN 'a_run_timeout_is_positive'
    WHEN (r.retry_base > '0' AND r.retry_base <= '1 day') IS NOT TRUE THEN 'a_run_retry_base_is_positive'
    WHEN (r.retry_cap > '0' AND r.retry_cap <= '30 days') IS NOT TRUE THEN 'a_run_retry_cap_is_positive'
    WHEN (r.retry IS NULL OR pgcron.retry_policy_is_fine(r.retry)) IS NOT TRUE THEN 'a_retry_policy_is_readable'
    WHEN (r.time_limits IS NULL OR pgcron.time_limits_are_fine(r.time_limits)) IS NOT TRUE THEN 'time_limits_are_readable'
    WHEN (r.weight IS NULL OR r.weight BETWEEN 1 AND 1000) IS NOT TRUE THEN 'a_run_weighs_1_to_1000'
    WHEN (r.lane IS NULL OR pgcron.lane_is_fine(r.lane) OR (r.weight > 1 AND r.lane = pgcron.lane_of(NULL, r.weight))) IS NOT TRUE THEN 'a_run_names_a_lane'
    WHEN (num_nonnulls(r.unique_key, r.unique_scope) = 0 OR (pgcron.unique_key_is_fine(r.unique_key) AND coalesce(r.unique_scope, 'open') IN ('open', 'waiting', 'taken', 'period'))) IS NOT TRUE
      THEN 'a_unique_key_is_readable'
    WHEN (r.requires IS NULL OR pgcron.requires_is_fine(r.requires)) IS NOT TRUE THEN 'a_run_requires_labels'
    WHEN (r.lane IS NOT NULL OR coalesce(r.weight, 1) = 1) IS NOT TRUE THEN 'a_heavy_run_waits_in_a_lane'
  END;
BEGIN
  RETURN broken IS NULL OR pgcron.refuse_run(r, broken);
END $_$;

COMMENT ON FUNCTION pgcron.judge_run(r pgcron.run) IS 'True, or raises: PC001, PC004 or PC013 for what an enqueuer wrote, check_violation with the rule''s name otherwise.';

CREATE FUNCTION pgcron.judge_run_of_guest(r pgcron.run) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
  broken text := CASE
    WHEN (r.state IN ('blocked', 'ready', 'running')) IS NOT TRUE THEN 'a_live_run_is_blocked_ready_or_running'
    WHEN ((r.state = 'running') = (r.owner IS NOT NULL) AND (r.owner IS NULL) = (r.token IS NULL) AND (r.owner IS NULL) = (r.fence IS NULL)
          AND (r.owner IS NULL) = (r.claimed_at IS NULL) AND (r.owner IS NOT NULL OR r.started_at IS NULL)) IS NOT TRUE
      THEN 'a_running_run_has_owner_token_fence_and_claim_time'
    WHEN (r.cancel_at IS NULL OR r.state = 'running') IS NOT TRUE THEN 'only_a_running_run_is_asked_to_stop'
    WHEN (r.kill_at IS NULL OR r.cancel_at IS NOT NULL) IS NOT TRUE THEN 'who_is_killed_was_asked_to_stop'
    WHEN (r.hold IS NULL OR r.hold IN ('unserved', 'circuit', 'overlap', 'previous')) IS NOT TRUE THEN 'a_hold_has_a_known_reason'
    WHEN (r.hold IS NULL OR r.state = 'ready') IS NOT TRUE THEN 'a_held_run_waits'
    WHEN (r.attempt >= 0 AND r.attempt <= coalesce(r.max_attempts, CASE WHEN r.delivery = 'at_most_once' THEN 1 ELSE 5 END)
          OR r.attempt = 0) IS NOT TRUE THEN 'a_run_is_not_tried_more_than_allowed'
    WHEN (r.delivery <> 'at_most_once' OR (r.attempt <= 1 AND (r.attempt = 0 OR r.state = 'running'))) IS NOT TRUE THEN 'at_most_once_never_comes_back'
    WHEN (r.delivery <> 'at_most_once' OR coalesce(r.max_attempts, 1) = 1) IS NOT TRUE THEN 'at_most_once_means_one_attempt'
    WHEN (r.overlap IS NULL OR r.overlap IN ('skip', 'skip many', 'queue', 'replace', 'terminate', 'allow')) IS NOT TRUE THEN 'a_run_overlap_policy_is_known'
    WHEN (r.overlap IS NULL OR r.schedule_id IS NOT NULL) IS NOT TRUE THEN 'an_overlap_policy_belongs_to_a_schedule'
    WHEN (r.overlap_slot IS NULL OR (r.overlap IS NOT NULL AND (r.overlap_slot = 1 OR (r.overlap_slot > 1 AND r.overlap <> 'skip')))) IS NOT TRUE
      THEN 'an_overlap_slot_is_1_or_of_many_and_has_a_policy'
    WHEN (r.hold IS DISTINCT FROM 'overlap' OR (r.overlap IS NOT NULL AND r.overlap_slot IS NULL)) IS NOT TRUE THEN 'who_waits_for_a_slot_has_none'
    WHEN (r.state <> 'running' OR r.overlap IS NULL OR r.overlap_slot IS NOT NULL) IS NOT TRUE THEN 'a_running_run_holds_its_overlap_slot'
    WHEN (r.overlap_slot IS NULL OR r.state = 'running' OR r.attempt > 0) IS NOT TRUE THEN 'a_waiting_run_holds_a_slot_only_between_attempts'
    WHEN ((r.lane_slot IS NOT NULL) = (r.state = 'running' AND r.lane IS NOT NULL) AND coalesce(r.lane_slot, 1) >= 1) IS NOT TRUE
      THEN 'a_running_run_of_a_lane_holds_a_slot_of_it'
    WHEN ((r.origin IN ('schedule', 'backfill')) = (r.scheduled_for IS NOT NULL) AND (r.scheduled_for IS NULL OR r.schedule_id IS NOT NULL)) IS NOT TRUE
      THEN 'only_fires_claim_an_occurrence'
    -- What an enqueuer wrote is judged when it comes; a claim must not pay for the patterns again.
    WHEN r.attempt > 0 THEN NULL
    WHEN (NOT isfinite(r.due_at) OR (r.due_at >= to_timestamp(-2208988800) AND r.due_at < to_timestamp(253370764800))) IS NOT TRUE
         OR (r.expire_at IS NOT NULL AND isfinite(r.expire_at) AND (r.expire_at < to_timestamp(-2208988800) OR r.expire_at >= to_timestamp(253370764800)))
      THEN pgcron.refuse_instants(r.due_at, r.expire_at)
    WHEN (r.origin IN ('schedule', 'backfill', 'manual', 'enqueued', 'rerun', 'redrive')) IS NOT TRUE THEN 'a_run_has_a_known_origin'
    WHEN (r.handler ~ '^[a-z][a-z0-9_]{0,19}:[A-Za-z0-9_][A-Za-z0-9_.-]*$' AND length(r.handler) <= 206) IS NOT TRUE THEN 'a_run_names_a_handler'
    WHEN (r.queue = 'default' OR (r.queue ~ '^[A-Za-z0-9_.-]+$' AND length(r.queue) <= 100)) IS NOT TRUE THEN 'a_run_names_a_queue'
    WHEN (r.priority BETWEEN 0 AND 9) IS NOT TRUE THEN 'a_run_priority_is_0_to_9'
    WHEN (jsonb_typeof(r.args) = 'object'
      AND (octet_length(r.args::text) <= 200 OR (octet_length(r.args::text) <= 262144 AND NOT jsonb_path_exists(r.args, 'strict $.**{100} ? (@.type() == "array" || @.type() == "object")')))) IS NOT TRUE THEN 'run_args_are_an_object_of_256_kib'
    WHEN (r.delivery IN ('at_least_once', 'at_most_once', 'transactional')) IS NOT TRUE THEN 'a_run_delivery_is_known'
    WHEN (r.delivery <> 'transactional' OR r.handler ~ '^(py|sql):') IS NOT TRUE THEN 'only_py_and_sql_handlers_share_a_transaction'
    WHEN (r.max_attempts IS NULL OR r.max_attempts BETWEEN 1 AND 100) IS NOT TRUE THEN 'run_attempts_are_1_to_100'
    WHEN (r.timeout > '0' AND r.timeout <= '30 days') IS NOT TRUE THEN 'a_run_timeout_is_positive'
    WHEN (r.retry_base > '0' AND r.retry_base <= '1 day') IS NOT TRUE THEN 'a_run_retry_base_is_positive'
    WHEN (r.retry_cap > '0' AND r.retry_cap <= '30 days') IS NOT TRUE THEN 'a_run_retry_cap_is_positive'
    WHEN (r.retry IS NULL OR pgcron.retry_policy_is_fine(r.retry)) IS NOT TRUE THEN 'a_retry_policy_is_readable'
    WHEN (r.time_limits IS NULL OR pgcron.time_limits_are_fine(r.time_limits)) IS NOT TRUE THEN 'time_limits_are_readable'
    WHEN (r.weight IS NULL OR r.weight BETWEEN 1 AND 1000) IS NOT TRUE THEN 'a_run_weighs_1_to_1000'
    WHEN (r.lane IS NULL OR pgcron.lane_is_fine(r.lane) OR (r.weight > 1 AND r.lane = pgcron.lane_of(NULL, r.weight))) IS NOT TRUE THEN 'a_run_names_a_lane'
    WHEN (num_nonnulls(r.unique_key, r.unique_scope) = 0 OR (pgcron.unique_key_is_fine(r.unique_key) AND coalesce(r.unique_scope, 'open') IN ('open', 'waiting', 'taken', 'period'))) IS NOT TRUE
      THEN 'a_unique_key_is_readable'
    WHEN (r.requires IS NULL OR pgcron.requires_is_fine(r.requires)) IS NOT TRUE THEN 'a_run_requires_labels'
    WHEN (r.lane IS NOT NULL OR coalesce(r.weight, 1) = 1) IS NOT TRUE THEN 'a_heavy_run_waits_in_a_lane'
  END;
BEGIN
  RETURN broken IS NULL OR pgcron.refuse_run(r, broken);
END $_$;

COMMENT ON FUNCTION pgcron.judge_run_of_guest(r pgcron.run) IS 'As pgcron.judge_run, for whoever is no owner.';

CREATE FUNCTION pgcron.judge_runs_of(s pgcron.schedule) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN pgcron.judge_run(jsonb_populate_record(NULL::pgcron.run, to_jsonb(s) || jsonb_build_object(
    'origin', 'schedule', 'schedule_id', s.id, 'schedule', s.name, 'scheduled_for', now(), 'state', 'ready', 'attempt', 0, 'due_at', now(),
    'overlap', pgcron.run_overlap(s.overlap, s.max_running), 'lane', pgcron.lane_of(s.lane, s.weight), 'weight', nullif(s.weight, 1),
    'time_limits', CASE WHEN num_nonnulls(s.give_up_after, s.silence_timeout) > 0 THEN pgcron.time_limits(s.give_up_after, s.silence_timeout, now()) END)));
END $$;

CREATE FUNCTION pgcron.judge_schedule() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  similar_names text;
BEGIN
  IF NOT EXISTS (SELECT FROM pgcron.timezone t WHERE t.name = NEW.timezone) THEN
    similar_names := pgcron.zones_like(NEW.timezone);
    PERFORM pgcron.refuse('PC003', format('time zone %L is not known', left(NEW.timezone, 100)),
      'A zone is a name of the IANA database, written exactly.', 'Similar names: ' || coalesce(similar_names, 'none; write for example Europe/Berlin') || '.');
  END IF;
  IF TG_OP = 'INSERT' THEN
    NEW.version := 1;
    NEW.created_at := now();
    NEW.updated_at := now();
  ELSE
    NEW.id := OLD.id; NEW.uuid := OLD.uuid; NEW.created_at := OLD.created_at; NEW.version := OLD.version; NEW.updated_at := OLD.updated_at;
  END IF;
  IF NEW.spec COLLATE "C" ~* E'\\min\\s' THEN
    NEW.calendars := pgcron.take_calendars(NEW.spec);
  ELSE
    NEW.calendars := NULL;
  END IF;
  IF NEW.managed_by <> 'file' THEN      -- who takes it over takes it from its files
    NEW.source := NULL;
  END IF;
  IF NEW.enabled THEN
    NEW.paused_note := NULL; NEW.paused_by := NULL;
    IF TG_OP = 'UPDATE' AND NEW.paused_until = OLD.paused_until THEN NEW.paused_until := NULL; END IF;
  ELSE
    NEW.paused_note := left(NEW.paused_note, 500);
    IF TG_OP = 'INSERT' OR OLD.enabled OR (NEW.paused_note, NEW.paused_until) IS DISTINCT FROM (OLD.paused_note, OLD.paused_until) THEN
      NEW.paused_by := pgcron.actor();
    END IF;
    IF NEW.paused_until <= clock_timestamp() AND (TG_OP = 'INSERT' OR NEW.paused_until IS DISTINCT FROM OLD.paused_until) THEN
      PERFORM pgcron.refuse('PC001', format('the pause would end at %s, which is over', NEW.paused_until), 'A pause ends by itself at an instant to come.',
                            'Name a later one, or leave it out to pause until somebody resumes the schedule.');
    END IF;
  END IF;
  IF TG_OP = 'UPDATE' AND to_jsonb(NEW) IS DISTINCT FROM to_jsonb(OLD) THEN      -- code puts its schedules again at each start
    NEW.version := OLD.version + 1;
    NEW.updated_at := now();
  END IF;
  RETURN NEW;
END $$;

CREATE FUNCTION pgcron.judge_unique(unique_key text, unique_scope text, unique_for interval, on_conflict text, debounce interval, debounce_max interval, due_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF unique_key IS NULL THEN
    PERFORM pgcron.refuse_unique(format('%s is given without unique_key', CASE WHEN debounce IS NOT NULL THEN 'debounce' WHEN debounce_max IS NOT NULL THEN 'debounce_max'
      WHEN unique_for IS NOT NULL THEN 'unique_for' WHEN on_conflict IS NOT NULL THEN 'on_conflict' ELSE 'unique_scope' END),
      'It says what becomes of a second run with the same unique key.', 'Give the key, for example unique_key => ''customer-7''.');
  ELSIF NOT pgcron.unique_key_is_fine(unique_key) THEN
    PERFORM pgcron.refuse_unique_key(unique_key);
  ELSIF unique_scope NOT IN ('open', 'waiting') THEN
    PERFORM pgcron.refuse_unique_key(unique_key, unique_scope);
  ELSIF on_conflict NOT IN ('return', 'replace', 'refuse') THEN
    PERFORM pgcron.refuse_unique(format('on_conflict %L is not known', left(on_conflict, 100)), 'Who meets a run with the same unique key has its id returned, replaces its args, or is refused.',
      'Write ''return'', ''replace'' or ''refuse''.');
  ELSIF unique_for <= '0' OR unique_for > '366 days' THEN
    PERFORM pgcron.refuse_unique(format('unique_for %s is out of range', unique_for), 'It is longer than nothing and at most 366 days.', 'Write for example ''10 minutes''.');
  ELSIF debounce <= '0' OR debounce > '30 days' THEN
    PERFORM pgcron.refuse_unique(format('debounce %s is out of range', debounce), 'It is longer than nothing and at most 30 days.', 'Write for example ''5 seconds''.');
  ELSIF unique_for IS NOT NULL AND unique_scope IS NOT NULL THEN
    PERFORM pgcron.refuse_unique('unique_for is given with unique_scope', 'A unique key has a time, or it has the run for as long as that is open or waiting.');
  ELSIF debounce_max IS NOT NULL AND debounce IS NULL THEN
    PERFORM pgcron.refuse_unique('debounce_max is given without debounce', 'It says how far a run is pushed on at most.', 'Give debounce, or leave debounce_max out.');
  ELSIF debounce_max < debounce OR debounce_max > '366 days' THEN
    PERFORM pgcron.refuse_unique(format('debounce_max %s is out of range', debounce_max), 'It is at least debounce and at most 366 days, from the first call on.', 'Write for example ''1 minute''.');
  ELSIF debounce IS NOT NULL AND num_nonnulls(unique_scope, unique_for, on_conflict) > 0 THEN
    PERFORM pgcron.refuse_unique(format('debounce is given with %s', CASE WHEN unique_scope IS NOT NULL THEN 'unique_scope' WHEN unique_for IS NOT NULL THEN 'unique_for' ELSE 'on_conflict' END),
      'A debounced run is pushed on, with the newest args, for as long as it waits: that is all it can be.');
  ELSIF due_at IS NOT NULL AND (debounce IS NOT NULL OR (unique_for IS NOT NULL AND on_conflict = 'replace')) THEN
    PERFORM pgcron.refuse_unique(format('due_at is given with %s', CASE WHEN debounce IS NOT NULL THEN 'debounce' ELSE 'unique_for and on_conflict replace' END),
      'They say when the run is due.');
  END IF;
END $$;

CREATE FUNCTION pgcron.judge_wait(timeout interval, most interval, remedy text) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF timeout IS NULL OR timeout < '0' OR timeout > most THEN
    PERFORM pgcron.refuse('PC001', format('timeout %s is out of range', coalesce(timeout::text, 'NULL')), format('Here a wait takes between nothing and %s.', most), remedy);
  END IF;
  RETURN clock_timestamp() + timeout;
END $$;

CREATE FUNCTION pgcron.judge_wishes(runs jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  known_keys text[] := '{handler,args,queue,priority,due_at,idempotency_key,key_lifetime,timeout,max_attempts,delivery,retry,lane,requires,unique_key,unique_scope,unique_for,on_conflict,debounce,debounce_max,start_within,give_up_after,silence_timeout,weight}';
  has_keys boolean;
  wrong int;
  example text := 'Write for example ''[{"handler": "py:report", "args": {"day": 1}}]''.';
BEGIN
  IF jsonb_typeof(runs) IS DISTINCT FROM 'array' THEN
    PERFORM pgcron.refuse('PC001', format('runs is %s', coalesce('a JSON ' || jsonb_typeof(runs), 'NULL')), 'runs is a JSON array of objects, one for each run.', example);
  ELSIF jsonb_array_length(runs) > 10000 OR pg_column_size(runs) > 67108864 THEN
    PERFORM pgcron.refuse('PC004', format('runs has %s elements and %s bytes', jsonb_array_length(runs), pg_column_size(runs)),
      'One call takes up to 10000 runs and 67108864 bytes (64 MiB).', 'Call it several times; in one transaction they exist together or not at all.');
  END IF;
  SELECT coalesce(bool_or(wish ?| '{idempotency_key,unique_key,unique_scope,unique_for,on_conflict,debounce,debounce_max}'), false),
         min(position) FILTER (WHERE CASE jsonb_typeof(wish) WHEN 'object' THEN wish - known_keys <> '{}' ELSE true END)
    INTO has_keys, wrong FROM jsonb_array_elements(runs) WITH ORDINALITY element(wish, position);
  IF jsonb_typeof(runs -> (wrong - 1)) = 'object' THEN
    PERFORM pgcron.refuse('PC001', format('run %s of %s: %s is no argument of pgcron.enqueue', wrong, jsonb_array_length(runs),
      (SELECT quote_literal(left(min(key), 100)) FROM jsonb_object_keys((runs -> (wrong - 1)) - known_keys) key)), 'The keys are ' || array_to_string(known_keys, ', ') || '.', example);
  ELSIF wrong IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001', format('run %s of %s is a JSON %s', wrong, jsonb_array_length(runs), jsonb_typeof(runs -> (wrong - 1))),
      'Each element is a JSON object.', example);
  END IF;
  RETURN has_keys;
END $$;

CREATE FUNCTION pgcron.kill_run(run bigint, reason text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
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

COMMENT ON FUNCTION pgcron.kill_run(run bigint, reason text, actor text) IS 'Ends a run by force: cancelled, requested or finished. What can''t be killed (a thread) is only asked.';

CREATE FUNCTION pgcron.known_callbacks(runs bigint[], fences bigint[], token_hashes bytea[]) RETURNS bigint[]
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    AS $$
  SELECT coalesce(array_agg(given.position), '{}')
    FROM (SELECT g.* FROM unnest(runs, fences, token_hashes) WITH ORDINALITY g(run_id, fence, token_hash, position)
           WHERE octet_length(g.token_hash) = 32 OFFSET 0) given
    JOIN pgcron.callback c ON c.run_id = given.run_id AND c.fence = given.fence AND pgcron.is_same_hash(c.token_hash, given.token_hash)
$$;

COMMENT ON FUNCTION pgcron.known_callbacks(runs bigint[], fences bigint[], token_hashes bytea[]) IS 'Which of these attempts wait, or waited within the last day, for a callback with a token of this SHA-256: their positions in the arrays.';

CREATE FUNCTION pgcron.label_words(labels jsonb) RETURNS text[]
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT coalesce(array_agg(word), '{}') FROM jsonb_each_text(labels) label CROSS JOIN LATERAL (VALUES (label.key), (label.key || '=' || label.value)) satisfied(word) $$;

CREATE FUNCTION pgcron.labels_are_fine(labels jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
  SELECT CASE WHEN jsonb_typeof(labels) = 'object' THEN
    (SELECT count(*) <= 64 AND coalesce(bool_and(jsonb_typeof(label.value) = 'string' AND label.key ~ '^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}$'
                                                 AND label.value #>> '{}' ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99}$'), true) FROM jsonb_each(labels) label) ELSE false END $_$;

CREATE FUNCTION pgcron.lane_of(lane text, weight integer) RETURNS text
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((lane IS NULL) AND (weight > 1)) THEN ('*weight '::text || weight)
             ELSE lane
         END AS lane;
END;

CREATE FUNCTION pgcron.rate_is_fine(rate integer, per interval) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((rate IS NULL) AND (per IS NULL)) THEN true
             ELSE ((rate IS NOT NULL) AND (per IS NOT NULL) AND ((rate >= 1) AND (rate <= 1000000)) AND ((per >= '00:00:00.1'::interval) AND (per <= '31 days'::interval)))
         END AS "case";
END;

CREATE FUNCTION pgcron.refuse_rate(rate integer, per interval) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('a rate of %s per %s is out of range', coalesce(rate::text, 'NULL'), coalesce(per::text, 'NULL')),
    'A rate is 1 to 1000000 starts in 100 milliseconds to 31 days; both are given, or neither.', 'Write for example rate => 10, per => ''1 minute''.') $$;

CREATE TABLE pgcron.lane_limit (
    lane text NOT NULL COLLATE pg_catalog."C",
    rate integer,
    per interval,
    slots integer,
    set_by text DEFAULT SESSION_USER NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_lane_has_1_to_10000_slots CHECK (((slots IS NULL) OR ((slots >= 1) AND (slots <= 10000)) OR pgcron.refuse('PC001'::text, format('%s slots are out of range'::text, slots), 'A lane has 1 to 10000 slots.'::text, 'NULL is no limit.'::text))),
    CONSTRAINT a_lane_limit_names_a_lane_or_its_beginning CHECK (((lane = '*'::text) OR pgcron.lane_is_fine(regexp_replace(lane, '\*$'::text, ''::text)) OR pgcron.refuse_lane(lane))),
    CONSTRAINT a_lane_starts_1_to_1000000_runs_in_a_time CHECK ((pgcron.rate_is_fine(rate, per) OR pgcron.refuse_rate(rate, per))),
    CONSTRAINT lane_limit_set_by_is_short CHECK (((set_by IS NULL) OR (length(set_by) <= 300) OR pgcron.refuse_words('set_by'::text, set_by, 300)))
);

COMMENT ON TABLE pgcron.lane_limit IS 'How many runs of a lane execute at once, and how many start in any span of time. The lane''s own row counts, else that with the longest beginning (customer-*), else that of *, else one.';

CREATE FUNCTION pgcron.lane_slots(lanes text[]) RETURNS TABLE(lane text, slots integer, rate integer, per interval)
    LANGUAGE sql STABLE ROWS 50
    BEGIN ATOMIC
 SELECT asked.lane,
         CASE
             WHEN ((known.lane IS NULL) AND ("left"(asked.lane, 1) <> '*'::text)) THEN 1
             ELSE
             CASE
                 WHEN (known.slots < 0) THEN 0
                 ELSE known.slots
             END
         END AS slots,
     known.rate,
     known.per
    FROM (unnest(lane_slots.lanes) asked(lane)
      LEFT JOIN LATERAL ( SELECT l.lane,
             l.slots,
             l.rate,
             l.per
            FROM ( SELECT own.lane,
                     own.slots,
                     own.rate,
                     own.per,
                     true AS is_own
                    FROM pgcron.lane_limit own
                   WHERE (own.lane = asked.lane)
                 UNION ALL
                 ( SELECT many.lane,
                     many.slots,
                     many.rate,
                     many.per,
                     false
                    FROM pgcron.lane_limit many
                   WHERE (("right"(many.lane, 1) = '*'::text) AND starts_with(asked.lane, "left"(many.lane, '-1'::integer)))
                   ORDER BY (length(many.lane)) DESC
                  LIMIT 1)) l
           ORDER BY l.is_own DESC
          LIMIT 1) known ON (("left"(asked.lane, 1) <> '*'::text)));
END;

CREATE FUNCTION pgcron.largest_server(handler text, queue text, requires text[]) RETURNS integer
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT max(n.slots) FROM pgcron.offer o JOIN pgcron.node n USING (incarnation)
   WHERE o.handler = largest_server.handler AND n.state = 'alive' AND n.lease_until > now() AND largest_server.queue = ANY(n.queues)
     AND (largest_server.requires IS NULL OR largest_server.requires <@ pgcron.label_words(n.labels)) $$;

CREATE FUNCTION pgcron.last_success(of_schedule bigint, since timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT max(told.finished_at) FROM (
    (SELECT h.finished_at FROM pgcron.history h
      WHERE h.schedule_id = of_schedule AND h.finished_at >= since AND h.outcome = 'succeeded' AND h.origin = 'schedule' ORDER BY h.finished_at DESC LIMIT 1)
    UNION ALL
    (SELECT h.finished_at FROM pgcron.history_overflow h WHERE h.schedule_id = of_schedule AND h.finished_at >= since AND h.outcome = 'succeeded' AND h.origin = 'schedule')) told $$;

CREATE FUNCTION pgcron.let_waiting_go(beyond bigint, most integer, OUT let_go integer, OUT ended_at bigint, OUT refused bigint[], OUT error text) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  lane record;
  steps int := 0;
BEGIN
  PERFORM pgcron.require_read_committed('lanes');
  let_go := 0;
  refused := '{}';
  IF beyond = 0 THEN
    BEGIN
      let_go := pgcron.decide_dependents();
    EXCEPTION WHEN OTHERS THEN
      refused := ARRAY(SELECT DISTINCT r.schedule_id FROM pgcron.run r WHERE r.hold = 'previous' AND r.due_at <= now() + interval '1 minute' LIMIT 1000);
      error := SQLERRM;
    END;
  END IF;
  FOR lane IN
    WITH RECURSIVE walk(schedule_id) AS (
      (SELECT r.schedule_id FROM pgcron.run r WHERE r.hold = 'overlap' AND r.schedule_id > let_waiting_go.beyond ORDER BY r.schedule_id LIMIT 1)
      UNION ALL
      SELECT next.* FROM walk CROSS JOIN LATERAL (
        SELECT r.schedule_id FROM pgcron.run r WHERE r.hold = 'overlap' AND r.schedule_id > walk.schedule_id ORDER BY r.schedule_id LIMIT 1) next)
    SELECT w.schedule_id, first.overlap, o.room FROM walk w
     CROSS JOIN LATERAL (
       SELECT head.overlap FROM unnest('{allow,queue,replace,terminate}'::text[]) AS word(overlap) CROSS JOIN LATERAL (
         SELECT r.overlap, r.priority, r.due_at, r.id FROM pgcron.run r WHERE r.hold = 'overlap' AND r.schedule_id = w.schedule_id AND r.overlap = word.overlap
          ORDER BY r.priority, r.due_at, r.id LIMIT 1) head
        ORDER BY head.priority, head.due_at, head.id LIMIT 1) first
     CROSS JOIN LATERAL pgcron.overlap_room(w.schedule_id, first.overlap, 1) o
  LOOP
    steps := steps + 1;
    IF (lane.room > 0 OR lane.overlap IN ('replace', 'terminate')) AND pg_try_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashint8(lane.schedule_id)) THEN
      BEGIN      -- a schedule whose runs can't be let go holds up no other
        IF lane.overlap IN ('replace', 'terminate') THEN
          SELECT let_go + count(*) INTO let_go FROM pgcron.replace_older(ARRAY[lane.schedule_id], NULL);
        END IF;
        SELECT let_go + count(*) INTO let_go FROM pgcron.settle_queues(ARRAY[lane.schedule_id]) s WHERE s.verdict <> 'hold';
      EXCEPTION WHEN OTHERS THEN
        refused := refused || lane.schedule_id;
        error := SQLERRM;
      END;
    END IF;
    IF steps >= most THEN
      ended_at := lane.schedule_id;
      EXIT;
    END IF;
  END LOOP;
END $$;

COMMENT ON FUNCTION pgcron.let_waiting_go(beyond bigint, most integer, OUT let_go integer, OUT ended_at bigint, OUT refused bigint[], OUT error text) IS 'Runs that wait for a slot of their schedule become claimable where one is free.';

CREATE FUNCTION pgcron.limit_trouble(queue text, lane text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT format('%s %L waits until it is mended: %s', b.kind, b.name, b.error)
    FROM pgcron.broken_settings() b
   WHERE (b.kind = 'queue' AND b.name = limit_trouble.queue)
      OR (b.kind = 'key' AND (b.name = limit_trouble.lane OR
            (b.name LIKE '%*' AND starts_with(limit_trouble.lane, rtrim(b.name, '*')))))
   ORDER BY b.kind DESC, b.name LIMIT 1 $$;

CREATE FUNCTION pgcron.walk_requirements(queue text, labels text[]) RETURNS TABLE(requires text[], priority smallint, due_at timestamp with time zone)
    LANGUAGE sql STABLE ROWS 10
    BEGIN ATOMIC
 WITH RECURSIVE walk(requires, priority, due_at, is_satisfied, steps) AS (
         ( SELECT r.requires,
             r.priority,
             r.due_at,
             COALESCE((r.requires <@ walk_requirements.labels), true) AS "coalesce",
             1 AS "?column?"
            FROM pgcron.run r
           WHERE ((r.state = 'ready'::text) AND (r.hold IS NULL) AND (r.lane IS NULL) AND (r.requires IS NOT NULL) AND (r.queue = walk_requirements.queue))
           ORDER BY r.requires, r.priority, r.due_at
          LIMIT 1)
         UNION ALL
          SELECT next.requires,
             next.priority,
             next.due_at,
             COALESCE((next.requires <@ walk_requirements.labels), true) AS "coalesce",
             (walk_1.steps + 1)
            FROM (walk walk_1
              CROSS JOIN LATERAL ( SELECT r.requires,
                     r.priority,
                     r.due_at
                    FROM pgcron.run r
                   WHERE ((r.state = 'ready'::text) AND (r.hold IS NULL) AND (r.lane IS NULL) AND (r.requires IS NOT NULL) AND (r.queue = walk_requirements.queue) AND (ROW(r.requires, r.priority) > ROW(walk_1.requires,
                         CASE
                             WHEN walk_1.is_satisfied THEN (walk_1.priority)::integer
                             ELSE 9
                         END)))
                   ORDER BY r.requires, r.priority, r.due_at
                  LIMIT 1) next)
           WHERE (walk_1.steps < 1000)
         )
  SELECT walk.requires,
     walk.priority,
     walk.due_at
    FROM walk
   WHERE walk.is_satisfied;
END;

CREATE FUNCTION pgcron.limited_heads(pair_queues text[], pair_lanes text[], pair_priorities smallint[], pair_rooms integer[], limited_queues text[], handlers text[], room integer, labels text[], placed_queues text[]) RETURNS TABLE(id bigint, queue text, lane text, priority smallint, due_at timestamp with time zone, delivery text, schedule_id bigint, overlap_slot smallint, weight integer, overlap text)
    LANGUAGE sql STABLE ROWS 100
    BEGIN ATOMIC
 SELECT w.id,
     w.queue,
     w.lane,
     w.priority,
     w.due_at,
     w.delivery,
     w."case",
     w.overlap_slot,
     w."coalesce",
     w.overlap
    FROM (UNNEST(limited_heads.pair_queues, limited_heads.pair_lanes, limited_heads.pair_priorities, limited_heads.pair_rooms) pair(queue, lane, priority, room)
      CROSS JOIN LATERAL ( SELECT h.id,
             h.queue,
             h.lane,
             h.priority,
             h.due_at,
             h.delivery,
                 CASE
                     WHEN (h.overlap IS NOT NULL) THEN h.schedule_id
                     ELSE NULL::bigint
                 END AS "case",
             h.overlap_slot,
             COALESCE(h.weight, 1) AS "coalesce",
             h.overlap
            FROM ( SELECT r.id,
                     r.uuid,
                     r.origin,
                     r.schedule_id,
                     r.schedule,
                     r.scheduled_for,
                     r.nominal_for,
                     r.parent_run,
                     r.queue,
                     r.priority,
                     r.handler,
                     r.args,
                     r.delivery,
                     r.state,
                     r.hold,
                     r.due_at,
                     r.expire_at,
                     r.attempt,
                     r.max_attempts,
                     r.timeout,
                     r.retry_base,
                     r.retry_cap,
                     r.retry,
                     r.overlap,
                     r.overlap_slot,
                     r.snoozes,
                     r.lane,
                     r.lane_slot,
                     r.unique_key,
                     r.unique_scope,
                     r.requires,
                     r.weight,
                     r.owner,
                     r.token,
                     r.fence,
                     r.claimed_at,
                     r.started_at,
                     r.cancel_at,
                     r.cancel_reason,
                     r.kill_at,
                     r.time_limits,
                     r.last_error,
                     r.lost_early,
                     r.created_at,
                     r.created_by
                    FROM pgcron.run r
                   WHERE ((r.state = 'ready'::text) AND (r.hold IS NULL) AND (r.lane IS NOT NULL) AND (r.queue = pair.queue) AND (r.lane = pair.lane) AND (r.priority = pair.priority) AND (r.due_at <= now()))
                   ORDER BY r.due_at, r.id
                  LIMIT 1000) h
           WHERE ((h.handler = ANY (limited_heads.handlers)) AND ((h.expire_at IS NULL) OR (h.expire_at > now())) AND ((h.requires IS NULL) OR (h.requires <@ limited_heads.labels)))
          LIMIT LEAST(pair.room, limited_heads.room)) w)
 UNION ALL
  SELECT w.id,
     w.queue,
     w.text,
     w.priority,
     w.due_at,
     w.delivery,
     w.int8,
     w.overlap_slot,
     w."?column?",
     w.overlap
    FROM ((unnest(limited_heads.limited_queues) asked(queue)
      CROSS JOIN generate_series(0, 9) level(level))
      CROSS JOIN LATERAL (( SELECT r.id,
             r.queue,
             NULL::text AS text,
             r.priority,
             r.due_at,
             r.delivery,
             NULL::bigint AS int8,
             r.overlap_slot,
             1 AS "?column?",
             r.overlap
            FROM pgcron.run r
           WHERE ((r.state = 'ready'::text) AND (r.hold IS NULL) AND (r.lane IS NULL) AND (r.requires IS NULL) AND (r.overlap IS NULL) AND (r.delivery = 'at_least_once'::text) AND (r.queue = asked.queue) AND (r.priority = level.level) AND (r.due_at <= now()) AND (r.handler = ANY (limited_heads.handlers)) AND ((r.expire_at IS NULL) OR (r.expire_at > now())))
           ORDER BY r.due_at, r.id
          LIMIT limited_heads.room)
         UNION ALL
         ( SELECT r.id,
             r.queue,
             NULL::text,
             r.priority,
             r.due_at,
             r.delivery,
             NULL::bigint,
             r.overlap_slot,
             1,
             r.overlap
            FROM pgcron.run r
           WHERE ((r.state = 'ready'::text) AND (r.hold IS NULL) AND (r.lane IS NULL) AND (r.requires IS NULL) AND (r.overlap IS NULL) AND (r.delivery <> 'at_least_once'::text) AND (r.queue = asked.queue) AND (r.priority = level.level) AND (r.due_at <= now()) AND (r.handler = ANY (limited_heads.handlers)) AND ((r.expire_at IS NULL) OR (r.expire_at > now())))
           ORDER BY r.due_at, r.id
          LIMIT limited_heads.room)
         UNION ALL
         ( SELECT r.id,
             r.queue,
             NULL::text,
             r.priority,
             r.due_at,
             r.delivery,
             r.schedule_id,
             r.overlap_slot,
             1,
             r.overlap
            FROM pgcron.run r
           WHERE ((r.state = 'ready'::text) AND (r.hold IS NULL) AND (r.lane IS NULL) AND (r.requires IS NULL) AND (r.overlap IS NOT NULL) AND (r.queue = asked.queue) AND (r.priority = level.level) AND (r.due_at <= now()) AND (r.handler = ANY (limited_heads.handlers)) AND ((r.expire_at IS NULL) OR (r.expire_at > now())))
           ORDER BY r.due_at, r.id
          LIMIT limited_heads.room)) w)
 UNION ALL
  SELECT w.id,
     w.queue,
     w.text,
     w.priority,
     w.due_at,
     w.delivery,
     w."case",
     w.overlap_slot,
     w."?column?",
     w.overlap
    FROM ((unnest(limited_heads.placed_queues) asked(queue)
      CROSS JOIN LATERAL pgcron.walk_requirements(asked.queue, limited_heads.labels) place(requires, priority, due_at))
      CROSS JOIN LATERAL ( SELECT h.id,
             h.queue,
             NULL::text AS text,
             h.priority,
             h.due_at,
             h.delivery,
                 CASE
                     WHEN (h.overlap IS NOT NULL) THEN h.schedule_id
                     ELSE NULL::bigint
                 END AS "case",
             h.overlap_slot,
             1 AS "?column?",
             h.overlap
            FROM ( SELECT r.id,
                     r.uuid,
                     r.origin,
                     r.schedule_id,
                     r.schedule,
                     r.scheduled_for,
                     r.nominal_for,
                     r.parent_run,
                     r.queue,
                     r.priority,
                     r.handler,
                     r.args,
                     r.delivery,
                     r.state,
                     r.hold,
                     r.due_at,
                     r.expire_at,
                     r.attempt,
                     r.max_attempts,
                     r.timeout,
                     r.retry_base,
                     r.retry_cap,
                     r.retry,
                     r.overlap,
                     r.overlap_slot,
                     r.snoozes,
                     r.lane,
                     r.lane_slot,
                     r.unique_key,
                     r.unique_scope,
                     r.requires,
                     r.weight,
                     r.owner,
                     r.token,
                     r.fence,
                     r.claimed_at,
                     r.started_at,
                     r.cancel_at,
                     r.cancel_reason,
                     r.kill_at,
                     r.time_limits,
                     r.last_error,
                     r.lost_early,
                     r.created_at,
                     r.created_by
                    FROM pgcron.run r
                   WHERE ((r.state = 'ready'::text) AND (r.hold IS NULL) AND (r.lane IS NULL) AND (r.requires IS NOT NULL) AND (r.queue = asked.queue) AND (r.requires = place.requires) AND (r.priority = place.priority) AND (r.due_at <= now()))
                   ORDER BY r.due_at, r.id
                  LIMIT 1000) h
           WHERE ((h.handler = ANY (limited_heads.handlers)) AND ((h.expire_at IS NULL) OR (h.expire_at > now())))
          LIMIT limited_heads.room) w)
   WHERE (place.due_at <= now());
END;

CREATE FUNCTION pgcron.line_up(schedules bigint[]) RETURNS TABLE(id bigint, is_held boolean)
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE pgcron.run r SET hold = CASE WHEN r.hold IS NULL THEN 'overlap' END
   WHERE r.id = ANY(ARRAY(
     SELECT l.id FROM pgcron.run l
      WHERE l.state = 'ready' AND coalesce(l.hold, 'overlap') = 'overlap' AND l.overlap_slot IS NULL AND l.id = ANY(ARRAY(
        WITH fresh AS MATERIALIZED (
          SELECT n.id, n.schedule_id, n.overlap, n.hold, n.priority, n.due_at FROM unnest(schedules) AS one(schedule_id) JOIN pgcron.run n ON n.schedule_id = one.schedule_id
           WHERE n.state = 'ready' AND n.hold IS NULL AND n.overlap NOT IN ('skip', 'skip many') AND n.due_at <= now() AND n.overlap_slot IS NULL),
        aside AS MATERIALIZED (
          SELECT one.schedule_id, word.overlap FROM unnest(schedules) AS one(schedule_id)
           CROSS JOIN LATERAL (SELECT FROM pgcron.run h WHERE h.schedule_id = one.schedule_id AND h.hold = 'overlap' ORDER BY h.overlap, h.priority, h.due_at, h.id LIMIT 1) has_some
           CROSS JOIN unnest('{allow,queue,replace,terminate}'::text[]) AS word(overlap)
           CROSS JOIN LATERAL (
             SELECT FROM pgcron.run h WHERE h.schedule_id = one.schedule_id AND h.hold = 'overlap' AND h.overlap = word.overlap ORDER BY h.priority, h.due_at, h.id LIMIT 1) has_such),
        kind AS MATERIALIZED (
          SELECT k.schedule_id, k.overlap, greatest(o.room, 0) AS room FROM (SELECT f.schedule_id, f.overlap FROM fresh f UNION SELECT a.* FROM aside a) k
           CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, k.overlap, 1) o),
        -- Of what stands apart only as many can be among the first as there are slots: a long backlog is not read.
        waiting AS MATERIALIZED (
          SELECT w.id, w.schedule_id, w.overlap, w.hold, row_number() OVER (PARTITION BY w.schedule_id ORDER BY w.priority, w.due_at, w.id) AS place FROM (
            SELECT f.* FROM fresh f
            UNION ALL
            SELECT h.* FROM aside a JOIN (SELECT k.schedule_id, max(k.room) AS room FROM kind k GROUP BY 1) most ON most.schedule_id = a.schedule_id
             CROSS JOIN LATERAL (
               SELECT r.id, r.schedule_id, r.overlap, r.hold, r.priority, r.due_at FROM pgcron.run r
                WHERE r.schedule_id = a.schedule_id AND r.hold = 'overlap' AND r.overlap = a.overlap AND r.due_at <= now() AND r.overlap_slot IS NULL
                ORDER BY r.priority, r.due_at, r.id LIMIT most.room) h) w)
        SELECT w.id FROM waiting w JOIN kind ON kind.schedule_id = w.schedule_id AND kind.overlap = w.overlap
         WHERE (w.hold IS NULL) = (w.place > kind.room) LIMIT 1000))
      ORDER BY l.id FOR UPDATE SKIP LOCKED))
  RETURNING r.id, r.hold IS NOT NULL $$;

CREATE FUNCTION pgcron.live_state(run_id bigint, OUT state text, OUT is_own boolean) RETURNS SETOF record
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  -- A row that is seen, and whose transaction is not over, is of this transaction or of a subtransaction of it. xmin has 32 bits, the
  -- number that can be asked about 64: the one nearest to now. One far ahead of now is frozen, so very old.
  SELECT r.state, coalesce(nearest.away < 1000000 AND pg_xact_status((newest.xid + nearest.away)::text::xid8) = 'in progress', false)
    FROM pgcron.run r,
         LATERAL (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS xid) newest,
         LATERAL (SELECT (r.xmin::text::bigint - newest.xid % 4294967296 + 6442450944) % 4294967296 - 2147483648 AS away) nearest
   WHERE r.id = live_state.run_id AND pgcron.may_read_run(r.created_by) $$;

CREATE FUNCTION pgcron.lock_calendars() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.require_read_committed('calendars');
  PERFORM pg_advisory_xact_lock('pgcron'::regnamespace::oid::int, hashtext('calendars'));
END $$;

CREATE FUNCTION pgcron.lock_occurrence(name text, instant timestamp with time zone, OUT schedule bigint, OUT run bigint, OUT is_decided boolean) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
  fires pgcron.cursor;
  decided pgcron.occurrence;
  waiting pgcron.run;
BEGIN
  PERFORM pgcron.require_read_committed('changes of one fire');
  IF instant IS NULL THEN
    PERFORM pgcron.refuse('PC001', 'the fire is NULL', 'A fire is named by its time.', '`pgcron-ha schedules show` lists the next ones.');
  END IF;
  schedule := pgcron.schedule_id(name);
  PERFORM FROM pgcron.schedule s WHERE s.id = schedule FOR KEY SHARE;
  SELECT * INTO fires FROM pgcron.cursor c WHERE c.schedule_id = schedule FOR UPDATE;
  IF fires.schedule_id IS NULL THEN PERFORM pgcron.schedule_id(name); END IF;      -- deleted meanwhile
  SELECT * INTO decided FROM pgcron.occurrence o WHERE o.schedule_id = schedule AND o.fire_at = instant;
  SELECT * INTO waiting FROM pgcron.run r WHERE r.id = decided.run_id FOR UPDATE;
  is_decided := decided.schedule_id IS NOT NULL;
  IF is_decided AND decided.run_id IS NULL AND decided.decision = 'skipped' AND instant > clock_timestamp() THEN
    RETURN;
  ELSIF waiting.state <> 'running' AND waiting.attempt = 0 THEN
    run := waiting.id;
  ELSIF is_decided THEN
    PERFORM pgcron.refuse('PC011', format('the fire of schedule %L at %s %s', left(name, 200), instant,
        CASE WHEN waiting.state = 'running' THEN format('is executed as run %s', waiting.id) WHEN waiting.id IS NOT NULL THEN format('has begun as run %s', waiting.id)
             WHEN decided.decision = 'run' THEN format('has ended as run %s', decided.run_id) ELSE 'was decided: ' || decided.decision END),
      'Only a fire that has not begun can be changed.', 'Cancel its run, or run the schedule again: pgcron.run_now.');
  ELSIF instant <= clock_timestamp() THEN
    PERFORM pgcron.refuse('PC011', format('%s is over', instant), 'Only a fire to come can be changed.', 'pgcron.run_now runs the schedule for any fire time.');
  ELSIF instant <= fires.watermark THEN
    PERFORM pgcron.refuse('PC001', format('schedule %L does not fire at %s', left(name, 200), instant), format('Its fires are decided up to %s, and this is none of them.', fires.watermark),
                          '`pgcron-ha schedules show` lists the next ones.');
  ELSIF instant > '9998-12-31 00:00Z' THEN
    PERFORM pgcron.refuse('PC001', format('%s is outside of the calendar', instant), 'Schedules fire in the years 1900 to 9998.', 'Name a fire of the schedule.');
  END IF;
END $$;

CREATE FUNCTION pgcron.look_at_breakers() RETURNS TABLE(name text, state text, handlers text[], fallback_queue text, is_probe_due boolean, seconds double precision, reason text, last_error text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  probed pgcron.breaker;
BEGIN
  FOR probed IN SELECT b.* FROM pgcron.breaker b WHERE b.state = 'half_open' AND pgcron.breaker_is_fine(b) ORDER BY b.name FOR UPDATE SKIP LOCKED LOOP
    CONTINUE WHEN EXISTS (SELECT FROM pgcron.run r WHERE r.id = probed.probe_run AND r.fence = probed.probe_fence);
    IF EXISTS (SELECT FROM pgcron.history h WHERE h.id = probed.probe_run AND h.fence = probed.probe_fence AND h.outcome = 'succeeded')
       OR EXISTS (SELECT FROM pgcron.history_overflow h WHERE h.id = probed.probe_run AND h.fence = probed.probe_fence AND h.outcome = 'succeeded') THEN
      PERFORM pgcron.close_breaker(probed.name);
    ELSE
      UPDATE pgcron.breaker b SET state = 'open', probe_run = NULL, probe_fence = NULL WHERE b.name = probed.name;
    END IF;
  END LOOP;
  RETURN QUERY
    SELECT b.name, b.state, ARRAY(SELECT m.handler FROM pgcron.breaker_handler m WHERE m.breaker = b.name ORDER BY m.handler), b.fallback_queue,
           b.state = 'open' AND b.open_until <= clock_timestamp(),
           extract(epoch FROM b.open_until - clock_timestamp())::float8, b.reason, b.last_error
      FROM pgcron.breaker b WHERE b.state <> 'closed' AND pgcron.breaker_is_fine(b) ORDER BY b.name;
END $$;

CREATE FUNCTION pgcron.look_for_end(run_id bigint, OUT ended boolean, OUT state text, OUT result jsonb, OUT error text) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  is_own boolean;
BEGIN
  SELECT false, l.state, l.is_own INTO ended, state, is_own FROM pgcron.live_state(look_for_end.run_id) l;
  IF NOT FOUND THEN
    SELECT true, s.state, s.result, s.error INTO ended, state, result, error FROM pgcron.run_status(look_for_end.run_id) s;
    IF NOT FOUND THEN
      PERFORM pgcron.refuse('PC010', format('run %s does not exist', look_for_end.run_id), 'There is no such run, or it is not yours and you may not read those of others, or its history is no longer kept.',
                            'pgcron.enqueue gives the id of a run.');
    END IF;
  ELSIF is_own THEN
    PERFORM pgcron.refuse('PC011', format('run %s was made or changed by this very transaction', look_for_end.run_id),
                          'Until it is committed no node sees it: it would be waited for in vain.', 'Commit first, then wait.');
  ELSIF current_setting('transaction_isolation') NOT LIKE 'read %' THEN
    PERFORM pgcron.refuse('PC011', format('run %s is not over for this transaction, and never will be', look_for_end.run_id),
                          format('With isolation level %s a transaction sees what there was when it began.', current_setting('transaction_isolation')), 'Wait outside of it, or with READ COMMITTED.');
  END IF;
END $$;

CREATE FUNCTION pgcron.may_read_run(created_by text) RETURNS boolean
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT ((created_by = SESSION_USER) OR has_table_privilege(SESSION_USER, 'pgcron.history'::text, 'SELECT'::text));
END;

CREATE FUNCTION pgcron.move_occurrence(name text, instant timestamp with time zone, "to" timestamp with time zone, note text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF ("to" > clock_timestamp() AND "to" <= '9998-12-31 00:00Z' AND "to" <> instant) IS NOT TRUE THEN
    PERFORM pgcron.refuse('PC001', format('a fire can''t be moved from %s to %s', instant, coalesce("to"::text, 'NULL')), 'It is moved to another instant to come.',
                          'Skip it, and run the schedule for it now: pgcron.run_now(name, fire_time => …).');
  END IF;
  PERFORM pgcron.override_occurrence(move_occurrence.name, move_occurrence.instant,
    ROW(NULL, NULL, 'move', "to", NULL, move_occurrence.note, coalesce(move_occurrence.actor, session_user), NULL)::pgcron.occurrence_override);
END $$;

COMMENT ON FUNCTION pgcron.move_occurrence(name text, instant timestamp with time zone, "to" timestamp with time zone, note text, actor text) IS 'One fire to come is due at another instant; it stays the fire of its own.';

CREATE FUNCTION pgcron.next_waiting_queue(beyond text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT min(next.queue) FROM (
    (SELECT r.queue FROM pgcron.run r WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL AND r.overlap IS NULL
        AND r.delivery = 'at_least_once' AND r.queue > next_waiting_queue.beyond ORDER BY r.queue LIMIT 1)
    UNION ALL
    (SELECT r.queue FROM pgcron.run r WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL AND r.overlap IS NULL
        AND r.delivery <> 'at_least_once' AND r.queue > next_waiting_queue.beyond ORDER BY r.queue LIMIT 1)
    UNION ALL
    (SELECT r.queue FROM pgcron.run r WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL AND r.overlap IS NOT NULL
        AND r.queue > next_waiting_queue.beyond ORDER BY r.queue LIMIT 1)
    UNION ALL
    (SELECT r.queue FROM pgcron.run r WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NOT NULL
        AND r.queue > next_waiting_queue.beyond ORDER BY r.queue LIMIT 1)
    UNION ALL
    (SELECT r.queue FROM pgcron.run r WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NOT NULL
        AND r.queue > next_waiting_queue.beyond ORDER BY r.queue LIMIT 1)) next $$;

CREATE FUNCTION pgcron.note_fire_failure(ended pgcron.run, error text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  INSERT INTO pgcron.fire_failure (run_id, schedule_id, failed_at, error)
  SELECT ended.id, s.id, clock_timestamp(), left(note_fire_failure.error, 200) FROM pgcron.schedule s WHERE s.id = ended.schedule_id AND s.pause_after_failures IS NOT NULL
  ON CONFLICT DO NOTHING;
  IF FOUND THEN PERFORM pgcron.notify(pgcron.channel(), 'schedule'); END IF;
END $$;

CREATE FUNCTION pgcron.note_given_back(partition text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH noted AS (
    UPDATE pgcron.retention_sweep s SET gone = 0 WHERE s.partition = note_given_back.partition AND pg_relation_size(to_regclass(format('pgcron.%I', s.partition))) < s.bytes * 0.75 RETURNING s.partition)
  SELECT EXISTS (SELECT FROM noted) $$;

CREATE FUNCTION pgcron.notice_overruns(at_most integer) RETURNS TABLE(run_id bigint, schedule text, expected interval, taken interval)
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH long AS MATERIALIZED (
    SELECT r.id, r.schedule_id, r.schedule, now() - r.started_at AS taken FROM pgcron.run r
     WHERE r.state = 'running' AND r.owner IS NOT NULL AND r.schedule_id IS NOT NULL AND r.started_at < now() - interval '10 seconds'
       AND NOT EXISTS (SELECT FROM pgcron.overrun o WHERE o.run_id = r.id)
     ORDER BY random() LIMIT notice_overruns.at_most),
  expected AS MATERIALIZED (
    SELECT s.schedule_id, pgcron.expected_duration(s.schedule_id) AS length FROM (SELECT DISTINCT l.schedule_id FROM long l) s),
  noticed AS (
    INSERT INTO pgcron.overrun AS o (run_id, schedule_id, expected)
    SELECT l.id, l.schedule_id, e.length FROM long l JOIN expected e ON e.schedule_id = l.schedule_id WHERE l.taken > e.length ORDER BY l.id
    ON CONFLICT DO NOTHING RETURNING o.run_id, o.expected)
  SELECT n.run_id, l.schedule, n.expected, l.taken FROM noticed n JOIN long l ON l.id = n.run_id $$;

COMMENT ON FUNCTION pgcron.notice_overruns(at_most integer) IS 'Notes runs that execute for longer than expected, each once, and returns those that are new.';

CREATE FUNCTION pgcron.notify(channel text, payload text) RETURNS void
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT pg_notify(channel, payload) AS pg_notify
   WHERE (pg_notification_queue_usage() < (0.5)::double precision);
END;

COMMENT ON FUNCTION pgcron.notify(channel text, payload text) IS 'NOTIFY, but for a server whose queue of notifications is half full: then what is told is found by looking.';

CREATE FUNCTION pgcron.oldest_program() RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT 'pgcron_0001'::text $$;

COMMENT ON FUNCTION pgcron.oldest_program() IS 'Programs work with this schema if they bring this revision or a later one; older ones refuse to begin.';

CREATE FUNCTION pgcron.open_breaker(name text, failure text, because text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  UPDATE pgcron.breaker b
     SET state = 'open', opened_at = CASE WHEN b.state = 'closed' THEN clock_timestamp() ELSE b.opened_at END, openings = b.openings + 1,
         open_until = clock_timestamp() + least(b.open_for * power(2, least(b.openings, 20)), b.open_for_at_most),
         reason = because, last_error = left(failure, 500), failed_at = '{}', probe_run = NULL, probe_fence = NULL
   WHERE b.name = open_breaker.name;
  PERFORM pgcron.notify(pgcron.channel(), 'breaker');
END $$;

CREATE FUNCTION pgcron.outlived_partitions() RETURNS TABLE(relation text, partition text)
    LANGUAGE sql STABLE
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT kept.relation, c.relname::text
  FROM pgcron.retention kept
  JOIN pg_catalog.pg_inherits i ON i.inhparent = format('pgcron.%I', kept.relation)::regclass
  JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
  WHERE c.relname <> kept.relation || '_before'
    AND (regexp_match(pg_get_expr(c.relpartbound, c.oid), E'TO \\(''([^'']+)''\\)'))[1]::timestamptz < now() - kept.keep
  ORDER BY 1, 2 $$;

CREATE FUNCTION pgcron.overlap_room(schedule_id bigint, overlap text, most integer, OUT room integer, OUT open smallint[]) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT r.room, CASE WHEN r.room > 0 THEN
           ARRAY(SELECT slot::smallint FROM generate_series(1, least(held.runs + least(r.room, overlap_room.most), 32767)) slot
                  WHERE held.taken IS NULL OR slot <> ALL (held.taken) ORDER BY slot) END
    FROM (SELECT count(*)::int AS runs, array_agg(h.overlap_slot) FILTER (WHERE h.overlap_slot IS NOT NULL) AS taken FROM (
            SELECT o.overlap_slot FROM pgcron.run o WHERE o.schedule_id = overlap_room.schedule_id AND o.overlap_slot IS NOT NULL
            UNION ALL
            SELECT NULL FROM pgcron.run o JOIN pgcron.schedule s ON s.id = o.schedule_id
             WHERE o.schedule_id = overlap_room.schedule_id AND o.state = 'running' AND o.overlap IS NULL AND s.overlap = 'allow' AND s.max_running IS NULL) h) held
    LEFT JOIN pgcron.schedule s ON s.id = overlap_room.schedule_id
   CROSS JOIN LATERAL (
     SELECT CASE WHEN overlap_room.overlap IN ('skip', 'replace', 'terminate') THEN (held.runs = 0)::int
                 WHEN overlap_room.overlap = 'allow' THEN coalesce(s.max_running, 32767) - held.runs
                 ELSE coalesce(s.max_running, 1) - held.runs END AS room) r $$;

CREATE FUNCTION pgcron.override_occurrence(name text, instant timestamp with time zone, wanted pgcron.occurrence_override) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
  held record := pgcron.lock_occurrence(name, instant);
  known pgcron.occurrence_override;
  made_due timestamptz;
  earliest timestamptz := instant - (SELECT r.ahead - interval '1 day' FROM pgcron.retention r WHERE r.relation = 'occurrence');
BEGIN
  SELECT * INTO known FROM pgcron.occurrence_override o WHERE o.schedule_id = held.schedule AND o.fire_at = instant FOR UPDATE;
  IF wanted.action IS NULL THEN
    IF known.action IS NULL THEN
      PERFORM pgcron.refuse('PC010', format('nobody has changed the fire of schedule %L at %s', left(name, 200), instant), 'Only a fire that was skipped, moved or given other args is restored.',
                            'SELECT * FROM pgcron.occurrence_override lists them.');
    END IF;
    DELETE FROM pgcron.occurrence_override o WHERE o.schedule_id = held.schedule AND o.fire_at = instant;
  ELSE
    IF known.action = 'skip' AND wanted.action <> 'skip' THEN
      PERFORM pgcron.refuse('PC011', format('the fire of schedule %L at %s is skipped', left(name, 200), instant), format('%s skipped it.', known.actor), 'Restore it first: pgcron.restore_occurrence.');
    ELSIF wanted.action = 'edit' AND known.action = 'move' THEN
      wanted.action := 'move'; wanted.due_at := known.due_at;
    ELSIF wanted.action = 'move' THEN
      wanted.args := known.args;
    END IF;
    IF wanted.due_at < earliest THEN      -- it would become a run before the ledger has a partition for it
      PERFORM pgcron.refuse('PC001', format('the fire of schedule %L at %s can''t run as early as %s', left(name, 200), instant, wanted.due_at),
        format('The ledger is kept so far ahead that it can run from %s on (ahead of occurrence in pgcron.retention).', earliest), 'Skip it, and run the schedule for it then: pgcron.run_now(name, fire_time => …).');
    END IF;
    INSERT INTO pgcron.occurrence_override AS o (schedule_id, fire_at, action, due_at, args, note, actor)
    VALUES (held.schedule, instant, wanted.action, wanted.due_at, wanted.args, left(wanted.note, 500), wanted.actor)
    ON CONFLICT (schedule_id, fire_at) DO UPDATE SET action = EXCLUDED.action, due_at = EXCLUDED.due_at, args = EXCLUDED.args, note = EXCLUDED.note, actor = EXCLUDED.actor, at = now();
  END IF;
  IF held.is_decided AND instant > clock_timestamp() AND (held.run IS NULL OR (SELECT r.due_at > clock_timestamp() FROM pgcron.run r WHERE r.id = held.run)) THEN
    PERFORM pgcron.apply_edit(held.schedule);      -- it becomes a run, or none, as every fire after an edit
    PERFORM pgcron.notify(pgcron.channel(), 'schedule');
  ELSIF held.run IS NOT NULL AND wanted.action = 'skip' THEN
    PERFORM pgcron.end_waiting_runs(ARRAY[held.run], 'skipped', pgcron.override_words('skip', NULL, wanted.actor, wanted.note));
  ELSIF held.run IS NOT NULL THEN      -- its fire time is over, and it waits to be due, or for a node
    made_due := CASE WHEN wanted.due_at IS NOT NULL THEN wanted.due_at WHEN wanted.action IS NULL THEN now() ELSE (SELECT r.due_at FROM pgcron.run r WHERE r.id = held.run) END;
    UPDATE pgcron.run r SET due_at = made_due, expire_at = r.expire_at + (made_due - r.due_at), time_limits = pgcron.time_limits_from(r.time_limits, made_due),
           args = coalesce(wanted.args, (SELECT s.args FROM pgcron.schedule s WHERE s.id = held.schedule))
     WHERE r.id = held.run;
    UPDATE pgcron.occurrence o SET reason = CASE WHEN wanted.action IS NOT NULL THEN pgcron.override_words(wanted.action, wanted.due_at, wanted.actor, wanted.note) END
     WHERE o.schedule_id = held.schedule AND o.fire_at = instant;
  END IF;
END $$;

CREATE FUNCTION pgcron.override_words(action text, due_at timestamp with time zone, actor text, note text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT concat_ws(': ', CASE action WHEN 'skip' THEN 'skipped by ' || actor WHEN 'edit' THEN 'other args by ' || actor
                                     ELSE format('moved to %s by %s', to_char(due_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), actor) END, note) $$;

CREATE FUNCTION pgcron.owner_of(door text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT CASE WHEN door IN ('code', 'file', 'cli', 'ui') THEN door ELSE 'sql' END $$;

CREATE FUNCTION pgcron.owner_puts_back(managed_by text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT CASE managed_by WHEN 'code' THEN 'The next start of a node with that application puts it back as the code has it, but for a pause.'
                         WHEN 'file' THEN 'The next `pgcron-ha schedules apply` of that file puts it back as the file has it.'
                         ELSE 'The edit stays; whoever looks after it there may not expect it.' END $$;

CREATE FUNCTION pgcron.owner_words(managed_by text) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT CASE managed_by WHEN 'code' THEN 'the code of an application' WHEN 'file' THEN 'a file' WHEN 'ui' THEN 'the pages' WHEN 'cli' THEN 'the command line' ELSE 'SQL' END $$;

CREATE FUNCTION pgcron.park_lanes(queues text[], lanes text[], priorities smallint[], handlers text[]) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN (SELECT count(*) FROM pgcron.set_hold(ARRAY(
     SELECT p.id FROM pgcron.run p
      WHERE p.state = 'ready' AND p.hold IS NULL AND p.id = ANY(ARRAY(
        SELECT alike.id FROM unnest(park_lanes.queues, park_lanes.lanes, park_lanes.priorities) pair(queue, lane, priority)
         CROSS JOIN LATERAL (
           SELECT c.handler, c.requires FROM pgcron.run c
            WHERE c.state = 'ready' AND c.hold IS NULL AND c.lane IS NOT NULL AND c.queue = pair.queue AND c.lane = pair.lane AND c.priority = pair.priority
              AND c.due_at <= now() ORDER BY c.due_at, c.id LIMIT 1) head
         CROSS JOIN LATERAL (
           SELECT c.id, c.handler, c.requires FROM pgcron.run c
            WHERE c.state = 'ready' AND c.hold IS NULL AND c.lane IS NOT NULL AND c.queue = pair.queue AND c.lane = pair.lane AND c.priority = pair.priority
              AND c.due_at <= now() ORDER BY c.due_at, c.id LIMIT 1000) alike
         WHERE (head.handler <> ALL(park_lanes.handlers) OR head.requires IS NOT NULL) AND NOT pgcron.is_served(head.handler, pair.queue, head.requires)
           AND alike.handler = head.handler AND alike.requires IS NOT DISTINCT FROM head.requires
         LIMIT 1000))
      FOR UPDATE SKIP LOCKED), 'unserved'));
END $$;

CREATE FUNCTION pgcron.partitions_end(relation text) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT max((regexp_match(pg_get_expr(c.relpartbound, c.oid), E'TO \\(''([^'']+)''\\)'))[1]::timestamptz)
  FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
  WHERE i.inhparent = format('pgcron.%I', relation)::regclass $$;

CREATE FUNCTION pgcron.path_heads(queue text, priority smallint, look integer) RETURNS TABLE(id bigint, handler text)
    LANGUAGE sql STABLE ROWS 10
    BEGIN ATOMIC
( SELECT c.id,
     c.handler
    FROM pgcron.run c
   WHERE ((c.state = 'ready'::text) AND (c.hold IS NULL) AND (c.lane IS NULL) AND (c.requires IS NULL) AND (c.overlap IS NULL) AND (c.delivery = 'at_least_once'::text) AND (c.queue = path_heads.queue) AND (c.priority = path_heads.priority) AND (c.due_at <= now()))
   ORDER BY c.due_at, c.id
  LIMIT path_heads.look)
 UNION ALL
 ( SELECT c.id,
     c.handler
    FROM pgcron.run c
   WHERE ((c.state = 'ready'::text) AND (c.hold IS NULL) AND (c.lane IS NULL) AND (c.requires IS NULL) AND (c.overlap IS NOT NULL) AND (c.queue = path_heads.queue) AND (c.priority = path_heads.priority) AND (c.due_at <= now()))
   ORDER BY c.due_at, c.id
  LIMIT path_heads.look)
 UNION ALL
 ( SELECT c.id,
     c.handler
    FROM pgcron.run c
   WHERE ((c.state = 'ready'::text) AND (c.hold IS NULL) AND (c.lane IS NULL) AND (c.requires IS NULL) AND (c.overlap IS NULL) AND (c.delivery <> 'at_least_once'::text) AND (c.queue = path_heads.queue) AND (c.priority = path_heads.priority) AND (c.due_at <= now()))
   ORDER BY c.due_at, c.id
  LIMIT path_heads.look);
END;

CREATE FUNCTION pgcron.pause_backfill(backfill bigint, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  held pgcron.backfill := pgcron.hold_backfill(pause_backfill.backfill, 'paused');
BEGIN
  UPDATE pgcron.backfill b SET state = 'paused', changed_at = now(), changed_by = coalesce(pause_backfill.actor, session_user) WHERE b.id = held.id AND b.state = 'open';
END $$;

COMMENT ON FUNCTION pgcron.pause_backfill(backfill bigint, actor text) IS 'Makes no more runs of a backfill until it is resumed.';

CREATE FUNCTION pgcron.pause_for_failures(failing bigint, failures integer, latest text, error text) RETURNS text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE pgcron.schedule s SET enabled = false, paused_until = NULL,
         paused_note = format('paused after %s in a row (last: %s)', CASE failures WHEN 1 THEN '1 failure' ELSE failures || ' failures' END, concat_ws(': ', latest, left(pause_for_failures.error, 200)))
   WHERE s.id = failing RETURNING s.paused_note $$;

CREATE FUNCTION pgcron.pause_of_look(looks integer, until timestamp with time zone) RETURNS double precision
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT greatest(0, least(0.5, 0.01 * 1.5 ^ least(looks, 20), extract(epoch FROM until - clock_timestamp())))::float8 $$;

CREATE FUNCTION pgcron.pause_queue(name text, note text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  INSERT INTO pgcron.queue AS q (name, paused_at, paused_by, paused_note) VALUES (pause_queue.name, now(), coalesce(pause_queue.actor, session_user), pause_queue.note)
  ON CONFLICT (name) DO UPDATE SET paused_at = coalesce(q.paused_at, EXCLUDED.paused_at), paused_by = EXCLUDED.paused_by, paused_note = EXCLUDED.paused_note $$;

COMMENT ON FUNCTION pgcron.pause_queue(name text, note text, actor text) IS 'Nobody claims from the queue until it is resumed; what runs goes on.';

CREATE FUNCTION pgcron.pause_schedule(name text, note text DEFAULT NULL::text, actor text DEFAULT NULL::text, door text DEFAULT NULL::text, until timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.act_as(pause_schedule.actor, pause_schedule.door);
  UPDATE pgcron.schedule SET enabled = false, paused_note = note, paused_until = until WHERE id = pgcron.schedule_id(pause_schedule.name);
END $$;

COMMENT ON FUNCTION pgcron.pause_schedule(name text, note text, actor text, door text, until timestamp with time zone) IS 'No fires from now on; those that pass meanwhile are one missed range with the note.';

CREATE FUNCTION pgcron.pause_was_changed(paused pgcron.schedule) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE pgcron.cursor c SET pause_note = concat_ws(': ', paused.paused_by, paused.paused_note), paused_until = paused.paused_until
   WHERE c.schedule_id = paused.id AND (c.pause_note, c.paused_until) IS DISTINCT FROM (concat_ws(': ', paused.paused_by, paused.paused_note), paused.paused_until) $$;

CREATE FUNCTION pgcron.policy_delay(policy jsonb, attempt integer, base interval, cap interval) RETURNS interval
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  backoff text := CASE WHEN jsonb_typeof(policy -> 'backoff') = 'array' THEN 'list' ELSE coalesce(policy ->> 'backoff', 'exponential') END;
  longest interval;
BEGIN
  base := coalesce(pgcron.policy_interval(policy -> 'base'), base);
  cap := coalesce(pgcron.policy_interval(policy -> 'cap'), cap);
  longest := CASE backoff WHEN 'exponential' THEN least(cap, base * power(2, least(attempt, 20) - 1))
                          WHEN 'linear' THEN least(cap, base * attempt)
                          WHEN 'fixed' THEN least(cap, base)
                          ELSE pgcron.policy_interval(policy -> 'backoff' -> (least(attempt, jsonb_array_length(policy -> 'backoff')) - 1)) END;
  RETURN longest * CASE WHEN coalesce((policy ->> 'jitter')::boolean, backoff IN ('exponential', 'linear')) THEN random() ELSE 1 END;
END $$;

CREATE FUNCTION pgcron.policy_interval(written jsonb) RETURNS interval
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  CASE jsonb_typeof(written)
    WHEN 'number' THEN RETURN CASE WHEN written::numeric BETWEEN 0 AND 31622400 THEN make_interval(secs => written::float8) END;
    WHEN 'string' THEN RETURN pgcron.interval_or_null(written #>> '{}');
    ELSE RETURN NULL;
  END CASE;
END $$;

CREATE FUNCTION pgcron.preview(schedule text, count integer DEFAULT 5) RETURNS TABLE(fire_at timestamp with time zone, local text, note text, sentence text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  state pgcron.cursor;
  row_found pgcron.schedule_preview;
  wrong jsonb;
  shown int;
BEGIN
  IF count IS NULL OR count NOT BETWEEN 1 AND 20 THEN
    PERFORM pgcron.refuse('PC001', format('count %s is out of range', coalesce(count::text, 'NULL')), 'Nodes keep the next 20 fires of a schedule.', 'Ask for 1 to 20; `pgcron-ha next` computes more.');
  END IF;
  SELECT * INTO state FROM pgcron.cursor c WHERE c.schedule_id = pgcron.schedule_id(preview.schedule);
  SELECT * INTO row_found FROM pgcron.schedule_preview p WHERE p.schedule_id = state.schedule_id AND p.generation = state.generation AND NOT state.edit_is_pending;
  wrong := coalesce(state.error, row_found.error);
  IF wrong IS NOT NULL THEN
    PERFORM pgcron.refuse(coalesce(wrong ->> 'sqlstate', 'PC002'), format('schedule %L: %s', left(preview.schedule, 200), wrong ->> 'message'), wrong ->> 'detail', wrong ->> 'hint');
  END IF;
  RETURN QUERY
    SELECT (f.fire ->> 'at')::timestamptz, f.fire ->> 'local',
           nullif(concat_ws('; ', f.fire ->> 'note', CASE WHEN o.action IS NOT NULL THEN pgcron.override_words(o.action, o.due_at, o.actor, o.note) END), ''), row_found.sentence
      FROM jsonb_array_elements(row_found.fires) WITH ORDINALITY f(fire, place)
      LEFT JOIN pgcron.occurrence_override o ON o.schedule_id = state.schedule_id AND o.fire_at = (f.fire ->> 'at')::timestamptz
     WHERE coalesce(o.due_at, (f.fire ->> 'at')::timestamptz) > now() ORDER BY f.place LIMIT count;
  GET DIAGNOSTICS shown = ROW_COUNT;
  IF shown < count AND row_found.is_over IS DISTINCT FROM true THEN
    PERFORM pgcron.ask_preview(state.schedule_id);
  END IF;
  IF shown = 0 THEN
    RETURN QUERY SELECT NULL::timestamptz, NULL::text, CASE WHEN row_found.is_over THEN 'it never fires again' ELSE 'no node has judged it yet: ask again in some seconds' END, row_found.sentence;
  END IF;
END $$;

COMMENT ON FUNCTION pgcron.preview(schedule text, count integer) IS 'The next fires of a schedule with local time, offset and what the clock does to them, and the schedule in English, as nodes computed them; the note says what somebody has skipped, moved or given other args; raises what is wrong with one that no node can read (PC002, PC003 for its zone).';

CREATE FUNCTION pgcron.previous_of(run bigint, token uuid, OUT previous bigint, OUT fire_time timestamp with time zone, OUT outcome text, OUT finished_at timestamp with time zone, OUT result jsonb, OUT error text) RETURNS record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  working pgcron.run;
BEGIN
  SELECT r.* INTO working FROM pgcron.run r WHERE r.id = previous_of.run AND r.token = previous_of.token;
  IF NOT FOUND THEN PERFORM pgcron.refuse_claim(previous_of.run); END IF;
  SELECT p.run, p.fire_time, p.outcome, p.finished_at, p.result, p.error INTO previous, fire_time, outcome, finished_at, result, error
    FROM pgcron.previous_run(working.schedule_id, coalesce(working.scheduled_for, working.nominal_for)) p;
END $$;

COMMENT ON FUNCTION pgcron.previous_of(run bigint, token uuid, OUT previous bigint, OUT fire_time timestamp with time zone, OUT outcome text, OUT finished_at timestamp with time zone, OUT result jsonb, OUT error text) IS 'How the last run before this one''s fire time ended, and with what result, for a service or a statement that works for the run and has its token. Raises PC012 if that does not hold the run.';

CREATE FUNCTION pgcron.previous_run(schedule_id bigint, before timestamp with time zone, OUT run bigint, OUT fire_time timestamp with time zone, OUT outcome text, OUT finished_at timestamp with time zone, OUT result jsonb, OUT error text) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT o.run_id, o.fire_at, h.outcome, h.finished_at, h.result, h.error
    FROM pgcron.occurrence o
   CROSS JOIN LATERAL (SELECT e.* FROM pgcron.history e WHERE e.id = o.run_id AND e.finished_at >= o.decided_at - interval '1 day'
                       UNION ALL SELECT e.* FROM pgcron.history_overflow e WHERE e.id = o.run_id LIMIT 1) h
   WHERE o.schedule_id = previous_run.schedule_id AND o.fire_at < previous_run.before AND o.decision NOT IN ('skipped', 'superseded')
   ORDER BY o.fire_at DESC LIMIT 1 $$;

COMMENT ON FUNCTION pgcron.previous_run(schedule_id bigint, before timestamp with time zone, OUT run bigint, OUT fire_time timestamp with time zone, OUT outcome text, OUT finished_at timestamp with time zone, OUT result jsonb, OUT error text) IS 'How the last run before a fire time of a schedule ended, and with what result; runs by hand and skipped fires are not looked at.';

CREATE FUNCTION pgcron.prune_calendars(source text, kept text[], actor text DEFAULT NULL::text) RETURNS TABLE(name text, previous pgcron.calendar)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  outdated text[];
  used text;
  users text;
BEGIN
  PERFORM pgcron.act_as(prune_calendars.actor, 'file');
  PERFORM pgcron.lock_calendars();
  outdated := ARRAY(SELECT c.name FROM pgcron.calendar c WHERE c.source = prune_calendars.source AND c.name <> ALL(kept) ORDER BY c.id FOR UPDATE);
  FOREACH used IN ARRAY outdated LOOP
    users := pgcron.users_of_calendar(used, outdated);
    IF users IS NOT NULL THEN
      PERFORM pgcron.refuse('PC011', format('calendar %L is used, and no file of %L defines it any more', used, prune_calendars.source), 'By ' || users || '.',
        'Take it out of their specs first, or define it again; `pgcron-ha calendars put --take-over` makes it nobody''s.');
    END IF;
  END LOOP;
  RETURN QUERY DELETE FROM pgcron.calendar c WHERE c.name = ANY(outdated) RETURNING c.name, c;
END $$;

COMMENT ON FUNCTION pgcron.prune_calendars(source text, kept text[], actor text) IS 'Deletes the calendars that a source owns, but for those of these names; refused while others use them.';

CREATE FUNCTION pgcron.prune_schedules(source text, kept text[], actor text DEFAULT NULL::text) RETURNS TABLE(name text, previous pgcron.schedule)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.act_as(prune_schedules.actor, 'file');
  RETURN QUERY DELETE FROM pgcron.schedule s WHERE s.source = prune_schedules.source AND s.name <> ALL(kept) RETURNING s.name, s;
END $$;

COMMENT ON FUNCTION pgcron.prune_schedules(source text, kept text[], actor text) IS 'Deletes the schedules that a source owns, but for those of these names.';

CREATE FUNCTION pgcron.put_calendar(name text, content text, actor text DEFAULT NULL::text, door text DEFAULT NULL::text, take_over boolean DEFAULT false) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  changed text[];
  owner text;
  known bigint;
BEGIN
  IF num_nulls(put_calendar.name, put_calendar.content) > 0 THEN
    PERFORM pgcron.refuse('PC005', format('the %s of the calendar is NULL', CASE WHEN put_calendar.name IS NULL THEN 'name' ELSE 'content' END), 'A calendar has a name and a text.',
                          'Write for example pgcron.put_calendar(''holidays'', ''yearly 12-25'').');
  END IF;
  PERFORM pgcron.lock_calendars();
  PERFORM pgcron.act_as(put_calendar.actor, put_calendar.door);
  changed := pgcron.write_calendars(jsonb_build_object(put_calendar.name, put_calendar.content), put_calendar.actor);
  SELECT c.id, c.source INTO known, owner FROM pgcron.calendar c WHERE c.name = put_calendar.name;
  IF owner IS NOT NULL AND take_over THEN
    UPDATE pgcron.calendar c SET source = NULL, version = c.version + (cardinality(changed) = 0)::int WHERE c.id = known;
  ELSIF owner IS NOT NULL AND cardinality(changed) > 0 THEN
    RAISE NOTICE USING ERRCODE = '01PC1', MESSAGE = format('calendar %L is defined by the files of %L, and was edited through %s', put_calendar.name, owner, pgcron.door()),
      DETAIL = pgcron.owner_puts_back('file'), HINT = 'Edit it there; or make it nobody''s: take_over (`pgcron-ha calendars put --take-over`).';
  END IF;
  RETURN known;
END $$;

COMMENT ON FUNCTION pgcron.put_calendar(name text, content text, actor text, door text, take_over boolean) IS 'Makes or changes a calendar; returns its id. The future runs of the schedules that use it are made again. Refuses a calendar that contains itself; with take_over no file owns it any more.';

CREATE FUNCTION pgcron.put_defined_schedule(definition jsonb, existing pgcron.schedule, defaults jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
  wanted jsonb := defaults || (definition - '{managed_by,source}'::text[]);      -- whose it is says the caller, not the file
  columns text;
  refusal text;
  rule text;
  advice text;
BEGIN
  IF existing.id IS NULL THEN
    SELECT string_agg(quote_ident(w.key), ', ') INTO columns FROM jsonb_each(wanted) w;
    EXECUTE format('INSERT INTO pgcron.schedule (%1$s) SELECT %1$s FROM jsonb_populate_record(NULL::pgcron.schedule, $1)', columns) USING wanted;
    RETURN;
  END IF;
  IF NOT definition ? 'enabled' THEN      -- a pause outlives what files say of everything else
    wanted := wanted - 'enabled';
  END IF;
  wanted := to_jsonb(jsonb_populate_record(existing, wanted));
  SELECT string_agg(quote_ident(a.attname), ', ') INTO columns      -- a day is 24 hours, however it is written
    FROM pg_attribute a, to_jsonb(existing) e
   WHERE a.attrelid = 'pgcron.schedule'::regclass AND a.attnum > 0 AND wanted ? a.attname AND wanted -> a.attname IS DISTINCT FROM e -> a.attname
     AND NOT coalesce(CASE WHEN a.atttypid = 'interval'::regtype THEN (wanted ->> a.attname)::interval = (e ->> a.attname)::interval END, false);
  IF columns IS NOT NULL THEN
    EXECUTE format('UPDATE pgcron.schedule SET (%1$s) = (SELECT %1$s FROM jsonb_populate_record(NULL::pgcron.schedule, $1)) WHERE id = $2', columns)
      USING wanted, existing.id;
  END IF;
EXCEPTION WHEN data_exception OR not_null_violation THEN
  PERFORM pgcron.refuse_value(definition ->> 'name', SQLERRM);
WHEN OTHERS THEN      -- one of many is at fault: which
  GET STACKED DIAGNOSTICS refusal = MESSAGE_TEXT, rule = PG_EXCEPTION_DETAIL, advice = PG_EXCEPTION_HINT;
  RAISE EXCEPTION USING ERRCODE = SQLSTATE, MESSAGE = format('schedule %L: %s', left(definition ->> 'name', 200), refusal), DETAIL = rule, HINT = advice;
END $_$;

CREATE FUNCTION pgcron.put_schedule(name text, spec text, handler text, args jsonb DEFAULT NULL::jsonb, timezone text DEFAULT NULL::text, dst text DEFAULT NULL::text, queue text DEFAULT NULL::text, priority integer DEFAULT NULL::integer, enabled boolean DEFAULT NULL::boolean, overlap text DEFAULT NULL::text, catchup text DEFAULT NULL::text, catchup_window interval DEFAULT NULL::interval, start_deadline interval DEFAULT NULL::interval, timeout interval DEFAULT NULL::interval, max_attempts integer DEFAULT NULL::integer, retry_base interval DEFAULT NULL::interval, retry_cap interval DEFAULT NULL::interval, retry jsonb DEFAULT NULL::jsonb, delivery text DEFAULT NULL::text, managed_by text DEFAULT NULL::text, actor text DEFAULT NULL::text, door text DEFAULT NULL::text, lane text DEFAULT NULL::text, requires text[] DEFAULT NULL::text[], give_up_after interval DEFAULT NULL::interval, silence_timeout interval DEFAULT NULL::interval, weight integer DEFAULT NULL::integer, expected_version integer DEFAULT NULL::integer, max_running integer DEFAULT NULL::integer, max_queued integer DEFAULT NULL::integer, queue_drops text DEFAULT NULL::text, after_pause text DEFAULT NULL::text, jitter interval DEFAULT NULL::interval, spread_window interval DEFAULT NULL::interval, max_runs integer DEFAULT NULL::integer, pause_after_failures integer DEFAULT NULL::integer, probe_after interval DEFAULT NULL::interval, depends_on_previous boolean DEFAULT NULL::boolean) RETURNS bigint
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.act_as(put_schedule.actor, put_schedule.door);
  SELECT pgcron.expect_version(put_schedule.name, put_schedule.expected_version);
  INSERT INTO pgcron.schedule AS existing (name, spec, handler, args, timezone, dst, queue, priority, enabled, overlap, catchup, catchup_window,
                                           start_deadline, timeout, max_attempts, retry_base, retry_cap, retry, delivery, managed_by, lane, requires, give_up_after, silence_timeout, weight,
                                           max_running, max_queued, queue_drops,
                                           after_pause,
                                           jitter, spread_window, max_runs,
                                           pause_after_failures, probe_after, depends_on_previous)
  VALUES (put_schedule.name, put_schedule.spec, put_schedule.handler, coalesce(put_schedule.args, '{}'), coalesce(put_schedule.timezone, 'UTC'),
          coalesce(put_schedule.dst, 'vixie'), coalesce(put_schedule.queue, 'default'), coalesce(put_schedule.priority, 5),
          coalesce(put_schedule.enabled, true), coalesce(put_schedule.overlap, 'skip'), coalesce(put_schedule.catchup, 'latest'),
          coalesce(put_schedule.catchup_window, '1 hour'), put_schedule.start_deadline, coalesce(put_schedule.timeout, '1 hour'),
          put_schedule.max_attempts, coalesce(put_schedule.retry_base, '2 seconds'), coalesce(put_schedule.retry_cap, '1 hour'),
          nullif(put_schedule.retry, '{}'), coalesce(put_schedule.delivery, 'at_least_once'), coalesce(put_schedule.managed_by, pgcron.owner_of(pgcron.door())), nullif(put_schedule.lane, ''),
          nullif(put_schedule.requires, '{}'),
          put_schedule.give_up_after, put_schedule.silence_timeout,
          coalesce(put_schedule.weight, 1),
          nullif(put_schedule.max_running, 0), nullif(put_schedule.max_queued, 0), nullif(put_schedule.queue_drops, ''),
          coalesce(put_schedule.after_pause, 'drop'),
          nullif(put_schedule.jitter, '0'), nullif(put_schedule.spread_window, '0'), nullif(put_schedule.max_runs, 0),
          nullif(put_schedule.pause_after_failures, 0), nullif(put_schedule.probe_after, '0'),
          coalesce(put_schedule.depends_on_previous, false))
  ON CONFLICT (name) DO UPDATE SET
    name = CASE WHEN put_schedule.expected_version = 0 THEN pgcron.refuse_version(existing, 0) ELSE existing.name END,      -- created meanwhile
    spec = put_schedule.spec, handler = put_schedule.handler, args = coalesce(put_schedule.args, existing.args),
    timezone = coalesce(put_schedule.timezone, existing.timezone), dst = coalesce(put_schedule.dst, existing.dst),
    queue = coalesce(put_schedule.queue, existing.queue), priority = coalesce(put_schedule.priority, existing.priority),
    enabled = coalesce(put_schedule.enabled, existing.enabled), overlap = coalesce(put_schedule.overlap, existing.overlap),
    catchup = coalesce(put_schedule.catchup, existing.catchup), catchup_window = coalesce(put_schedule.catchup_window, existing.catchup_window),
    start_deadline = coalesce(put_schedule.start_deadline, existing.start_deadline), timeout = coalesce(put_schedule.timeout, existing.timeout),
    max_attempts = coalesce(put_schedule.max_attempts, existing.max_attempts), retry_base = coalesce(put_schedule.retry_base, existing.retry_base),
    retry_cap = coalesce(put_schedule.retry_cap, existing.retry_cap), retry = nullif(coalesce(put_schedule.retry, existing.retry), '{}'), delivery = coalesce(put_schedule.delivery, existing.delivery),
    managed_by = coalesce(put_schedule.managed_by, existing.managed_by), lane = CASE WHEN put_schedule.lane IS NULL THEN existing.lane ELSE nullif(put_schedule.lane, '') END,
    requires = CASE WHEN put_schedule.requires IS NULL THEN existing.requires ELSE nullif(put_schedule.requires, '{}') END,
    give_up_after = coalesce(put_schedule.give_up_after, existing.give_up_after), silence_timeout = coalesce(put_schedule.silence_timeout, existing.silence_timeout),
    weight = coalesce(put_schedule.weight, existing.weight),
    max_running = nullif(coalesce(put_schedule.max_running, existing.max_running), 0),
    max_queued = nullif(coalesce(put_schedule.max_queued, existing.max_queued), 0),
    queue_drops = nullif(coalesce(put_schedule.queue_drops, existing.queue_drops), ''),
    after_pause = coalesce(put_schedule.after_pause, existing.after_pause),
    jitter = nullif(coalesce(put_schedule.jitter, existing.jitter), '0'), spread_window = nullif(coalesce(put_schedule.spread_window, existing.spread_window), '0'),
    max_runs = nullif(coalesce(put_schedule.max_runs, existing.max_runs), 0),
    pause_after_failures = nullif(coalesce(put_schedule.pause_after_failures, existing.pause_after_failures), 0),
    probe_after = CASE WHEN put_schedule.pause_after_failures = 0 AND put_schedule.probe_after IS NULL THEN NULL ELSE nullif(coalesce(put_schedule.probe_after, existing.probe_after), '0') END,
    depends_on_previous = coalesce(put_schedule.depends_on_previous, existing.depends_on_previous)
  RETURNING id $$;

COMMENT ON FUNCTION pgcron.put_schedule(name text, spec text, handler text, args jsonb, timezone text, dst text, queue text, priority integer, enabled boolean, overlap text, catchup text, catchup_window interval, start_deadline interval, timeout interval, max_attempts integer, retry_base interval, retry_cap interval, retry jsonb, delivery text, managed_by text, actor text, door text, lane text, requires text[], give_up_after interval, silence_timeout interval, weight integer, expected_version integer, max_running integer, max_queued integer, queue_drops text, after_pause text, jitter interval, spread_window interval, max_runs integer, pause_after_failures integer, probe_after interval, depends_on_previous boolean) IS 'Creates or changes the schedule of that name; what is NULL stays as it is, or takes the default. Returns its id.';

CREATE FUNCTION pgcron.rate_room(kind text, name text, rate integer, per interval, at timestamp with time zone, OUT room integer, OUT next_at timestamp with time zone) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT CASE WHEN now_slice.number IS NULL THEN 0
              ELSE greatest(0, least(rate_room.rate, rate_room.rate - coalesce(sum(counted.starts), 0)))::int END,
         'epoch'::timestamptz + ((least(min(counted.slice), now_slice.number) + 257) * (extract(epoch FROM rate_room.per) * 1000000)::bigint + 255) / 256 * interval '1 microsecond'
    FROM (SELECT CASE WHEN pgcron.rate_is_fine(rate_room.rate, rate_room.per)
                      THEN pgcron.rate_slice(rate_room.at, rate_room.per) END AS number) now_slice
    LEFT JOIN LATERAL (
      SELECT s.slice, s.starts FROM pgcron.rate_window w CROSS JOIN LATERAL unnest(w.slices, w.starts) s(slice, starts)
       WHERE w.kind = rate_room.kind AND w.name = rate_room.name AND s.slice >= now_slice.number - 256) counted ON true
   GROUP BY now_slice.number $$;

CREATE FUNCTION pgcron.rate_slice(at timestamp with time zone, per interval) RETURNS bigint
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT (extract(epoch FROM at) * 1000000)::bigint * 256 / (extract(epoch FROM per) * 1000000)::bigint $$;

CREATE FUNCTION pgcron.reap_runs(at_most integer, only_these bigint[] DEFAULT NULL::bigint[]) RETURNS TABLE(run_id bigint, verdict text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN QUERY
    WITH gone AS MATERIALIZED (SELECT * FROM pgcron.gone_owners()),
    held AS MATERIALIZED (
      SELECT r.id, g.node_name, g.ended_because
        FROM gone g CROSS JOIN LATERAL (SELECT r.id FROM pgcron.run r WHERE r.state = 'running' AND r.owner = g.owner AND (only_these IS NULL OR r.id = ANY(only_these))
                                         LIMIT at_most FOR UPDATE SKIP LOCKED) r
       LIMIT at_most)
    SELECT e.run_id, e.verdict FROM (
      SELECT array_agg(o.id) ids, array_agg(format('Node %L ended (%s) while it executed this attempt.', o.node_name, o.ended_because)) errors,
             array_agg(o.node_name) node_names
        FROM held o) g,
      LATERAL pgcron.end_orphans(g.ids, g.errors, g.node_names) e
     WHERE g.ids IS NOT NULL;
END $$;

COMMENT ON FUNCTION pgcron.reap_runs(at_most integer, only_these bigint[]) IS 'Ends attempts whose node is dead, or only some of them: retried, dead, lost (at_most_once), cancelled, or as the service that was called has answered.';

CREATE FUNCTION pgcron.reason_code(decision text, told text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT coalesce((SELECT r.code FROM pgcron.reason r WHERE r.code = reason_code.told OR reason_code.told ~ r.matches ORDER BY r.code <> reason_code.told, r.code LIMIT 1),
                  replace(reason_code.decision, ' ', '_')) $$;

CREATE FUNCTION pgcron.record_version(changed pgcron.schedule, operation text, since timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  INSERT INTO pgcron.schedule_version (schedule_id, version, actor, door, operation, content, since, note)
  VALUES (changed.id, changed.version, pgcron.actor(), pgcron.door(), operation, to_jsonb(changed), since,
          left(nullif(current_setting('pgcron_ha.version_note', true), ''), 500))
  ON CONFLICT DO NOTHING;
  DELETE FROM pgcron.schedule_version v WHERE changed.version > 200 AND v.schedule_id = changed.id AND v.version <= changed.version - 200 $$;

CREATE FUNCTION pgcron.redrive(run bigint, actor text DEFAULT NULL::text, args jsonb DEFAULT NULL::jsonb) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  letter pgcron.dead_letter;
  new_id bigint;
BEGIN
  SELECT * INTO letter FROM pgcron.dead_letter d WHERE d.run_id = run FOR UPDATE;
  IF letter.run_id IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('dead letter %s does not exist', run), 'Dead letters are runs that ended dead or lost.', '`pgcron-ha dead list` lists them.');
  ELSIF letter.requeued_as IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', format('dead letter %s was already redriven', run), format('It runs again as run %s since %s.', letter.requeued_as, letter.requeued_at),
                          format('Look at run %s; `pgcron-ha runs retry` runs an ended run again.', letter.requeued_as));
  END IF;
  new_id := pgcron.run_of_letter(letter, args, now(), actor);
  IF new_id IS NULL THEN
    PERFORM pgcron.refuse_met(format('dead letter %s can''t be redriven', run), pgcron.run_with_key(letter.unique_key, letter.handler), letter.unique_key);
  END IF;
  RETURN new_id;
END $$;

COMMENT ON FUNCTION pgcron.redrive(run bigint, actor text, args jsonb) IS 'Sends a dead letter again, once; args NULL means its own. Returns the id of the new run.';

CREATE FUNCTION pgcron.redrive_many(fingerprint text DEFAULT NULL::text, handler text DEFAULT NULL::text, queue text DEFAULT NULL::text, error_class text DEFAULT NULL::text, schedule text DEFAULT NULL::text, since timestamp with time zone DEFAULT NULL::timestamp with time zone, until timestamp with time zone DEFAULT NULL::timestamp with time zone, also_lost boolean DEFAULT false, args jsonb DEFAULT NULL::jsonb, rate integer DEFAULT NULL::integer, per interval DEFAULT '00:01:00'::interval, starting timestamp with time zone DEFAULT NULL::timestamp with time zone, at_most integer DEFAULT 1000, actor text DEFAULT NULL::text) RETURNS TABLE(dead_letter bigint, run bigint, due_at timestamp with time zone)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  letter pgcron.dead_letter;
  step interval;
  seen int;
  room int;
  made int := 0;
BEGIN
  IF num_nonnulls(fingerprint, handler, queue, error_class, schedule, since, until) = 0 THEN
    PERFORM pgcron.refuse('PC001', 'no dead letters are named', 'At least one filter says which letters run again.', 'Write until => now() for all of them.');
  ELSIF (rate >= 1 AND rate <= 1000000 AND per > '0' AND per <= '1 day') IS FALSE OR (rate IS NOT NULL AND per IS NULL) THEN
    PERFORM pgcron.refuse('PC001', format('a rate of %s per %s is out of range', rate, per), 'From 1 to 1000000 runs become due in an interval of up to a day.',
                          'Write for example rate => 10, per => ''1 minute''.');
  ELSIF (at_most BETWEEN 1 AND 1000) IS NOT TRUE THEN
    PERFORM pgcron.refuse('PC001', format('at_most %s is out of range', at_most), 'One call runs 1 to 1000 letters again.', 'Call it until it returns nothing.');
  END IF;
  step := CASE WHEN rate IS NULL THEN interval '0' ELSE per / rate END;
  due_at := greatest(starting, now());
  LOOP
    seen := 0;
    room := at_most - made;
    FOR letter IN
      SELECT d.* FROM pgcron.dead_letter d
       WHERE d.requeued_as IS NULL AND (redrive_many.fingerprint IS NULL OR d.fingerprint = redrive_many.fingerprint)
         AND (redrive_many.handler IS NULL OR d.handler = redrive_many.handler) AND (redrive_many.queue IS NULL OR d.queue = redrive_many.queue)
         AND (redrive_many.error_class IS NULL OR coalesce(d.error_class, '') = redrive_many.error_class)
         AND (redrive_many.schedule IS NULL OR d.schedule = redrive_many.schedule)
         AND (since IS NULL OR d.died_at >= since) AND (until IS NULL OR d.died_at < until) AND (also_lost OR d.outcome = 'dead')
         AND (d.unique_key IS NULL OR d.unique_scope = 'period' OR pgcron.run_with_key(d.unique_key, d.handler) IS NULL)
       ORDER BY d.died_at, d.run_id LIMIT room FOR UPDATE SKIP LOCKED LOOP
      seen := seen + 1;
      run := pgcron.run_of_letter(letter, redrive_many.args, due_at, actor);
      CONTINUE WHEN run IS NULL;      -- an older letter of these has its key now
      dead_letter := letter.run_id;
      made := made + 1;
      RETURN NEXT;
      due_at := due_at + step;
    END LOOP;
    EXIT WHEN made = at_most OR seen < room;
  END LOOP;
END $$;

COMMENT ON FUNCTION pgcron.redrive_many(fingerprint text, handler text, queue text, error_class text, schedule text, since timestamp with time zone, until timestamp with time zone, also_lost boolean, args jsonb, rate integer, per interval, starting timestamp with time zone, at_most integer, actor text) IS 'Runs dead letters again by filter, throttled if asked for; each once.';

CREATE FUNCTION pgcron.refuse_claim(run bigint) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC012', format('the claim of run %s is over', coalesce(run::text, 'NULL')),
    'The token is not the one that holds the run: it has ended, was given back, or is executed by somebody else now.',
    'Roll back and do nothing more for this run; another attempt does the work, or has done it.') $$;

CREATE FUNCTION pgcron.refuse_columns(given text[], besides text[]) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  unknown text := (SELECT min(k) FROM unnest(given) k
                    WHERE k = ANY (besides || '{id,uuid,version,created_at,updated_at,paused_by,calendars}'::text[])
                       OR NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'pgcron.schedule'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' AND a.attname = k));
BEGIN
  IF unknown IS NOT NULL THEN
    PERFORM pgcron.refuse('PC001', format('a schedule has no column %L that can be edited', left(unknown, 100)), 'What can be is what INSERT INTO pgcron.schedule takes; pgcron.rename_schedule changes a name.',
                          'Correct its spelling, or leave it out.');
  END IF;
END $$;

CREATE FUNCTION pgcron.refuse_instants(due_at timestamp with time zone, expire_at timestamp with time zone) RETURNS text
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.refuse('PC001', format('due_at %s or expire_at %s is outside of the calendar', due_at, coalesce(expire_at::text, 'NULL')),
    'A run is due, and expires, in the years 1900 to 9998, or at infinity.', 'Leave due_at out for now.');
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.refuse_labels(labels jsonb) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('labels %L are not labels', left(labels::text, 200)),
    'A node has at most 64 labels: names of 1 to 100 letters, digits, "_", ".", "/" and "-", with values that may have ":", "+" and "@", too.', 'Write for example ''{"gpu": "a100"}''.') $$;

CREATE FUNCTION pgcron.refuse_met(fact text, met bigint, unique_key text, until timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC011', format('%s: run %s has the unique key %L', fact, met, left(unique_key, 200)),
    CASE WHEN until IS NULL THEN 'Of the runs of a handler with one unique key only one may be there at a time.' ELSE format('No other run may have it before %s.', until) END,
    CASE WHEN until IS NULL THEN format('Wait until run %s has ended, or cancel it.', met) ELSE 'Ask again after that.' END) $$;

CREATE FUNCTION pgcron.refuse_producer(who name, queue text, handler text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC013', format('role %s may not enqueue handler %L into queue %L', quote_ident(who), left(handler, 200), left(queue, 200)),
    'It may enqueue: ' || (SELECT string_agg(allowed.text, '; ') FROM (SELECT format('%s into %s', p.handler, p.queue) AS text
                             FROM pgcron.producer_rule p WHERE pg_has_role(who, p.role, 'USAGE') ORDER BY 1 LIMIT 20) allowed) || '.',
    format('Use one of them, or let the owner of the schema allow more: pgcron.confine_producer(%L, …).', who)) $$;

CREATE FUNCTION pgcron.refuse_retry(fact text, rule text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', 'retry: ' || fact, rule,
    'Write for example ''{"backoff": "linear", "base": "10 seconds", "retry_for": "2 hours", "discard_on": ["ValueError"]}'', or leave it out.') $$;

CREATE FUNCTION pgcron.refuse_run(r pgcron.run, broken text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  CASE broken
    WHEN 'a_run_names_a_handler' THEN RETURN pgcron.refuse_handler(r.handler);
    WHEN 'run_args_are_an_object_of_256_kib' THEN RETURN pgcron.refuse_args(r.args);
    WHEN 'a_run_names_a_queue' THEN RETURN pgcron.refuse('PC001', format('queue %L is not a queue name', left(r.queue, 200)),
      'A queue name has 1 to 100 letters, digits, "_", "." and "-".', 'Write for example ''default''.');
    WHEN 'a_run_priority_is_0_to_9' THEN RETURN pgcron.refuse('PC001', format('priority %s is out of range', r.priority),
      'A priority is a number from 0 (first) to 9 (last).', 'Leave it out for 5.');
    WHEN 'a_run_delivery_is_known' THEN RETURN pgcron.refuse('PC001', format('delivery %L is not known', left(r.delivery, 100)),
      'This version knows at_least_once, at_most_once and transactional.', 'Leave it out for at_least_once.');
    WHEN 'only_py_and_sql_handlers_share_a_transaction' THEN RETURN pgcron.refuse('PC001', format('delivery transactional with handler %L', left(r.handler, 200)),
      'Only py: and sql: handlers can have their effects in the transaction that completes the run.', 'Use at_least_once, and give the idempotency key to whoever must not do it twice.');
    WHEN 'run_attempts_are_1_to_100' THEN RETURN pgcron.refuse('PC001', format('max_attempts %s is out of range', r.max_attempts),
      'A run is tried 1 to 100 times.', 'Leave it out for 5 (1 with at_most_once).');
    WHEN 'at_most_once_means_one_attempt' THEN RETURN pgcron.refuse('PC001', format('max_attempts %s with at_most_once', r.max_attempts),
      'A run that may be executed at most once can''t be tried again.', 'Leave max_attempts out, or use at_least_once.');
    WHEN 'a_run_timeout_is_positive' THEN RETURN pgcron.refuse('PC001', format('timeout %s is out of range', r.timeout),
      'A timeout is longer than nothing and at most 30 days.', 'Write for example ''10 minutes''.');
    WHEN 'a_run_retry_base_is_positive' THEN RETURN pgcron.refuse('PC001', format('retry_base %s is out of range', r.retry_base),
      'The first retry waits up to this long; it doubles with each attempt.', 'Write for example ''2 seconds''.');
    WHEN 'a_run_retry_cap_is_positive' THEN RETURN pgcron.refuse('PC001', format('retry_cap %s is out of range', r.retry_cap),
      'No retry waits longer than this.', 'Write for example ''1 hour''.');
    WHEN 'time_limits_are_readable' THEN RETURN pgcron.refuse('PC001', format('time_limits %L can''t be read', left(r.time_limits::text, 200)),
      'It is what pgcron.time_limits returns.', 'Use pgcron.enqueue with give_up_after and silence_timeout.');
    WHEN 'a_run_names_a_lane' THEN RETURN pgcron.refuse_lane(r.lane);
    WHEN 'a_unique_key_is_readable' THEN RETURN pgcron.refuse_unique_key(r.unique_key, r.unique_scope);
    WHEN 'a_run_requires_labels' THEN RETURN pgcron.refuse_requires(r.requires);
    WHEN 'a_run_weighs_1_to_1000' THEN RETURN pgcron.refuse_weight(r.weight);
    WHEN 'a_heavy_run_waits_in_a_lane' THEN RETURN pgcron.refuse('PC001', format('weight %s without a lane', r.weight),
      'A run that takes more than one slot of a node waits in a lane; pgcron.enqueue chooses it.', format('Call pgcron.enqueue, or write lane %L.', pgcron.lane_of(NULL, r.weight)));
    ELSE      -- nothing that an enqueuer can do: said as PostgreSQL says it of a CHECK of that name
      RAISE EXCEPTION USING ERRCODE = 'check_violation', MESSAGE = format('new row for relation "run" violates check constraint "%s"', broken),
        DETAIL = format('Run %s would break the rule: %s.', r.id, replace(broken, '_', ' ')), HINT = 'Change runs with the functions of this schema.',
        SCHEMA = 'pgcron'::regnamespace::text, TABLE = 'run', CONSTRAINT = broken;
  END CASE;
END $$;

CREATE FUNCTION pgcron.refuse_unique(fact text, rule text, remedy text DEFAULT 'Leave one of them out.'::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT pgcron.refuse('PC001', fact, rule, remedy) $$;

CREATE FUNCTION pgcron.refuse_unique_key(unique_key text, unique_scope text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT CASE WHEN pgcron.unique_key_is_fine(unique_key) THEN
    pgcron.refuse('PC001', format('unique_scope %L is not known', left(unique_scope, 100)), 'A run has its unique key while it is open (it waits or executes) or while it is waiting.',
      'Write ''open'' or ''waiting''; unique_for says a time.')
  WHEN unique_key IS NULL THEN
    pgcron.refuse('PC001', 'unique_scope is given without unique_key', 'It says how long a run has its key.', 'Give the key, for example unique_key => ''customer-7''.')
  ELSE
    pgcron.refuse('PC001', format('the unique key has %s characters', length(unique_key)), 'A unique key has 1 to 500 characters and is not blank.', 'Use a hash of a longer one.') END $$;

CREATE FUNCTION pgcron.refuse_value(name text, told text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.refuse('PC001', format('schedule %L: %s', left(refuse_value.name, 200), refuse_value.told),
                       'Each value has the type of its column, a duration as text (''90 s''); few columns may be null.', 'Correct it, or leave it out for what there is.') $$;

CREATE FUNCTION pgcron.refuse_version(known pgcron.schedule, expected integer) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  edit pgcron.schedule_version;
BEGIN
  SELECT * INTO edit FROM pgcron.schedule_version v WHERE v.schedule_id = known.id ORDER BY v.version DESC LIMIT 1;
  PERFORM pgcron.refuse('PC014', CASE WHEN expected = 0 THEN format('schedule %L exists already', known.name)
                                      ELSE format('schedule %L has version %s, not %s', known.name, known.version, expected) END,
    format('It was written by %s through %s at %s.', coalesce(edit.actor, 'somebody'), coalesce(edit.door, 'sql'),
           to_char(coalesce(edit.at, known.updated_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')),
    format('Read it again, and edit version %s; `pgcron-ha schedules diff` shows what was changed.', known.version));
END $$;

CREATE FUNCTION pgcron.refuse_wish(runs jsonb) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  wish jsonb;
  position int := 0;
  code text;
  fact text;
  rule text;
  remedy text;
BEGIN
  FOR wish IN SELECT jsonb_array_elements(runs) LOOP
    position := position + 1;
    PERFORM pgcron.enqueue_wish(wish, NULL);
  END LOOP;
EXCEPTION WHEN OTHERS THEN
  GET STACKED DIAGNOSTICS code = RETURNED_SQLSTATE, fact = MESSAGE_TEXT, rule = PG_EXCEPTION_DETAIL, remedy = PG_EXCEPTION_HINT;
  PERFORM pgcron.refuse(CASE WHEN code LIKE 'PC%' THEN code ELSE 'PC001' END, format('run %s of %s: %s', position, jsonb_array_length(runs), fact),
    coalesce(nullif(rule, ''), 'A key takes what the argument of pgcron.enqueue of that name takes.'),
    coalesce(nullif(remedy, ''), 'Instants are texts such as "2026-12-24T18:00:00Z", durations such as "90 s", numbers stand without quotes.'));
END $$;

CREATE FUNCTION pgcron.refused_runs(incarnation uuid, run_ids bigint[]) RETURNS TABLE(run_id bigint, error text)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  tried record;
BEGIN
  FOREACH run_id IN ARRAY refused_runs.run_ids LOOP
    BEGIN
      SELECT r.priority INTO tried FROM pgcron.run r
       WHERE r.id = run_id AND r.state = 'ready' FOR UPDATE SKIP LOCKED;
      CONTINUE WHEN NOT FOUND;
      IF NOT tried.priority BETWEEN 0 AND 9 THEN
        RAISE check_violation
        USING MESSAGE = format('priority must be between 0 and 9, got %s', tried.priority);
      END IF;
      UPDATE pgcron.run r SET hold = NULL WHERE r.id = run_id;
      UPDATE pgcron.run r
         SET state = 'running', owner = refused_runs.incarnation, token = gen_random_uuid(),
             fence = 0, attempt = r.attempt + 1, claimed_at = now(),
             lane_slot = CASE WHEN r.lane IS NOT NULL THEN 2147483647 END,
             overlap_slot = coalesce(r.overlap_slot, CASE r.overlap WHEN 'skip' THEN 1 END,
                                     CASE WHEN r.overlap IS NOT NULL THEN 32767 END)
       WHERE r.id = run_id;
      RAISE EXCEPTION USING ERRCODE = 'PTRY1';      -- it can be claimed: taken back
    EXCEPTION
      WHEN SQLSTATE 'PTRY1' OR unique_violation OR lock_not_available OR deadlock_detected THEN
        CONTINUE;
      WHEN OTHERS THEN
        error := left(SQLERRM, 500);
        RETURN NEXT;
    END;
  END LOOP;
END $$;

COMMENT ON FUNCTION pgcron.refused_runs(incarnation uuid, run_ids bigint[]) IS 'Waiting runs that the database refuses to let a node claim, with its reason; changes nothing.';

CREATE FUNCTION pgcron.rename_schedule(name text, new_name text, actor text DEFAULT NULL::text, door text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  renamed bigint := pgcron.schedule_id(rename_schedule.name);
BEGIN
  PERFORM pgcron.act_as(rename_schedule.actor, rename_schedule.door);
  UPDATE pgcron.schedule s SET name = coalesce(rename_schedule.new_name, '') WHERE s.id = renamed;
EXCEPTION WHEN unique_violation THEN
  PERFORM pgcron.refuse('PC011', format('there is a schedule %L already', left(rename_schedule.new_name, 200)), 'No two schedules have the same name.',
                        'Choose another name, or rename or delete that one first.');
END $$;

COMMENT ON FUNCTION pgcron.rename_schedule(name text, new_name text, actor text, door text) IS 'Gives a schedule another name; it stays the same schedule, with its history.';

CREATE FUNCTION pgcron.reopen_ledger(instants timestamp with time zone[]) RETURNS void
    LANGUAGE plpgsql
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  kept pgcron.retention;
  gap record;
BEGIN
  SELECT * INTO kept FROM pgcron.retention r WHERE r.relation = 'occurrence';
  FOR gap IN
    WITH bound AS MATERIALIZED (
      SELECT coalesce((regexp_match(pg_get_expr(c.relpartbound, c.oid), E'FROM \\(''([^'']+)''\\)'))[1]::timestamptz, '-infinity') AS low,
             (regexp_match(pg_get_expr(c.relpartbound, c.oid), E'TO \\(''([^'']+)''\\)'))[1]::timestamptz AS high
        FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = 'pgcron.occurrence'::regclass)
    SELECT DISTINCT greatest(date_trunc(kept.period, i, 'UTC'), (SELECT max(b.high) FROM bound b WHERE b.high <= i)) AS low,
           least(date_trunc(kept.period, i, 'UTC') + ('1 ' || kept.period)::interval, (SELECT min(b.low) FROM bound b WHERE b.low > i)) AS high
      FROM unnest(instants) i WHERE NOT EXISTS (SELECT FROM bound b WHERE b.low <= i AND b.high > i) ORDER BY 1 LOOP
    PERFORM pg_advisory_xact_lock('pgcron'::regnamespace::oid::int, 1);
    PERFORM pgcron.add_partition('occurrence', gap.low, gap.high);
  END LOOP;
END $$;

CREATE FUNCTION pgcron.replace_older(schedules bigint[], handlers text[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  newest record;
  older bigint[];
  asked boolean := false;
BEGIN
  FOR newest IN
    SELECT DISTINCT ON (w.schedule_id) w.id, w.schedule_id, w.overlap, w.due_at FROM unnest(schedules) AS one(schedule_id)
     CROSS JOIN LATERAL (
       SELECT n.* FROM pgcron.run n WHERE n.schedule_id = one.schedule_id AND n.state = 'ready' AND n.hold IS NULL AND n.due_at <= now() AND n.overlap IN ('replace', 'terminate')
       UNION ALL
       SELECT h.* FROM pgcron.run h WHERE h.schedule_id = one.schedule_id AND h.hold = 'overlap' AND h.overlap IN ('replace', 'terminate') AND h.due_at <= now()) w
     WHERE w.overlap_slot IS NULL
       AND (w.expire_at IS NULL OR w.expire_at > now()) AND (handlers IS NULL OR w.handler = ANY(handlers))
       AND NOT EXISTS (SELECT FROM pgcron.queue q WHERE q.name = w.queue AND q.paused_at IS NOT NULL)
       AND EXISTS (SELECT FROM pgcron.cluster c WHERE c.quarantine_until <= now() AND c.paused_at IS NULL)
     ORDER BY w.schedule_id, w.due_at DESC, w.id DESC LOOP
    older := ARRAY(
      SELECT w.id FROM pgcron.run w
       WHERE w.schedule_id = newest.schedule_id AND w.state = 'ready' AND w.overlap IS NOT NULL
         AND (w.overlap_slot IS NOT NULL OR (w.due_at, w.id) < (newest.due_at, newest.id)) AND w.id <> newest.id
       ORDER BY w.id LIMIT 1000 FOR UPDATE SKIP LOCKED);
    IF older <> '{}' THEN
      RETURN QUERY SELECT pgcron.end_waiting_runs(older, 'superseded', format('run %s came later (overlap %s)', newest.id, newest.overlap));
    END IF;
    UPDATE pgcron.run r
       SET cancel_at = coalesce(r.cancel_at, now()), kill_at = CASE WHEN newest.overlap = 'terminate' THEN coalesce(r.kill_at, now()) ELSE r.kill_at END,
           cancel_reason = coalesce(r.cancel_reason, format('replaced by run %s (overlap %s)', newest.id, newest.overlap))
     WHERE r.id = ANY(ARRAY(
       SELECT h.id FROM pgcron.run h
        WHERE h.schedule_id = newest.schedule_id AND h.state = 'running' AND h.id <> newest.id
          AND (h.overlap_slot IS NOT NULL
               OR (h.overlap IS NULL AND EXISTS (SELECT FROM pgcron.schedule s WHERE s.id = h.schedule_id AND s.overlap = 'allow' AND s.max_running IS NULL)))
          AND (h.cancel_at IS NULL OR (newest.overlap = 'terminate' AND h.kill_at IS NULL))
        ORDER BY h.id FOR UPDATE SKIP LOCKED));
    asked := asked OR FOUND;
  END LOOP;
  IF asked THEN PERFORM pgcron.notify(pgcron.channel(), 'cancel'); END IF;
END $$;

CREATE FUNCTION pgcron.replace_run(run bigint, unique_key text, handler text, args jsonb, priority integer, due_at timestamp with time zone, most interval, latest timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  maker text := (SELECT r.created_by FROM pgcron.run r WHERE r.id = run AND r.unique_key = replace_run.unique_key AND r.handler = replace_run.handler);
BEGIN
  IF maker <> session_user AND NOT has_table_privilege(session_user, 'pgcron.run', 'TRUNCATE')
     AND EXISTS (SELECT FROM pgcron.producer_rule p WHERE pg_has_role(session_user, p.role, 'MEMBER')) THEN
    PERFORM pgcron.refuse('PC013', format('run %s with the unique key %L is not of role %s', run, left(replace_run.unique_key, 200), quote_ident(session_user)),
      'A producer that has rules changes only runs that it has made.', 'Use keys of your own, for example with the service''s name in front; on_conflict ''return'' gives the id.');
  END IF;
  UPDATE pgcron.run r SET args = replace_run.args, priority = replace_run.priority,
         due_at = CASE WHEN replace_run.due_at IS NOT NULL THEN least(replace_run.due_at, r.created_at + most) ELSE least(r.due_at, latest) END
   WHERE r.id = run AND r.unique_key = replace_run.unique_key AND r.handler = replace_run.handler AND r.state <> 'running' AND r.attempt = 0;
  RETURN FOUND;
END $$;

CREATE FUNCTION pgcron.require_breaker(name text) RETURNS pgcron.breaker
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  row_found pgcron.breaker;
BEGIN
  SELECT * INTO row_found FROM pgcron.breaker b WHERE b.name = require_breaker.name FOR UPDATE;
  IF row_found.name IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('breaker %L does not exist', left(require_breaker.name, 200)), 'A breaker is named as the handler it was set for.',
                          '`pgcron-ha breakers list` lists them.');
  END IF;
  RETURN row_found;
END $$;

CREATE FUNCTION pgcron.require_node(node text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF NOT EXISTS (SELECT FROM pgcron.node n WHERE n.name = require_node.node OR n.incarnation::text = require_node.node)
     AND NOT EXISTS (SELECT FROM pgcron.cordon c WHERE c.node = require_node.node) THEN
    PERFORM pgcron.refuse('PC010', format('node %L does not exist', left(node, 200)),
      'A node is named by its name, or by the incarnation of one process; those that died are forgotten after a day.', '`pgcron-ha nodes` lists them.');
  END IF;
END $$;

CREATE FUNCTION pgcron.require_read_committed(what text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    PERFORM pgcron.refuse('PC001', what || ' are not decided under ' || current_setting('transaction_isolation'),
                          'Each step must see what was committed before it.', 'Use READ COMMITTED.');
  END IF;
END $$;

CREATE FUNCTION pgcron.reset_breaker(name text, by text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  row_found pgcron.breaker := pgcron.require_breaker(reset_breaker.name);
BEGIN
  PERFORM pgcron.close_breaker(row_found.name);
  UPDATE pgcron.breaker b SET reset_by = coalesce(reset_breaker.by, session_user), reset_at = now() WHERE b.name = row_found.name;
  RETURN row_found.state <> 'closed';
END $$;

COMMENT ON FUNCTION pgcron.reset_breaker(name text, by text) IS 'Closes a breaker by hand; the runs that wait for it go at once.';

CREATE FUNCTION pgcron.reset_retention(queue text DEFAULT NULL::text, outcome text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  DELETE FROM pgcron.retention_rule r WHERE r.queue IS NOT DISTINCT FROM reset_retention.queue AND r.outcome IS NOT DISTINCT FROM reset_retention.outcome;
  IF NOT FOUND THEN
    PERFORM pgcron.refuse('PC010', format('there is no retention rule for %s', concat_ws(' and ', coalesce('queue ' || quote_literal(left(reset_retention.queue, 200)), 'every queue'),
        coalesce('outcome ' || quote_literal(left(reset_retention.outcome, 200)), 'every outcome'))), 'A rule is named by its queue and its outcome.', '`pgcron-ha retention list` lists them.');
  END IF;
END $$;

COMMENT ON FUNCTION pgcron.reset_retention(queue text, outcome text) IS 'Takes a retention rule back: what it was about is kept as the next less specific rule says, or as long as history.';

CREATE FUNCTION pgcron.restore_occurrence(name text, instant timestamp with time zone) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT pgcron.override_occurrence(restore_occurrence.name, restore_occurrence.instant, NULL::pgcron.occurrence_override) $$;

COMMENT ON FUNCTION pgcron.restore_occurrence(name text, instant timestamp with time zone) IS 'A fire to come that was skipped, moved or given other args is as the schedule says again.';

CREATE FUNCTION pgcron.restore_schedule(name text, version integer, actor text DEFAULT NULL::text, door text DEFAULT NULL::text, expected_version integer DEFAULT NULL::integer, OUT schedule_id bigint, OUT new_version integer, OUT note text) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
DECLARE
  known bigint := pgcron.schedule_of_versions(restore_schedule.name);
  old jsonb := (SELECT v.content FROM pgcron.schedule_version v WHERE v.schedule_id = known AND v.version = restore_schedule.version LIMIT 1);
  is_gone boolean := NOT EXISTS (SELECT FROM pgcron.schedule s WHERE s.id = known);
  columns text;
BEGIN
  IF old IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('schedule %L has no version %s', left(restore_schedule.name, 200), restore_schedule.version),
      'The newest 200 versions of a schedule are kept, and those of a deleted one as long as its ledger.', format('`pgcron-ha schedules versions %s` lists them.', left(restore_schedule.name, 200)));
  END IF;
  PERFORM pgcron.expect_version(restore_schedule.name, expected_version);
  PERFORM pgcron.act_as(restore_schedule.actor, restore_schedule.door);
  IF is_gone AND (old ->> 'paused_until')::timestamptz <= clock_timestamp() THEN      -- its pause is over by now
    old := old || '{"enabled": true, "paused_note": null, "paused_until": null}';
  END IF;
  note := format('restored from version %s', restore_schedule.version) || CASE WHEN is_gone THEN format(' of deleted schedule %s', known) ELSE '' END;
  PERFORM set_config('pgcron_ha.version_note', note, true);
  SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) INTO columns FROM pg_catalog.pg_attribute a
   WHERE a.attrelid = 'pgcron.schedule'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND old ? a.attname AND a.attgenerated = ''
     AND a.attname <> ALL ('{id,uuid,version,created_at,updated_at,paused_by,calendars}') AND (is_gone OR a.attname !~ '^(name|enabled|managed_by|source|paused_.*)$');
  IF is_gone THEN
    EXECUTE format('INSERT INTO pgcron.schedule AS s (%1$s) SELECT %1$s FROM jsonb_populate_record(NULL::pgcron.schedule, $1) RETURNING s.id, s.version', columns)
       INTO schedule_id, new_version USING old || jsonb_build_object('name', restore_schedule.name);
  ELSE
    EXECUTE format('UPDATE pgcron.schedule s SET (%1$s) = (SELECT %1$s FROM jsonb_populate_record(NULL::pgcron.schedule, $1)) WHERE s.id = $2 RETURNING s.id, s.version', columns)
       INTO schedule_id, new_version USING old, known;
  END IF;
  PERFORM set_config('pgcron_ha.version_note', '', true);
END $_$;

COMMENT ON FUNCTION pgcron.restore_schedule(name text, version integer, actor text, door text, expected_version integer, OUT schedule_id bigint, OUT new_version integer, OUT note text) IS 'Makes an earlier version of a schedule, living or deleted, its next one; returns its id, the new version and what it is called.';

CREATE FUNCTION pgcron.resume_backfill(backfill bigint, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  held pgcron.backfill := pgcron.hold_backfill(resume_backfill.backfill, 'resumed');
BEGIN
  UPDATE pgcron.backfill b SET state = 'open', error = NULL, changed_at = now(), changed_by = coalesce(resume_backfill.actor, session_user) WHERE b.id = held.id AND b.state = 'paused';
  PERFORM pgcron.wake_backfills();
END $$;

COMMENT ON FUNCTION pgcron.resume_backfill(backfill bigint, actor text) IS 'Goes on with a backfill that was paused.';

CREATE FUNCTION pgcron.resume_overdue(paused bigint) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.act_as('pgcron_ha', 'clock');
  UPDATE pgcron.schedule s SET enabled = true WHERE s.id = paused AND NOT s.enabled AND s.paused_until <= clock_timestamp();
  RETURN FOUND;
END $$;

COMMENT ON FUNCTION pgcron.resume_overdue(paused bigint) IS 'Resumes a schedule whose pause had an end that has passed; fires from that end on are owed.';

CREATE FUNCTION pgcron.resume_queue(name text, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  UPDATE pgcron.queue q SET paused_at = NULL, paused_by = NULL, paused_note = NULL WHERE q.name = resume_queue.name;
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;

COMMENT ON FUNCTION pgcron.resume_queue(name text, actor text) IS 'The queue is claimed from again.';

CREATE FUNCTION pgcron.resume_schedule(name text, actor text DEFAULT NULL::text, door text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.act_as(resume_schedule.actor, resume_schedule.door);
  UPDATE pgcron.schedule SET enabled = true WHERE id = pgcron.schedule_id(resume_schedule.name);
END $$;

COMMENT ON FUNCTION pgcron.resume_schedule(name text, actor text, door text) IS 'Fires again from now on.';

CREATE FUNCTION pgcron.retention_word() RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT md5(coalesce(string_agg(concat_ws(' ', coalesce(r.queue, '*'), coalesce(r.outcome, '*'), extract(epoch FROM r.keep)), E'\n' ORDER BY coalesce(r.queue, '') COLLATE "C", coalesce(r.outcome, '') COLLATE "C"), ''))
    FROM pgcron.retention_rule r $$;

CREATE FUNCTION pgcron.retry_delay(attempt integer, base interval, cap interval) RETURNS interval
    LANGUAGE sql
    BEGIN ATOMIC
 SELECT (random() * LEAST(cap, (base * power((2)::double precision, ((LEAST(attempt, 20) - 1))::double precision))));
END;

CREATE FUNCTION pgcron.retry_run(run bigint, actor text DEFAULT NULL::text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  found_state text;
  ended pgcron.history;
  new_id bigint;
BEGIN
  SELECT r.state INTO found_state FROM pgcron.run r WHERE r.id = run FOR UPDATE;
  IF found_state = 'ready' THEN
    UPDATE pgcron.run r SET due_at = least(r.due_at, now()) WHERE r.id = run;
    RETURN run;
  ELSIF found_state IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', format('run %s is %s', run, found_state), 'Only a waiting or an ended run can be retried.', 'Cancel it first, or wait until it has ended.');
  END IF;
  ended := pgcron.ended_run(run);
  INSERT INTO pgcron.run (origin, schedule_id, schedule, nominal_for, parent_run, queue, priority, handler, args, delivery, max_attempts, timeout, retry_base, retry_cap,
                          retry, lane, requires, expire_at, time_limits, weight, created_by, unique_key, unique_scope)
  VALUES ('rerun', ended.schedule_id, ended.schedule, coalesce(ended.scheduled_for, ended.nominal_for), ended.id, ended.queue, ended.priority, ended.handler,
          ended.args, ended.delivery, ended.max_attempts - coalesce(ended.snoozes, 0), coalesce(ended.timeout, '1 hour'), coalesce(ended.retry_base, '2 seconds'),
          coalesce(ended.retry_cap, '1 hour'), ended.retry, ended.lane, ended.requires,
          pgcron.give_up_at(pgcron.time_limits_from(ended.time_limits, now())), pgcron.time_limits_from(ended.time_limits, now()),
          ended.weight, coalesce(actor, session_user),
          ended.unique_key, CASE ended.unique_scope WHEN 'taken' THEN 'waiting' ELSE ended.unique_scope END)
  ON CONFLICT (unique_key, handler) WHERE pgcron.has_key(unique_key, unique_scope, attempt) DO NOTHING RETURNING id INTO new_id;
  IF new_id IS NULL THEN
    PERFORM pgcron.refuse_met(format('run %s can''t be run again', run), pgcron.run_with_key(ended.unique_key, ended.handler), ended.unique_key);
  END IF;
  RETURN new_id;
END $$;

COMMENT ON FUNCTION pgcron.retry_run(run bigint, actor text) IS 'A waiting run is due now (same id); an ended one runs again as a new run, whose id is returned.';

CREATE FUNCTION pgcron.rule_fits(pattern text, name text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ("right"(pattern, 1) = '*'::text) THEN starts_with(name, "left"(pattern, '-1'::integer))
             ELSE (name = pattern)
         END AS "case";
END;

CREATE FUNCTION pgcron.run_now(name text, args jsonb DEFAULT NULL::jsonb, actor text DEFAULT NULL::text, overlap text DEFAULT NULL::text, fire_time timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  new_id bigint;
BEGIN
  IF run_now.fire_time NOT BETWEEN '1900-01-01 00:00Z' AND '9998-12-31 00:00Z' THEN
    PERFORM pgcron.refuse('PC001', format('fire time %s is outside of the calendar', run_now.fire_time), 'Schedules fire in the years 1900 to 9998.', 'Leave it out for now.');
  END IF;
  INSERT INTO pgcron.run AS made (origin, schedule_id, schedule, nominal_for, queue, priority, handler, args, delivery, max_attempts, timeout, retry_base, retry_cap, retry,
                                  overlap, lane, requires, expire_at, time_limits, weight, created_by)
  SELECT 'manual', s.id, s.name, coalesce(run_now.fire_time, now()), s.queue, s.priority, s.handler, coalesce(run_now.args, s.args), s.delivery, s.max_attempts, s.timeout,
         s.retry_base, s.retry_cap, s.retry, pgcron.run_overlap(run_now.overlap, s), pgcron.lane_of(s.lane, s.weight), s.requires,
         now() + s.give_up_after, pgcron.time_limits(s.give_up_after, s.silence_timeout, now()), nullif(s.weight, 1), coalesce(run_now.actor, session_user)
    FROM pgcron.schedule s WHERE s.id = pgcron.schedule_id(run_now.name) FOR KEY SHARE OF s
  RETURNING made.id INTO new_id;
  IF new_id IS NULL THEN      -- deleted meanwhile: refused, unless it was made anew
    RETURN pgcron.run_now(run_now.name, run_now.args, run_now.actor, run_now.overlap,
                          run_now.fire_time);
  END IF;
  RETURN new_id;
END $$;

COMMENT ON FUNCTION pgcron.run_now(name text, args jsonb, actor text, overlap text, fire_time timestamp with time zone) IS 'A run beside the schedule''s fires; args NULL means the schedule''s. Returns the id of the run.';

CREATE FUNCTION pgcron.run_of_letter(letter pgcron.dead_letter, args jsonb, due_at timestamp with time zone, actor text) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  new_id bigint;
  limits jsonb := pgcron.time_limits_from(letter.time_limits, run_of_letter.due_at);
BEGIN
  INSERT INTO pgcron.run (origin, schedule_id, schedule, nominal_for, parent_run, queue, priority, handler, args, delivery, max_attempts, timeout, retry_base, retry_cap, retry,
                          lane, requires, weight, due_at, expire_at, time_limits, created_by, unique_key, unique_scope)
  VALUES ('redrive', letter.schedule_id, letter.schedule, letter.scheduled_for, letter.run_id, letter.queue, letter.priority, letter.handler,
          coalesce(run_of_letter.args, letter.args), letter.delivery, letter.max_attempts, letter.timeout, letter.retry_base, letter.retry_cap, letter.retry, letter.lane, letter.requires, letter.weight,
          run_of_letter.due_at, pgcron.give_up_at(limits), limits, coalesce(run_of_letter.actor, session_user), letter.unique_key, CASE letter.unique_scope WHEN 'taken' THEN 'waiting' ELSE letter.unique_scope END)
  ON CONFLICT (unique_key, handler) WHERE pgcron.has_key(unique_key, unique_scope, attempt) DO NOTHING RETURNING id INTO new_id;
  IF new_id IS NULL THEN RETURN NULL; END IF;
  UPDATE pgcron.dead_letter d SET requeued_as = new_id, requeued_at = now(), requeued_by = coalesce(run_of_letter.actor, session_user) WHERE d.run_id = letter.run_id;
  RETURN new_id;
END $$;

CREATE FUNCTION pgcron.run_overlap(overlap text, max_running integer) RETURNS text
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((overlap = 'allow'::text) AND (max_running IS NULL)) THEN NULL::text
             WHEN ((overlap = 'skip'::text) AND (max_running > 1)) THEN 'skip many'::text
             ELSE overlap
         END AS overlap;
END;

CREATE FUNCTION pgcron.run_overlap(overlap text, schedule pgcron.schedule) RETURNS text
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF overlap IS NULL THEN
    RETURN pgcron.run_overlap(schedule.overlap, schedule.max_running);
  ELSIF overlap = 'allow' THEN      -- for this one, whatever runs
    RETURN NULL;
  ELSIF overlap NOT IN ('skip', 'queue', 'replace', 'terminate') THEN
    PERFORM pgcron.refuse_overlap(overlap);
  ELSIF overlap IN ('replace', 'terminate') AND schedule.max_running > 1 THEN
    PERFORM pgcron.refuse_replacing(overlap, schedule.max_running);
  ELSIF overlap = 'skip' AND schedule.overlap = 'allow' THEN
    RETURN 'skip many';      -- plain skip does not see what holds no slot
  END IF;
  RETURN pgcron.run_overlap(overlap, schedule.max_running);
END $$;

CREATE FUNCTION pgcron.run_status(run_id bigint, OUT id bigint, OUT uuid uuid, OUT handler text, OUT schedule text, OUT state text, OUT attempt integer, OUT due_at timestamp with time zone, OUT started_at timestamp with time zone, OUT finished_at timestamp with time zone, OUT error text, OUT result jsonb, OUT done double precision, OUT total double precision, OUT note text) RETURNS SETOF record
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  RETURN QUERY
    SELECT v.id, v.uuid, v.handler, v.schedule, v.state, v.attempt, v.due_at, v.started_at, v.finished_at, v.error, v.result, p.done, p.total, p.note
      FROM pgcron.runs v LEFT JOIN pgcron.progress p ON p.run_id = v.id AND p.attempt = v.attempt AND v.state = 'running'
     WHERE v.id = run_status.run_id AND pgcron.may_read_run(v.created_by) LIMIT 1;
END $$;

COMMENT ON FUNCTION pgcron.run_status(run_id bigint, OUT id bigint, OUT uuid uuid, OUT handler text, OUT schedule text, OUT state text, OUT attempt integer, OUT due_at timestamp with time zone, OUT started_at timestamp with time zone, OUT finished_at timestamp with time zone, OUT error text, OUT result jsonb, OUT done double precision, OUT total double precision, OUT note text) IS 'How a run stands, and its result: for who enqueued it, and for roles that may read history. No row: there is none.';

CREATE FUNCTION pgcron.run_with_key(unique_key text, handler text) RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT r.id FROM pgcron.run r WHERE r.unique_key = run_with_key.unique_key AND r.handler = run_with_key.handler AND pgcron.has_key(r.unique_key, r.unique_scope, r.attempt) $$;

COMMENT ON FUNCTION pgcron.run_with_key(unique_key text, handler text) IS 'The run of the handler that has the unique key now; NULL when none has it.';

CREATE FUNCTION pgcron.runs_to_keep(of_schedule bigint) RETURNS SETOF bigint
    LANGUAGE sql STABLE ROWS 20
    BEGIN ATOMIC
( SELECT h.id
    FROM ( SELECT e.id,
             e.outcome
            FROM pgcron.history e
           WHERE (e.schedule_id = runs_to_keep.of_schedule)
           ORDER BY e.finished_at DESC
          LIMIT 200) h
   WHERE (h.outcome = 'succeeded'::text)
  LIMIT 10)
 UNION ALL
 ( SELECT h.id
    FROM ( SELECT e.id,
             e.outcome
            FROM pgcron.history e
           WHERE (e.schedule_id = runs_to_keep.of_schedule)
           ORDER BY e.finished_at DESC
          LIMIT 200) h
   WHERE (h.outcome <> ALL (ARRAY['skipped'::text, 'superseded'::text]))
  LIMIT 10)
 UNION ALL
 ( SELECT o.run_id
    FROM pgcron.occurrence o
   WHERE ((o.schedule_id = runs_to_keep.of_schedule) AND (o.fire_at <= now()) AND (o.decision <> ALL (ARRAY['skipped'::text, 'superseded'::text])))
   ORDER BY o.fire_at DESC
  LIMIT 2);
END;

CREATE FUNCTION pgcron.scale_demand(queue text DEFAULT NULL::text, cap integer DEFAULT 5000) RETURNS bigint
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    SET enable_seqscan TO 'off'
    SET enable_bitmapscan TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
  most CONSTANT int := greatest(1, least(coalesce(scale_demand.cap, 5000), 100000));
  rows_left int := most;
  demand bigint;
  queue_now text := scale_demand.queue;
  due record;
BEGIN
  SELECT coalesce(sum(coalesce(r.weight, 1)), 0) INTO demand FROM (
    SELECT w.weight FROM pgcron.run w
     WHERE w.state = 'running' AND w.owner IS NOT NULL AND (scale_demand.queue IS NULL OR w.queue = scale_demand.queue) LIMIT most) r;
  IF EXISTS (SELECT FROM pgcron.cluster c WHERE c.paused_at IS NOT NULL) THEN RETURN demand; END IF;
  FOR step IN 1 .. 1000 LOOP
    IF scale_demand.queue IS NULL THEN queue_now := pgcron.next_waiting_queue(coalesce(queue_now, '')); END IF;
    EXIT WHEN queue_now IS NULL OR rows_left <= 0;
    SELECT d.slots, d.looked INTO due FROM pgcron.due_demand(queue_now, rows_left) d;
    demand := demand + due.slots;
    rows_left := rows_left - due.looked;
    EXIT WHEN scale_demand.queue IS NOT NULL;
  END LOOP;
  RETURN demand + pgcron.has_parked(scale_demand.queue)::int;
END $$;

COMMENT ON FUNCTION pgcron.scale_demand(queue text, cap integer) IS 'How many slots a queue (NULL: all) could use now on all nodes together: of what executes and what is due and may begin, by weight. For autoscalers; bounded, never NULL.';

CREATE FUNCTION pgcron.schedule_defaults() RETURNS jsonb
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  pairs text;
  defaults jsonb;
BEGIN
  SELECT string_agg(format('%L, %s', a.attname, coalesce(pg_get_expr(d.adbin, d.adrelid), 'NULL')), ', ') INTO pairs
    FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
   WHERE a.attrelid = 'pgcron.schedule'::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attidentity = '' AND a.attgenerated = ''
     AND (a.atthasdef OR NOT a.attnotnull) AND coalesce(pg_get_expr(d.adbin, d.adrelid), '') !~ E'\\(\\)'
     AND a.attname NOT IN ('version', 'managed_by', 'source', 'calendars') AND a.attname NOT LIKE E'paused\\_%';
  EXECUTE 'SELECT jsonb_build_object(' || pairs || ')' INTO defaults;
  RETURN defaults;
END $$;

COMMENT ON FUNCTION pgcron.schedule_defaults() IS 'What a schedule is where a file says nothing, by column.';

CREATE FUNCTION pgcron.schedule_id(name text) RETURNS bigint
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  found_id bigint := (SELECT s.id FROM pgcron.schedule s WHERE s.name = schedule_id.name);
BEGIN
  IF found_id IS NULL THEN
    PERFORM pgcron.refuse('PC010', format('schedule %L does not exist', left(name, 200)), 'A schedule is named exactly as it was created.',
                          'SELECT name FROM pgcron.schedules lists them; so does `pgcron-ha schedules list`.');
  END IF;
  RETURN found_id;
END $$;

CREATE FUNCTION pgcron.schedule_is_deleted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  cursor_before pgcron.cursor;
  deletion_time timestamptz;
  untold text;
BEGIN
  SELECT * INTO cursor_before FROM pgcron.cursor WHERE schedule_id = OLD.id FOR UPDATE;
  PERFORM FROM pgcron.run WHERE schedule_id = OLD.id AND state = 'ready' AND attempt = 0 ORDER BY id FOR UPDATE;
  deletion_time := clock_timestamp();
  WITH gone AS (
    DELETE FROM pgcron.run WHERE schedule_id = OLD.id AND state = 'ready' AND attempt = 0
                             AND scheduled_for > deletion_time AND due_at > deletion_time RETURNING scheduled_for)
  DELETE FROM pgcron.occurrence o USING gone WHERE o.schedule_id = OLD.id AND o.fire_at = gone.scheduled_for;
  PERFORM pgcron.end_waiting_runs((SELECT array_agg(r.id) FROM pgcron.run r WHERE r.schedule_id = OLD.id AND r.state <> 'running' AND r.attempt = 0),
                                  'cancelled', 'schedule was deleted');
  untold := pgcron.untold(cursor_before, deletion_time);
  IF untold IS NOT NULL THEN
    PERFORM pgcron.tell_missed(cursor_before, deletion_time, CASE WHEN untold IN ('paused', 'completed') THEN untold ELSE 'deleted' END);
  END IF;
  OLD.version := OLD.version + 1;
  PERFORM pgcron.record_version(OLD, 'delete', deletion_time);
  RETURN OLD;
END $$;

CREATE FUNCTION pgcron.schedule_of_versions(name text) RETURNS bigint
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT coalesce((SELECT s.id FROM pgcron.schedule s WHERE s.name = schedule_of_versions.name),
                  (SELECT v.schedule_id FROM pgcron.schedule_version v WHERE v.operation = 'delete' AND v.content ->> 'name' = schedule_of_versions.name
                   ORDER BY v.at DESC, v.schedule_id DESC LIMIT 1)) $$;

CREATE FUNCTION pgcron.schedule_was_renamed(renamed bigint, new_name text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  UPDATE pgcron.cursor c SET generation = c.generation + 1 WHERE c.schedule_id = renamed;
  PERFORM FROM pgcron.run r WHERE r.schedule_id = renamed AND r.state <> 'running' ORDER BY r.id FOR UPDATE;
  UPDATE pgcron.run r SET schedule = new_name WHERE r.schedule_id = renamed AND r.state <> 'running';
END $$;

CREATE FUNCTION pgcron.schedule_was_written() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  untouched text[] := pgcron.timeless_columns();
BEGIN
  IF TG_OP = 'INSERT' OR to_jsonb(NEW) - untouched - 'enabled'::text IS DISTINCT FROM to_jsonb(OLD) - untouched - 'enabled'::text THEN
    PERFORM pgcron.judge_runs_of(NEW);
  END IF;
  IF TG_OP = 'INSERT' THEN
    INSERT INTO pgcron.cursor (schedule_id, since, watermark, is_paused, pause_note, paused_until)
    VALUES (NEW.id, clock_timestamp(), clock_timestamp(), NOT NEW.enabled, CASE WHEN NOT NEW.enabled THEN concat_ws(': ', NEW.paused_by, NEW.paused_note) END, NEW.paused_until);
    PERFORM pgcron.record_version(NEW, 'create', (SELECT c.since FROM pgcron.cursor c WHERE c.schedule_id = NEW.id));
  ELSIF to_jsonb(NEW) - '{version,updated_at}'::text[] IS DISTINCT FROM to_jsonb(OLD) - '{version,updated_at}'::text[] THEN
    IF NEW.enabled AND NOT OLD.enabled THEN
      UPDATE pgcron.cursor SET resumed_by = pgcron.actor(), resumed_at = clock_timestamp() WHERE schedule_id = NEW.id;
      PERFORM pgcron.forget_failures(NEW.id);
    ELSIF NOT NEW.enabled AND NOT OLD.enabled THEN
      PERFORM pgcron.pause_was_changed(NEW);
      IF pgcron.door() <> 'clock' AND (NEW.paused_note, NEW.paused_until) IS DISTINCT FROM (OLD.paused_note, OLD.paused_until) THEN
        PERFORM pgcron.forget_failures(NEW.id);
      ELSIF (NEW.spec, NEW.timezone, NEW.dst, NEW.calendars, NEW.probe_after) IS DISTINCT FROM (OLD.spec, OLD.timezone, OLD.dst, OLD.calendars, OLD.probe_after) THEN
        UPDATE pgcron.failure_pause SET probe_at = CASE WHEN NEW.probe_after IS NOT NULL THEN coalesce(probe_at, clock_timestamp() + NEW.probe_after) END, probe_fire = NULL,
               look_at = CASE WHEN NEW.probe_after IS NOT NULL THEN coalesce(probe_at, clock_timestamp() + NEW.probe_after) END WHERE schedule_id = NEW.id AND probe_run IS NULL;
      END IF;
    END IF;
    IF NEW.name <> OLD.name AND current_setting('transaction_isolation') = 'read committed' THEN
      PERFORM pgcron.schedule_was_renamed(NEW.id, NEW.name);
      untouched := untouched || 'name'::text;
    END IF;
    IF to_jsonb(NEW) - untouched IS DISTINCT FROM to_jsonb(OLD) - untouched THEN
      IF current_setting('transaction_isolation') = 'read committed' THEN
        PERFORM pgcron.apply_edit(NEW.id, (NEW.spec, NEW.timezone, NEW.dst, NEW.calendars) IS DISTINCT FROM (OLD.spec, OLD.timezone, OLD.dst, OLD.calendars));
      ELSE      -- this transaction's snapshot may not show rows made meanwhile: a node finishes the edit
        UPDATE pgcron.cursor SET generation = generation + 1, edit_is_pending = true,
               timing_is_new = timing_is_new OR (NEW.spec, NEW.timezone, NEW.dst, NEW.calendars) IS DISTINCT FROM (OLD.spec, OLD.timezone, OLD.dst, OLD.calendars)
         WHERE schedule_id = NEW.id;
      END IF;
    END IF;
    PERFORM pgcron.record_version(NEW, 'edit', (SELECT CASE WHEN c.edit_is_pending THEN NULL ELSE greatest(c.since, now()) END FROM pgcron.cursor c WHERE c.schedule_id = NEW.id));
    PERFORM pgcron.warn_of_owner(OLD, NEW);
  END IF;
  IF EXISTS (SELECT FROM pgcron.node WHERE state IN ('alive', 'cordoned')) THEN
    PERFORM pgcron.notify(pgcron.channel(), 'schedule');
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.served_again(at_most integer) RETURNS SETOF bigint
    LANGUAGE sql STABLE ROWS 100
    BEGIN ATOMIC
 WITH RECURSIVE parked(handler, queue, requires, steps) AS (
         ( SELECT r.handler,
             r.queue,
             COALESCE(r.requires, '{}'::text[]) AS "coalesce",
             1 AS "?column?"
            FROM pgcron.run r
           WHERE (r.hold <> ALL (ARRAY['overlap'::text, 'previous'::text]))
           ORDER BY r.handler, r.queue, COALESCE(r.requires, '{}'::text[])
          LIMIT 1)
         UNION ALL
          SELECT next.handler,
             next.queue,
             next.requires,
             (parked_1.steps + 1)
            FROM (parked parked_1
              CROSS JOIN LATERAL ( SELECT r.handler,
                     r.queue,
                     COALESCE(r.requires, '{}'::text[]) AS requires
                    FROM pgcron.run r
                   WHERE ((r.hold <> ALL (ARRAY['overlap'::text, 'previous'::text])) AND (ROW(r.handler, r.queue, COALESCE(r.requires, '{}'::text[])) > ROW(parked_1.handler, parked_1.queue, parked_1.requires)))
                   ORDER BY r.handler, r.queue, COALESCE(r.requires, '{}'::text[])
                  LIMIT 1) next)
           WHERE (parked_1.steps < 10000)
         )
  SELECT found.id
    FROM (parked
      CROSS JOIN LATERAL ( SELECT r.id
            FROM pgcron.run r
           WHERE ((r.hold = 'unserved'::text) AND (r.handler = parked.handler) AND (r.queue = parked.queue) AND (COALESCE(r.requires, '{}'::text[]) = parked.requires))
          LIMIT served_again.at_most) found)
   WHERE (pgcron.is_served(parked.handler, parked.queue, parked.requires) AND (NOT pgcron.is_broken(parked.handler, parked.queue)))
  LIMIT served_again.at_most;
END;

CREATE FUNCTION pgcron.server_timeline() RETURNS integer
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$ SELECT ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int $$;

CREATE FUNCTION pgcron.set_breaker(name text, failures integer DEFAULT 5, within interval DEFAULT '00:01:00'::interval, open_for interval DEFAULT '00:00:30'::interval, open_for_at_most interval DEFAULT NULL::interval, fallback_handler text DEFAULT NULL::text, fallback_queue text DEFAULT NULL::text, handlers text[] DEFAULT NULL::text[], actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  INSERT INTO pgcron.breaker AS b (name, failures, within, open_for, open_for_at_most, fallback_handler, fallback_queue, set_by)
  VALUES (set_breaker.name, set_breaker.failures, set_breaker.within, set_breaker.open_for,
          coalesce(set_breaker.open_for_at_most, greatest(set_breaker.open_for, '10 minutes')), set_breaker.fallback_handler, set_breaker.fallback_queue, coalesce(set_breaker.actor, session_user))
  ON CONFLICT ON CONSTRAINT breaker_pkey DO UPDATE SET failures = EXCLUDED.failures, within = EXCLUDED.within, open_for = EXCLUDED.open_for,
    open_for_at_most = EXCLUDED.open_for_at_most, fallback_handler = EXCLUDED.fallback_handler, fallback_queue = EXCLUDED.fallback_queue, set_by = EXCLUDED.set_by, set_at = now();
  INSERT INTO pgcron.breaker_handler AS m (handler, breaker) SELECT DISTINCT one.handler, set_breaker.name FROM unnest(set_breaker.name || set_breaker.handlers) one(handler)
  ON CONFLICT ON CONSTRAINT breaker_handler_pkey DO UPDATE SET breaker = EXCLUDED.breaker;
  SELECT pgcron.notify(pgcron.channel(), 'breaker') $$;

COMMENT ON FUNCTION pgcron.set_breaker(name text, failures integer, within interval, open_for interval, open_for_at_most interval, fallback_handler text, fallback_queue text, handlers text[], actor text) IS 'A handler (or those of one http service) that fails so often within a time is left alone for a while, then probed with one run at a time.';

CREATE FUNCTION pgcron.set_hold(run_ids bigint[], hold text) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  written bigint[];
BEGIN
  IF run_ids = '{}' THEN RETURN; END IF;
  BEGIN
    WITH changed AS (
      UPDATE pgcron.run r SET hold = set_hold.hold WHERE r.id = ANY(run_ids) RETURNING r.id)
    SELECT array_agg(c.id) INTO written FROM changed c;
    RETURN QUERY SELECT unnest(written);
    RETURN;
  EXCEPTION WHEN others THEN
    IF NOT pgcron.is_fault_of_row(SQLSTATE) THEN RAISE; END IF;
    IF cardinality(run_ids) = 1 THEN
      PERFORM pgcron.end_refused_run(run_ids[1], NULL, SQLERRM);
      RETURN;
    END IF;
  END;
  RETURN QUERY SELECT one.* FROM unnest(run_ids) waiting(id)
    CROSS JOIN LATERAL pgcron.set_hold(ARRAY[waiting.id], set_hold.hold) one;
END $$;

CREATE FUNCTION pgcron.set_lane(lane text, slots integer DEFAULT 1, rate integer DEFAULT NULL::integer, per interval DEFAULT NULL::interval, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
  DELETE FROM pgcron.rate_window w USING pgcron.lane_limit l
   WHERE w.kind = 'lane' AND l.lane = set_lane.lane AND l.per IS DISTINCT FROM set_lane.per AND starts_with(w.name, regexp_replace(l.lane, E'\\*$', ''));
  INSERT INTO pgcron.lane_limit AS l (lane, slots, rate, per, set_by)
  VALUES (set_lane.lane, set_lane.slots, set_lane.rate, set_lane.per, coalesce(set_lane.actor, session_user))
  ON CONFLICT (lane) DO UPDATE SET slots = EXCLUDED.slots, rate = EXCLUDED.rate, per = EXCLUDED.per, set_by = EXCLUDED.set_by, set_at = now();
  SELECT pgcron.notify(pgcron.channel(), 'run') $_$;

COMMENT ON FUNCTION pgcron.set_lane(lane text, slots integer, rate integer, per interval, actor text) IS 'Says how many runs of a lane (customer-7), of each lane that begins so (customer-*) or of any other lane (*) execute at once, and how many start in any span of time.';

CREATE FUNCTION pgcron.set_queue(name text, max_running integer DEFAULT NULL::integer, rate integer DEFAULT NULL::integer, per interval DEFAULT NULL::interval, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  DELETE FROM pgcron.rate_window w USING pgcron.queue q WHERE w.kind = 'queue' AND w.name = set_queue.name AND q.name = w.name AND q.per IS DISTINCT FROM set_queue.per;
  INSERT INTO pgcron.queue AS q (name, max_running, rate, per, set_by, set_at)
  VALUES (set_queue.name, set_queue.max_running, set_queue.rate, set_queue.per, coalesce(set_queue.actor, session_user), now())
  ON CONFLICT (name) DO UPDATE SET max_running = EXCLUDED.max_running, rate = EXCLUDED.rate, per = EXCLUDED.per, set_by = EXCLUDED.set_by, set_at = EXCLUDED.set_at;
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;

COMMENT ON FUNCTION pgcron.set_queue(name text, max_running integer, rate integer, per interval, actor text) IS 'Limits how many runs of a queue execute at once (max_running), and how many start in any span of time (rate, per), on all nodes together; what is left out is no limit.';

CREATE FUNCTION pgcron.set_retention(keep interval, queue text DEFAULT NULL::text, outcome text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
BEGIN
  IF set_retention.keep IS NULL THEN
    PERFORM pgcron.refuse('PC001', 'keep is not given', 'It says how long the runs are kept after their end.', 'Write for example ''7 days''; pgcron.reset_retention takes a rule back.');
  END IF;
  INSERT INTO pgcron.retention_rule AS r (queue, outcome, keep, set_by) VALUES (set_retention.queue, set_retention.outcome, set_retention.keep, coalesce(set_retention.actor, session_user))
  ON CONFLICT (coalesce(queue, ''), coalesce(outcome, '')) DO UPDATE SET keep = EXCLUDED.keep, set_by = EXCLUDED.set_by, set_at = now();
END $$;

COMMENT ON FUNCTION pgcron.set_retention(keep interval, queue text, outcome text, actor text) IS 'Keeps ended runs of a queue (or of every queue) that ended so (or however) for a shorter time than history. What is over is removed within the hour, day by day.';

CREATE FUNCTION pgcron.set_table_retention(relation text, keep interval) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF set_table_retention.keep IS NULL THEN
    PERFORM pgcron.refuse('PC001', 'keep is not given', 'It says how long the table''s rows are kept.', 'Write for example ''30 days''.');
  END IF;
  UPDATE pgcron.retention kept SET keep = set_table_retention.keep WHERE kept.relation = set_table_retention.relation;
  IF NOT FOUND THEN
    PERFORM pgcron.refuse('PC010', format('%L is no table with a retention', left(set_table_retention.relation, 200)), 'Those are occurrence, history, attempt and log.',
                          'SELECT relation, keep FROM pgcron.retention lists them.');
  END IF;
END $$;

COMMENT ON FUNCTION pgcron.set_table_retention(relation text, keep interval) IS 'How long occurrence (the ledger), history, attempt or log is kept: whole partitions are dropped after it.';

CREATE FUNCTION pgcron.settle_backfill(backfill bigint) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  good int;
  bad int;
  still_open int;
  failed_run bigint; why jsonb;
BEGIN
  WITH ended AS MATERIALIZED (
    SELECT o.run_id, o.fire_at, coalesce(h.outcome, v.outcome, 'unknown') AS outcome
      FROM pgcron.backfill_run o
      -- Whatever the clocks did in between, a run did not end a day before it was made; partitions older than that are not looked into.
      LEFT JOIN LATERAL (SELECT e.outcome FROM pgcron.history e WHERE e.id = o.run_id AND e.finished_at > o.made_at - interval '1 day' LIMIT 1) h ON true
      LEFT JOIN LATERAL (SELECT e.outcome FROM pgcron.history_overflow e WHERE e.id = o.run_id LIMIT 1) v ON true
     WHERE o.backfill_id = settle_backfill.backfill AND o.outcome IS NULL AND NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = o.run_id)),
  forgotten AS (
    DELETE FROM pgcron.backfill_run o USING ended e WHERE o.backfill_id = settle_backfill.backfill AND o.run_id = e.run_id AND e.outcome = 'succeeded'),
  kept AS (
    UPDATE pgcron.backfill_run o SET outcome = e.outcome FROM ended e WHERE o.backfill_id = settle_backfill.backfill AND o.run_id = e.run_id AND e.outcome <> 'succeeded')
  SELECT count(*) FILTER (WHERE e.outcome = 'succeeded'), count(*) FILTER (WHERE e.outcome <> 'succeeded'),
         max(e.run_id) FILTER (WHERE e.outcome IN ('dead', 'lost', 'cancelled', 'expired', 'upstream_failed')) INTO good, bad, failed_run FROM ended e;
  SELECT count(*) INTO still_open FROM pgcron.backfill_run o WHERE o.backfill_id = settle_backfill.backfill AND o.outcome IS NULL;
  IF bad > 0 THEN
    DELETE FROM pgcron.backfill_run o WHERE o.backfill_id = settle_backfill.backfill AND o.outcome IS NOT NULL AND o.run_id < (
      SELECT n.run_id FROM pgcron.backfill_run n WHERE n.backfill_id = settle_backfill.backfill AND n.outcome IS NOT NULL ORDER BY n.run_id DESC OFFSET 999 LIMIT 1);
  END IF;
  IF failed_run IS NOT NULL THEN
    SELECT jsonb_build_object('message', format('run %s, of %s, ended %s', o.run_id, o.fire_at, o.outcome), 'detail', 'With depends_on_previous the instant after it needs its success.',
                              'hint', format('Try it again (`pgcron-ha runs retry %s`), then resume; resumed at once, the backfill goes on without it.', o.run_id)) INTO why
      FROM pgcron.backfill b JOIN pgcron.backfill_run o ON o.backfill_id = b.id AND o.run_id = failed_run
     WHERE b.id = settle_backfill.backfill AND (b.definition ->> 'depends_on_previous')::boolean AND b.state IN ('open', 'paused') AND (b.planned > b.already + b.created) IS NOT FALSE;
  END IF;
  UPDATE pgcron.backfill b SET succeeded = b.succeeded + good, failed = b.failed + bad, error = coalesce(why, b.error),
         changed_at = CASE WHEN why IS NULL THEN b.changed_at ELSE now() END, changed_by = CASE WHEN why IS NULL THEN b.changed_by ELSE 'pgcron_ha' END,
         state = CASE WHEN why IS NOT NULL THEN 'paused' WHEN b.state = 'stopping' AND still_open = 0 THEN 'stopped' ELSE b.state END,
         ended_at = CASE WHEN b.state = 'stopping' AND still_open = 0 THEN now() ELSE b.ended_at END
   WHERE b.id = settle_backfill.backfill AND (good + bad > 0 OR (b.state = 'stopping' AND still_open = 0));
  RETURN still_open;
END $$;

CREATE FUNCTION pgcron.settle_queues(schedules bigint[]) RETURNS TABLE(verdict text, id bigint)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  ending record;
  locked bigint[];
BEGIN
  FOR ending IN
    WITH waiting AS MATERIALIZED (
      SELECT d.id, d.schedule_id, row_number() OVER (PARTITION BY d.schedule_id ORDER BY d.due_at, d.id) AS place, count(*) OVER (PARTITION BY d.schedule_id) AS runs
        FROM unnest(schedules) AS one(schedule_id)
       CROSS JOIN LATERAL (
         SELECT n.* FROM pgcron.run n WHERE n.schedule_id = one.schedule_id AND n.state = 'ready' AND n.hold IS NULL AND n.due_at <= now() AND n.overlap = 'queue'
         UNION ALL
         SELECT h.* FROM pgcron.run h WHERE h.schedule_id = one.schedule_id AND h.hold = 'overlap' AND h.overlap = 'queue' AND h.due_at <= now()) d
       WHERE d.overlap_slot IS NULL),
    bound AS MATERIALIZED (
      SELECT k.schedule_id, coalesce(s.max_queued, 1000) AS most, greatest(o.room, 0) AS room, coalesce(s.queue_drops, 'newest') AS drops
        FROM (SELECT DISTINCT w.schedule_id FROM waiting w) k CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, 'queue', 1) o
        LEFT JOIN pgcron.schedule s ON s.id = k.schedule_id)
    SELECT CASE b.drops WHEN 'newest' THEN 'skipped' ELSE 'superseded' END AS outcome,
           format('%s %s %s (max_queued)', b.most, CASE b.drops WHEN 'newest' THEN 'older' ELSE 'newer' END, CASE b.most WHEN 1 THEN 'run waits' ELSE 'runs wait' END) AS reason, array_agg(w.id ORDER BY w.id) AS runs
      FROM waiting w JOIN bound b ON b.schedule_id = w.schedule_id
     WHERE w.place > b.room AND CASE b.drops WHEN 'newest' THEN w.place - b.room ELSE w.runs - w.place + 1 END > b.most
     GROUP BY 1, 2 LOOP
    locked := ARRAY(SELECT l.id FROM pgcron.run l WHERE l.id = ANY(ending.runs[:1000]) AND l.state = 'ready' AND l.overlap_slot IS NULL ORDER BY l.id FOR UPDATE SKIP LOCKED);
    IF locked <> '{}' THEN
      RETURN QUERY SELECT CASE ending.outcome WHEN 'skipped' THEN 'skip' ELSE 'supersede' END, e FROM pgcron.end_waiting_runs(locked, ending.outcome, ending.reason) e;
    END IF;
  END LOOP;
  RETURN QUERY SELECT CASE WHEN l.is_held THEN 'hold' ELSE 'go' END, l.id FROM pgcron.line_up(schedules) l;
END $$;

CREATE FUNCTION pgcron.short_interval(length interval) RETURNS text
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT concat_ws(' ', nullif(s.seconds / 86400, 0) || ' d', nullif(s.seconds / 3600 % 24, 0) || ' h', nullif(s.seconds / 60 % 60, 0) || ' m',
                   nullif(s.seconds % 60, 0) || ' s')
    FROM (SELECT extract(epoch FROM length)::bigint AS seconds) s $$;

CREATE FUNCTION pgcron.skip_beyond(schedules bigint[]) RETURNS SETOF bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  ending record;
  locked bigint[];
BEGIN
  FOR ending IN
    WITH waiting AS MATERIALIZED (
      SELECT d.id, d.schedule_id, d.overlap FROM unnest(schedules) AS one(schedule_id) JOIN pgcron.run d ON d.schedule_id = one.schedule_id
       WHERE d.state = 'ready' AND d.hold IS NULL AND d.overlap IN ('skip', 'skip many') AND d.due_at <= now() AND d.overlap_slot IS NULL)
    SELECT CASE WHEN w.overlap = 'skip many' AND s.max_running > 1 THEN format('%s runs are not over (max_running)', s.max_running) ELSE 'the last run is not over' END AS reason,
           array_agg(w.id ORDER BY w.id) AS runs
      FROM (SELECT DISTINCT w.schedule_id, w.overlap FROM waiting w) k
     CROSS JOIN LATERAL pgcron.overlap_room(k.schedule_id, k.overlap, 1) o
      JOIN waiting w ON w.schedule_id = k.schedule_id AND w.overlap = k.overlap
      LEFT JOIN pgcron.schedule s ON s.id = w.schedule_id
     WHERE o.room <= 0 GROUP BY 1 LOOP
    locked := ARRAY(SELECT l.id FROM pgcron.run l WHERE l.id = ANY(ending.runs[:1000]) AND l.state = 'ready' AND l.overlap_slot IS NULL ORDER BY l.id FOR UPDATE SKIP LOCKED);
    IF locked <> '{}' THEN
      RETURN QUERY SELECT pgcron.end_waiting_runs(locked, 'skipped', ending.reason);
    END IF;
  END LOOP;
END $$;

CREATE FUNCTION pgcron.skip_occurrence(name text, instant timestamp with time zone, note text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT pgcron.override_occurrence(skip_occurrence.name, skip_occurrence.instant,
    ROW(NULL, NULL, 'skip', NULL, NULL, skip_occurrence.note, coalesce(skip_occurrence.actor, session_user), NULL)::pgcron.occurrence_override) $$;

COMMENT ON FUNCTION pgcron.skip_occurrence(name text, instant timestamp with time zone, note text, actor text) IS 'One fire to come does not run. Nobody but a node can tell beyond the horizon whether an instant is one: the other doors ask first.';

CREATE FUNCTION pgcron.snoozes_are_fine(naps jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF jsonb_typeof(naps) <> 'object' THEN RETURN false; END IF;
  RETURN pgcron.causes_are_fine((SELECT coalesce(jsonb_agg(pair.key), '[]') FROM jsonb_each(naps) pair))
     AND NOT EXISTS (SELECT FROM jsonb_each(naps) pair WHERE (pgcron.policy_interval(pair.value) > '0') IS NOT TRUE);
END $$;

CREATE FUNCTION pgcron.spent_partitions() RETURNS SETOF text
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  DELETE FROM pgcron.retention_sweep s WHERE to_regclass(format('pgcron.%I', s.partition)) IS NULL AND s.until < now() - (SELECT kept.keep FROM pgcron.retention kept WHERE kept.relation = 'history');
  UPDATE pgcron.retention_sweep s SET tries = s.tries + 1, tried_at = now(), bytes = pg_relation_size(to_regclass(format('pgcron.%I', s.partition)))
   WHERE s.partition = ANY(ARRAY(
     SELECT e.partition FROM pgcron.retention_sweep e
      WHERE e.ended_at IS NOT NULL AND e.gone > 0 AND e.gone >= e.remaining AND e.remaining <= 100000 AND e.tries < 24 AND coalesce(e.tried_at < now() - interval '50 minutes', true)
        AND pg_relation_size(to_regclass(format('pgcron.%I', e.partition))) BETWEEN 1048576 AND 1073741824
      ORDER BY e.until FOR UPDATE SKIP LOCKED))
  RETURNING s.partition $$;

CREATE FUNCTION pgcron.step_backfill(backfill bigint, reached timestamp with time zone, instants timestamp with time zone[], is_last boolean) RETURNS TABLE(state text, taken integer, made integer)
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  b pgcron.backfill;
  plan pgcron.schedule;
  room int;
  may_wait int;
  still_open int;
  claims timestamptz[];
  again timestamptz[];
  parents bigint[];
  new_reached timestamptz; next_fire timestamptz;
  who text;
  policy text;
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  SELECT s.* INTO plan FROM pgcron.schedule s WHERE s.id = (SELECT f.schedule_id FROM pgcron.backfill f WHERE f.id = step_backfill.backfill) FOR KEY SHARE;
  SELECT f.* INTO b FROM pgcron.backfill f WHERE f.id = step_backfill.backfill AND f.state IN ('open', 'paused', 'stopping') FOR UPDATE SKIP LOCKED;
  IF b.id IS NULL THEN RETURN; END IF;
  still_open := pgcron.settle_backfill(b.id);
  SELECT f.state INTO b.state FROM pgcron.backfill f WHERE f.id = b.id;
  taken := 0;
  made := 0;
  IF b.state = 'open' AND plan.id IS NOT NULL AND b.reached IS NOT DISTINCT FROM step_backfill.reached THEN
    b.schedule := plan.name;      -- as runs that wait do, those that are made follow a new name
    may_wait := coalesce(plan.max_queued, 1000);      -- whoever ends what is too much asks the schedule as it stands
    plan := jsonb_populate_record(plan, b.definition);
    room := b.parallelism - still_open;
    policy := pgcron.run_overlap(b.overlap, plan);
    -- What would be dropped, or would stop what runs, is not made before there is a slot for it, or a place in the queue.
    IF coalesce(b.overlap, plan.overlap) <> 'allow' THEN
      room := least(room, (SELECT o.room FROM pgcron.overlap_room(b.schedule_id, policy, 1000) o) + CASE coalesce(b.overlap, plan.overlap) WHEN 'queue' THEN may_wait ELSE 0 END - (
        SELECT count(*) FROM pgcron.run r WHERE r.schedule_id = b.schedule_id AND r.state = 'ready' AND r.due_at <= now() AND r.overlap IS NOT NULL AND r.overlap_slot IS NULL
           AND coalesce(r.hold, 'overlap') = 'overlap'));
    END IF;
    IF plan.depends_on_previous AND room > 0 THEN
      SELECT j.fire_at INTO next_fire FROM pgcron.judge_backfill(b, step_backfill.instants) j WHERE j.verdict <> 'leave' ORDER BY j.place LIMIT 1;
      IF (SELECT p.verdict FROM pgcron.judge_previous(b.schedule_id, next_fire) p) = 'open' THEN room := 0; END IF;
    END IF;
    WITH judged AS MATERIALIZED (
      SELECT j.*, count(*) FILTER (WHERE j.verdict <> 'leave') OVER (ORDER BY j.place) AS used FROM pgcron.judge_backfill(b, step_backfill.instants) j)
    SELECT count(*), array_agg(j.fire_at ORDER BY j.place) FILTER (WHERE j.verdict = 'claim'), array_agg(j.fire_at ORDER BY j.place) FILTER (WHERE j.verdict = 'again'),
           array_agg(j.parent ORDER BY j.place) FILTER (WHERE j.verdict = 'again'), (array_agg(j.fire_at ORDER BY j.place DESC))[1]
      INTO taken, claims, again, parents, new_reached
      FROM judged j WHERE j.used <= room;
    who := format('backfill %s by %s', b.id, b.created_by);
    IF claims IS NOT NULL THEN
      PERFORM pgcron.reopen_ledger(claims);
      WITH numbered AS MATERIALIZED (
        SELECT c.fire_at, nextval(pg_get_serial_sequence('pgcron.run', 'id')) AS run_id FROM (SELECT u.fire_at FROM unnest(claims) WITH ORDINALITY u(fire_at, place) ORDER BY u.place) c),
      ledger AS (
        INSERT INTO pgcron.occurrence (schedule_id, fire_at, decision, reason, run_id)
        SELECT b.schedule_id, n.fire_at, 'run', format('backfill %s', b.id), n.run_id FROM numbered n ORDER BY n.fire_at
        ON CONFLICT (schedule_id, fire_at) DO NOTHING RETURNING fire_at, run_id),
      fresh AS (
        INSERT INTO pgcron.run (id, uuid, origin, schedule_id, schedule, scheduled_for, queue, priority, handler, args, delivery, max_attempts, timeout, retry_base, retry_cap, retry,
                                overlap, lane, requires, weight, expire_at, time_limits, created_by)
        SELECT l.run_id, md5(plan.uuid::text || '/' || extract(epoch FROM l.fire_at)::text)::uuid, 'backfill', b.schedule_id, b.schedule, l.fire_at, plan.queue, plan.priority, plan.handler,
               coalesce(b.args, o.args, plan.args), plan.delivery, plan.max_attempts, plan.timeout, plan.retry_base, plan.retry_cap, plan.retry, policy,
               pgcron.lane_of(plan.lane, plan.weight), plan.requires, nullif(plan.weight, 1), now() + plan.give_up_after,
               CASE WHEN num_nonnulls(plan.give_up_after, plan.silence_timeout) > 0 THEN pgcron.time_limits(plan.give_up_after, plan.silence_timeout, now()) END, who
          FROM ledger l LEFT JOIN pgcron.occurrence_override o ON o.schedule_id = b.schedule_id AND o.fire_at = l.fire_at
        RETURNING id, scheduled_for),
      noted AS (
        INSERT INTO pgcron.backfill_run (backfill_id, run_id, fire_at) SELECT b.id, f.id, f.scheduled_for FROM fresh f RETURNING run_id)
      SELECT count(*) INTO made FROM noted;
    END IF;
    IF again IS NOT NULL THEN
      WITH numbered AS MATERIALIZED (
        SELECT c.fire_at, c.parent, nextval(pg_get_serial_sequence('pgcron.run', 'id')) AS run_id
          FROM (SELECT u.fire_at, u.parent FROM unnest(again, parents) WITH ORDINALITY u(fire_at, parent, place) ORDER BY u.place) c),
      fresh AS (
        INSERT INTO pgcron.run (id, origin, schedule_id, schedule, nominal_for, parent_run, queue, priority, handler, args, delivery, max_attempts, timeout, retry_base, retry_cap, retry,
                                overlap, lane, requires, weight, expire_at, time_limits, created_by)
        SELECT n.run_id, 'rerun', b.schedule_id, b.schedule, n.fire_at, n.parent, plan.queue, plan.priority, plan.handler, coalesce(b.args, plan.args), plan.delivery, plan.max_attempts,
               plan.timeout, plan.retry_base, plan.retry_cap, plan.retry, policy, pgcron.lane_of(plan.lane, plan.weight), plan.requires, nullif(plan.weight, 1),
               now() + plan.give_up_after,
               CASE WHEN num_nonnulls(plan.give_up_after, plan.silence_timeout) > 0 THEN pgcron.time_limits(plan.give_up_after, plan.silence_timeout, now()) END, who
          FROM numbered n RETURNING id, nominal_for)
      INSERT INTO pgcron.backfill_run (backfill_id, run_id, fire_at) SELECT b.id, f.id, f.nominal_for FROM fresh f;
      made := made + cardinality(again);
    END IF;
    still_open := still_open + made;
    IF taken > 0 OR (step_backfill.is_last AND still_open = 0) THEN
      UPDATE pgcron.backfill f SET reached = coalesce(new_reached, f.reached), already = f.already + taken - made, created = f.created + made,
             state = CASE WHEN step_backfill.is_last AND taken = cardinality(step_backfill.instants) AND still_open = 0 THEN 'done' ELSE f.state END,
             ended_at = CASE WHEN step_backfill.is_last AND taken = cardinality(step_backfill.instants) AND still_open = 0 THEN now() END
       WHERE f.id = b.id;
    END IF;
  END IF;
  SELECT f.state INTO state FROM pgcron.backfill f WHERE f.id = b.id;
  RETURN NEXT;
END $$;

CREATE FUNCTION pgcron.stop_backfill(backfill bigint, reason text DEFAULT NULL::text, actor text DEFAULT NULL::text) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  held pgcron.backfill := pgcron.hold_backfill(stop_backfill.backfill, 'stopped');
  cancelled int;
BEGIN
  PERFORM pgcron.require_read_committed('backfills');
  SELECT count(*) INTO cancelled FROM pgcron.end_waiting_runs(
    ARRAY(SELECT o.run_id FROM pgcron.backfill_run o WHERE o.backfill_id = held.id AND o.outcome IS NULL), 'cancelled',
    concat_ws(': ', format('backfill %s was stopped by %s', held.id, coalesce(stop_backfill.actor, session_user)), left(stop_backfill.reason, 500)));
  UPDATE pgcron.backfill b SET state = 'stopping', changed_at = now(), changed_by = coalesce(stop_backfill.actor, session_user) WHERE b.id = held.id;
  PERFORM pgcron.settle_backfill(held.id);
  PERFORM pgcron.wake_backfills();
  RETURN cancelled;
END $$;

COMMENT ON FUNCTION pgcron.stop_backfill(backfill bigint, reason text, actor text) IS 'Ends a backfill: makes no more runs, cancels those that wait, leaves those that run. Returns how many were cancelled.';

CREATE FUNCTION pgcron.sweep_history(pages integer DEFAULT 64, OUT partition text, OUT removed integer, OUT removed_in_all bigint, OUT remaining bigint, OUT is_over boolean) RETURNS SETOF record
    LANGUAGE plpgsql
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_column
DECLARE
  unswept record;
  day regclass;
  is_begun boolean;
  held pgcron.retention_sweep;
  seen int;
  over int;
  going bigint[];
  letters bigint[];
  first_at timestamptz;
  all_pages bigint;
BEGIN
  FOR unswept IN SELECT u.partition, u.until FROM pgcron.unswept_partitions() u LOOP
    IF NOT EXISTS (SELECT FROM pgcron.retention_sweep s WHERE s.partition = unswept.partition) THEN      -- what is there would be waited for
      INSERT INTO pgcron.retention_sweep (partition, until, rules, began_at) VALUES (unswept.partition, unswept.until, '', now()) ON CONFLICT DO NOTHING;
    END IF;
    SELECT s.* INTO held FROM pgcron.retention_sweep s WHERE s.partition = unswept.partition FOR UPDATE SKIP LOCKED;
    CONTINUE WHEN held.partition IS NULL;      -- somebody else is at it
    -- As it is now that it is locked: another one may have ended it a moment ago.
    SELECT u.is_begun, to_regclass(format('pgcron.%I', u.partition)) INTO is_begun, day FROM pgcron.unswept_partitions() u WHERE u.partition = held.partition;
    EXIT WHEN day IS NOT NULL;
  END LOOP;
  IF day IS NULL THEN RETURN; END IF;
  IF is_begun IS NOT TRUE THEN
    held.rules := pgcron.retention_word(); held.began_at := now(); held.file := pg_relation_filenode(day);
    held.page := 0; held.spared := 0; held.remaining := 0;
  END IF;
  EXECUTE format($sweep$
    WITH page AS MATERIALIZED (
      SELECT h.ctid AS place, h.id, h.queue, h.outcome, h.origin, h.schedule_id, h.scheduled_for, h.parent_run,
             CASE WHEN h.attempt > 1 OR h.snoozes > 0 THEN h.created_at ELSE coalesce(h.claimed_at, h.created_at) END AS first_at
        FROM ONLY %1$s h WHERE h.ctid >= $1 AND h.ctid < $2),
    kind AS MATERIALIZED (
      SELECT k.queue, k.outcome FROM (SELECT DISTINCT p.queue, p.outcome FROM page p) k WHERE $4 <= $3 - pgcron.history_keep(k.queue, k.outcome)),
    due AS MATERIALIZED (SELECT p.* FROM page p JOIN kind k ON k.queue = p.queue AND k.outcome = p.outcome),
    kept AS MATERIALIZED (
      SELECT k.id FROM (SELECT DISTINCT d.schedule_id FROM due d WHERE d.schedule_id IS NOT NULL) d JOIN pgcron.schedule s ON s.id = d.schedule_id CROSS JOIN LATERAL pgcron.runs_to_keep(s.id) k(id)),
    uncounted AS MATERIALIZED (SELECT b.run_id FROM pgcron.backfill_run b WHERE b.outcome IS NULL),
    going AS MATERIALIZED (
      SELECT d.*, d.outcome IN ('dead', 'lost') AND EXISTS (SELECT FROM pgcron.dead_letter l WHERE l.run_id = d.id AND l.requeued_as IS NULL) AS is_letter FROM due d
       WHERE d.schedule_id IS NULL
          OR (d.parent_run IS NULL AND coalesce(d.scheduled_for <= now() - interval '1 day', true) AND d.id NOT IN (SELECT k.id FROM kept k WHERE k.id IS NOT NULL)
              AND (d.origin <> 'backfill' OR d.id NOT IN (SELECT u.run_id FROM uncounted u)))),
    removed AS (DELETE FROM ONLY %1$s h WHERE h.ctid = ANY(ARRAY(SELECT g.place FROM going g)) RETURNING h.id)
    SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM due), coalesce(array_agg(g.id) FILTER (WHERE NOT g.is_letter), '{}'), coalesce(array_agg(g.id) FILTER (WHERE g.is_letter), '{}'),
           min(g.first_at) FROM going g JOIN removed r ON r.id = g.id $sweep$, day)
    INTO seen, over, going, letters, first_at
    USING format('(%s,0)', held.page)::tid, format('(%s,0)', held.page + greatest(sweep_history.pages, 1))::tid, held.began_at, held.until;
  IF going <> '{}' THEN
    -- By their time, so that no partition is looked into that can't have them; lines have the time of a node's clock.
    EXECUTE 'DELETE FROM pgcron.attempt a WHERE a.run_id = ANY($1) AND a.ended_at >= $2 AND a.ended_at < $3' USING going, first_at, held.until + interval '1 hour';
    EXECUTE 'DELETE FROM pgcron.log l WHERE l.run_id = ANY($1) AND l.at >= $2 AND l.at < $3' USING going, first_at - interval '1 hour', held.until + interval '1 hour';
  END IF;
  all_pages := pg_relation_size(day) / current_setting('block_size')::int;
  partition := held.partition;
  removed := cardinality(going) + cardinality(letters);
  is_over := held.page + greatest(sweep_history.pages, 1) >= all_pages;
  UPDATE pgcron.retention_sweep s SET rules = held.rules, began_at = held.began_at, file = held.file, page = held.page + greatest(sweep_history.pages, 1), ended_at = CASE WHEN is_over THEN now() END,
         removed = s.removed + sweep_history.removed, gone = s.gone + sweep_history.removed, spared = held.spared + over - sweep_history.removed, remaining = held.remaining + seen - sweep_history.removed,
         tries = CASE WHEN is_begun THEN s.tries ELSE 0 END
   WHERE s.partition = held.partition RETURNING s.removed, s.remaining INTO removed_in_all, remaining;
  RETURN NEXT;
END $_$;

COMMENT ON FUNCTION pgcron.sweep_history(pages integer, OUT partition text, OUT removed integer, OUT removed_in_all bigint, OUT remaining bigint, OUT is_over boolean) IS 'Removes ended runs that a rule of retention keeps no longer, from so many pages of one day; no row: nothing is due. Safe to call from many sessions.';

CREATE FUNCTION pgcron.take_calendars(spec text) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  unknown text;
BEGIN
  PERFORM FROM pgcron.calendar c WHERE c.name IN (SELECT jsonb_object_keys(pgcron.calendars_of(take_calendars.spec))) ORDER BY c.id FOR SHARE;
  SELECT min(named) INTO unknown FROM pgcron.calendars_named(take_calendars.spec) named WHERE NOT EXISTS (SELECT FROM pgcron.calendar c WHERE c.name = named);
  IF unknown IS NOT NULL THEN
    PERFORM pgcron.refuse('PC002', format('calendar %L is not known', unknown), 'A spec names calendars that exist, spelled exactly.',
      'There are: ' || coalesce((SELECT string_agg(known.name, ', ') FROM (SELECT c.name FROM pgcron.calendar c ORDER BY lower(c.name) <> lower(unknown), c.name LIMIT 5) known), 'none')
      || '. `pgcron-ha calendars put` makes one.');
  END IF;
  RETURN pgcron.calendars_of(take_calendars.spec);
END $$;

CREATE FUNCTION pgcron.take_given_back(schedules bigint[]) RETURNS SETOF bigint
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH held AS MATERIALIZED (
    SELECT c.schedule_id FROM pgcron.cursor c WHERE c.schedule_id = ANY(schedules) ORDER BY c.schedule_id FOR UPDATE SKIP LOCKED),
  taken AS (
    DELETE FROM pgcron.given_back g
     WHERE g.schedule_id = ANY(schedules)
       AND (g.schedule_id IN (SELECT h.schedule_id FROM held h) OR NOT EXISTS (SELECT FROM pgcron.cursor c WHERE c.schedule_id = g.schedule_id))
    RETURNING g.schedule_id, g.runs),
  totals AS (SELECT t.schedule_id, sum(t.runs)::int AS runs FROM taken t GROUP BY 1),
  counted AS (
    UPDATE pgcron.cursor c SET runs_made = greatest(c.runs_made - t.runs, 0), next_fire = nullif(c.next_fire, 'infinity')
      FROM totals t JOIN held h USING (schedule_id) WHERE c.schedule_id = t.schedule_id)
  SELECT t.schedule_id FROM totals t $$;

CREATE FUNCTION pgcron.take_period(unique_key text, handler text, met bigint, starting timestamp with time zone, unique_for interval) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  taken bigint;
BEGIN
  INSERT INTO pgcron.unique_period AS p (key, handler, run_id, until)
  VALUES (take_period.unique_key, take_period.handler, nextval('pgcron.run_id_seq'), greatest(now(), starting) + unique_for)
  ON CONFLICT (key, handler) DO UPDATE SET run_id = EXCLUDED.run_id, until = EXCLUDED.until WHERE p.run_id = met OR p.until <= now()
  RETURNING p.run_id INTO taken;
  RETURN taken;
END $$;

CREATE FUNCTION pgcron.take_rules(zone text, tzdata text, after bigint, swept_to bigint, schedules bigint[], moved jsonb) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  change pgcron.zone_change;
  locked bigint[];
  before pgcron.cursor;
  healthy bigint;
  bridge jsonb;
  made_again int := 0;
BEGIN
  SELECT * INTO change FROM pgcron.zone_change z WHERE z.zone = take_rules.zone AND z.tzdata = take_rules.tzdata AND z.swept_to = take_rules.after AND z.done_at IS NULL FOR UPDATE;
  IF NOT FOUND THEN RETURN NULL; END IF;
  locked := ARRAY(SELECT c.schedule_id FROM pgcron.cursor c WHERE c.schedule_id = ANY(take_rules.schedules) ORDER BY c.schedule_id FOR UPDATE SKIP LOCKED);
  BEGIN
    UPDATE pgcron.cursor c SET next_fire = NULL WHERE c.schedule_id = ANY(locked) AND c.next_fire >= change.differs_from AND isfinite(c.next_fire);
  EXCEPTION WHEN check_violation THEN      -- one of them breaks a rule: those that don't, one by one
    FOREACH healthy IN ARRAY locked LOOP
      BEGIN
        UPDATE pgcron.cursor c SET next_fire = NULL WHERE c.schedule_id = healthy AND c.next_fire >= change.differs_from AND isfinite(c.next_fire);
      EXCEPTION WHEN check_violation THEN NULL;
      END;
    END LOOP;
  END;
  UPDATE pgcron.schedule_preview p SET generation = NULL, asked_at = now() WHERE p.schedule_id = ANY(locked);
  UPDATE pgcron.failure_pause p SET probe_fire = NULL, look_at = p.probe_at WHERE p.schedule_id = ANY(locked) AND p.probe_run IS NULL AND p.probe_fire >= change.differs_from;
  FOR before IN SELECT c.* FROM pgcron.cursor c WHERE c.schedule_id = ANY(locked) AND NOT c.is_paused AND c.since < change.taken_at
                   AND (change.differs_from <= now() OR c.watermark >= change.differs_from) ORDER BY c.schedule_id LOOP
    BEGIN
      PERFORM pgcron.apply_edit(before.schedule_id);
      bridge := take_rules.moved -> before.schedule_id::text;
      IF bridge IS NOT NULL THEN
        PERFORM pgcron.bridge_clocks(before, make_interval(secs => (bridge ->> 'shift')::float8),
          ARRAY(SELECT jsonb_array_elements_text(bridge -> 'earlier')::timestamptz), ARRAY(SELECT jsonb_array_elements_text(bridge -> 'later')::timestamptz),
          format('the clocks of %s changed with the time zones of %s', take_rules.zone, take_rules.tzdata));
      END IF;
      made_again := made_again + 1;
    EXCEPTION
      WHEN lock_not_available OR deadlock_detected THEN      -- one of its runs is locked: it is postponed
        locked := array_remove(locked, before.schedule_id);
      WHEN OTHERS THEN      -- its rows break a rule: it keeps what was made of it, and the others follow
        RAISE WARNING 'pgcron_ha: schedule % can''t take the new rules of %: %', before.schedule_id, take_rules.zone, SQLERRM;
    END;
  END LOOP;
  UPDATE pgcron.zone_change z SET swept_to = take_rules.swept_to, remade = z.remade + made_again,
         postponed = ARRAY(SELECT left_over FROM unnest(change.postponed || take_rules.schedules) left_over
                            WHERE left_over <> ALL(locked) AND EXISTS (SELECT FROM pgcron.cursor c WHERE c.schedule_id = left_over) GROUP BY left_over ORDER BY left_over)
   WHERE z.zone = take_rules.zone AND z.tzdata = take_rules.tzdata;
  UPDATE pgcron.zone_change z SET done_at = clock_timestamp()
   WHERE z.zone = take_rules.zone AND z.tzdata = take_rules.tzdata AND take_rules.schedules = '{}' AND z.postponed = '{}';
  RETURN made_again;
END $$;

COMMENT ON FUNCTION pgcron.take_rules(zone text, tzdata text, after bigint, swept_to bigint, schedules bigint[], moved jsonb) IS 'For nodes: makes again what was made ahead of these schedules by the old rules of their zone.';

CREATE FUNCTION pgcron.take_zones(tzdata text, base text, zones text[], rules bytea[], differ_from timestamp with time zone[]) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  UPDATE pgcron.cluster c SET tzdata = take_zones.tzdata
   WHERE c.tzdata IS NOT DISTINCT FROM take_zones.base AND (c.tzdata IS NULL OR c.tzdata < take_zones.tzdata)
     AND NOT EXISTS (SELECT FROM pgcron.zone_change z WHERE z.done_at IS NULL);
  IF NOT FOUND THEN RETURN false; END IF;
  INSERT INTO pgcron.zone_change (zone, tzdata, old_rules, differs_from)
  SELECT given.zone, take_zones.tzdata, t.rules, given.differs_from FROM unnest(take_zones.zones, take_zones.differ_from) given(zone, differs_from)
    JOIN pgcron.timezone t ON t.name = given.zone AND t.rules IS NOT NULL
   WHERE given.differs_from IS NOT NULL;
  INSERT INTO pgcron.timezone (name, rules) SELECT given.zone, given.rules FROM unnest(take_zones.zones, take_zones.rules) given(zone, rules)
  ON CONFLICT (name) DO UPDATE SET rules = EXCLUDED.rules;
  RETURN true;
END $$;

COMMENT ON FUNCTION pgcron.take_zones(tzdata text, base text, zones text[], rules bytea[], differ_from timestamp with time zone[]) IS 'For nodes: the cluster computes with newer time zones from now on, if nobody was faster.';

CREATE FUNCTION pgcron.tell_missed(cursor_before pgcron.cursor, instant timestamp with time zone, reason text) RETURNS void
    LANGUAGE sql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  INSERT INTO pgcron.missed (schedule_id, first_at, last_at, reason, note)
  VALUES (cursor_before.schedule_id, cursor_before.watermark + interval '1 microsecond', instant, tell_missed.reason, cursor_before.pause_note)
  ON CONFLICT (schedule_id, first_at) DO NOTHING $$;

CREATE FUNCTION pgcron.tell_who_waits() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  PERFORM pgcron.notify(pgcron.end_channel(), OLD.id::text);
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.time_limits(give_up_after interval, silence_timeout interval, due_at timestamp with time zone) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT nullif(jsonb_strip_nulls(jsonb_build_object('give_up_after', trim_scale(extract(epoch FROM give_up_after)), 'give_up_at', due_at + give_up_after,
                                                     'silence_timeout', trim_scale(extract(epoch FROM silence_timeout)))), '{}')
   WHERE pgcron.time_limits_fit(give_up_after, silence_timeout) $$;

CREATE FUNCTION pgcron.time_limits_are_fine(limits jsonb) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
BEGIN
  IF jsonb_typeof(limits) <> 'object' OR limits - '{give_up_after,give_up_at,silence_timeout}'::text[] <> '{}' THEN RETURN false; END IF;
  RETURN jsonb_typeof(coalesce(limits -> 'give_up_after', '1')) = 'number' AND jsonb_typeof(coalesce(limits -> 'silence_timeout', '1')) = 'number'
     AND (limits ? 'give_up_after') = (limits ? 'give_up_at') AND coalesce(limits ->> 'give_up_at', '2000-01-01T00:00') ~ E'^\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d[0-9:.+-]*$'
     AND coalesce((limits ->> 'give_up_after')::float8, 1) BETWEEN 1e-6 AND 31622400 AND coalesce((limits ->> 'silence_timeout')::float8, 1) BETWEEN 1 AND 2592000
     AND coalesce(isfinite(pgcron.give_up_at(limits)), true);
EXCEPTION WHEN data_exception THEN
  RETURN false;
END $_$;

CREATE FUNCTION pgcron.time_limits_from(limits jsonb, due_at timestamp with time zone) RETURNS jsonb
    LANGUAGE sql STABLE
    BEGIN ATOMIC
 SELECT (limits ||
         CASE
             WHEN (limits ? 'give_up_after'::text) THEN jsonb_build_object('give_up_at', (due_at + make_interval(secs => ((limits ->> 'give_up_after'::text))::double precision)))
             ELSE '{}'::jsonb
         END);
END;

CREATE FUNCTION pgcron.timeless_columns() RETURNS text[]
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT '{version,updated_at,catchup,catchup_window,paused_note,paused_by,paused_until,after_pause,pause_after_failures,probe_after,managed_by,source}'::text[] AS text;
END;

CREATE FUNCTION pgcron.timing_since(of pgcron.schedule) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT min(v.since) FROM pgcron.schedule_version v WHERE v.schedule_id = of.id AND v.version > coalesce((
    SELECT max(e.version) FROM pgcron.schedule_version e WHERE e.schedule_id = of.id
       AND (e.content ->> 'spec', e.content ->> 'timezone', e.content ->> 'dst', nullif(e.content -> 'calendars', 'null')) IS DISTINCT FROM (of.spec, of.timezone, of.dst, of.calendars)), 0) $$;

CREATE FUNCTION pgcron.told_by(told text, OUT actor text, OUT note text) RETURNS record
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
  SELECT found[1], nullif(found[2], '') FROM regexp_match(told, '^(?:skipped|cancelled|killed|moved|backfill [0-9]+ was stopped) by (.*?)(?:: (.*))?$') found $_$;

CREATE FUNCTION pgcron.uncordon_node(node text, actor text DEFAULT NULL::text) RETURNS integer
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  whole text := (SELECT n.name FROM pgcron.node n JOIN pgcron.cordon c ON c.node = n.name AND c.lifted_at IS NULL
                  WHERE n.incarnation::text = uncordon_node.node AND n.name <> uncordon_node.node);
BEGIN
  PERFORM pgcron.require_node(uncordon_node.node);
  IF whole IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', format('node %L is cordoned by its name', uncordon_node.node), 'A cordon of a name holds for every process of that name.',
                          format('Lift that of %L.', whole));
  END IF;
  UPDATE pgcron.cordon c SET lifted_at = now(), lifted_by = coalesce(uncordon_node.actor, session_user)
   WHERE c.lifted_at IS NULL AND (c.node = uncordon_node.node OR c.incarnation IN (SELECT n.incarnation FROM pgcron.node n WHERE n.name = uncordon_node.node));
  PERFORM pgcron.notify(pgcron.channel(), 'node');
  RETURN (SELECT count(*) FROM pgcron.node n WHERE n.state IN ('alive', 'cordoned') AND (n.name = uncordon_node.node OR n.incarnation::text = uncordon_node.node)
             AND NOT EXISTS (SELECT FROM pgcron.cordon c WHERE c.lifted_at IS NULL AND c.node IN (n.name, n.incarnation::text)));
END $$;

COMMENT ON FUNCTION pgcron.uncordon_node(node text, actor text) IS 'The nodes of that name, or the process of that incarnation, claim runs again. Returns how many do.';

CREATE FUNCTION pgcron.unique_key_is_fine(unique_key text) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT ((unique_key IS NOT NULL) AND ((length(unique_key) >= 1) AND (length(unique_key) <= 500)) AND (btrim(unique_key) <> ''::text));
END;

CREATE FUNCTION pgcron.unswept_partitions() RETURNS TABLE(partition text, until timestamp with time zone, is_begun boolean)
    LANGUAGE sql STABLE
    SET "TimeZone" TO 'UTC'
    SET "DateStyle" TO 'ISO'
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT day.name, day.until, s.ended_at IS NULL AND s.rules = word.rules AND s.file = pg_relation_filenode(day.oid)
    FROM (SELECT c.oid, c.relname::text AS name, (regexp_match(pg_get_expr(c.relpartbound, c.oid), E'TO \\(''([^'']+)''\\)'))[1]::timestamptz AS until
            FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
           WHERE i.inhparent = 'pgcron.history'::regclass AND c.relname <> 'history_before' AND NOT i.inhdetachpending) day
   CROSS JOIN (SELECT pgcron.retention_word() AS rules) word
    LEFT JOIN pgcron.retention_sweep s ON s.partition = day.name
   WHERE EXISTS (SELECT FROM pgcron.retention_rule r WHERE day.until <= now() - r.keep)
     AND (s.partition IS NULL OR s.rules <> word.rules OR s.ended_at IS NULL
          OR EXISTS (SELECT FROM pgcron.retention_rule r WHERE day.until <= now() - r.keep AND day.until > s.began_at - r.keep)
          OR (s.spared > 0 AND now() - day.until >= 2 * (s.began_at - day.until)))
   ORDER BY day.until $$;

CREATE FUNCTION pgcron.untold(cursor_before pgcron.cursor, instant timestamp with time zone) RETURNS text
    LANGUAGE sql IMMUTABLE
    BEGIN ATOMIC
 SELECT
         CASE
             WHEN ((cursor_before).watermark >= instant) THEN NULL::text
             WHEN (cursor_before).is_paused THEN 'paused'::text
             WHEN (((cursor_before).status = 'valid'::text) AND ((cursor_before).next_fire = 'infinity'::timestamp with time zone) AND ((cursor_before).runs_made > 0)) THEN 'completed'::text
             WHEN (((cursor_before).status = 'valid'::text) AND ((cursor_before).next_fire > instant)) THEN NULL::text
             ELSE 'edited'::text
         END AS "case";
END;

CREATE FUNCTION pgcron.users_of_calendar(name text, going text[] DEFAULT '{}'::text[]) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT string_agg(u.name, ', ') FROM (
    (SELECT 'schedule ' || s.name AS name FROM pgcron.schedule s WHERE s.calendars IS NOT NULL AND s.calendars ? users_of_calendar.name ORDER BY s.name LIMIT 5)
    UNION ALL
    (SELECT 'calendar ' || c.name FROM pgcron.calendar c WHERE c.name <> ALL(going) AND users_of_calendar.name = ANY(c.parts) ORDER BY c.name LIMIT 5)) u $$;

CREATE FUNCTION pgcron.wait(run_id bigint, timeout interval DEFAULT '00:00:10'::interval, OUT ended boolean, OUT state text, OUT result jsonb, OUT error text) RETURNS record
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  until timestamptz := pgcron.judge_wait(timeout, '1 minute', 'Call it again for as long as ended is false, or CALL pgcron.wait_long, outside of a transaction.');
  looks int := 0;
BEGIN
  LOOP
    SELECT l.* INTO ended, state, result, error FROM pgcron.look_for_end(wait.run_id) l;
    EXIT WHEN ended OR clock_timestamp() >= until;
    PERFORM pg_sleep(pgcron.pause_of_look(looks, until));
    looks := looks + 1;
  END LOOP;
END $$;

COMMENT ON FUNCTION pgcron.wait(run_id bigint, timeout interval, OUT ended boolean, OUT state text, OUT result jsonb, OUT error text) IS 'Waits for the end of a run, up to a minute: state is the outcome when it has ended, and otherwise how it stands. Holds a connection, and a snapshot: vacuum leaves what dies meanwhile.';

CREATE PROCEDURE pgcron.wait_long(IN run_id bigint, IN timeout interval DEFAULT '00:10:00'::interval, INOUT ended boolean DEFAULT NULL::boolean, INOUT state text DEFAULT NULL::text, INOUT result jsonb DEFAULT NULL::jsonb, INOUT error text DEFAULT NULL::text)
    LANGUAGE plpgsql
    AS $$
DECLARE      -- It commits, so it can't have a path of its own: every name is qualified.
  until timestamp with time zone := pgcron.judge_wait(timeout, '1 day', 'Call it again for as long as ended is false.');
  looks int := 0;
BEGIN
  -- Nothing tells a procedure that it can't commit; of a transaction that has only read, PostgreSQL itself says so (2D000).
  IF pg_catalog.pg_current_xact_id_if_assigned() IS NOT NULL THEN
    PERFORM pgcron.refuse('PC011', 'pgcron.wait_long is called within a transaction', 'It commits after each look, so that vacuum need not wait for it.',
                          'Call it with autocommit, or SELECT * FROM pgcron.wait(…).');
  END IF;
  LOOP
    SELECT l.* INTO ended, state, result, error FROM pgcron.look_for_end(wait_long.run_id) l;
    EXIT WHEN ended OR pg_catalog.clock_timestamp() OPERATOR(pg_catalog.>=) until;
    COMMIT;
    PERFORM pg_catalog.pg_sleep(pgcron.pause_of_look(looks, until));
    COMMIT;
    looks := looks OPERATOR(pg_catalog.+) 1;
  END LOOP;
END $$;

COMMENT ON PROCEDURE pgcron.wait_long(IN run_id bigint, IN timeout interval, INOUT ended boolean, INOUT state text, INOUT result jsonb, INOUT error text) IS 'As pgcron.wait, up to a day, outside of a transaction: commits after each look, and so keeps no snapshot. CALL pgcron.wait_long(42).';

CREATE FUNCTION pgcron.waiting_heads(queue text, most integer) RETURNS TABLE(id bigint, priority smallint)
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT head.* FROM generate_series(0, 9) level CROSS JOIN LATERAL (
    (SELECT r.id, r.priority FROM pgcron.run r
      WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL
        AND r.overlap IS NULL AND r.delivery = 'at_least_once'
        AND r.queue = waiting_heads.queue AND r.priority = level AND r.due_at <= now()
      ORDER BY r.due_at, r.id LIMIT most)
    UNION ALL
    (SELECT r.id, r.priority FROM pgcron.run r
      WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL
        AND r.overlap IS NOT NULL
        AND r.queue = waiting_heads.queue AND r.priority = level AND r.due_at <= now()
      ORDER BY r.due_at, r.id LIMIT most)
    UNION ALL
    (SELECT r.id, r.priority FROM pgcron.run r
      WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL
        AND r.overlap IS NULL AND r.delivery <> 'at_least_once'
        AND r.queue = waiting_heads.queue AND r.priority = level AND r.due_at <= now()
      ORDER BY r.due_at, r.id LIMIT most)) head
  UNION ALL
  (SELECT r.id, r.priority FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NULL
      AND r.queue = waiting_heads.queue AND (r.priority < 0 OR r.priority > 9) LIMIT most)
  UNION ALL
  (SELECT r.id, r.priority FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NOT NULL
      AND r.queue = waiting_heads.queue AND r.due_at <= now() ORDER BY r.lane LIMIT most)
  UNION ALL
  (SELECT r.id, r.priority FROM pgcron.run r
    WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NULL AND r.requires IS NOT NULL
      AND r.queue = waiting_heads.queue AND r.due_at <= now() ORDER BY r.requires LIMIT most) $$;

CREATE FUNCTION pgcron.wake_backfills() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF EXISTS (SELECT FROM pgcron.node WHERE state IN ('alive', 'cordoned')) THEN
    PERFORM pgcron.notify(pgcron.channel(), 'backfill');
  END IF;
END $$;

CREATE FUNCTION pgcron.wake_idle_nodes() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
BEGIN
  IF TG_LEVEL = 'ROW' THEN
    IF current_setting('pgcron.asked', true) = 'yes' THEN RETURN NULL; END IF;
    PERFORM set_config('pgcron.asked', 'yes', true);
  ELSIF statement_timestamp() > transaction_timestamp() THEN
    RETURN NULL;
  END IF;
  IF EXISTS (SELECT FROM pgcron.node WHERE is_idle AND state = 'alive') THEN
    PERFORM pgcron.notify(pgcron.channel(), TG_TABLE_NAME);
  END IF;
  RETURN NULL;
END $$;

CREATE FUNCTION pgcron.walk_lanes(queue text, beyond text, most integer, OUT lanes text[], OUT priorities smallint[], OUT rooms integer[], OUT ended_at text, OUT next_due timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  pair record;
  steps int := 0;
BEGIN
  lanes := '{}'; priorities := '{}'; rooms := '{}';
  FOR pair IN
    WITH RECURSIVE walk(lane, priority, due_at) AS (
      (SELECT r.lane, r.priority, r.due_at FROM pgcron.run r
        WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NOT NULL AND r.queue = walk_lanes.queue AND r.lane > walk_lanes.beyond
        ORDER BY r.lane, r.priority, r.due_at LIMIT 1)
      UNION ALL
      SELECT next.* FROM walk CROSS JOIN LATERAL (
        SELECT r.lane, r.priority, r.due_at FROM pgcron.run r
         WHERE r.state = 'ready' AND r.hold IS NULL AND r.lane IS NOT NULL AND r.queue = walk_lanes.queue AND (r.lane, r.priority) > (walk.lane, walk.priority)
         ORDER BY r.lane, r.priority, r.due_at LIMIT 1) next)
    SELECT walk.lane, walk.priority, walk.due_at, walk.due_at <= now() AS is_due, coalesce(least(limits.slots - held.runs::int, rated.room), 2147483647) AS room,
           CASE WHEN rated.room = 0 THEN rated.next_at END AS next_at
      FROM walk
      LEFT JOIN LATERAL (
        SELECT l.slots, l.rate, l.per FROM pgcron.lane_slots(ARRAY[walk.lane]) l WHERE walk.due_at <= now()) limits ON true
      LEFT JOIN LATERAL (
        SELECT count(*) AS runs FROM pgcron.run h WHERE h.lane = walk.lane AND h.lane_slot IS NOT NULL AND walk.due_at <= now()) held ON true
      LEFT JOIN LATERAL (
        SELECT w.room, w.next_at FROM pgcron.rate_room('lane', walk.lane, limits.rate, limits.per, clock_timestamp()) w WHERE limits.rate IS NOT NULL) rated ON true
  LOOP
    IF NOT pair.is_due THEN
      next_due := least(next_due, pair.due_at);
    ELSIF pair.room > 0 THEN
      lanes := lanes || pair.lane; priorities := priorities || pair.priority; rooms := rooms || pair.room;
    ELSIF pair.next_at IS NOT NULL THEN
      next_due := least(next_due, pair.next_at);
    END IF;
    steps := steps + 1;
    IF cardinality(lanes) >= most OR steps >= 2000 THEN      -- a longer walk is taken in several statements
      ended_at := pair.lane;
      EXIT;
    END IF;
  END LOOP;
END $$;

CREATE FUNCTION pgcron.warn_of_owner(before pgcron.schedule, after pgcron.schedule) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  left_to_operators CONSTANT text[] := '{version,updated_at,enabled,paused_note,paused_by,paused_until,calendars}';
  door text := pgcron.door();
  told int := coalesce(nullif(current_setting('pgcron_ha.owners_told', true), '')::int, 0);
BEGIN
  IF door = before.managed_by OR after.managed_by <> before.managed_by OR told >= 20
     OR to_jsonb(before) - left_to_operators IS NOT DISTINCT FROM to_jsonb(after) - left_to_operators THEN
    RETURN;
  END IF;
  PERFORM set_config('pgcron_ha.owners_told', (told + 1)::text, true);
  RAISE NOTICE USING ERRCODE = '01PC1', MESSAGE = format('schedule %L is managed by %s, and was edited through %s', before.name, pgcron.owner_words(before.managed_by), door),
    DETAIL = pgcron.owner_puts_back(before.managed_by), HINT = format('Edit it there; or make it yours: managed_by %L.', door);
END $$;

CREATE FUNCTION pgcron.why(schedule text, instant timestamp with time zone, OUT decision text, OUT reason text, OUT run bigint, OUT outcome text, OUT code text, OUT meaning text, OUT note text, OUT actor text, OUT decided_at timestamp with time zone, OUT due_at timestamp with time zone, OUT late_by interval, OUT until timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $_$
#variable_conflict use_variable
DECLARE
  known bigint := coalesce(pgcron.schedule_of_versions(schedule), pgcron.schedule_id(schedule));
  changed pgcron.occurrence_override;
  deletion pgcron.schedule_version;
  dropped pgcron.missed;
BEGIN
  SELECT o.decision, o.reason, o.run_id, o.decided_at INTO decision, reason, run, decided_at FROM pgcron.occurrence o WHERE o.schedule_id = known AND o.fire_at = instant;
  SELECT * INTO changed FROM pgcron.occurrence_override o WHERE o.schedule_id = known AND o.fire_at = instant;
  IF decision IS NOT NULL THEN
    SELECT told.outcome, told.code, told.due_at, told.late_by INTO outcome, code, due_at, late_by FROM pgcron.why_of_run(run, instant, changed.due_at) told;
    SELECT told.actor, told.note INTO actor, note FROM pgcron.told_by(reason) told;
    IF due_at IS NULL THEN      -- it is due later by the schedule's jitter or window
      SELECT v.due_at, CASE WHEN v.started_at IS NOT NULL THEN greatest(v.started_at - greatest(v.due_at, to_timestamp(-2208988800)), '0') WHEN now() > v.due_at THEN now() - greatest(v.due_at, to_timestamp(-2208988800)) END INTO due_at, late_by
        FROM pgcron.runs v JOIN pgcron.schedule s ON s.id = known AND coalesce(s.jitter, s.spread_window) IS NOT NULL WHERE v.id = run AND v.attempt <= 1 AND v.due_at > instant LIMIT 1;
      IF NOT FOUND THEN SELECT told.due_at, told.late_by INTO due_at, late_by FROM pgcron.why_of_run(run, instant, changed.due_at) told; END IF;
    END IF;
    IF changed.action = 'move' OR (changed.action = 'edit' AND actor IS NULL) THEN
      actor := changed.actor; note := changed.note;
    END IF;
    IF decision <> 'run' OR (code = 'run' AND reason IS NOT NULL) THEN code := pgcron.reason_code(decision, reason); END IF;
    IF code = 'backfilled' THEN
      SELECT b.created_by, b.note INTO actor, note FROM pgcron.backfills b WHERE b.id = substring(reason FROM '^backfill ([0-9]+)$')::bigint;
    END IF;
  ELSE
    SELECT * INTO dropped FROM pgcron.missed m WHERE m.schedule_id = known AND instant BETWEEN m.first_at AND m.last_at ORDER BY m.first_at DESC LIMIT 1;
    IF dropped.schedule_id IS NOT NULL THEN
      decision := 'missed'; reason := concat_ws(': ', dropped.reason, dropped.note); decided_at := dropped.decided_at;
      code := pgcron.reason_code(decision, dropped.reason);
      IF dropped.reason = 'paused' THEN      -- kept as 'anna: a holiday'
        actor := split_part(dropped.note, ': ', 1); note := nullif(substr(dropped.note, length(actor) + 3), '');
      ELSE
        note := dropped.note;
      END IF;
    ELSE
      SELECT told.decision, told.code, told.reason, told.actor, told.note, told.until INTO decision, code, reason, actor, note, until FROM pgcron.why_undecided(known, instant) told;
      IF code = 'not_yet' AND changed.action IS NOT NULL THEN
        reason := CASE changed.action WHEN 'skip' THEN 'it is to be skipped' WHEN 'move' THEN 'it is to run at ' || changed.due_at ELSE 'it is to run with other args' END;
        actor := changed.actor; note := changed.note; due_at := changed.due_at;
      END IF;
    END IF;
  END IF;
  IF code IS NULL THEN      -- it was deleted long ago, and nothing is left of it
    PERFORM pgcron.schedule_id(schedule);
  END IF;
  meaning := (SELECT r.meaning FROM pgcron.reason r WHERE r.code = why.code);
END $_$;

COMMENT ON FUNCTION pgcron.why(schedule text, instant timestamp with time zone, OUT decision text, OUT reason text, OUT run bigint, OUT outcome text, OUT code text, OUT meaning text, OUT note text, OUT actor text, OUT decided_at timestamp with time zone, OUT due_at timestamp with time zone, OUT late_by interval, OUT until timestamp with time zone) IS 'Why a fire time of a schedule did or did not run: one answer for every instant, from what is stored. until: when the pause ends by itself; late_by: from when it was due to its start, or to now.';

CREATE FUNCTION pgcron.why_of_run(run bigint, instant timestamp with time zone, moved_to timestamp with time zone, OUT outcome text, OUT code text, OUT due_at timestamp with time zone, OUT late_by interval) RETURNS record
    LANGUAGE sql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  SELECT v.state, CASE WHEN moved_to IS NOT NULL THEN 'moved' WHEN v.origin = 'backfill' THEN 'backfilled' ELSE 'run' END, moved_to,
         CASE WHEN v.started_at IS NOT NULL THEN greatest(v.started_at - coalesce(moved_to, instant), '0')
              WHEN v.state IN ('ready', 'blocked') AND now() > coalesce(moved_to, instant) THEN now() - coalesce(moved_to, instant) END
    FROM (SELECT 1) one LEFT JOIN LATERAL (SELECT r.* FROM pgcron.runs r WHERE r.id = why_of_run.run LIMIT 1) v ON true $$;

CREATE FUNCTION pgcron.why_undecided(known bigint, instant timestamp with time zone, OUT decision text, OUT code text, OUT reason text, OUT actor text, OUT note text, OUT until timestamp with time zone) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_variable
DECLARE
  cursor_now pgcron.cursor;
  definition pgcron.schedule;
  deletion pgcron.schedule_version;
  keep interval := (SELECT kept.keep FROM pgcron.retention kept WHERE kept.relation = 'occurrence');
  created timestamptz;
BEGIN
  SELECT * INTO cursor_now FROM pgcron.cursor c WHERE c.schedule_id = known;
  SELECT * INTO definition FROM pgcron.schedule s WHERE s.id = known;
  SELECT * INTO deletion FROM pgcron.schedule_version v WHERE v.schedule_id = known AND v.operation = 'delete' LIMIT 1;
  IF definition.id IS NULL AND deletion.schedule_id IS NULL THEN RETURN; END IF;
  created := coalesce(definition.created_at, (deletion.content ->> 'created_at')::timestamptz);
  IF instant > cursor_now.watermark AND cursor_now.status = 'valid' AND cursor_now.runs_made >= definition.max_runs THEN
    decision := 'not an instant'; code := 'completed'; reason := format('the schedule ended after %s', CASE definition.max_runs WHEN 1 THEN '1 run' ELSE definition.max_runs || ' runs' END);
  ELSIF instant < created THEN
    decision := 'not an instant'; code := 'not_created'; reason := 'the schedule did not exist then; it was created at ' || date_trunc('second', created);
  ELSIF instant > coalesce(deletion.since, deletion.at) THEN
    decision := 'not an instant'; code := 'is_deleted'; actor := deletion.actor; reason := 'the schedule did not exist then; it was deleted at ' || date_trunc('second', deletion.at);
  ELSIF instant > cursor_now.watermark THEN
    decision := 'not yet';
    IF NOT definition.enabled THEN
      code := 'is_paused'; actor := definition.paused_by; note := definition.paused_note; until := definition.paused_until;
      reason := concat_ws(': ', 'paused', cursor_now.pause_note);
    ELSIF cursor_now.status = 'invalid' THEN
      code := 'is_invalid'; reason := 'the schedule is invalid: ' || (cursor_now.error ->> 'message');
    ELSE
      code := 'not_yet'; reason := 'fires are decided up to ' || date_trunc('second', cursor_now.watermark);
    END IF;
  ELSIF instant < now() - keep THEN
    decision := 'not known'; code := 'not_kept'; reason := 'what was decided so long ago is not kept: retention of occurrence is ' || keep;
  ELSE
    decision := 'not an instant'; code := 'not_an_instant'; reason := 'the schedule, as it stood, did not name this instant';
  END IF;
END $$;

CREATE FUNCTION pgcron.with_pending_pause(cursor_before pgcron.cursor) RETURNS pgcron.cursor
    LANGUAGE plpgsql STABLE
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
DECLARE
  paused jsonb;
BEGIN
  IF cursor_before.edit_is_pending AND NOT cursor_before.is_paused THEN
    SELECT v.content INTO paused FROM pgcron.schedule_version v
     WHERE v.schedule_id = cursor_before.schedule_id AND v.since IS NULL AND NOT (v.content ->> 'enabled')::boolean ORDER BY v.version DESC LIMIT 1;
    IF FOUND THEN
      cursor_before.is_paused := true;
      cursor_before.pause_note := concat_ws(': ', paused ->> 'paused_by', paused ->> 'paused_note');
      cursor_before.paused_until := (paused ->> 'paused_until')::timestamptz;
    END IF;
  END IF;
  RETURN cursor_before;
END $$;

CREATE FUNCTION pgcron.write_calendars(contents jsonb, actor text, source text DEFAULT NULL::text) RETURNS text[]
    LANGUAGE plpgsql
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
#variable_conflict use_column
DECLARE
  changed text[] := ARRAY(SELECT w.key FROM jsonb_each_text(write_calendars.contents) w LEFT JOIN pgcron.calendar c ON c.name = w.key
                           WHERE NOT pgcron.is_same_calendar(c.content, w.value) ORDER BY w.key);
  users bigint[];
BEGIN
  PERFORM FROM pgcron.schedule s WHERE s.calendars IS NOT NULL AND s.calendars ?| changed ORDER BY s.id FOR NO KEY UPDATE;
  INSERT INTO pgcron.calendar AS c (name, content, updated_by, source)
  SELECT w.key, w.value, coalesce(write_calendars.actor, session_user), write_calendars.source FROM jsonb_each_text(write_calendars.contents) w ORDER BY w.key
  ON CONFLICT (name) DO UPDATE SET content = CASE WHEN c.name = ANY(changed) THEN EXCLUDED.content ELSE c.content END, version = c.version + 1, updated_at = now(), updated_by = EXCLUDED.updated_by,
    source = coalesce(EXCLUDED.source, c.source)
  WHERE c.name = ANY(changed) OR c.source IS DISTINCT FROM coalesce(EXCLUDED.source, c.source);
  PERFORM pgcron.judge_parts(changed);
  -- Those that were being written when the lock on the calendars was asked for, too.
  users := ARRAY(SELECT s.id FROM pgcron.schedule s WHERE s.calendars IS NOT NULL AND s.calendars ?| changed ORDER BY s.id FOR NO KEY UPDATE);
  PERFORM set_config('pgcron_ha.version_note', format('calendar%s %s %s changed', CASE WHEN cardinality(changed) > 1 THEN 's' ELSE '' END,
                                                      array_to_string(changed, ', '), CASE WHEN cardinality(changed) > 1 THEN 'were' ELSE 'was' END), true);
  UPDATE pgcron.schedule s SET calendars = NULL WHERE s.id = ANY(users);      -- the trigger takes what they contain now
  PERFORM set_config('pgcron_ha.version_note', '', true);
  RETURN changed;
END $$;

CREATE FUNCTION pgcron.zones_like(zone text) RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'pg_catalog', 'pg_temp'
    AS $$
  WITH asked AS (SELECT lower(regexp_replace(left(zone, 100), '^.*/', '')) AS word, lower(split_part(left(zone, 100), '/', 1)) || '/' AS area)
  SELECT string_agg(t.name, ', ' ORDER BY t.place) FROM (
    SELECT z.name, row_number() OVER (ORDER BY strpos(lower(z.name), a.word) = 0, NOT starts_with(lower(z.name), a.area), z.name) AS place
      FROM asked a JOIN pgcron.timezone z ON strpos(lower(z.name), left(a.word, 3)) > 0 WHERE length(a.word) >= 3) t
   WHERE t.place <= 3 $$;

CREATE TABLE pgcron.alembic_version (
    version_num character varying(32) NOT NULL
);

CREATE TABLE pgcron.assertion (
    transaction xid8 DEFAULT pg_current_xact_id() NOT NULL,
    run bigint NOT NULL,
    token uuid NOT NULL
);

COMMENT ON TABLE pgcron.assertion IS 'Claims that transactions under way rely on; empty whenever none is.';

CREATE TABLE pgcron.attempt (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    outcome text NOT NULL,
    owner uuid NOT NULL,
    node text,
    fence bigint NOT NULL,
    claimed_at timestamp with time zone NOT NULL,
    started_at timestamp with time zone,
    ended_at timestamp with time zone DEFAULT now() NOT NULL,
    error_class text,
    error text,
    traceback text,
    fingerprint text,
    CONSTRAINT an_attempt_ends_in_a_known_way CHECK ((outcome = ANY (ARRAY['failed'::text, 'timed_out'::text, 'lease_lost'::text, 'cancelled'::text, 'snoozed'::text])))
)
PARTITION BY RANGE (ended_at);

COMMENT ON TABLE pgcron.attempt IS 'One row at the end of each attempt that did not succeed.';

ALTER TABLE pgcron.backfill ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.backfill_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgcron.backfill_run (
    backfill_id bigint NOT NULL,
    run_id bigint NOT NULL,
    fire_at timestamp with time zone NOT NULL,
    made_at timestamp with time zone DEFAULT now() NOT NULL,
    outcome text
)
WITH (fillfactor='70');

COMMENT ON TABLE pgcron.backfill_run IS 'The runs of a backfill whose end was not counted yet (outcome NULL), and the last thousand that did not succeed.';

CREATE VIEW pgcron.backfills AS
 SELECT b.id,
    COALESCE(s.name, b.schedule) AS schedule,
    b.schedule_id,
    b.since,
    b.until,
    b.direction,
    b.parallelism,
    COALESCE(b.overlap, (b.definition ->> 'overlap'::text)) AS overlap,
    b.if_ran,
    b.args,
    b.note,
    b.state,
    b.planned,
    b.already,
    b.created,
    b.succeeded,
    b.failed,
    ((b.created - b.succeeded) - b.failed) AS open,
        CASE
            WHEN (b.state = ANY (ARRAY['done'::text, 'stopped'::text])) THEN 0
            ELSE GREATEST(((b.planned - b.already) - b.created), 0)
        END AS remaining,
    b.reached,
    b.error,
    ((b.definition ->> 'version'::text))::integer AS version,
    (b.definition ->> 'spec'::text) AS spec,
    (b.definition ->> 'timezone'::text) AS timezone,
    b.created_at,
    b.created_by,
    b.changed_at,
    b.changed_by,
    b.ended_at
   FROM (pgcron.backfill b
     LEFT JOIN pgcron.schedule s ON ((s.id = b.schedule_id)));

COMMENT ON VIEW pgcron.backfills IS 'Backfills and how far they are: of planned instants some were decided already, for created ones runs were made; open ones are not over, remaining ones not looked at yet.';

CREATE TABLE pgcron.breaker_handler (
    handler text NOT NULL,
    breaker text NOT NULL,
    CONSTRAINT a_breaker_guards_a_handler CHECK ((pgcron.handler_is_fine(handler) OR pgcron.refuse_handler(handler)))
);

COMMENT ON TABLE pgcron.breaker_handler IS 'Which handlers a breaker stands for; a handler has one breaker at most.';

ALTER TABLE pgcron.calendar ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.calendar_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW pgcron.calendars AS
 SELECT id,
    name,
    content,
    version,
    updated_at,
    updated_by,
    ( SELECT count(*) AS count
           FROM pgcron.schedule s
          WHERE ((s.calendars IS NOT NULL) AND (s.calendars ? c.name))) AS schedules,
    source
   FROM pgcron.calendar c;

COMMENT ON VIEW pgcron.calendars IS 'Calendars, and how many schedules use each, directly or within another.';

CREATE TABLE pgcron.callback (
    run_id bigint NOT NULL,
    fence bigint NOT NULL,
    token_hash bytea NOT NULL,
    opened_at timestamp with time zone DEFAULT now() NOT NULL,
    closed_at timestamp with time zone,
    answered_at timestamp with time zone,
    status text,
    result jsonb,
    error text,
    retry_after double precision,
    has_news boolean DEFAULT false NOT NULL,
    done double precision,
    total double precision,
    note text,
    lines text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT a_callback_token_is_kept_as_sha256 CHECK ((octet_length(token_hash) = 32)),
    CONSTRAINT an_answer_asks_for_no_negative_delay CHECK ((retry_after >= (0)::double precision)),
    CONSTRAINT an_answer_has_its_time CHECK (((status IS NULL) = (answered_at IS NULL))),
    CONSTRAINT an_answer_is_known CHECK ((status = ANY (ARRAY['succeeded'::text, 'failed'::text, 'discarded'::text, 'retry'::text])))
);

COMMENT ON TABLE pgcron.callback IS 'Attempts that wait, or waited within the last day, for a service''s callback. The token itself is nowhere but in the request that the service got.';

COMMENT ON COLUMN pgcron.callback.closed_at IS 'The run was stopped: nothing more is taken.';

COMMENT ON COLUMN pgcron.callback.status IS 'How the service says that it ended; NULL: it has not said so.';

COMMENT ON COLUMN pgcron.callback.has_news IS 'Progress or lines that the node has not fetched.';

CREATE TABLE pgcron.cluster (
    one boolean DEFAULT true NOT NULL,
    system_identifier bigint,
    timeline integer,
    is_synchronous boolean,
    epoch bigint DEFAULT 1 NOT NULL,
    quarantine_until timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    paused_note text,
    tzdata text COLLATE pg_catalog."C",
    CONSTRAINT cluster_paused_by_is_short CHECK (((paused_by IS NULL) OR (length(paused_by) <= 300) OR pgcron.refuse_words('paused_by'::text, paused_by, 300))),
    CONSTRAINT cluster_paused_note_is_short CHECK (((paused_note IS NULL) OR (length(paused_note) <= 2000) OR pgcron.refuse_words('paused_note'::text, paused_note, 2000))),
    CONSTRAINT there_is_one_cluster_row CHECK (one)
);

COMMENT ON TABLE pgcron.cluster IS 'One row: the server''s timeline as last seen, claims refused until quarantine_until or while paused_at is set.';

COMMENT ON COLUMN pgcron.cluster.is_synchronous IS 'Whether the server waits for a standby with each commit, as beats found it; after a failover it says so of the old server. NULL: not known.';

COMMENT ON COLUMN pgcron.cluster.tzdata IS 'The version of the time zones'' data that all nodes compute with, the newest that any of them brought (2026a < 2026b); NULL: none came so far.';

CREATE TABLE pgcron.cordon (
    node text NOT NULL,
    incarnation uuid,
    reason text,
    set_by text DEFAULT SESSION_USER NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    lifted_by text,
    lifted_at timestamp with time zone,
    CONSTRAINT a_cordon_has_a_reason_of_500_characters CHECK (((reason IS NULL) OR (length(reason) <= 500) OR pgcron.refuse('PC001'::text, format('the reason has %s characters'::text, length(reason)), 'A reason has at most 500 characters.'::text, 'Say it shorter.'::text))),
    CONSTRAINT a_lifted_cordon_says_by_whom CHECK (((lifted_at IS NULL) = (lifted_by IS NULL))),
    CONSTRAINT cordon_lifted_by_is_short CHECK (((lifted_by IS NULL) OR (length(lifted_by) <= 300) OR pgcron.refuse_words('lifted_by'::text, lifted_by, 300))),
    CONSTRAINT cordon_set_by_is_short CHECK (((set_by IS NULL) OR (length(set_by) <= 300) OR pgcron.refuse_words('set_by'::text, set_by, 300)))
);

COMMENT ON TABLE pgcron.cordon IS 'Which nodes claim nothing: by a name, for every process of that name until it is lifted, or by the incarnation of one process.';

CREATE TABLE pgcron.node (
    incarnation uuid NOT NULL,
    name text NOT NULL,
    host text NOT NULL,
    process_id integer NOT NULL,
    version text NOT NULL,
    tzdata text COLLATE pg_catalog."C",
    home text,
    state text DEFAULT 'alive'::text NOT NULL,
    beat_sequence bigint DEFAULT 0 NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    lease_ttl interval NOT NULL,
    slots integer NOT NULL,
    slots_used integer DEFAULT 0 NOT NULL,
    queues text[] NOT NULL,
    labels jsonb DEFAULT '{}'::jsonb NOT NULL,
    is_idle boolean DEFAULT false NOT NULL,
    is_pooled boolean DEFAULT false NOT NULL,
    awaits bigint,
    health jsonb,
    started_at timestamp with time zone DEFAULT now() NOT NULL,
    ended_at timestamp with time zone,
    ended_because text,
    CONSTRAINT a_dead_node_says_when_and_why CHECK (((state = 'dead'::text) = ((ended_at IS NOT NULL) AND (ended_because IS NOT NULL)))),
    CONSTRAINT a_lease_lives_1_second_to_5_minutes CHECK (((lease_ttl >= '00:00:01'::interval) AND (lease_ttl <= '00:05:00'::interval))),
    CONSTRAINT a_node_is_alive_cordoned_draining_or_dead CHECK ((state = ANY (ARRAY['alive'::text, 'cordoned'::text, 'draining'::text, 'dead'::text]))),
    CONSTRAINT a_node_name_has_1_to_200_characters CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT node_labels_are_words CHECK ((pgcron.labels_are_fine(labels) OR pgcron.refuse_labels(labels)))
)
WITH (fillfactor='50', autovacuum_vacuum_scale_factor='0', autovacuum_vacuum_threshold='200');

COMMENT ON TABLE pgcron.node IS 'One row for each process incarnation; the row is its lease. name is a label, never an identity.';

COMMENT ON COLUMN pgcron.node.tzdata IS 'The version of the time zones'' data that is installed where it runs; older than the cluster''s, it computes with the cluster''s.';

COMMENT ON COLUMN pgcron.node.home IS 'Start of the machine, and file whose exclusive lock proves that an earlier incarnation of the same home is dead.';

COMMENT ON COLUMN pgcron.node.is_pooled IS 'It came through a pooler that hands sessions around: no notification reaches it, it looks for work instead.';

COMMENT ON COLUMN pgcron.node.awaits IS 'A waiting run that takes more slots than are free here: the node claims nothing else until it has them.';

COMMENT ON COLUMN pgcron.node.health IS 'What is wrong with its services, as its last beat said: which fail, and what each goes on without; NULL: nothing.';

CREATE VIEW pgcron.claiming_node AS
 SELECT n.incarnation
   FROM (pgcron.node n
     CROSS JOIN pgcron.cluster k)
  WHERE ((n.state = ANY (ARRAY['alive'::text, 'cordoned'::text])) AND (n.lease_until > now()) AND (NOT (EXISTS ( SELECT
           FROM pgcron.cordon c
          WHERE ((c.lifted_at IS NULL) AND (c.node = ANY (ARRAY[n.name, (n.incarnation)::text])))))) AND (k.quarantine_until <= now()) AND (k.paused_at IS NULL) AND COALESCE((k.timeline = pgcron.server_timeline()), true));

CREATE VIEW pgcron.dead_letters AS
 SELECT run_id,
    uuid,
    outcome,
    died_at,
    schedule,
    scheduled_for,
    handler,
    queue,
    priority,
    args,
    attempts,
    error_class,
    error,
    fingerprint,
    requeued_as,
    requeued_at,
    requeued_by
   FROM pgcron.dead_letter d;

COMMENT ON VIEW pgcron.dead_letters IS 'Runs that ended dead or lost, and whether they were sent again.';

CREATE TABLE pgcron.diversion (
    run_id bigint NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    breaker text NOT NULL,
    handler text NOT NULL,
    queue text NOT NULL,
    reason text NOT NULL
);

COMMENT ON TABLE pgcron.diversion IS 'Runs that an open breaker''s fallback took: the handler and queue they were asked for. Kept as long as history.';

CREATE VIEW pgcron.error_groups AS
 SELECT fingerprint,
    max(error_class) AS error_class,
    (array_agg("left"(error, 300) ORDER BY died_at DESC))[1] AS message,
    count(*) AS letters,
    count(*) FILTER (WHERE (requeued_as IS NULL)) AS open,
    count(*) FILTER (WHERE (outcome = 'lost'::text)) AS lost,
    min(died_at) AS first_at,
    max(died_at) AS last_at,
    array_agg(DISTINCT handler) AS handlers,
    array_agg(DISTINCT queue) AS queues,
    array_remove(array_agg(DISTINCT schedule), NULL::text) AS schedules,
    array_agg(DISTINCT outcome) AS outcomes,
    max(run_id) AS last_run
   FROM pgcron.dead_letter d
  GROUP BY fingerprint;

COMMENT ON VIEW pgcron.error_groups IS 'Dead letters by how they died; open ones were not redriven. fingerprint is NULL for letters without one.';

CREATE SEQUENCE pgcron.fence
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

COMMENT ON SEQUENCE pgcron.fence IS 'Monotonic number of claims, for outside stores that must order them.';

CREATE TABLE pgcron.fire_failure (
    run_id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    failed_at timestamp with time zone NOT NULL,
    error text,
    is_judged boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE pgcron.fire_failure IS 'Fires of schedules with pause_after_failures that ended dead or lost, since the last that succeeded. Only inserted when a run ends: whoever ends runs waits for nobody.';

CREATE TABLE pgcron.given_back (
    id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    runs integer NOT NULL
);

COMMENT ON TABLE pgcron.given_back IS 'Taken by the next materializer, who holds the cursor when it counts: whoever ends runs may not lock it any more.';

ALTER TABLE pgcron.given_back ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.given_back_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgcron.idempotency (
    key text NOT NULL,
    run_id bigint NOT NULL,
    expires_at timestamp with time zone NOT NULL,
    CONSTRAINT an_idempotency_key_has_1_to_500_characters CHECK ((((length(key) >= 1) AND (length(key) <= 500)) OR pgcron.refuse('PC001'::text, format('the idempotency key has %s characters'::text, length(key)), 'A key has 1 to 500 characters.'::text, 'Use a hash of a longer one.'::text)))
);

COMMENT ON TABLE pgcron.idempotency IS 'An enqueue with a living key returns the run that the key already named.';

CREATE TABLE pgcron.log (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    sequence integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    stream text NOT NULL,
    line text NOT NULL,
    CONSTRAINT a_log_line_has_8_kib CHECK ((octet_length(line) <= 8300)),
    CONSTRAINT a_stream_is_stdout_stderr_or_log CHECK ((stream = ANY (ARRAY['stdout'::text, 'stderr'::text, 'log'::text])))
)
PARTITION BY RANGE (at);

COMMENT ON TABLE pgcron.log IS 'What handlers printed, line by line, while they ran.';

CREATE TABLE pgcron.missed (
    schedule_id bigint NOT NULL,
    first_at timestamp with time zone NOT NULL,
    last_at timestamp with time zone NOT NULL,
    fires integer,
    reason text NOT NULL,
    note text,
    decided_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_count_of_missed_fires_is_not_negative CHECK ((fires >= 0)),
    CONSTRAINT a_range_does_not_end_before_it_begins CHECK ((last_at >= first_at))
);

COMMENT ON TABLE pgcron.missed IS 'Fires that were dropped together: every fire of the schedule from first_at to last_at, both included, that has no row of its own in occurrence. fires is NULL when there were too many to count.';

CREATE TABLE pgcron.offer (
    incarnation uuid NOT NULL,
    handler text NOT NULL,
    CONSTRAINT an_offer_is_a_handler_name CHECK ((pgcron.handler_is_fine(handler) OR pgcron.refuse_handler(handler)))
);

COMMENT ON TABLE pgcron.offer IS 'Which handlers a node offers.';

CREATE VIEW pgcron.nodes AS
 SELECT n.incarnation,
    n.name,
    n.host,
    n.process_id,
    n.version,
        CASE
            WHEN (n.state <> ALL (ARRAY['alive'::text, 'cordoned'::text])) THEN n.state
            WHEN (c.node IS NULL) THEN 'alive'::text
            ELSE 'cordoned'::text
        END AS state,
    n.lease_until,
    n.lease_ttl,
    ((n.state <> 'dead'::text) AND (n.lease_until > now())) AS has_lease,
    n.slots,
    n.slots_used,
    n.queues,
    ( SELECT array_agg(o.handler ORDER BY o.handler) AS array_agg
           FROM pgcron.offer o
          WHERE (o.incarnation = n.incarnation)) AS handlers,
    n.is_idle,
    n.started_at,
    n.ended_at,
    n.ended_because,
    n.labels,
    c.set_at AS cordoned_at,
    c.set_by AS cordoned_by,
    c.reason AS cordon_reason,
    n.is_pooled,
    n.tzdata,
    n.health
   FROM (pgcron.node n
     LEFT JOIN LATERAL ( SELECT e.node,
            e.incarnation,
            e.reason,
            e.set_by,
            e.set_at,
            e.lifted_by,
            e.lifted_at
           FROM pgcron.cordon e
          WHERE ((e.lifted_at IS NULL) AND (e.node = ANY (ARRAY[n.name, (n.incarnation)::text])))
          ORDER BY e.set_at
         LIMIT 1) c ON ((n.state <> 'dead'::text)));

COMMENT ON VIEW pgcron.nodes IS 'Processes that work, or have worked: what they offer, and whether they hold their lease.';

CREATE VIEW pgcron.occurrences AS
 SELECT s.name AS schedule,
    o.schedule_id,
    o.fire_at,
    o.fire_at AS last_at,
    o.decision,
    o.reason,
    o.run_id,
    1 AS fires,
    o.decided_at,
        CASE
            WHEN ((o.decision = 'run'::text) AND (o.reason IS NULL)) THEN 'run'::text
            ELSE pgcron.reason_code(o.decision, o.reason)
        END AS code
   FROM (pgcron.occurrence o
     LEFT JOIN pgcron.schedule s ON ((s.id = o.schedule_id)))
UNION ALL
 SELECT s.name AS schedule,
    m.schedule_id,
    m.first_at AS fire_at,
    m.last_at,
    'missed'::text AS decision,
    concat_ws(': '::text, m.reason, m.note) AS reason,
    NULL::bigint AS run_id,
    m.fires,
    m.decided_at,
    pgcron.reason_code('missed'::text, m.reason) AS code
   FROM (pgcron.missed m
     LEFT JOIN pgcron.schedule s ON ((s.id = m.schedule_id)));

COMMENT ON VIEW pgcron.occurrences IS 'The ledger: one row for each fire time, or for each range of fires that were dropped together (fires NULL: not counted). code: pgcron.reason.';

CREATE TABLE pgcron.overrun (
    run_id bigint NOT NULL,
    schedule_id bigint NOT NULL,
    expected interval NOT NULL,
    noticed_at timestamp with time zone DEFAULT now() NOT NULL
);

COMMENT ON TABLE pgcron.overrun IS 'Runs that execute, or executed a moment ago, for longer than expected; the row of a run that is over is removed within minutes.';

CREATE VIEW pgcron.runs AS
 SELECT r.id,
    r.uuid,
    r.origin,
    r.schedule,
    r.schedule_id,
    r.scheduled_for,
    r.nominal_for,
    r.parent_run,
    r.handler,
    r.queue,
    r.priority,
    r.state,
    r.hold,
    r.delivery,
    r.attempt,
    COALESCE(r.max_attempts,
        CASE
            WHEN (r.delivery = 'at_most_once'::text) THEN 1
            ELSE 5
        END) AS max_attempts,
    r.due_at,
    r.claimed_at,
    r.started_at,
    NULL::timestamp with time zone AS finished_at,
    n.name AS node,
    r.owner,
    r.last_error AS error,
    r.args,
    NULL::jsonb AS result,
    r.created_at,
    r.created_by,
    r.cancel_at,
    r.lane,
    r.requires,
    COALESCE(r.weight, 1) AS weight,
        CASE
            WHEN (r.state = 'running'::text) THEN ( SELECT o.expected
               FROM pgcron.overrun o
              WHERE (o.run_id = r.id))
            ELSE NULL::interval
        END AS overrun_after
   FROM (pgcron.run r
     LEFT JOIN pgcron.node n ON ((n.incarnation = r.owner)))
UNION ALL
 SELECT h.id,
    h.uuid,
    h.origin,
    h.schedule,
    h.schedule_id,
    h.scheduled_for,
    h.nominal_for,
    h.parent_run,
    h.handler,
    h.queue,
    h.priority,
    h.outcome AS state,
    NULL::text AS hold,
    h.delivery,
    h.attempt,
    COALESCE(h.max_attempts,
        CASE
            WHEN (h.delivery = 'at_most_once'::text) THEN 1
            ELSE 5
        END) AS max_attempts,
    h.due_at,
    h.claimed_at,
    h.started_at,
    h.finished_at,
    h.node,
    h.owner,
    h.error,
    h.args,
    h.result,
    h.created_at,
    h.created_by,
    NULL::timestamp with time zone AS cancel_at,
    h.lane,
    h.requires,
    COALESCE(h.weight, 1) AS weight,
    NULL::interval AS overrun_after
   FROM pgcron.history h
UNION ALL
 SELECT h.id,
    h.uuid,
    h.origin,
    h.schedule,
    h.schedule_id,
    h.scheduled_for,
    h.nominal_for,
    h.parent_run,
    h.handler,
    h.queue,
    h.priority,
    h.outcome AS state,
    NULL::text AS hold,
    h.delivery,
    h.attempt,
    COALESCE(h.max_attempts,
        CASE
            WHEN (h.delivery = 'at_most_once'::text) THEN 1
            ELSE 5
        END) AS max_attempts,
    h.due_at,
    h.claimed_at,
    h.started_at,
    h.finished_at,
    h.node,
    h.owner,
    h.error,
    h.args,
    h.result,
    h.created_at,
    h.created_by,
    NULL::timestamp with time zone AS cancel_at,
    h.lane,
    h.requires,
    COALESCE(h.weight, 1) AS weight,
    NULL::interval AS overrun_after
   FROM pgcron.history_overflow h;

COMMENT ON VIEW pgcron.runs IS 'Live and ended runs; state is the live state or the outcome.';

CREATE VIEW pgcron.own_runs WITH (security_barrier='true') AS
 SELECT id,
    uuid,
    handler,
    queue,
    priority,
    state,
    hold,
    delivery,
    attempt,
    max_attempts,
    due_at,
    started_at,
    finished_at,
    error,
    args,
    result,
    lane,
    requires,
    weight,
    parent_run,
    created_at,
    created_by
   FROM pgcron.runs v
  WHERE (created_by = ANY (ARRAY[(SESSION_USER)::text, (CURRENT_USER)::text]));

COMMENT ON VIEW pgcron.own_runs IS 'The runs that the reader''s role has enqueued, and nobody else''s; best asked by id.';

CREATE TABLE pgcron.producer_rule (
    role regrole NOT NULL,
    queue text NOT NULL COLLATE pg_catalog."C",
    handler text NOT NULL COLLATE pg_catalog."C",
    set_by text DEFAULT SESSION_USER NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_rule_says_which_handlers CHECK ((((handler ~ '^[A-Za-z0-9_.:-]{0,206}[*]?$'::text) AND (handler <> ''::text)) OR pgcron.refuse('PC001'::text, format('%L is neither a handler nor how some begin'::text, "left"(handler, 200)), 'A rule names one handler, or how handlers begin, with a star at its end.'::text, 'Write for example ''py:report'', ''py:*'', or ''*'' for every handler.'::text))),
    CONSTRAINT a_rule_says_which_queues CHECK ((((queue ~ '^[A-Za-z0-9_.-]{0,100}[*]?$'::text) AND (queue <> ''::text)) OR pgcron.refuse('PC001'::text, format('%L is neither a queue nor how some begin'::text, "left"(queue, 200)), 'A rule names one queue, or how queues begin, with a star at its end.'::text, 'Write for example ''mail'', ''mail-*'', or ''*'' for every queue.'::text)))
);

COMMENT ON TABLE pgcron.producer_rule IS 'What roles may enqueue: one that has the rights of a role which stands here may enqueue what one of the rules allows, in its own name, and nothing else. Who may empty pgcron.run is not asked.';

CREATE TABLE pgcron.progress (
    run_id bigint NOT NULL,
    attempt integer NOT NULL,
    at timestamp with time zone NOT NULL,
    done double precision NOT NULL,
    total double precision,
    note text,
    CONSTRAINT a_total_is_positive CHECK ((total > (0)::double precision)),
    CONSTRAINT progress_is_not_negative CHECK ((done >= (0)::double precision))
)
WITH (fillfactor='50');

COMMENT ON TABLE pgcron.progress IS 'What an executing run last said of how far it is; the row of a run that is over is removed within minutes.';

CREATE TABLE pgcron.queue (
    name text NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    paused_note text,
    max_running integer,
    rate integer,
    per interval,
    set_by text,
    set_at timestamp with time zone,
    is_plain boolean GENERATED ALWAYS AS (((paused_at IS NULL) AND (max_running IS NULL) AND (rate IS NULL))) STORED NOT NULL,
    CONSTRAINT a_queue_name_is_simple CHECK ((((name ~ '^[A-Za-z0-9_.-]+$'::text) AND (length(name) <= 100)) OR pgcron.refuse('PC001'::text, format('queue %L is not a queue name'::text, "left"(name, 200)), 'A queue name has 1 to 100 letters, digits, "_", "." and "-".'::text, 'Write for example ''default''.'::text))),
    CONSTRAINT a_queue_runs_1_to_100000_at_once CHECK (((max_running IS NULL) OR ((max_running >= 1) AND (max_running <= 100000)) OR pgcron.refuse('PC001'::text, format('max_running %s is out of range'::text, max_running), 'Of one queue 1 to 100000 runs may execute at once.'::text, 'NULL is no limit; pausing the queue lets nothing run.'::text))),
    CONSTRAINT a_queue_starts_1_to_1000000_runs_in_a_time CHECK ((pgcron.rate_is_fine(rate, per) OR pgcron.refuse_rate(rate, per))),
    CONSTRAINT queue_paused_by_is_short CHECK (((paused_by IS NULL) OR (length(paused_by) <= 300) OR pgcron.refuse_words('paused_by'::text, paused_by, 300))),
    CONSTRAINT queue_paused_note_is_short CHECK (((paused_note IS NULL) OR (length(paused_note) <= 2000) OR pgcron.refuse_words('paused_note'::text, paused_note, 2000))),
    CONSTRAINT queue_set_by_is_short CHECK (((set_by IS NULL) OR (length(set_by) <= 300) OR pgcron.refuse_words('set_by'::text, set_by, 300)))
);

COMMENT ON TABLE pgcron.queue IS 'Settings of queues; a queue without a row exists as soon as a run names it.';

COMMENT ON COLUMN pgcron.queue.max_running IS 'So many of its runs execute at once, on all nodes together; NULL is no limit.';

COMMENT ON COLUMN pgcron.queue.is_plain IS 'Its runs can be claimed without a look at what runs: neither paused nor limited.';

CREATE VIEW pgcron.queues AS
 SELECT COALESCE(q.name, w.queue) AS name,
    q.paused_at,
    q.paused_by,
    q.paused_note,
    q.max_running,
    COALESCE(w.waiting, (0)::bigint) AS waiting,
    COALESCE(w.due, (0)::bigint) AS due,
    COALESCE(w.running, (0)::bigint) AS running,
    COALESCE(w.held, (0)::bigint) AS held,
    w.oldest_due
   FROM (pgcron.queue q
     FULL JOIN ( SELECT r.queue,
            count(*) FILTER (WHERE (r.state = 'ready'::text)) AS waiting,
            count(*) FILTER (WHERE ((r.state = 'ready'::text) AND (r.due_at <= now()))) AS due,
            count(*) FILTER (WHERE (r.state = 'running'::text)) AS running,
            count(*) FILTER (WHERE (r.hold <> ALL (ARRAY['overlap'::text, 'previous'::text]))) AS held,
            min(r.due_at) FILTER (WHERE ((r.state = 'ready'::text) AND (r.due_at <= now()))) AS oldest_due
           FROM pgcron.run r
          GROUP BY r.queue) w ON ((w.queue = q.name)));

COMMENT ON VIEW pgcron.queues IS 'Queues with what waits in them, is due, runs and is held.';

CREATE TABLE pgcron.rate_window (
    kind text NOT NULL,
    name text NOT NULL COLLATE pg_catalog."C",
    slices bigint[] NOT NULL,
    starts integer[] NOT NULL,
    CONSTRAINT a_rate_is_of_a_lane_or_a_queue CHECK ((kind = ANY (ARRAY['lane'::text, 'queue'::text])))
)
WITH (fillfactor='50');

COMMENT ON TABLE pgcron.rate_window IS 'How many runs of a lane or queue with a rate started lately, by slices of a 256th of its time.';

CREATE TABLE pgcron.reason (
    code text NOT NULL,
    decision text NOT NULL,
    matches text,
    meaning text NOT NULL,
    CONSTRAINT a_reason_is_a_word CHECK ((code ~ '^[a-z_]{1,40}$'::text))
);

COMMENT ON TABLE pgcron.reason IS 'The answers of pgcron.why. What a ledger row says is the code itself, or a sentence that matches (a regular expression).';

CREATE TABLE pgcron.retention (
    relation text NOT NULL,
    period text NOT NULL,
    ahead interval NOT NULL,
    keep interval NOT NULL,
    CONSTRAINT a_partition_holds_a_day_or_a_month CHECK ((period = ANY (ARRAY['day'::text, 'month'::text]))),
    CONSTRAINT partitions_are_made_a_day_to_a_year_ahead CHECK (((ahead >= '1 day'::interval) AND (ahead <= '1 year'::interval))),
    CONSTRAINT retention_is_at_least_a_day CHECK (((keep >= '1 day'::interval) OR pgcron.refuse('PC001'::text, format('retention of %s is too short'::text, keep), 'Partitions are dropped a day after the last of their rows is due, at the earliest.'::text, 'Keep at least ''1 day''.'::text))),
    CONSTRAINT retention_is_at_most_a_century CHECK (((keep <= '36525 days'::interval) OR pgcron.refuse('PC001'::text, format('%s for %s is longer than a century'::text, keep, relation), 'Rows are kept for a day to 36525 days.'::text, 'Write for example ''400 days''.'::text))),
    CONSTRAINT retention_is_of_a_partitioned_table CHECK ((relation = ANY (ARRAY['occurrence'::text, 'history'::text, 'attempt'::text, 'log'::text])))
);

COMMENT ON TABLE pgcron.retention IS 'How long each partitioned table is kept. Change keep by plain SQL; a changed period holds for new partitions.';

CREATE TABLE pgcron.retention_rule (
    queue text,
    outcome text,
    keep interval NOT NULL,
    set_by text DEFAULT SESSION_USER NOT NULL,
    set_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT a_retention_rule_keeps_a_day CHECK (((keep >= '1 day'::interval) OR pgcron.refuse('PC001'::text, format('retention of %s is too short'::text, keep), 'Of each run a day is kept: nodes look back so far for what would be missing.'::text, 'Keep at least ''1 day''.'::text))),
    CONSTRAINT a_retention_rule_names_a_queue CHECK (((queue IS NULL) OR ((queue ~ '^[A-Za-z0-9_.-]+$'::text) AND (length(queue) <= 100)) OR pgcron.refuse('PC001'::text, format('queue %L is not a queue name'::text, "left"(queue, 200)), 'A queue has 1 to 100 letters, digits, "_", "." and "-".'::text, 'Leave it out for every queue.'::text))),
    CONSTRAINT a_retention_rule_names_an_outcome CHECK (((outcome IS NULL) OR (outcome = ANY (ARRAY['succeeded'::text, 'dead'::text, 'cancelled'::text, 'skipped'::text, 'superseded'::text, 'expired'::text, 'lost'::text, 'upstream_failed'::text])) OR pgcron.refuse('PC001'::text, format('outcome %L is not known'::text, "left"(outcome, 200)), 'Runs end succeeded, dead, lost, cancelled, expired, skipped, superseded or upstream_failed.'::text, 'Leave it out for every outcome.'::text)))
);

COMMENT ON TABLE pgcron.retention_rule IS 'How long ended runs of a queue (NULL: every queue) that ended so (NULL: however) are kept, if not as long as history. The most specific rule counts: queue and outcome, queue, outcome, neither.';

CREATE TABLE pgcron.retention_sweep (
    partition text NOT NULL,
    until timestamp with time zone NOT NULL,
    rules text NOT NULL,
    began_at timestamp with time zone NOT NULL,
    file oid,
    page bigint DEFAULT 0 NOT NULL,
    ended_at timestamp with time zone,
    removed bigint DEFAULT 0 NOT NULL,
    spared bigint DEFAULT 0 NOT NULL,
    remaining bigint DEFAULT 0 NOT NULL,
    gone bigint DEFAULT 0 NOT NULL,
    bytes bigint,
    tries integer DEFAULT 0 NOT NULL,
    tried_at timestamp with time zone
);

COMMENT ON TABLE pgcron.retention_sweep IS 'How far the runs of a day of history have been looked at by the rules of retention, and whether its space was given back.';

COMMENT ON COLUMN pgcron.retention_sweep.rules IS 'The rules that it follows: changed ones begin it again, and so does a file that is not the one of which page says how far.';

COMMENT ON COLUMN pgcron.retention_sweep.spared IS 'Runs that were due and stay for what is still to be known of their schedule; they are looked at again when the day is twice as old.';

COMMENT ON COLUMN pgcron.retention_sweep.gone IS 'Removed since the file was last rewritten; nothing when its space was given back.';

ALTER TABLE pgcron.run ALTER COLUMN id ADD GENERATED BY DEFAULT AS IDENTITY (
    SEQUENCE NAME pgcron.run_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

ALTER TABLE pgcron.schedule ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME pgcron.schedule_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE pgcron.schedule_preview (
    schedule_id bigint NOT NULL,
    generation bigint,
    sentence text,
    fires jsonb,
    is_over boolean,
    error jsonb,
    asked_at timestamp with time zone
)
WITH (fillfactor='80');

COMMENT ON TABLE pgcron.schedule_preview IS 'The next fires of schedules, and schedules in English: written when a new generation is judged, and for those that were asked for.';

COMMENT ON COLUMN pgcron.schedule_preview.asked_at IS 'Somebody asked for more than there is: a node computes it anew.';

CREATE TABLE pgcron.schedule_version (
    schedule_id bigint NOT NULL,
    version integer NOT NULL,
    at timestamp with time zone DEFAULT now() NOT NULL,
    actor text NOT NULL,
    door text NOT NULL,
    operation text NOT NULL,
    content jsonb NOT NULL,
    since timestamp with time zone,
    note text,
    CONSTRAINT a_version_is_a_creation_edit_or_deletion CHECK ((operation = ANY (ARRAY['create'::text, 'edit'::text, 'delete'::text]))),
    CONSTRAINT schedule_version_actor_is_short CHECK (((actor IS NULL) OR (length(actor) <= 300) OR pgcron.refuse_words('actor'::text, actor, 300)))
);

COMMENT ON TABLE pgcron.schedule_version IS 'Every version of every schedule as it stood, who wrote it and through which door. No foreign key: it outlives the schedule.';

COMMENT ON COLUMN pgcron.schedule_version.since IS 'From when on it decided: fires after it are its own. NULL while a node has still to apply it.';

COMMENT ON COLUMN pgcron.schedule_version.note IS 'What the editor said about the edit (pgcron_ha.version_note), or what it restored.';

CREATE VIEW pgcron.schedule_versions AS
 SELECT schedule_id,
    (content ->> 'name'::text) AS schedule,
    version,
    operation,
    at,
    actor,
    door,
    note,
    since,
    (EXISTS ( SELECT
           FROM pgcron.schedule s
          WHERE ((s.id = v.schedule_id) AND (s.version = v.version)))) AS is_current,
    content
   FROM pgcron.schedule_version v;

COMMENT ON VIEW pgcron.schedule_versions IS 'Every version of every schedule, deleted ones too, under the name that it had then: the newest 200 of each, and of a deleted one as long as its ledger is kept.';

CREATE VIEW pgcron.schedules AS
 SELECT s.id,
    s.uuid,
    s.name,
    s.spec,
    s.timezone,
    s.dst,
    s.handler,
    s.args,
    s.queue,
    s.priority,
    s.enabled,
    s.paused_note,
    s.paused_by,
    s.overlap,
    s.catchup,
    s.catchup_window,
    s.start_deadline,
    s.timeout,
    s.max_attempts,
    s.delivery,
    s.managed_by,
    s.version,
    s.created_at,
    s.updated_at,
    s.lane,
    s.requires,
    s.give_up_after,
    s.silence_timeout,
    s.weight,
    s.source,
    s.max_running,
    s.max_queued,
    s.queue_drops,
    s.paused_until,
    s.after_pause,
    s.jitter,
    s.spread_window,
    s.max_runs,
    c.runs_made,
    s.pause_after_failures,
    s.probe_after,
    s.depends_on_previous,
        CASE
            WHEN ((c.status = 'valid'::text) AND (c.next_fire = 'infinity'::timestamp with time zone) AND (NOT (EXISTS ( SELECT
               FROM pgcron.run r
              WHERE ((r.schedule_id = s.id) AND (r.origin = 'schedule'::text)))))) THEN 'done'::text
            ELSE c.status
        END AS status,
    c.error,
    c.canonical,
    c.watermark,
    COALESCE(( SELECT min(r.scheduled_for) AS min
           FROM pgcron.run r
          WHERE ((r.schedule_id = s.id) AND (r.state = 'ready'::text) AND (r.scheduled_for > now()))),
        CASE
            WHEN isfinite(c.next_fire) THEN c.next_fire
            ELSE NULL::timestamp with time zone
        END) AS next_fire,
    ( SELECT (count(*))::integer AS count
           FROM (pgcron.overrun o
             JOIN pgcron.run r ON (((r.id = o.run_id) AND (r.state = 'running'::text))))
          WHERE (o.schedule_id = s.id)) AS overrunning
   FROM (pgcron.schedule s
     JOIN pgcron.cursor c ON ((c.schedule_id = s.id)));

COMMENT ON VIEW pgcron.schedules IS 'Schedules with their status, watermark and next fire.';

CREATE TABLE pgcron.timezone (
    name text NOT NULL,
    rules bytea
);

COMMENT ON TABLE pgcron.timezone IS 'IANA zones that the nodes'' own tzdata knows (PostgreSQL''s may differ); nodes add what they know.';

COMMENT ON COLUMN pgcron.timezone.rules IS 'The zone as all nodes compute with it: the TZif file of cluster.tzdata.';

CREATE TABLE pgcron.unique_period (
    key text NOT NULL COLLATE pg_catalog."C",
    handler text NOT NULL,
    run_id bigint NOT NULL,
    until timestamp with time zone NOT NULL
);

COMMENT ON TABLE pgcron.unique_period IS 'Unique keys with a time: which run was the last with it, and until when there is no other. The janitor removes what is over.';

CREATE TABLE pgcron.zone_change (
    zone text NOT NULL,
    tzdata text NOT NULL COLLATE pg_catalog."C",
    old_rules bytea NOT NULL,
    differs_from timestamp with time zone NOT NULL,
    taken_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    swept_to bigint DEFAULT 0 NOT NULL,
    postponed bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    remade bigint DEFAULT 0 NOT NULL,
    done_at timestamp with time zone
);

COMMENT ON TABLE pgcron.zone_change IS 'A zone whose clocks differ by newer data: from when on, and how far its schedules follow. Schedules up to swept_to that are not postponed do.';

COMMENT ON COLUMN pgcron.zone_change.postponed IS 'Schedules that somebody was editing: looked at again.';

COMMENT ON COLUMN pgcron.zone_change.remade IS 'How many schedules had fires ahead decided by the old rules: those were made again.';

ALTER TABLE pgcron.run
    ADD CONSTRAINT a_run_keeps_its_rules CHECK ((((attempt = 1) AND (num_nonnulls(owner, token, fence, claimed_at) = 4) AND (hold IS NULL) AND (lane IS NULL) AND (requires IS NULL) AND (overlap IS NULL) AND (overlap_slot IS NULL) AND (state = 'running'::text)) OR pgcron.judge_run(run.*)));

ALTER TABLE ONLY pgcron.alembic_version
    ADD CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num);

ALTER TABLE ONLY pgcron.assertion
    ADD CONSTRAINT assertion_pkey PRIMARY KEY (transaction, run, token);

ALTER TABLE ONLY pgcron.backfill
    ADD CONSTRAINT backfill_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.backfill_run
    ADD CONSTRAINT backfill_run_pkey PRIMARY KEY (backfill_id, run_id);

ALTER TABLE ONLY pgcron.breaker_handler
    ADD CONSTRAINT breaker_handler_pkey PRIMARY KEY (handler);

ALTER TABLE ONLY pgcron.breaker
    ADD CONSTRAINT breaker_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgcron.calendar
    ADD CONSTRAINT calendar_name_key UNIQUE (name);

ALTER TABLE ONLY pgcron.calendar
    ADD CONSTRAINT calendar_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.callback
    ADD CONSTRAINT callback_pkey PRIMARY KEY (run_id, fence);

ALTER TABLE ONLY pgcron.cluster
    ADD CONSTRAINT cluster_pkey PRIMARY KEY (one);

ALTER TABLE ONLY pgcron.cordon
    ADD CONSTRAINT cordon_pkey PRIMARY KEY (node);

ALTER TABLE ONLY pgcron.cursor
    ADD CONSTRAINT cursor_pkey PRIMARY KEY (schedule_id);

ALTER TABLE ONLY pgcron.dead_letter
    ADD CONSTRAINT dead_letter_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.diversion
    ADD CONSTRAINT diversion_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.failure_pause
    ADD CONSTRAINT failure_pause_pkey PRIMARY KEY (schedule_id);

ALTER TABLE ONLY pgcron.fire_failure
    ADD CONSTRAINT fire_failure_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.given_back
    ADD CONSTRAINT given_back_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.idempotency
    ADD CONSTRAINT idempotency_pkey PRIMARY KEY (key);

ALTER TABLE ONLY pgcron.lane_limit
    ADD CONSTRAINT lane_limit_pkey PRIMARY KEY (lane);

ALTER TABLE ONLY pgcron.missed
    ADD CONSTRAINT missed_pkey PRIMARY KEY (schedule_id, first_at);

ALTER TABLE ONLY pgcron.node
    ADD CONSTRAINT node_pkey PRIMARY KEY (incarnation);

ALTER TABLE ONLY pgcron.occurrence
    ADD CONSTRAINT occurrence_pkey PRIMARY KEY (schedule_id, fire_at);

ALTER TABLE ONLY pgcron.occurrence_override
    ADD CONSTRAINT occurrence_override_pkey PRIMARY KEY (schedule_id, fire_at);

ALTER TABLE ONLY pgcron.offer
    ADD CONSTRAINT offer_pkey PRIMARY KEY (incarnation, handler);

ALTER TABLE ONLY pgcron.overrun
    ADD CONSTRAINT overrun_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.producer_rule
    ADD CONSTRAINT producer_rule_pkey PRIMARY KEY (role, queue, handler);

ALTER TABLE ONLY pgcron.progress
    ADD CONSTRAINT progress_pkey PRIMARY KEY (run_id);

ALTER TABLE ONLY pgcron.queue
    ADD CONSTRAINT queue_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgcron.rate_window
    ADD CONSTRAINT rate_window_pkey PRIMARY KEY (kind, name);

ALTER TABLE ONLY pgcron.reason
    ADD CONSTRAINT reason_pkey PRIMARY KEY (code);

ALTER TABLE ONLY pgcron.retention
    ADD CONSTRAINT retention_pkey PRIMARY KEY (relation);

ALTER TABLE ONLY pgcron.retention_sweep
    ADD CONSTRAINT retention_sweep_pkey PRIMARY KEY (partition);

ALTER TABLE ONLY pgcron.run
    ADD CONSTRAINT run_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.schedule
    ADD CONSTRAINT schedule_name_key UNIQUE (name);

ALTER TABLE ONLY pgcron.schedule
    ADD CONSTRAINT schedule_pkey PRIMARY KEY (id);

ALTER TABLE ONLY pgcron.schedule_preview
    ADD CONSTRAINT schedule_preview_pkey PRIMARY KEY (schedule_id);

ALTER TABLE ONLY pgcron.schedule
    ADD CONSTRAINT schedule_uuid_key UNIQUE (uuid);

ALTER TABLE ONLY pgcron.schedule_version
    ADD CONSTRAINT schedule_version_pkey PRIMARY KEY (schedule_id, version, operation);

ALTER TABLE ONLY pgcron.timezone
    ADD CONSTRAINT timezone_pkey PRIMARY KEY (name);

ALTER TABLE ONLY pgcron.unique_period
    ADD CONSTRAINT unique_period_pkey PRIMARY KEY (key, handler);

ALTER TABLE ONLY pgcron.zone_change
    ADD CONSTRAINT zone_change_pkey PRIMARY KEY (zone, tzdata);

CREATE INDEX attempt_run ON ONLY pgcron.attempt USING btree (run_id, attempt);

CREATE INDEX backfill_of_schedule ON pgcron.backfill USING btree (schedule_id, id);

CREATE INDEX backfill_run_open ON pgcron.backfill_run USING btree (backfill_id) WHERE (outcome IS NULL);

CREATE INDEX backfill_under_way ON pgcron.backfill USING btree (id) WHERE (state = ANY (ARRAY['open'::text, 'paused'::text, 'stopping'::text]));

CREATE INDEX breaker_handler_breaker ON pgcron.breaker_handler USING btree (breaker);

CREATE INDEX breaker_open ON pgcron.breaker USING btree (name) WHERE (state <> 'closed'::text);

CREATE INDEX callback_age ON pgcron.callback USING btree (opened_at);

CREATE INDEX cursor_due ON pgcron.cursor USING btree (next_fire NULLS FIRST) WHERE ((status <> 'invalid'::text) AND (NOT is_paused));

CREATE INDEX cursor_edited ON pgcron.cursor USING btree (schedule_id) WHERE edit_is_pending;

CREATE INDEX cursor_refused ON pgcron.cursor USING btree (retry_at) WHERE (retry_at IS NOT NULL);

CREATE INDEX dead_letter_group ON pgcron.dead_letter USING btree (fingerprint, died_at);

CREATE INDEX dead_letter_open ON pgcron.dead_letter USING btree (died_at DESC) WHERE (requeued_as IS NULL);

CREATE INDEX diversion_at ON pgcron.diversion USING btree (at);

CREATE INDEX failure_pause_due ON pgcron.failure_pause USING btree (look_at) WHERE (probe_run IS NULL);

CREATE INDEX failure_pause_probing ON pgcron.failure_pause USING btree (probe_run) WHERE (probe_run IS NOT NULL);

CREATE INDEX fire_failure_new ON pgcron.fire_failure USING btree (schedule_id) WHERE (NOT is_judged);

CREATE INDEX fire_failure_schedule ON pgcron.fire_failure USING btree (schedule_id, failed_at);

CREATE INDEX history_id ON ONLY pgcron.history USING btree (id);

CREATE INDEX history_parent ON ONLY pgcron.history USING btree (parent_run) WHERE (parent_run IS NOT NULL);

CREATE INDEX history_schedule ON ONLY pgcron.history USING btree (schedule_id, finished_at) WHERE (schedule_id IS NOT NULL);

CREATE INDEX history_overflow_id ON pgcron.history_overflow USING btree (id);

CREATE INDEX idempotency_expiring ON pgcron.idempotency USING btree (expires_at);

CREATE INDEX lane_limit_pattern ON pgcron.lane_limit USING btree (lane) WHERE ("right"(lane, 1) = '*'::text);

CREATE INDEX log_run ON ONLY pgcron.log USING btree (run_id, attempt, sequence);

CREATE INDEX node_living ON pgcron.node USING btree (incarnation) WHERE (state <> 'dead'::text);

CREATE INDEX occurrence_override_early ON pgcron.occurrence_override USING btree (due_at) WHERE ((action = 'move'::text) AND (due_at < fire_at));

COMMENT ON INDEX pgcron.occurrence_override_early IS 'Fires that were moved ahead of their time: they become runs before the cursor comes to them.';

CREATE INDEX offer_handler ON pgcron.offer USING btree (handler);

CREATE INDEX overrun_schedule ON pgcron.overrun USING btree (schedule_id);

CREATE UNIQUE INDEX retention_rule_once ON pgcron.retention_rule USING btree (COALESCE(queue, ''::text), COALESCE(outcome, ''::text));

CREATE INDEX run_claim ON pgcron.run USING btree (queue, priority, due_at, id) WHERE ((state = 'ready'::text) AND (hold IS NULL) AND (lane IS NULL) AND (requires IS NULL) AND (overlap IS NULL) AND (delivery = 'at_least_once'::text));

CREATE INDEX run_claim_key ON pgcron.run USING btree (queue, lane, priority, due_at, id) WHERE ((state = 'ready'::text) AND (hold IS NULL) AND (lane IS NOT NULL));

CREATE INDEX run_claim_lane ON pgcron.run USING btree (queue, priority, due_at, id) WHERE ((state = 'ready'::text) AND (hold IS NULL) AND (lane IS NULL) AND (requires IS NULL) AND (overlap IS NOT NULL));

CREATE INDEX run_claim_once ON pgcron.run USING btree (queue, priority, due_at, id) WHERE ((state = 'ready'::text) AND (hold IS NULL) AND (lane IS NULL) AND (requires IS NULL) AND (overlap IS NULL) AND (delivery <> 'at_least_once'::text));

CREATE INDEX run_claim_placed ON pgcron.run USING btree (queue, requires, priority, due_at, id) WHERE ((state = 'ready'::text) AND (hold IS NULL) AND (lane IS NULL) AND (requires IS NOT NULL));

CREATE INDEX run_dependent ON pgcron.run USING btree (due_at) WHERE (hold = 'previous'::text);

CREATE INDEX run_expiring ON pgcron.run USING btree (expire_at) WHERE ((state = 'ready'::text) AND (expire_at IS NOT NULL));

CREATE UNIQUE INDEX run_fire ON pgcron.run USING btree (schedule_id, scheduled_for) WHERE (scheduled_for IS NOT NULL);

CREATE INDEX run_held ON pgcron.run USING btree (handler, queue, COALESCE(requires, '{}'::text[])) WHERE (hold <> ALL (ARRAY['overlap'::text, 'previous'::text]));

CREATE UNIQUE INDEX run_lane_slot ON pgcron.run USING btree (lane, lane_slot) WHERE (lane_slot IS NOT NULL);

CREATE UNIQUE INDEX run_overlap_slot ON pgcron.run USING btree (schedule_id, overlap_slot) WHERE (overlap_slot IS NOT NULL);

CREATE INDEX run_owner ON pgcron.run USING btree (owner) WHERE (state = 'running'::text);

CREATE INDEX run_parent ON pgcron.run USING btree (parent_run) WHERE (parent_run IS NOT NULL);

CREATE INDEX run_schedule ON pgcron.run USING btree (schedule_id, state, hold, due_at) WHERE (schedule_id IS NOT NULL);

CREATE UNIQUE INDEX run_unique_key ON pgcron.run USING btree (unique_key, handler) WHERE pgcron.has_key(unique_key, unique_scope, attempt);

CREATE INDEX run_waiting ON pgcron.run USING btree (schedule_id, overlap, priority, due_at, id) WHERE (hold = 'overlap'::text);

CREATE INDEX schedule_of_source ON pgcron.schedule USING btree (source) WHERE (source IS NOT NULL);

CREATE INDEX schedule_paused_until ON pgcron.schedule USING btree (paused_until) WHERE (paused_until IS NOT NULL);

CREATE INDEX schedule_preview_asked ON pgcron.schedule_preview USING btree (asked_at) WHERE (asked_at IS NOT NULL);

CREATE INDEX schedule_version_deleted ON pgcron.schedule_version USING btree (((content ->> 'name'::text)), at) WHERE (operation = 'delete'::text);

CREATE INDEX schedule_version_outlived ON pgcron.schedule_version USING btree (at) WHERE (operation = 'delete'::text);

CREATE INDEX schedule_with_calendars ON pgcron.schedule USING btree (id) WHERE (calendars IS NOT NULL);

CREATE INDEX unique_period_until ON pgcron.unique_period USING btree (until);

CREATE INDEX zone_change_under_way ON pgcron.zone_change USING btree (zone) WHERE (done_at IS NULL);

CREATE CONSTRAINT TRIGGER a_key_names_a_new_run AFTER INSERT OR UPDATE ON pgcron.idempotency DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((NOT has_table_privilege(('pgcron.run'::regclass)::oid, 'TRUNCATE'::text)) AND (NOT has_column_privilege(('pgcron.run'::regclass)::oid, 'origin'::text, 'INSERT'::text)))) EXECUTE FUNCTION pgcron.a_key_names_a_new_run();

CREATE CONSTRAINT TRIGGER a_key_names_a_new_run AFTER INSERT OR UPDATE ON pgcron.unique_period DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (((NOT has_table_privilege(('pgcron.run'::regclass)::oid, 'TRUNCATE'::text)) AND (NOT has_column_privilege(('pgcron.run'::regclass)::oid, 'origin'::text, 'INSERT'::text)))) EXECUTE FUNCTION pgcron.a_key_names_a_new_run();

CREATE TRIGGER a_living_key_stays BEFORE UPDATE ON pgcron.idempotency FOR EACH ROW WHEN (((old.expires_at > now()) AND (NOT has_table_privilege(('pgcron.run'::regclass)::oid, 'TRUNCATE'::text)) AND (NOT has_column_privilege(('pgcron.run'::regclass)::oid, 'origin'::text, 'INSERT'::text)))) EXECUTE FUNCTION pgcron.a_living_key_stays();

CREATE TRIGGER a_living_key_stays BEFORE UPDATE ON pgcron.unique_period FOR EACH ROW WHEN (((old.until > now()) AND ((new.run_id = old.run_id) OR (new.until <= old.until)) AND (NOT has_table_privilege(('pgcron.run'::regclass)::oid, 'TRUNCATE'::text)) AND (NOT has_column_privilege(('pgcron.run'::regclass)::oid, 'origin'::text, 'INSERT'::text)))) EXECUTE FUNCTION pgcron.a_living_key_stays();

CREATE TRIGGER backfills_stop_with_their_schedule BEFORE DELETE ON pgcron.schedule FOR EACH ROW EXECUTE FUNCTION pgcron.backfills_stop_with_their_schedule();

CREATE TRIGGER judge_retention_rule BEFORE INSERT OR UPDATE ON pgcron.retention_rule FOR EACH ROW EXECUTE FUNCTION pgcron.judge_retention_rule();

CREATE TRIGGER judge_schedule BEFORE INSERT OR UPDATE ON pgcron.schedule FOR EACH ROW EXECUTE FUNCTION pgcron.judge_schedule();

CREATE TRIGGER schedule_is_deleted BEFORE DELETE ON pgcron.schedule FOR EACH ROW EXECUTE FUNCTION pgcron.schedule_is_deleted();

CREATE TRIGGER schedule_was_written AFTER INSERT OR UPDATE ON pgcron.schedule FOR EACH ROW EXECUTE FUNCTION pgcron.schedule_was_written();

CREATE TRIGGER tell_who_waits AFTER DELETE ON pgcron.run FOR EACH ROW WHEN (old.awaited) EXECUTE FUNCTION pgcron.tell_who_waits();

CREATE CONSTRAINT TRIGGER the_claim_holds_at_commit AFTER INSERT ON pgcron.assertion DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION pgcron.judge_assertions();

CREATE CONSTRAINT TRIGGER wake_at_commit AFTER INSERT ON pgcron.run DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((statement_timestamp() > transaction_timestamp())) EXECUTE FUNCTION pgcron.wake_idle_nodes();

CREATE TRIGGER wake_idle_nodes AFTER INSERT ON pgcron.run FOR EACH STATEMENT EXECUTE FUNCTION pgcron.wake_idle_nodes();

ALTER TABLE ONLY pgcron.backfill_run
    ADD CONSTRAINT backfill_run_backfill_id_fkey FOREIGN KEY (backfill_id) REFERENCES pgcron.backfill(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.breaker_handler
    ADD CONSTRAINT breaker_handler_breaker_fkey FOREIGN KEY (breaker) REFERENCES pgcron.breaker(name) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.cordon
    ADD CONSTRAINT cordon_incarnation_fkey FOREIGN KEY (incarnation) REFERENCES pgcron.node(incarnation) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.cursor
    ADD CONSTRAINT cursor_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES pgcron.schedule(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.failure_pause
    ADD CONSTRAINT failure_pause_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES pgcron.schedule(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.occurrence_override
    ADD CONSTRAINT occurrence_override_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES pgcron.schedule(id) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.offer
    ADD CONSTRAINT offer_incarnation_fkey FOREIGN KEY (incarnation) REFERENCES pgcron.node(incarnation) ON DELETE CASCADE;

ALTER TABLE ONLY pgcron.schedule_preview
    ADD CONSTRAINT schedule_preview_schedule_id_fkey FOREIGN KEY (schedule_id) REFERENCES pgcron.cursor(schedule_id) ON DELETE CASCADE;

