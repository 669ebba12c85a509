-- Assets: names of what runs and programs make, such as a table or a file. That one was updated
-- starts the schedules on it (spec `on asset sales and stock`).

CREATE FUNCTION pgcron.asset_is_fine(asset text) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN asset ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/+@=-]{0,99}$' AND lower(asset) <> 'and';

CREATE TABLE pgcron.asset (
  name text PRIMARY KEY,
  updates bigint NOT NULL,
  updated_at timestamptz NOT NULL,
  updated_by text NOT NULL,
  metadata jsonb
);
COMMENT ON TABLE pgcron.asset IS 'How often each asset was updated, and its last update.';

CREATE TABLE pgcron.asset_update (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  asset text NOT NULL CONSTRAINT an_asset_has_a_name
    CHECK (pgcron.asset_is_fine(asset)
      OR pgcron.refuse('PC001', format('%L is not the name of an asset', left(asset, 200)),
        'An asset has 1 to 100 letters, digits, "_", ".", ":", "/", "+", "@", "=" and "-", and is '
        'not called "and".',
        'Write for example ''sales''.')),
  metadata jsonb CONSTRAINT metadata_is_a_small_object
    CHECK (metadata IS NULL
      OR (jsonb_typeof(metadata) = 'object' AND octet_length(metadata::text) <= 4096)
      OR pgcron.refuse('PC004',
        format('the metadata of asset %L is a JSON %s of %s bytes', left(asset, 200),
          jsonb_typeof(metadata), octet_length(metadata::text)),
        'Metadata is a JSON object of at most 4096 bytes.',
        'Write for example ''{"rows": 3}'', and keep the rest in a table of yours.')),
  updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  updated_by text NOT NULL CONSTRAINT asset_updated_by_is_short
    CHECK (pgcron.is_short('actor', updated_by, 300))
);
COMMENT ON TABLE pgcron.asset_update IS
    'Updates that nodes have still to count. Who updates only appends here, and so waits for '
    'nobody else who updates the same asset.';

-- No run is made of a schedule before each of its assets was updated.
CREATE TABLE pgcron.schedule_asset (
  schedule_id bigint NOT NULL REFERENCES pgcron.schedule ON DELETE CASCADE,
  asset text NOT NULL,
  -- The first update since the schedule's last run, or since the asset is in its spec.
  updated_at timestamptz,
  PRIMARY KEY (schedule_id, asset)
);
COMMENT ON TABLE pgcron.schedule_asset IS 'The assets that schedules are on.';
CREATE INDEX schedule_asset_name ON pgcron.schedule_asset (asset);
CREATE INDEX schedule_asset_updated ON pgcron.schedule_asset (schedule_id)
  WHERE updated_at IS NOT NULL;

-- The names in a spec on assets. Nodes judge its grammar; no run is made of one that they can't
-- read.
CREATE FUNCTION pgcron.depend_on_assets(s pgcron.schedule) RETURNS void
LANGUAGE sql AS $$
  DELETE FROM pgcron.schedule_asset d WHERE d.schedule_id = s.id;
  INSERT INTO pgcron.schedule_asset (schedule_id, asset)
  SELECT DISTINCT s.id, named
  FROM regexp_split_to_table(
      substring(btrim(s.spec, E' \t\r\n') FROM '(?i)^on\s+asset\s+(.*)$'), '\s+and\s+', 'i') named
  WHERE pgcron.asset_is_fine(named) $$;

