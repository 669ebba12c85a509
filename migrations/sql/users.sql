-- Users of the pages, and tokens of programs.

-- Locks the user: sessions and tokens that are being made are waited for.
CREATE FUNCTION pgcron.require_user(name text) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.refuse('PC010', format('user %L does not exist', left(require_user.name, 200)),
    'Users are made with `pgcron-ha users add`, or by their first login through a provider.',
    'List the users: `pgcron-ha users list`.')
  WHERE NOT EXISTS (
    SELECT FROM pgcron.web_user u WHERE u.name = require_user.name FOR UPDATE) $$;

-- A user with a password, or without one who comes by a proxy; `role` for everything.
CREATE FUNCTION pgcron.add_user(name text, password_hash text, role text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  INSERT INTO pgcron.web_user (name, password_hash, created_by)
  VALUES (add_user.name, add_user.password_hash, coalesce(actor, session_user))
  ON CONFLICT DO NOTHING;
  PERFORM pgcron.refuse('PC011', format('there is a user %L already', add_user.name),
      'Names of users are unique.', 'Choose another name, or set its password.')
    WHERE NOT FOUND;
  PERFORM pgcron.grant_role('user', add_user.name, role, actor => actor) WHERE role IS NOT NULL;
  PERFORM pgcron.record_audit('add', 'user', add_user.name, actor,
                              after => jsonb_build_object('role', add_user.role));
END $$;

-- Ends all sessions. The one in which it was changed goes on with another id, which nobody has who
-- has stolen it. Tokens have secrets of their own, and stay.
CREATE FUNCTION pgcron.set_password(name text, password_hash text, session bytea DEFAULT NULL,
    renewed bytea DEFAULT NULL, address text DEFAULT NULL, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.require_user(name);
  UPDATE pgcron.web_user u SET password_hash = set_password.password_hash
  WHERE u.name = set_password.name;
  UPDATE pgcron.web_session s SET id = renewed WHERE s.user_name = name AND s.id = session;
  SELECT pgcron.forget_attempt(pgcron.login_keys(name, address));
  WITH gone AS (DELETE FROM pgcron.web_session s
                WHERE s.user_name = set_password.name AND s.id IS DISTINCT FROM renewed RETURNING s)
  SELECT pgcron.record_audit('set password', 'user', name, actor,
           after => jsonb_build_object('sessions', count(*))) FROM gone $$;

CREATE TABLE pgcron.api_token (
  -- Stands in the token, before its secret.
  id text PRIMARY KEY CONSTRAINT a_token_has_an_id CHECK (id ~ '^[a-z0-9]{8}$'),
  secret_hash bytea NOT NULL CONSTRAINT a_token_is_known_by_its_hash
    CHECK (length(secret_hash) = 32),
  name text NOT NULL CHECK (name ~ '^[A-Za-z0-9_.-]{1,100}$'
      OR pgcron.refuse('PC001', format('%L is not the name of a token', left(name, 200)),
        'A token has a name of 1 to 100 letters, digits, "_", "." and "-".',
        'Write for example ''deploy''.')),
  -- NULL: nobody's, it was made on the command line.
  owner text REFERENCES pgcron.web_user ON DELETE CASCADE,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now(),
  expires_at timestamptz NOT NULL CONSTRAINT a_token_lives_for_up_to_a_year
    CHECK (expires_at > created_at AND expires_at <= created_at + interval '366 days'
      OR pgcron.refuse('PC001', 'a token can''t be valid for so long, or so short',
        'A token is valid for more than nothing, and for up to a year.',
        'Leave it out for 90 days.')),
  last_used_at timestamptz
);
COMMENT ON TABLE pgcron.api_token IS 'Tokens of programs; what each may is in role_grant.';
CREATE INDEX api_token_owner ON pgcron.api_token (owner);

-- Of a disabled user nothing is let in from the next request on, and what had been ends for good:
-- nothing that was stolen before comes back with the user.
CREATE FUNCTION pgcron.disable_user(name text, is_disabled boolean, actor text DEFAULT NULL)
  RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.require_user(name);
  UPDATE pgcron.web_user u SET disabled_at = CASE WHEN is_disabled THEN now() END
  WHERE u.name = disable_user.name AND (u.disabled_at IS NOT NULL) <> is_disabled;
  SELECT pgcron.revoke_sessions(name, actor => actor) WHERE is_disabled;
  SELECT pgcron.record_audit(CASE WHEN is_disabled THEN 'disable' ELSE 'enable' END, 'user', name,
           actor) $$;

-- With sessions, tokens and roles: another user of that name begins with nothing.
CREATE FUNCTION pgcron.remove_user(name text, actor text DEFAULT NULL) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.revoke_sessions(name, actor => actor);
  DELETE FROM pgcron.role_grant g
  WHERE g.subject_kind = 'user' AND g.subject = remove_user.name;
  DELETE FROM pgcron.web_user u WHERE u.name = remove_user.name;
  SELECT pgcron.record_audit('remove', 'user', name, actor) $$;

-- The grants of a token all of which one grant of its owner has at this moment, too, none while he
-- is disabled; all of them if it has no owner.
CREATE FUNCTION pgcron.grants_of_token(id text, owner text)
  RETURNS TABLE (role text, scope_kind text, scope text)
LANGUAGE sql STABLE ROWS 10
BEGIN ATOMIC
  SELECT g.role, g.scope_kind, g.scope FROM pgcron.role_grant g
  WHERE g.subject_kind = 'token' AND g.subject = grants_of_token.id
    AND (owner IS NULL OR EXISTS (
      SELECT FROM pgcron.web_user o CROSS JOIN pgcron.grants_of(o.name, o.groups) h
      WHERE o.name = grants_of_token.owner AND o.disabled_at IS NULL
        AND array_position('{viewer,operator,editor,admin}', h.role)
            >= array_position('{viewer,operator,editor,admin}', g.role)
        AND (h.scope_kind = 'all'
             OR (h.scope_kind = g.scope_kind AND pgcron.rule_fits(h.scope, g.scope)))));
END;

CREATE FUNCTION pgcron.grant_words(role text, scope_kind text, scope text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN role || ' of ' || CASE scope_kind WHEN 'all' THEN 'everything'
                           ELSE scope_kind || ':' || scope END;

-- A token with a role within scopes, written as kind:name; none is everything.
CREATE FUNCTION pgcron.add_token(id text, secret_hash bytea, name text, role text,
    scopes text[] DEFAULT '{}', lifetime interval DEFAULT '90 days', owner text DEFAULT NULL,
    actor text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM pgcron.require_user(owner) WHERE owner IS NOT NULL;
  PERFORM pgcron.refuse('PC011', format('user %L has 100 tokens', owner),
      'A user has up to 100 tokens.', 'Revoke those that nobody uses.')
    WHERE (SELECT count(*) FROM pgcron.api_token t WHERE t.owner = add_token.owner) >= 100;
  INSERT INTO pgcron.api_token (id, secret_hash, name, owner, created_by, expires_at)
  VALUES (add_token.id, add_token.secret_hash, add_token.name, add_token.owner,
          coalesce(actor, session_user), now() + lifetime);
  PERFORM pgcron.grant_role('token', add_token.id, add_token.role, kind,
      substr(s, length(kind) + 2), actor)
  FROM unnest(CASE WHEN scopes = '{}' THEN ARRAY['all:*'] ELSE scopes END) s
  CROSS JOIN split_part(s, ':', 1) kind;
  -- or it would be worth less than it says
  PERFORM pgcron.refuse('PC001',
      format('%s is more than user %L has', pgcron.grant_words(g.role, g.scope_kind, g.scope),
        owner),
      format('A token never has more rights than its owner, who has: %s.', coalesce((
        SELECT string_agg(pgcron.grant_words(h.role, h.scope_kind, h.scope), ', ')
        FROM pgcron.web_user u CROSS JOIN pgcron.grants_of(u.name, u.groups) h
        WHERE u.name = add_token.owner AND u.disabled_at IS NULL), 'nothing')),
      'Choose a role and scopes within that: a scope is KIND:NAME.')
    FROM (SELECT r.role, r.scope_kind, r.scope FROM pgcron.role_grant r
          WHERE r.subject_kind = 'token' AND r.subject = add_token.id
          EXCEPT SELECT t.role, t.scope_kind, t.scope
          FROM pgcron.grants_of_token(add_token.id, add_token.owner) t) g;
  PERFORM pgcron.record_audit('add', 'token', add_token.name, actor,
      after => jsonb_build_object('id', add_token.id, 'owner', add_token.owner,
                                  'role', add_token.role, 'scopes', to_jsonb(scopes)));
END $$;

-- `owner` NULL: whosever it is.
CREATE FUNCTION pgcron.revoke_token(id text, owner text DEFAULT NULL, actor text DEFAULT NULL)
  RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.refuse('PC010', format('token %L does not exist', left(revoke_token.id, 200)),
           'A token is named by its id, the 8 characters after pgc_.',
           'List the tokens: `pgcron-ha tokens list`.')
  WHERE NOT EXISTS (SELECT FROM pgcron.api_token t WHERE t.id = revoke_token.id
                      AND (revoke_token.owner IS NULL OR t.owner = revoke_token.owner)
                    FOR UPDATE);
  DELETE FROM pgcron.role_grant g WHERE g.subject_kind = 'token' AND g.subject = revoke_token.id;
  WITH gone AS (DELETE FROM pgcron.api_token t WHERE t.id = revoke_token.id RETURNING t.name)
  SELECT pgcron.record_audit('revoke', 'token', g.name, actor,
                             before => jsonb_build_object('id', revoke_token.id)) FROM gone g $$;

-- What a token may: never more than its owner at this moment. Its use is known to the minute.
CREATE FUNCTION pgcron.user_of_token(id text, secret_hash bytea)
  RETURNS TABLE (name text, shown text, grants text[])
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  RETURN QUERY
    SELECT called.name, called.name, ARRAY(SELECT ARRAY[g.role, g.scope_kind, g.scope]
                                           FROM pgcron.grants_of_token(t.id, t.owner) g)
    FROM pgcron.api_token t LEFT JOIN pgcron.web_user o ON o.name = t.owner
    CROSS JOIN format('%s/%s', coalesce(t.owner, t.created_by), t.name) called(name)
    WHERE t.id = user_of_token.id AND t.secret_hash = user_of_token.secret_hash
      AND t.expires_at > now() AND o.disabled_at IS NULL;
  UPDATE pgcron.api_token t SET last_used_at = now()
  WHERE FOUND AND t.id = user_of_token.id
    AND coalesce(t.last_used_at, '-infinity') < now() - interval '1 min';
END $$;
