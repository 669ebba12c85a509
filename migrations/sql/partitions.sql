-- Partitions are made ahead by every node's janitor; no DEFAULT partition (its rows would be looked
-- through for each new one).

CREATE TABLE pgcron.retention (
  relation text PRIMARY KEY CONSTRAINT retention_is_of_a_partitioned_table
    CHECK (relation IN ('occurrence', 'history', 'attempt', 'log', 'audit')),
  period text NOT NULL CONSTRAINT a_partition_holds_a_day_or_a_month
    CHECK (period IN ('day', 'month')),
  ahead interval NOT NULL CONSTRAINT partitions_are_made_a_day_to_a_year_ahead
    CHECK (ahead BETWEEN '1 day' AND '1 year'),
  keep interval NOT NULL CHECK (pgcron.is_within('retention', keep, '1 day', '36525 days',
        'Rows are kept for a day to 36525 days (a century).', 'Write for example ''400 days''.')),
  -- NULL: as it came with the schema.
  set_by text CHECK (pgcron.is_short('set_by', set_by, 300)),
  set_at timestamptz
);
COMMENT ON TABLE pgcron.retention IS
    'How long each partitioned table is kept. Set by set_table_retention; a changed period holds '
    'for new partitions.';
INSERT INTO pgcron.retention
VALUES ('occurrence', 'month', '40 days', '400 days'), ('history', 'day', '7 days', '30 days'),
      ('attempt', 'day', '7 days', '30 days'), ('log', 'day', '7 days', '7 days'),
      ('audit', 'month', '1 year', '400 days');

-- Rows of the table that are older are not kept any more.
CREATE FUNCTION pgcron.kept_since(relation text) RETURNS timestamptz
LANGUAGE sql STABLE AS $$
  SELECT now() - r.keep FROM pgcron.retention r WHERE r.relation = kept_since.relation $$;

CREATE FUNCTION pgcron.partitions_of(relation text)
  RETURNS TABLE (id oid, name text, low timestamptz, high timestamptz, is_detached boolean)
LANGUAGE sql STABLE SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
  SELECT c.oid, c.relname::text,
         substring(bounds.text FROM 'FROM \(''([^'']+)')::timestamptz,
         substring(bounds.text FROM 'TO \(''([^'']+)')::timestamptz, i.inhdetachpending
  FROM pg_catalog.pg_inherits i JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid
  CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid)) bounds(text)
  WHERE i.inhparent = format('pgcron.%I', relation)::regclass $$;

-- Attaching takes a weaker lock on the parent than CREATE TABLE … PARTITION OF: readers don't
-- wait behind it.
CREATE FUNCTION pgcron.add_partition(relation text, low timestamptz, high timestamptz)
  RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
  partition text := relation || to_char(low AT TIME ZONE 'UTC',
      CASE WHEN high > low + interval '2 days' AND low = date_trunc('month', low, 'UTC')
             THEN '_YYYYMM'
           ELSE '_YYYYMMDD' END);
BEGIN
  IF low = '-infinity' THEN partition := relation || '_before'; END IF;
  IF to_regclass(format('pgcron.%I', partition)) IS NOT NULL THEN RETURN false; END IF;
  EXECUTE format('CREATE TABLE pgcron.%I (LIKE pgcron.%I INCLUDING DEFAULTS INCLUDING CONSTRAINTS)',
      partition, relation);
  EXECUTE format('ALTER TABLE pgcron.%I ATTACH PARTITION pgcron.%I FOR VALUES FROM (%L) TO (%L)',
      relation, partition, low, high);
  RETURN true;
END $$;

-- Makes partitions that are missing up to each table's `ahead`, at most 50 or so; returns how many.
-- Safe to call from many sessions, also of nodes that don't own the tables. Bounds are whole days
-- and months of UTC: in a session's own zone a day may have 23 hours, and the next bound would not
-- come.
CREATE FUNCTION pgcron.ensure_partitions() RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('pgcron'::regnamespace::oid::int, 1);
  RETURN (
    WITH known AS MATERIALIZED (
      SELECT r.relation, r.period, ('1 ' || r.period)::interval AS step, r.ahead,
             date_trunc(r.period, now(), 'UTC') AS today,
             (SELECT max(p.high) FROM pgcron.partitions_of(r.relation) p) AS ended
      FROM pgcron.retention r),
    begun AS (
      SELECT k.*, CASE WHEN k.ended >= k.today - 7 * k.step THEN k.ended ELSE k.today END AS start
      FROM known k),
    missing AS MATERIALIZED (
      -- What lies before the first partition (late finishers of a stepped clock, old back-fills)
      -- has one of its own, and so has a long time in which nobody made any.
      SELECT b.relation, coalesce(b.ended, '-infinity') AS low, b.today AS high FROM begun b
      WHERE b.start IS DISTINCT FROM b.ended
      UNION ALL
      SELECT b.relation, greatest(g.start, b.start), g.start + b.step FROM begun b
      CROSS JOIN LATERAL generate_series(date_trunc(b.period, b.start, 'UTC'), now() + b.ahead,
          b.step) g(start)
      WHERE greatest(g.start, b.start) < now() + b.ahead ORDER BY 2, 1 LIMIT 50)
    SELECT count(*) FILTER (WHERE pgcron.add_partition(m.relation, m.low, m.high))
    FROM missing m);
END $$;

SELECT pgcron.ensure_partitions();

-- Makes a partition of the ledger for instants that have none: retention has dropped it, or nobody
-- has made it yet. The janitor drops what is outlived again.
CREATE FUNCTION pgcron.reopen_ledger(instants timestamptz[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
BEGIN
  PERFORM pg_advisory_xact_lock('pgcron'::regnamespace::oid::int, 1),
      pgcron.add_partition('occurrence', gap.low, gap.high)
    FROM (WITH bound AS MATERIALIZED (SELECT p.* FROM pgcron.partitions_of('occurrence') p)
          SELECT DISTINCT greatest(date_trunc(kept.period, i, 'UTC'),
                     (SELECT max(b.high) FROM bound b WHERE b.high <= i)) AS low,
                 least(date_trunc(kept.period, i, 'UTC') + ('1 ' || kept.period)::interval,
                     (SELECT min(b.low) FROM bound b WHERE b.low > i)) AS high
          FROM unnest(instants) i JOIN pgcron.retention kept ON kept.relation = 'occurrence'
          WHERE NOT EXISTS (SELECT FROM bound b WHERE b.low <= i AND b.high > i) ORDER BY 1) gap;
END $$;

-- Partitions whose every row is older than the table's retention.
CREATE FUNCTION pgcron.outlived_partitions() RETURNS TABLE (relation text, partition text)
LANGUAGE sql STABLE AS $$
  SELECT kept.relation, p.name FROM pgcron.retention kept
  CROSS JOIN LATERAL pgcron.partitions_of(kept.relation) p
  WHERE isfinite(p.low) AND p.high < now() - kept.keep ORDER BY 1, 2 $$;

-- Drops an outlived partition, for nodes that don't own the tables, too. All who use the table wait
-- while this waits for its lock, so it does so for an instant only; a long reader has it fail.
CREATE FUNCTION pgcron.drop_outlived(partition text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '100ms' AS $$
BEGIN
  IF EXISTS (SELECT FROM pgcron.outlived_partitions() o
             WHERE o.partition = drop_outlived.partition) THEN
    EXECUTE format('DROP TABLE pgcron.%I', partition);
  END IF;
END $$;
