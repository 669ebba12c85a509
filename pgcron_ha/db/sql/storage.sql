-- name: list_table_sizes
-- Each table that has no partitions, and each partition in the order of bounds, as the catalog and
-- the statistics know it: none of their rows is read. A partition goes when its last row is as old
-- as retention says. `recent`: the seconds up to now of one that lies in the last seven days.
SELECT coalesce(kept.relation, c.relname) AS relation,
       extract(epoch FROM kept.keep)::float8 AS keep,
       CASE WHEN kept.low < now() AND kept.high > now() - interval '7 days'
            THEN extract(epoch FROM least(kept.high, now()) - kept.low)::float8 END AS recent,
       c.relname::text AS partition, kept.low AS "from", kept.high AS before,
       coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0),
                greatest(c.reltuples, 0)::bigint) AS rows, pg_stat_get_dead_tuples(c.oid) AS dead,
       size.total - size.indexes - size.toast AS heap, size.indexes, size.toast, size.total,
       greatest(pg_stat_get_last_vacuum_time(c.oid),
                pg_stat_get_last_autovacuum_time(c.oid)) AS vacuumed_at,
       kept.high + CASE WHEN kept.low IS NOT NULL THEN kept.keep END AS dropped_at
FROM pg_catalog.pg_class c
LEFT JOIN (SELECT r.relation, r.keep, p.id, nullif(p.low, '-infinity') AS low, p.high
           FROM pgcron.retention r CROSS JOIN LATERAL pgcron.partitions_of(r.relation) p) kept
  ON kept.id = c.oid
-- A partition that is dropped meanwhile has no size.
CROSS JOIN LATERAL (SELECT coalesce(pg_total_relation_size(c.oid), 0) AS total,
                    coalesce(pg_indexes_size(c.oid), 0) AS indexes,
                           coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)),
                                    0) AS toast OFFSET 0) size
WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'r'
ORDER BY kept.high, c.relname LIMIT :limit::int;

-- name: sweep_history
-- Ended runs that a rule of retention keeps no longer, from a few pages of one day; no row: nothing
-- is due.

-- name: spent_partitions
-- Days whose table is worth rewriting, each assigned to one node.

-- name: note_given_back
-- After the table was rewritten; no row when it has not become smaller: a table in use is left as
-- it was.
UPDATE pgcron.retention_sweep s SET gone = 0
WHERE s.partition = :partition::text
  AND pg_relation_size(to_regclass(format('pgcron.%I', s.partition))) < s.bytes * 0.75
RETURNING true AS is_smaller;

-- name: list_retention
-- Tables first, then the rules of ended runs as they go before one another: the first that is about
-- a run counts.
SELECT k.relation, NULL AS queue, NULL AS outcome, k.keep, k.keep AS in_force, k.set_by, k.set_at,
       k.relation AS place, 0 AS rank
FROM pgcron.retention k
UNION ALL
SELECT NULL, r.queue, r.outcome, r.keep, least(r.keep, k.keep), r.set_by, r.set_at,
       concat_ws(' ', r.queue, r.outcome), 1 + (r.queue IS NULL)::int * 2 + (r.outcome IS NULL)::int
FROM pgcron.retention_rule r CROSS JOIN pgcron.retention k
WHERE k.relation = 'history'
  AND (r.queue IS NULL OR pgcron.in_scope(NULL, r.queue, NULL, NULL, NULL))
ORDER BY rank, place LIMIT :limit::int;

-- name: set_retention

-- name: delete_retention

-- name: set_table_retention
