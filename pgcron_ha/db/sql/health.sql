-- name: read_backend
-- Through a pooler it is another than the one that greeted the client.
SELECT pg_catalog.pg_backend_pid() AS process_id;

-- name: read_prepared
-- A pooler that keeps track of its clients' prepared statements gives them names of its own.
SELECT EXISTS (SELECT FROM pg_catalog.pg_prepared_statements p
WHERE p.name = :name::text) AS is_there;

-- name: read_server
SELECT current_setting('server_version') AS version, clock_timestamp() AS now,
       pg_is_in_recovery() AS is_standby,
       coalesce(array_agg(d.name ORDER BY d.name) FILTER (
           WHERE d.name IN ('autovacuum', 'track_counts') AND d.setting = 'off'), '{}') AS without,
       coalesce(array_agg(d.name ORDER BY d.name) FILTER (
           WHERE d.name IN ('fsync', 'full_page_writes') AND d.setting = 'off'), '{}') AS careless,
       -- The default for other sessions of this role; the engine's sessions wait for the disk
       -- regardless.
       max(d.reset_val) FILTER (WHERE d.name = 'synchronous_commit') AS synchronous_commit,
       current_setting('synchronous_standby_names') <> '' AS is_synchronous,
       current_setting('max_connections')::int
           - current_setting('superuser_reserved_connections')::int AS most_connections,
       (SELECT count(*) FROM pg_catalog.pg_stat_activity a
        WHERE a.backend_type = 'client backend') AS connections,
       max(d.reset_val) FILTER (
           WHERE d.name = 'default_transaction_isolation') AS default_isolation,
       bool_or(d.reset_val = 'on') FILTER (
           WHERE d.name = 'default_transaction_read_only') AS is_read_only
FROM pg_catalog.pg_settings d;

-- name: list_snapshot_holders
-- A session with an old snapshot, or a transaction that has written and does not end, keeps dead
-- rows from being removed, in every table of the database. Transactions of other databases do so
-- only through a standby's report; then the standby is not the cause. A VACUUM keeps nothing;
-- logical slots keep rows of the catalog. `remedy`: what ends the snapshot, a statement, or what to
-- do there.
WITH opened AS (
       SELECT 'transaction' AS kind,
              concat_ws(' ', a.pid::text, a.usename, nullif(a.application_name, ''),
                        CASE WHEN a.state LIKE 'idle in%' THEN format('(%s)', a.state) END) AS name,
              greatest(age(a.backend_xid), age(a.backend_xmin)) AS age,
              extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
              a.datname AS database, a.backend_xid AS xid
       FROM pg_catalog.pg_stat_activity a
       WHERE coalesce(a.backend_xid, a.backend_xmin) IS NOT NULL AND a.xact_start IS NOT NULL
         AND a.pid <> pg_backend_pid() AND a.backend_type = 'client backend'
         AND NOT EXISTS (SELECT FROM pg_catalog.pg_stat_progress_vacuum v WHERE v.pid = a.pid)
       UNION ALL
       SELECT 'prepared transaction', p.gid, age(p.transaction),
              extract(epoch FROM clock_timestamp() - p.prepared)::float8, p.database, p.transaction
       FROM pg_catalog.pg_prepared_xacts p),
     reported AS (
       -- Its hot_standby_feedback, when it has no slot.
       SELECT 'standby' AS kind, concat_ws(' ', b.application_name, b.client_addr::text) AS name,
              age(b.backend_xmin) AS age, b.backend_xmin AS xmin
       FROM pg_catalog.pg_stat_replication b WHERE b.backend_xmin IS NOT NULL
       UNION ALL
       SELECT CASE WHEN s.slot_type = 'logical' AND s.active THEN 'subscriber of slot'
                   WHEN s.slot_type = 'logical' THEN 'logical slot'
                   WHEN s.active THEN 'standby of slot' ELSE 'replication slot' END,
              s.slot_name::text, greatest(age(s.xmin), age(s.catalog_xmin)),
              coalesce(s.xmin, s.catalog_xmin)
       FROM pg_catalog.pg_replication_slots s
       WHERE coalesce(s.xmin, s.catalog_xmin) IS NOT NULL)
