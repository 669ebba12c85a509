-- Which programs work with this schema. A revision that takes something away says from which revision on programs don't use it.
CREATE FUNCTION pgcron.oldest_program() RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT 'pgcron_0001'::text $$;
COMMENT ON FUNCTION pgcron.oldest_program() IS 'Programs work with this schema if they bring this revision or a later one; older ones refuse to begin.';
