-- name: read_backend
-- Through a pooler it is another than the one that greeted the client.
SELECT pg_catalog.pg_backend_pid() AS process_id;

-- name: read_server
SELECT current_setting('server_version') AS version, clock_timestamp() AS now, pg_is_in_recovery() AS is_standby,
       current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean AS has_autovacuum,
       current_setting('fsync')::boolean AND current_setting('full_page_writes')::boolean AS is_durable,
       current_setting('synchronous_standby_names') <> '' AS is_synchronous,
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int AS most_connections,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.backend_type = 'client backend') AS connections,
       (SELECT d.reset_val FROM pg_catalog.pg_settings d WHERE d.name = 'default_transaction_isolation') AS default_isolation;

-- name: list_snapshot_holders
-- Whoever keeps an old snapshot keeps dead rows from being removed, in every table.
SELECT h.kind, h.name, h.age, h.seconds
FROM (SELECT 'transaction' AS kind, concat_ws(' ', a.pid::text, a.usename, nullif(a.application_name, '')) AS name, age(a.backend_xmin) AS age,
             extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds
      FROM pg_catalog.pg_stat_activity a WHERE a.backend_xmin IS NOT NULL AND a.xact_start IS NOT NULL AND a.pid <> pg_backend_pid()
                                           AND a.backend_type = 'client backend'
      UNION ALL
      SELECT 'prepared transaction', p.gid, age(p.transaction), extract(epoch FROM clock_timestamp() - p.prepared)::float8 FROM pg_catalog.pg_prepared_xacts p
      UNION ALL
      SELECT 'replication slot', s.slot_name::text, greatest(age(s.xmin), age(s.catalog_xmin)), NULL FROM pg_catalog.pg_replication_slots s
      WHERE s.xmin IS NOT NULL OR s.catalog_xmin IS NOT NULL) h
WHERE h.age > :age::int OR h.seconds > :seconds::float8 ORDER BY h.age DESC LIMIT :limit::int;

-- name: list_tables_without_autovacuum
SELECT c.relname AS name FROM pg_catalog.pg_class c
WHERE c.relnamespace = 'pgcron'::regnamespace AND c.reloptions && ARRAY['autovacuum_enabled=false', 'autovacuum_enabled=off'] ORDER BY 1 LIMIT :limit::int;

-- name: read_zones
-- Which time zones the nodes compute with, who has older ones installed, and zones that schedules still take over.
SELECT c.tzdata, ARRAY(SELECT n.name || ' (' || n.tzdata || ')' FROM pgcron.node n WHERE n.state <> 'dead' AND n.tzdata < c.tzdata ORDER BY n.name LIMIT :limit::int) AS older,
       ARRAY(SELECT z.zone FROM pgcron.zone_change z WHERE z.done_at IS NULL ORDER BY z.zone LIMIT :limit::int) AS changing FROM pgcron.cluster c;

-- name: read_risks
SELECT (SELECT count(*) FROM (SELECT FROM pgcron.history_overflow LIMIT 1000) o) AS overflow,
       (SELECT count(*) FROM pgcron.schedule s WHERE s.delivery = 'at_most_once') AS at_most_once_schedules,
       EXISTS (SELECT FROM pgcron.run r WHERE r.delivery = 'at_most_once') AS has_at_most_once_run,
       (SELECT count(*) FROM pgcron.node n WHERE n.state = 'alive' AND n.lease_until > now()) AS nodes,
       (SELECT extract(epoch FROM min(n.lease_ttl))::float8 FROM pgcron.node n WHERE n.state <> 'dead') AS shortest_lease,
       (SELECT min(pgcron.partitions_end(k.relation)) FROM pgcron.retention k) AS partitions_end;

-- name: list_broken_indexes
-- What an interrupted CREATE INDEX or REINDEX CONCURRENTLY leaves behind: paid for by every write, used by no statement.
SELECT i.indexrelid::regclass::text AS name, i.indrelid::regclass::text AS relation FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = 'pgcron'::regnamespace AND NOT (i.indisvalid AND i.indisready AND i.indislive)
  AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid) ORDER BY 1 LIMIT :limit::int;

-- name: list_dead_rows
-- Tables where dead rows outnumber the living, many of them.
SELECT t.relname AS name, t.n_dead_tup AS dead, t.n_live_tup AS living, greatest(t.last_vacuum, t.last_autovacuum) AS vacuumed_at
FROM pg_catalog.pg_stat_all_tables t WHERE t.schemaname = 'pgcron' AND t.n_dead_tup > :least::bigint AND t.n_dead_tup > t.n_live_tup
ORDER BY t.n_dead_tup DESC LIMIT :limit::int;

-- name: list_swollen_indexes
-- Large indexes with much more room than their entries explain, as far as these were ever counted; what a claim walks over.
SELECT i.indexrelid::regclass::text AS name, pg_relation_size(i.indexrelid) AS bytes, greatest(c.reltuples, 0)::bigint AS entries
FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_class r ON r.oid = i.indrelid
WHERE r.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'i' AND r.reltuples >= 0 AND pg_relation_size(i.indexrelid) > :least::bigint
  AND pg_relation_size(i.indexrelid) > :bytes_an_entry::int * greatest(c.reltuples, 1)
ORDER BY 2 DESC LIMIT :limit::int;
