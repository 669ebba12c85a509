-- name: list_table_sizes
-- Each table and partition as the catalog and the statistics know it: none of their rows is read. A
-- partition goes when its last row is as old as retention says.
SELECT c.relname::text AS name, coalesce(root.relname, c.relname)::text AS relation, bound.low,
       bound.high, bound.high + CASE WHEN bound.low IS NOT NULL THEN kept.keep END AS dropped_at,
       extract(epoch FROM kept.keep)::float8 AS keep,
       coalesce(nullif(pg_stat_get_live_tuples(c.oid), 0),
                greatest(c.reltuples, 0)::bigint) AS rows,
       pg_stat_get_dead_tuples(c.oid) AS dead,
       greatest(pg_stat_get_last_vacuum_time(c.oid),
                pg_stat_get_last_autovacuum_time(c.oid)) AS vacuumed_at,
       size.total - size.indexes - size.toast AS heap, size.indexes, size.toast
FROM pg_catalog.pg_class c
LEFT JOIN pg_catalog.pg_class root ON root.oid = pg_partition_root(c.oid)
LEFT JOIN pgcron.retention kept ON kept.relation = root.relname
CROSS JOIN LATERAL (SELECT (regexp_match(written,
    E'FROM \\(''([^'']+)''\\)'))[1]::timestamptz AS low,
                    (regexp_match(written, E'TO \\(''([^'']+)''\\)'))[1]::timestamptz AS high
                    FROM pg_get_expr(c.relpartbound, c.oid) written) bound
-- A partition that is dropped meanwhile has no size.
CROSS JOIN LATERAL (SELECT coalesce(pg_total_relation_size(c.oid), 0) AS total,
                    coalesce(pg_indexes_size(c.oid), 0) AS indexes,
                           coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)),
                                    0) AS toast OFFSET 0) size
WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'r' ORDER BY c.relname
LIMIT :limit::int;

-- name: sees_all_sessions
-- Whether this role sees snapshots that other roles hold.
SELECT pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all;
