-- After drop: alembic's version table, and the schema itself where our migration made it and
-- nothing of anybody's is left in it.
DROP TABLE IF EXISTS pgcron.alembic_version;
DO $$
BEGIN
  IF obj_description('pgcron'::regnamespace, 'pg_namespace') LIKE 'pgcron_ha:%' THEN
    EXECUTE format('DROP SCHEMA %I RESTRICT', 'pgcron'::regnamespace::text);
  END IF;
END $$;
