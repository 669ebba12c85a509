-- A variable that is called as one of PL/pgSQL's own (found) is refused wherever plpgsql.extra_errors has shadowed_variables: by each session that calls the function.

DO $do$
DECLARE
  called text;
BEGIN
  FOREACH called IN ARRAY ARRAY['count_failures(text[], bigint[], bigint[], text[])', 'require_breaker(text)', 'reset_breaker(text, text)', 'preview(text, integer)'] LOOP
    EXECUTE regexp_replace(pg_get_functiondef(('pgcron.' || called)::regprocedure), '\mfound\M', 'row_found', 'g');
  END LOOP;
END $do$;