SELECT h.kind, h.name, h.age, h.seconds,
       CASE WHEN h.kind = 'transaction'
            THEN format('SELECT pg_terminate_backend(%s);', split_part(h.name, ' ', 1))
            WHEN h.kind = 'prepared transaction'
            THEN format('%sROLLBACK PREPARED %L;',
                        'in database ' || nullif(h.database, current_database()) || ': ', h.name)
            WHEN h.kind IN ('replication slot', 'logical slot')
            THEN format('SELECT pg_drop_replication_slot(%L);', h.name)
            WHEN h.kind = 'subscriber of slot'
            THEN 'see why it does not follow; without it, drop the slot'
            ELSE 'end the long query there, or switch its hot_standby_feedback off' END AS remedy
FROM (SELECT o.kind, o.name, o.age, o.seconds, o.database FROM opened o
WHERE o.database = current_database() OR EXISTS (SELECT FROM reported r WHERE r.xmin = o.xid)
      UNION ALL
      SELECT r.kind, r.name, r.age, NULL, NULL FROM reported r
      WHERE NOT EXISTS (SELECT FROM opened o WHERE o.xid = r.xmin)) h
WHERE (h.age > :age::int OR h.seconds > :seconds::float8)
  AND pgcron.in_scope(NULL, NULL, NULL, NULL, NULL) ORDER BY h.age DESC LIMIT :limit::int;

-- name: read_risks
SELECT (SELECT count(*) FROM (SELECT FROM pgcron.history_overflow LIMIT 1000) o) AS overflow,
       (SELECT count(*) FROM pgcron.schedule s
        WHERE s.delivery = 'at_most_once') AS at_most_once_schedules,
       EXISTS (SELECT FROM pgcron.run r WHERE r.delivery = 'at_most_once') AS has_at_most_once_run,
       (SELECT min((SELECT max(p.high) FROM pgcron.partitions_of(k.relation) p))
        FROM pgcron.retention k) AS partitions_end;

-- name: list_unserved_schedules
-- What schedules want and no living node takes, though some node lives: before the first fire.
SELECT wanted.name, wanted.schedules,
       pgcron.nobody_offers(wanted.handler, wanted.queue, wanted.requires, NULL) AS reason
FROM (
  SELECT s.handler, s.queue, s.requires, min(s.name) AS name, count(*) AS schedules
  FROM (SELECT e.handler, e.queue, e.requires, e.name FROM pgcron.schedule e
        WHERE e.enabled LIMIT :look::int) s
  GROUP BY s.handler, s.queue, s.requires) wanted
WHERE EXISTS (SELECT FROM pgcron.node n WHERE n.state = 'alive')
  AND NOT pgcron.is_served(wanted.handler, wanted.queue, wanted.requires)
ORDER BY wanted.name LIMIT :limit::int;

-- name: list_privileges_excess
-- Rights in our schema that nobody should have, and what is not its owner's. `known`: functions
-- with the owner's rights that are for everybody.
WITH home AS (SELECT n.oid, n.nspowner, n.nspacl FROM pg_catalog.pg_namespace n
WHERE n.oid = 'pgcron'::regnamespace),
     mine AS (SELECT c.relowner AS owner FROM pg_catalog.pg_class c
         WHERE c.oid = 'pgcron.run'::regclass),
     relation AS (SELECT c.* FROM pg_catalog.pg_class c JOIN home ON c.relnamespace = home.oid
         WHERE c.relkind IN ('r', 'p', 'v', 'm', 'S') AND c.relname <> 'alembic_version'),
     routine AS (SELECT p.* FROM pg_catalog.pg_proc p JOIN home ON p.pronamespace = home.oid)
