-- The cluster, its nodes, what they offer, and the zones that may be named.

CREATE TABLE pgcron.cluster (
  one boolean PRIMARY KEY DEFAULT true CONSTRAINT there_is_one_cluster_row CHECK (one),
  system_identifier bigint,
  timeline int,
  -- Whether the server waits for a standby with each commit, as beats found it; after a failover it
  -- says so of the old server. NULL: not known.
  is_synchronous boolean,
  quarantine_until timestamptz NOT NULL DEFAULT '-infinity',
  paused_at timestamptz,
  paused_by text CHECK (pgcron.is_short('paused_by', paused_by, 300)),
  paused_note text CHECK (pgcron.is_short('paused_note', paused_note, 2000)),
  -- The version of tzdata that decides, the newest of the living nodes (2026a < 2026b): nodes with
  -- another one materialize no schedules. NULL: none came so far.
  tzdata text COLLATE "C",
  -- Another tzdata decides: schedules with larger ids may have fires ahead that the one before
  -- decided. NULL: none has.
  replan_after bigint
);
COMMENT ON TABLE pgcron.cluster IS
    'One row: the server''s timeline as last seen, claims refused until quarantine_until or while '
    'paused_at is set.';
INSERT INTO pgcron.cluster DEFAULT VALUES;

CREATE TABLE pgcron.node (
  incarnation uuid PRIMARY KEY,
  name text NOT NULL CONSTRAINT a_node_name_has_1_to_200_characters
    CHECK (length(name) BETWEEN 1 AND 200),
  host text NOT NULL,
  process_id int NOT NULL,
  version text NOT NULL,
  -- The version of the package tzdata where it runs; older than the cluster's, it materializes no
  -- schedules.
  tzdata text COLLATE "C",
  -- Start of the machine, and file whose exclusive lock proves that an earlier incarnation of the
  -- same home is dead.
  home text,
  state text NOT NULL DEFAULT 'alive' CONSTRAINT a_node_is_alive_cordoned_draining_or_dead
    CHECK (state IN ('alive', 'cordoned', 'draining', 'dead')),
  beat_sequence bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL,
  lease_ttl interval NOT NULL CONSTRAINT a_lease_lives_1_second_to_5_minutes
    CHECK (lease_ttl BETWEEN '1 second' AND '5 minutes'),
  slots int NOT NULL,
  slots_used int NOT NULL DEFAULT 0,
  queues text[] NOT NULL,
  labels jsonb NOT NULL DEFAULT '{}' CONSTRAINT node_labels_are_words
    CHECK (pgcron.labels_are_fine(labels)
      OR pgcron.refuse('PC001', format('labels %L are not labels', left(labels::text, 200)),
        'A node has at most 64 labels: names of 1 to 100 letters, digits, "_", ".", "/" and "-", '
        'with values that may have ":", "+" and "@", too.',
        'Write for example ''{"gpu": "a100"}''.')),
  is_idle boolean NOT NULL DEFAULT false,
  -- It came through a pooler that hands sessions around: no notification reaches it, it looks for
  -- work instead.
  is_pooled boolean NOT NULL DEFAULT false,
  -- A waiting run that takes more slots than are free here: the node claims nothing else until it
  -- has them.
  awaits bigint,
  -- What is wrong with its services, as its last heartbeat reported: which fail, and what each
  -- leaves out; NULL: nothing.
  health jsonb,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz,
  ended_because text,
  CONSTRAINT a_dead_node_says_when_and_why
    CHECK ((state = 'dead') = (ended_at IS NOT NULL AND ended_because IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
COMMENT ON TABLE pgcron.node IS
    'One row for each process incarnation; the row is its lease. name is a label, never an '
    'identity.';
CREATE INDEX node_living ON pgcron.node (incarnation) WHERE state <> 'dead';

-- A server that was promoted has another one than the server before it.
CREATE FUNCTION pgcron.server_timeline() RETURNS int
LANGUAGE sql AS $$
SELECT ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int $$;

CREATE TABLE pgcron.offer (
  incarnation uuid NOT NULL REFERENCES pgcron.node ON DELETE CASCADE,
  handler text NOT NULL CONSTRAINT an_offer_is_a_handler_name CHECK (pgcron.is_handler(handler)),
  PRIMARY KEY (incarnation, handler)
);
COMMENT ON TABLE pgcron.offer IS 'Which handlers a node offers.';
CREATE INDEX offer_handler ON pgcron.offer (handler);

CREATE TABLE pgcron.queue (
  name text PRIMARY KEY CONSTRAINT a_queue_name_is_simple CHECK (pgcron.is_queue(name)),
  paused_at timestamptz,
  paused_by text CHECK (pgcron.is_short('paused_by', paused_by, 300)),
  paused_note text CHECK (pgcron.is_short('paused_note', paused_note, 2000)),
  -- How many of its runs execute at once, on all nodes together; NULL is no limit.
  max_running int CONSTRAINT a_queue_runs_1_to_100000_at_once
    CHECK (pgcron.is_within('max_running', max_running, 1, 100000,
        'Of one queue 1 to 100000 runs may execute at once.',
        'NULL is no limit; pausing the queue lets nothing run.')),
  rate int,
  per interval,
  set_by text CHECK (pgcron.is_short('set_by', set_by, 300)),
  set_at timestamptz,
  -- Its runs can be claimed without a look at what runs: neither paused nor limited.
  is_plain boolean NOT NULL GENERATED ALWAYS AS (paused_at IS NULL AND max_running IS NULL
        AND rate IS NULL) STORED,
  CONSTRAINT a_queue_starts_1_to_1000000_runs_in_a_time
    CHECK (pgcron.rate_is_fine(rate, per) OR pgcron.refuse_rate(rate, per))
);
COMMENT ON TABLE pgcron.queue IS
    'Settings of queues; a queue without a row exists as soon as a run names it.';

CREATE TABLE pgcron.concurrency_limit (
  concurrency_key text COLLATE "C" PRIMARY KEY CHECK (concurrency_key = '*'
      OR pgcron.concurrency_key_is_fine(regexp_replace(concurrency_key, '\*$', ''))
      OR pgcron.refuse_concurrency_key(concurrency_key)),
  rate int,
  per interval,
  slots int CONSTRAINT a_key_has_1_to_10000_slots
    CHECK (slots IS NULL OR slots BETWEEN 1 AND 10000
      OR pgcron.refuse('PC001', format('%s slots are out of range', slots),
        'A concurrency key has 1 to 10000 slots.', 'NULL is no limit.')),
  -- A run takes as many of the key's slots as its weight, and not one.
  by_weight boolean NOT NULL DEFAULT false,
  set_by text NOT NULL DEFAULT session_user CHECK (pgcron.is_short('set_by', set_by, 300)),
  set_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT a_key_starts_1_to_1000000_runs_in_a_time
    CHECK (pgcron.rate_is_fine(rate, per) OR pgcron.refuse_rate(rate, per))
);
COMMENT ON TABLE pgcron.concurrency_limit IS
    'How many runs of one concurrency key execute at once, or of which weight together, and how '
    'many start in any span of time. The key''s own row counts, else the row with the longest '
    'prefix (customer-*), else that of *, else one.';

CREATE TABLE pgcron.rate_window (
  kind text NOT NULL CONSTRAINT a_rate_is_of_a_key_or_a_queue CHECK (kind IN ('key', 'queue')),
  name text COLLATE "C" NOT NULL,
  -- What its slices are parts of: counts of another rate say nothing.
  per interval NOT NULL,
  slices bigint[] NOT NULL,
  starts int[] NOT NULL,
  PRIMARY KEY (kind, name)
) WITH (fillfactor = 50);
COMMENT ON TABLE pgcron.rate_window IS
    'How many runs of one concurrency key or queue with a rate started lately, by slices of a '
    '256th of its time. Who claims from a key that counts starts or weight has locked its row.';

CREATE INDEX concurrency_limit_pattern ON pgcron.concurrency_limit (concurrency_key)
  WHERE right(concurrency_key, 1) = '*';

CREATE TABLE pgcron.timezone (
  name text PRIMARY KEY
);
COMMENT ON TABLE pgcron.timezone IS
    'IANA zones that the nodes'' own tzdata knows (PostgreSQL''s may differ); nodes add what they '
    'know.';

-- The NOTIFY channel of this installation. Notifications are hints; nothing depends on them.
CREATE FUNCTION pgcron.channel() RETURNS text
LANGUAGE sql STABLE
RETURN 'pgcron_' || 'pgcron'::regnamespace::oid::text;

-- NOTIFY, unless the server's queue of notifications is half full: then listeners find out by
-- polling. A session that listens and leaves a transaction open keeps every notification on the
-- server in that queue; when it is full, PostgreSQL refuses to commit what notifies.
CREATE FUNCTION pgcron.notify(channel text, payload text) RETURNS void
LANGUAGE sql VOLATILE
BEGIN ATOMIC
  SELECT pg_notify(channel, payload) WHERE pg_notification_queue_usage() < 0.5;
END;

CREATE FUNCTION pgcron.wake_nodes(about text) RETURNS void
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.notify(pgcron.channel(), about)
  WHERE EXISTS (SELECT FROM pgcron.node n WHERE n.state IN ('alive', 'cordoned')) $$;

CREATE FUNCTION pgcron.pause_cluster(note text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  UPDATE pgcron.cluster c SET paused_at = coalesce(c.paused_at, now()),
    paused_by = coalesce(pause_cluster.actor, session_user), paused_note = pause_cluster.note $$;
COMMENT ON FUNCTION pgcron.pause_cluster IS
    'No node claims anything until the cluster is resumed; what runs goes on, and fires become '
    'runs.';

CREATE FUNCTION pgcron.resume_cluster(actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(actor);
  UPDATE pgcron.cluster c SET paused_at = NULL, paused_by = NULL, paused_note = NULL;
  SELECT pgcron.notify(pgcron.channel(), 'admit');
  SELECT pgcron.notify(pgcron.channel(), 'run') $$;
COMMENT ON FUNCTION pgcron.resume_cluster IS 'Nodes claim runs again.';
