-- Drops every object of pgcron_ha in the schema but alembic's version table, whatever partitions
-- were made since.
DO $$
DECLARE
  thing record;
BEGIN
  FOR thing IN SELECT format('DROP VIEW IF EXISTS pgcron.%I CASCADE', c.relname) AS command
      FROM pg_catalog.pg_class c
      WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'v' LOOP
    EXECUTE thing.command;
  END LOOP;
  FOR thing IN SELECT format('DROP TABLE IF EXISTS pgcron.%I CASCADE', c.relname) AS command
      FROM pg_catalog.pg_class c
      WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind IN ('r', 'p')
        AND c.relname <> 'alembic_version' LOOP
    EXECUTE thing.command;
  END LOOP;
  FOR thing IN SELECT format('DROP TYPE IF EXISTS pgcron.%I CASCADE', c.relname) AS command
      FROM pg_catalog.pg_class c
      WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'c' LOOP
    EXECUTE thing.command;
  END LOOP;
  -- Some go with others that they call.
  FOR thing IN SELECT p.oid FROM pg_catalog.pg_proc p
      WHERE p.pronamespace = 'pgcron'::regnamespace LOOP
    IF EXISTS (SELECT FROM pg_catalog.pg_proc p WHERE p.oid = thing.oid) THEN
      EXECUTE format('DROP ROUTINE %s CASCADE', thing.oid::regprocedure);
    END IF;
  END LOOP;
  FOR thing IN SELECT format('DROP SEQUENCE IF EXISTS pgcron.%I CASCADE', c.relname) AS command
      FROM pg_catalog.pg_class c
      WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relkind = 'S' LOOP
    EXECUTE thing.command;
  END LOOP;
END $$;