SELECT found.kind, found.name, found.who, found.remedy FROM (
  SELECT 'creates' AS kind, home.oid::regnamespace::text AS name, g.who,
         format('As the owner: REVOKE CREATE ON SCHEMA %s FROM %s;', home.oid::regnamespace,
                g.who) AS remedy
    FROM home, mine, aclexplode(home.nspacl) a, LATERAL (
      SELECT CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END AS who) g
    WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (home.nspowner, mine.owner)
  UNION ALL
  SELECT CASE WHEN bool_and(a.privilege_type = 'SELECT') THEN 'public reads'
              ELSE 'public writes' END,
         r.oid::regclass::text, string_agg(DISTINCT a.privilege_type, ', '),
         format('As the owner: REVOKE ALL ON %s FROM PUBLIC;', r.oid::regclass)
    FROM relation r,
        LATERAL (SELECT x.* FROM aclexplode(r.relacl) x UNION ALL SELECT y.*
            FROM pg_catalog.pg_attribute c, aclexplode(c.attacl) y WHERE c.attrelid = r.oid) a
   WHERE a.grantee = 0 GROUP BY r.oid
  UNION ALL
  SELECT 'public executes', p.oid::regprocedure::text, 'PUBLIC',
         format('As the owner: REVOKE ALL ON FUNCTION %s FROM PUBLIC;', p.oid::regprocedure)
    FROM routine p
   WHERE p.prosecdef AND p.proname <> ALL (:known::text[])
     AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
         WHERE a.grantee = 0)
  UNION ALL
  SELECT 'other owner', r.oid::regclass::text, r.relowner::regrole::text,
         format('As a superuser: ALTER TABLE %s OWNER TO %s;', r.oid::regclass, mine.owner::regrole)
  FROM relation r, mine WHERE r.relowner <> mine.owner
  UNION ALL
  SELECT 'other owner', p.oid::regprocedure::text, p.proowner::regrole::text,
         format('As a superuser: ALTER ROUTINE %s OWNER TO %s;', p.oid::regprocedure,
                mine.owner::regrole)
  FROM routine p, mine WHERE p.proowner <> mine.owner) found
ORDER BY 1, 2, 3 LIMIT :limit::int;

-- name: read_role
-- The caller's role: whether it may run a node here, and whether it may do far more.
SELECT quote_ident(current_user) AS name, r.rolsuper AS is_superuser,
       r.rolbypassrls AS passes_policies, c.relowner::regrole::text AS owner,
       pg_has_role(current_user, c.relowner, 'USAGE') AS is_owner,
       has_table_privilege(c.oid, 'TRUNCATE') AS is_node,
       has_schema_privilege(n.oid, 'CREATE') AS makes_partitions,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all
FROM pg_catalog.pg_roles r, pg_catalog.pg_class c
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE r.rolname = current_user AND c.oid = 'pgcron.run'::regclass;

-- name: list_lock_holders
-- Advisory locks have no privileges: any session that holds one of pgcron_ha keeps new partitions
-- from being made, or calendars and files of schedules and workflows from being applied.
SELECT DISTINCT concat_ws(' ', a.pid::text, a.usename, nullif(a.application_name, '')) AS name,
       a.pid AS process_id,
       extract(epoch FROM clock_timestamp() - coalesce(a.xact_start,
           a.state_change))::float8 AS seconds
FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 2
  AND l.classid = 'pgcron'::regnamespace::oid AND a.datname = current_database()
  AND coalesce(a.xact_start,
               a.state_change) < clock_timestamp() - make_interval(secs => :seconds::float8)
      ORDER BY 3 DESC LIMIT :limit::int;

