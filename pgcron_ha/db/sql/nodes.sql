-- name: join_node
-- A new incarnation; its row is its lease.
INSERT INTO pgcron.node (incarnation, name, host, process_id, version, tzdata, home, lease_ttl,
                         lease_until, slots, queues, labels, state)
VALUES (:incarnation, :name, :host, :process_id, :version, :tzdata::text, :home,
        make_interval(secs => :lease_ttl::float8),
        now() + make_interval(secs => :lease_ttl::float8), :slots, :queues, :labels::text::jsonb,
        CASE WHEN EXISTS (SELECT FROM pgcron.cordon c WHERE c.node = :name::text) THEN 'cordoned'
             ELSE 'alive' END);

-- name: end_late_fires
-- ready -> skipped
-- blocked -> skipped
-- Before a claim after a time without any node: runs of fires that came due meanwhile, as the
-- catch-up policy says.
SELECT pgcron.end_late_fires(make_interval(secs => :grace::float8), :at_most::int) AS ended;

-- name: bury_predecessors
-- The caller holds the exclusive lock of this home, so every earlier incarnation of it, and its
-- children, are gone. What comes late, when the caller itself has been buried by its successor,
-- buries nobody: the successor may be at work. Locks in one order, so that of two that meet one
-- comes first.
WITH living AS MATERIALIZED (
  SELECT n.incarnation FROM pgcron.node n WHERE n.home = :home::text AND n.state <> 'dead'
  ORDER BY n.incarnation FOR NO KEY UPDATE)
UPDATE pgcron.node
SET state = 'dead', ended_at = now(),
    ended_because = 'restarted: its successor holds the lock of its state directory'
  FROM living
 WHERE node.incarnation = living.incarnation AND node.incarnation <> :incarnation::uuid
   AND EXISTS (SELECT FROM living mine WHERE mine.incarnation = :incarnation::uuid)
RETURNING node.incarnation;

-- name: offer_handlers
INSERT INTO pgcron.offer (incarnation, handler)
SELECT :incarnation::uuid, unnest(:handlers::text[]) ON CONFLICT DO NOTHING;

-- name: learn_timezones
-- Nodes may carry newer zones than the migration that made the table.
INSERT INTO pgcron.timezone (name) SELECT unnest(:names::text[]) ON CONFLICT DO NOTHING;

-- name: note_timeline
-- A promoted server has another timeline. After it nobody claims for the longest lease: a node that
-- still executes what the old server gave it stops itself in that time. Not where the old server
-- waited for its standby with each commit, as the beats recorded: then nothing that it gave out is
-- missing here. The record is believed if a beat came here within the last minute; one that stopped
-- being synchronous before that could not say so. In that time numbers are skipped, too. At the
-- first start, and when the same server begins or ceases to wait for a standby, nothing but the
-- record changes.
UPDATE pgcron.cluster
SET timeline = found.timeline, system_identifier = found.system_identifier,
    is_synchronous = found.is_synchronous,
       quarantine_until = CASE WHEN cluster.timeline IS NULL
                               OR (cluster.timeline, cluster.system_identifier)
                                 = (found.timeline, found.system_identifier)
                               OR (cluster.is_synchronous AND found.was_heard) THEN quarantine_until
                               ELSE now() + coalesce((SELECT max(lease_ttl) FROM pgcron.node
                                   WHERE state <> 'dead' AND lease_ttl <= '1 day'),
                                                     interval '15 seconds') END
FROM (SELECT pgcron.server_timeline() AS timeline,
      current_setting('synchronous_standby_names') <> '' AS is_synchronous,
             (SELECT system_identifier FROM pg_control_system()) AS system_identifier,
             EXISTS (SELECT FROM pgcron.node
                 WHERE extract(epoch FROM lease_until) - extract(epoch FROM lease_ttl)
                     > extract(epoch FROM now()) - 60) AS was_heard) found
WHERE (cluster.timeline, cluster.system_identifier, cluster.is_synchronous)
  IS DISTINCT FROM (found.timeline, found.system_identifier, found.is_synchronous)
RETURNING CASE WHEN quarantine_until > now() THEN pgcron.skip_lost_numbers() END;

-- name: beat
-- One statement renews the lease (no row: this incarnation is dead for ever) and returns this
-- node's runs and which of them are to stop, the state of the peers' leases, whether this node is
-- cordoned, the schema's revision, and whether the record of the server has to be written anew.
WITH renewed AS (
  UPDATE pgcron.node
  SET lease_until = now() + lease_ttl, beat_sequence = beat_sequence + 1, slots_used = :slots_used,
         health = :health::text::jsonb, is_pooled = :is_unresponsive,
         state = CASE WHEN :is_draining OR state = 'draining' THEN 'draining'
                      WHEN EXISTS (SELECT FROM pgcron.cordon c
                          WHERE c.node IN (node.name, node.incarnation::text)) THEN 'cordoned'
                      ELSE 'alive' END
  WHERE incarnation = :incarnation AND state <> 'dead' RETURNING incarnation, state)
