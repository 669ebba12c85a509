-- The cluster, its nodes, what they offer, and the zones that may be named.

CREATE TABLE pgcron.cluster (
  one boolean PRIMARY KEY DEFAULT true CONSTRAINT there_is_one_cluster_row CHECK (one),
  system_identifier bigint,
  timeline int,
  epoch bigint NOT NULL DEFAULT 1,
  quarantine_until timestamptz NOT NULL DEFAULT '-infinity',
  paused_at timestamptz,
  paused_by text,
  paused_note text
);
COMMENT ON TABLE pgcron.cluster IS 'One row: the server''s timeline as last seen, claims refused until quarantine_until or while paused_at is set.';
INSERT INTO pgcron.cluster DEFAULT VALUES;

CREATE TABLE pgcron.node (
  incarnation uuid PRIMARY KEY,
  name text NOT NULL CONSTRAINT a_node_name_has_1_to_200_characters CHECK (length(name) BETWEEN 1 AND 200),
  host text NOT NULL,
  process_id int NOT NULL,
  version text NOT NULL,
  home text,
  state text NOT NULL DEFAULT 'alive' CONSTRAINT a_node_is_alive_draining_or_dead CHECK (state IN ('alive', 'draining', 'dead')),
  beat_sequence bigint NOT NULL DEFAULT 0,
  lease_until timestamptz NOT NULL,
  lease_ttl interval NOT NULL CONSTRAINT a_lease_lives_1_second_to_5_minutes CHECK (lease_ttl BETWEEN '1 second' AND '5 minutes'),
  slots int NOT NULL,
  slots_used int NOT NULL DEFAULT 0,
  queues text[] NOT NULL,
  is_idle boolean NOT NULL DEFAULT false,
  started_at timestamptz NOT NULL DEFAULT now(),
  ended_at timestamptz,
  ended_because text,
  CONSTRAINT a_dead_node_says_when_and_why CHECK ((state = 'dead') = (ended_at IS NOT NULL AND ended_because IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);
COMMENT ON TABLE pgcron.node IS 'One row for each process incarnation; the row is its lease. name is a label, never an identity.';
COMMENT ON COLUMN pgcron.node.home IS 'Host and state directory whose exclusive lock proves that an earlier incarnation of the same home is dead.';
CREATE INDEX node_living ON pgcron.node (incarnation) WHERE state <> 'dead';

CREATE TABLE pgcron.offer (
  incarnation uuid NOT NULL REFERENCES pgcron.node ON DELETE CASCADE,
  handler text NOT NULL CONSTRAINT an_offer_is_a_handler_name CHECK (pgcron.handler_is_fine(handler) OR pgcron.refuse_handler(handler)),
  PRIMARY KEY (incarnation, handler)
);
COMMENT ON TABLE pgcron.offer IS 'Which handlers a node offers.';
CREATE INDEX offer_handler ON pgcron.offer (handler);

CREATE TABLE pgcron.queue (
  name text PRIMARY KEY CONSTRAINT a_queue_name_is_simple CHECK ((name ~ '^[A-Za-z0-9_.-]+$' AND length(name) <= 100) OR pgcron.refuse('PC001',
    format('queue %L is not a queue name', left(name, 200)), 'A queue name has 1 to 100 letters, digits, "_", "." and "-".', 'Write for example ''default''.')),
  paused_at timestamptz,
  paused_by text,
  paused_note text
);
COMMENT ON TABLE pgcron.queue IS 'Settings of queues; a queue without a row exists as soon as a run names it.';

CREATE TABLE pgcron.timezone (name text PRIMARY KEY);
COMMENT ON TABLE pgcron.timezone IS 'IANA zones that the nodes'' own tzdata knows (PostgreSQL''s may differ); nodes add what they know.';