-- name: list_blocking_sessions
-- Sessions that block statements of nodes, or would: those that have held a lock on one of our
-- tables for a while that blocks writers of rows, and those that one of our sessions waits for.
-- Only catalogs are read, so no table lock delays the answer. A role that may not read other
-- sessions' activity sees neither their start nor their statement. A prepared transaction has no
-- session.
WITH waiting AS MATERIALIZED (
       SELECT DISTINCT l.pid FROM pg_catalog.pg_locks l
       JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
       LEFT JOIN pg_catalog.pg_class c ON c.oid = l.relation
       WHERE NOT l.granted AND a.datname = current_database()
         AND (starts_with(a.application_name, 'pgcron_ha')
              OR c.relnamespace = 'pgcron'::regnamespace)
         AND l.waitstart < clock_timestamp() - make_interval(secs => :seconds::float8) LIMIT 50),
     blocking AS MATERIALIZED (
       SELECT b.pid, count(*) AS waiting FROM waiting w
       CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) b(pid)
       WHERE b.pid NOT IN (SELECT v.pid FROM waiting v) GROUP BY b.pid),
     held AS MATERIALIZED (
       SELECT coalesce(l.pid, 0) AS pid, string_agg(DISTINCT c.relname, ', ') AS tables
       FROM pg_catalog.pg_locks l JOIN pg_catalog.pg_class c ON c.oid = l.relation
       WHERE l.locktype = 'relation' AND l.granted AND c.relnamespace = 'pgcron'::regnamespace
         AND c.relkind IN ('r', 'p')
         AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock',
                        'AccessExclusiveLock')
             GROUP BY 1)
SELECT holder.pid AS process_id, a.usename::text AS "user",
       nullif(a.application_name, '') AS application,
       extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
       h.tables, coalesce(b.waiting, 0) AS waiting, a.state, left(a.query, 300) AS statement
FROM (SELECT pid FROM blocking UNION SELECT pid FROM held) holder
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = holder.pid LEFT JOIN held h ON h.pid = holder.pid
LEFT JOIN blocking b ON b.pid = holder.pid
WHERE holder.pid <> pg_backend_pid()
  AND (b.pid IS NOT NULL
       OR a.xact_start < clock_timestamp() - make_interval(secs => :seconds::float8))
  AND pgcron.in_scope(NULL, NULL, NULL, NULL, NULL)
ORDER BY coalesce(b.waiting, 0) DESC, a.xact_start LIMIT :limit::int;

-- name: list_blockers
-- The sessions that a session waits for, at the head of each chain of waits, and whether it waits
-- for a table lock. Behind a pooler the session's process is not known: it is one of this title
-- that waits.
WITH RECURSIVE asking AS MATERIALIZED (
  SELECT a.pid FROM pg_catalog.pg_stat_activity a
  WHERE a.pid = :process_id::int
    OR (:process_id::int IS NULL AND a.wait_event_type = 'Lock'
        AND a.application_name = left(:title::text, 63) AND a.datname = current_database())
  LIMIT 1),
chain AS (
  SELECT b.pid, 1 AS depth FROM asking w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) b(pid)
  UNION
  SELECT b.pid, c.depth + 1 FROM chain c CROSS JOIN LATERAL unnest(pg_blocking_pids(c.pid)) b(pid)
  WHERE c.depth < 5 AND c.pid <> 0)
SELECT CASE c.pid WHEN 0 THEN 'a prepared transaction'
       ELSE concat_ws(', ', 'session ' || c.pid, 'user ' || a.usename,
                      'application ' || nullif(a.application_name, '')) END AS name,
       EXISTS (SELECT FROM pg_catalog.pg_locks l
           WHERE l.pid = (SELECT w.pid FROM asking w) AND NOT l.granted
             AND l.locktype = 'relation') AS is_of_table
FROM (SELECT DISTINCT d.pid FROM chain d
WHERE d.pid = 0 OR cardinality(pg_blocking_pids(d.pid)) = 0) c
LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = c.pid ORDER BY c.pid LIMIT 3;