SELECT mine.run_ids, mine.tokens, mine.cancelled_ids, mine.killed_ids, peer.peers,
       peer.peer_sequences, peer.peer_ttls,
       ARRAY(SELECT b.name FROM pgcron.breaker b WHERE b.state <> 'closed'
           ORDER BY b.name) AS breakers,
       renewed.state = 'cordoned' AS is_cordoned,
       (SELECT max(a.version_num) FROM pgcron.alembic_version a) AS revision,
       (k.timeline, k.is_synchronous) IS DISTINCT FROM (pgcron.server_timeline(),
         current_setting('synchronous_standby_names') <> '') AS must_note_server
FROM renewed LEFT JOIN pgcron.cluster k ON true
CROSS JOIN LATERAL (
  SELECT coalesce(array_agg(r.id ORDER BY r.id), '{}') AS run_ids,
         coalesce(array_agg(r.token ORDER BY r.id), '{}') AS tokens,
         coalesce(array_agg(r.id) FILTER (WHERE r.cancel_at IS NOT NULL), '{}') AS cancelled_ids,
         coalesce(array_agg(r.id) FILTER (WHERE r.kill_at IS NOT NULL), '{}') AS killed_ids
  FROM pgcron.run r WHERE r.owner = renewed.incarnation AND r.state = 'running') mine
CROSS JOIN LATERAL (
  SELECT coalesce(array_agg(n.incarnation ORDER BY n.incarnation), '{}') AS peers,
         coalesce(array_agg(n.beat_sequence ORDER BY n.incarnation), '{}') AS peer_sequences,
         coalesce(array_agg(extract(epoch FROM n.lease_ttl)::float8 ORDER BY n.incarnation),
                  '{}') AS peer_ttls
  FROM pgcron.node n WHERE n.state <> 'dead' AND n.incarnation <> renewed.incarnation) peer;

-- name: say_idle
-- An idle node is woken by NOTIFY; a busy one looks by itself and spares the enqueuers the
-- notification.
UPDATE pgcron.node SET is_idle = :is_idle
WHERE incarnation = :incarnation AND state <> 'dead' AND is_idle <> :is_idle;

-- name: wake_idle_nodes
-- What an INSERT of runs says by itself, for runs that were given back or retried. Idle nodes look;
-- the caller may be one.
SELECT pgcron.notify(pgcron.channel(), 'run')
WHERE EXISTS (SELECT FROM pgcron.node WHERE is_idle AND state = 'alive');

-- name: probe_listeners
-- Proves to its listener that notifications arrive: through some poolers LISTEN succeeds, but no
-- notification is ever delivered.
SELECT pgcron.notify(pgcron.channel(), 'probe');

-- name: stop_listening
UNLISTEN *;

-- name: declare_dead
-- Compare-and-set on the beat that the observer has seen for a whole lease: a renewal that gets
-- there first wins. A locked row is skipped; the next look comes soon.
UPDATE pgcron.node SET state = 'dead', ended_at = now(), ended_because = 'its lease ran out'
WHERE incarnation = (SELECT n.incarnation FROM pgcron.node n
                      WHERE n.incarnation = :incarnation AND n.beat_sequence = :beat_sequence
                        AND n.lease_until < now() AND n.state <> 'dead'
                      FOR NO KEY UPDATE SKIP LOCKED)
RETURNING incarnation;

-- name: leave
UPDATE pgcron.node
SET state = 'dead', ended_at = now(), ended_because = :reason, is_idle = false, slots_used = 0
WHERE incarnation = :incarnation AND state <> 'dead' RETURNING incarnation;

-- name: reap_runs
-- running -> ready
-- running -> dead
-- running -> lost
-- running -> cancelled
-- running -> succeeded
SELECT run_id, verdict FROM pgcron.reap_runs(:at_most);

-- name: orphaned_runs
-- What runs under a session that is not alive; rows that somebody has locked are in front of no
-- others.
WITH orphan AS MATERIALIZED (
  SELECT r.* FROM pgcron.gone_owners() g(owner)
  CROSS JOIN LATERAL (SELECT e.id, e.token FROM pgcron.run e
                      WHERE e.state = 'running' AND e.owner = g.owner
                        AND e.id <> ALL(:but::bigint[])
                      LIMIT :at_most FOR UPDATE SKIP LOCKED) r
  LIMIT :at_most)
SELECT o.* FROM orphan o;

-- name: reap_these
-- running -> ready
-- running -> dead
-- running -> lost
-- running -> cancelled
-- running -> succeeded
SELECT run_id, verdict FROM pgcron.reap_runs(cardinality(:run_ids::bigint[]), :run_ids);

-- name: cordon_node

-- name: uncordon_node

-- name: held_by_node
-- How many runs the living processes of a name, or the one of an incarnation, hold.
SELECT count(*) AS runs FROM pgcron.node n
JOIN pgcron.run r ON r.owner = n.incarnation AND r.state = 'running'
WHERE n.state <> 'dead' AND :node::text IN (n.name, n.incarnation::text);
