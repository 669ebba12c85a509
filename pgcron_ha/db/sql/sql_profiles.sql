-- name: begin_session
-- A profile's session: how other sessions find it, and its role; and what its statements may read
-- with current_setting('pgcron.token').
SELECT a.pid, extract(epoch FROM a.backend_start)::text AS began, r.rolname::text AS role,
       r.rolsuper AS is_superuser,
       EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = :schema
                 AND pg_has_role(current_user, n.nspowner, 'USAGE')) AS owns_schema,
       (SELECT count(set_config(given.name, given.value, false))
        FROM unnest(:names::text[], :values::text[]) given(name, value)) AS settings
FROM pg_catalog.pg_stat_activity a JOIN pg_catalog.pg_roles r ON r.rolname = current_user
WHERE a.pid = pg_backend_pid();

-- name: cancel_session
-- A process id is used again: the time of its beginning says that it is the same one.
SELECT pg_cancel_backend(a.pid) FROM pg_catalog.pg_stat_activity a
WHERE a.pid = :pid AND extract(epoch FROM a.backend_start)::text = :began AND a.state = 'active';

-- name: end_session
-- Whether it is gone, after four seconds at most; NULL: it was gone before.
SELECT pg_terminate_backend(a.pid, 4000) FROM pg_catalog.pg_stat_activity a
WHERE a.pid = :pid AND extract(epoch FROM a.backend_start)::text = :began;
