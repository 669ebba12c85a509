-- Drops everything that pgcron_ha has made in the schema but alembic's version table, whatever
-- partitions were made since. Some objects go with others.
DO $$
DECLARE
  command text;
BEGIN
  FOREACH command IN ARRAY ARRAY(
      SELECT format('DROP %s IF EXISTS pgcron.%I CASCADE', kind.word, c.relname)
      FROM pg_catalog.pg_class c
      JOIN (VALUES (1, 'v', 'VIEW'), (2, 'p', 'TABLE'), (3, 'r', 'TABLE'), (4, 'S', 'SEQUENCE'),
             (5, 'c', 'TYPE'))
        kind(place, letter, word) ON kind.letter = c.relkind::text
      WHERE c.relnamespace = 'pgcron'::regnamespace AND c.relname <> 'alembic_version'
      ORDER BY kind.place) LOOP
    EXECUTE command;
  END LOOP;
  FOREACH command IN ARRAY ARRAY(
      SELECT format('DROP ROUTINE IF EXISTS %s CASCADE', p.oid::regprocedure)
      FROM pg_catalog.pg_proc p WHERE p.pronamespace = 'pgcron'::regnamespace) LOOP
    EXECUTE command;
  END LOOP;
END $$;
