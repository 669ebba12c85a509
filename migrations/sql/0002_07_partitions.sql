-- Partitions after a long time without a node: so few in one transaction that it ends well within a node's statement timeout, whatever lies behind.

-- As before, but only a whole month is called by its month: of two that begin in one month the second one found its name taken.
CREATE OR REPLACE FUNCTION pgcron.add_partition(relation text, low timestamptz, high timestamptz) RETURNS boolean
LANGUAGE plpgsql AS $$
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

-- Up to 50 in a call, the earliest of all tables first. Where the last one ended long ago, one takes all until today: hardly a row will ever come there, but
-- what does has its place, and the first call makes those of today.
CREATE OR REPLACE FUNCTION pgcron.ensure_partitions() RETURNS int
LANGUAGE plpgsql SET timezone = 'UTC' SET datestyle = 'ISO' AS $$
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
