-- name: begin_login

-- name: end_login

-- name: note_user

-- name: user_of_session

-- name: user_of_token

-- name: user_of_proxy

-- name: log_out

-- name: revoke_sessions

-- name: add_user

-- name: set_password

-- name: disable_user

-- name: remove_user

-- name: add_token

-- name: revoke_token

-- name: list_users
SELECT u.name, u.shown, u.password_hash IS NOT NULL AS has_password, u.disabled_at, u.created_by,
       u.created_at, s.sessions, s.last_seen_at,
       ARRAY(SELECT concat_ws(' ', g.role, nullif(g.scope_kind || ':' || g.scope, 'all:*'))
             FROM pgcron.grants_of(u.name, u.groups) g) AS roles
FROM pgcron.web_user u
CROSS JOIN LATERAL (
  SELECT count(*) AS sessions, max(s.last_seen_at) AS last_seen_at FROM pgcron.web_session s
  WHERE s.user_name = u.name AND s.expires_at > now() AND s.last_seen_at > now() - s.idle) s
ORDER BY u.name LIMIT :limit::int;

-- name: list_sessions
-- Of one user, or of all; those that are not over, the last used first.
SELECT left(encode(s.id, 'hex'), 16) AS session, s.user_name, s.method, s.address, s.agent,
       s.created_at, s.last_seen_at, s.expires_at, s.id = :own::bytea AS is_own
FROM pgcron.web_session s
WHERE (s.user_name = :name::text OR :name::text IS NULL)
  AND s.expires_at > now() AND s.last_seen_at > now() - s.idle
ORDER BY s.last_seen_at DESC, s.id LIMIT :limit::int;

-- name: list_tokens
-- Of one user, or of all; also those that are over, until they are revoked.
SELECT t.id, t.name, t.owner, t.created_by, t.created_at, t.expires_at, t.last_used_at,
       t.expires_at <= now() AS is_over,
       ARRAY(SELECT concat_ws(' ', g.role, nullif(g.scope_kind || ':' || g.scope, 'all:*'))
             FROM pgcron.role_grant g WHERE g.subject_kind = 'token' AND g.subject = t.id
             ORDER BY g.role, g.scope_kind, g.scope) AS roles
FROM pgcron.api_token t
WHERE t.owner = :name::text OR :name::text IS NULL
ORDER BY t.created_at DESC, t.id LIMIT :limit::int;
