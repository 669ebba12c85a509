-- Names in functions mean pgcron_ha's objects whatever the caller's search_path is: constraints and
-- triggers call functions in the session that writes the row. What PostgreSQL reads at the call is
-- given a path here; the body of a BEGIN ATOMIC function was read when it was made, and can still
-- be inlined. A procedure that commits can have no setting: wait_long qualifies each name.
DO
  $do$
DECLARE
  loose regprocedure;
BEGIN
  FOR loose IN SELECT p.oid FROM pg_proc p
      WHERE p.pronamespace = 'pgcron'::regnamespace AND p.prokind = 'f' AND p.prosqlbody IS NULL
                AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY(p.proconfig), false) LOOP
    EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp', loose);
  END LOOP;
END $do$;