-- In the caller's own transaction; what is rolled back was no update.
CREATE FUNCTION pgcron.update_asset(asset text, metadata jsonb DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS bigint
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.wake_nodes('schedule')
  WHERE EXISTS (SELECT FROM pgcron.schedule_asset d WHERE d.asset = update_asset.asset);
  INSERT INTO pgcron.asset_update (asset, metadata, updated_by)
  VALUES (coalesce(update_asset.asset, ''), update_asset.metadata, coalesce(actor, session_user))
  RETURNING id $$;
COMMENT ON FUNCTION pgcron.update_asset IS
    'Says, in the caller''s transaction, that an asset was updated: the schedules on it run once '
    'each of their assets was. Returns the number of the update; later ones have higher numbers.';

-- What the handler of a run declares with its success, before that is written: the assets that it
-- has updated ({name: metadata}), and a list of steps that it adds.
CREATE FUNCTION pgcron.keep_declared(run_id bigint, declared jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.update_asset(u.key, nullif(u.value, 'null'), 'run ' || run_id)
  FROM jsonb_each(declared -> 'assets') u;
  IF declared -> 'steps' <> '[]' THEN PERFORM pgcron.add_steps(run_id, declared -> 'steps'); END IF;
END $$;

-- Counts updates and marks what depends on them; returns how many. Nodes may do it at the same
-- time: each takes others, and rows that both write are locked in one order.
CREATE FUNCTION pgcron.settle_assets(at_most int) RETURNS int
LANGUAGE plpgsql AS $$
DECLARE
  taken pgcron.asset_update[];
  names text[];
BEGIN
  WITH gone AS (
    DELETE FROM pgcron.asset_update u
    WHERE u.id = ANY(ARRAY(SELECT o.id FROM pgcron.asset_update o ORDER BY o.id LIMIT at_most
                           FOR UPDATE SKIP LOCKED))
    RETURNING u)
  SELECT array_agg(gone.u), array_agg(DISTINCT (gone.u).asset) INTO taken, names FROM gone;
  INSERT INTO pgcron.asset AS a (name, updates, updated_at, updated_by, metadata)
  SELECT DISTINCT ON (t.asset) t.asset, count(*) OVER (PARTITION BY t.asset), t.updated_at,
         t.updated_by, t.metadata
  FROM unnest(taken) t ORDER BY t.asset, t.id DESC
  ON CONFLICT (name) DO UPDATE
    SET updates = a.updates + EXCLUDED.updates,
        (updated_at, updated_by, metadata) = (
            SELECT last.updated_at, last.updated_by, last.metadata
            FROM (SELECT a.* UNION ALL SELECT EXCLUDED.*) last
            ORDER BY last.updated_at DESC LIMIT 1);
  PERFORM FROM pgcron.schedule_asset d WHERE d.asset = ANY(names) AND d.updated_at IS NULL
    ORDER BY d.schedule_id, d.asset FOR UPDATE;
  UPDATE pgcron.schedule_asset d SET updated_at = a.updated_at FROM pgcron.asset a
  WHERE a.name = ANY(names) AND d.asset = a.name AND d.updated_at IS NULL;
  RETURN coalesce(cardinality(taken), 0);
END $$;

-- What was updated before the end of a pause; pause_end is NULL for one that a person has ended.
CREATE FUNCTION pgcron.drop_updates(resumed bigint, pause_end timestamptz) RETURNS void
LANGUAGE sql AS $$
  UPDATE pgcron.schedule_asset d SET updated_at = NULL
  WHERE d.schedule_id = resumed AND d.updated_at IS NOT NULL
    AND NOT EXISTS (SELECT FROM pgcron.asset a
                    WHERE a.name = d.asset AND a.updated_at > pause_end) $$;

CREATE VIEW pgcron.assets AS
  SELECT n.name, coalesce(a.updates, 0) AS updates, a.updated_at, a.updated_by, a.metadata,
         ARRAY(SELECT s.name FROM pgcron.schedule_asset d
               JOIN pgcron.schedule s ON s.id = d.schedule_id
               WHERE d.asset = n.name ORDER BY s.name) AS schedules
  FROM (SELECT e.name FROM pgcron.asset e UNION SELECT d.asset FROM pgcron.schedule_asset d) n
  LEFT JOIN pgcron.asset a ON a.name = n.name;
COMMENT ON VIEW pgcron.assets IS
    'Assets that were updated, with their last update, or that schedules are on: those schedules '
    'by name.';
