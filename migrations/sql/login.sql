-- Who may log in to the pages, their sessions, and how failed logins are slowed down. Passwords are
-- hashed and compared by the program that serves the pages.

CREATE TABLE pgcron.web_user (
  -- Of an OIDC provider's user it has the issuer and the subject, which never change.
  name text PRIMARY KEY CHECK (name ~ '^[A-Za-z0-9_.@+-]{1,100}$' OR name ~ '^oidc:[!-~]{1,195}$'
      OR pgcron.refuse('PC001', format('%L is not the name of a user', left(name, 200)),
        'A user has 1 to 100 letters, digits, "_", ".", "@", "+" and "-".',
        'Write for example ''alice''.')),
  -- What a provider calls the user, for people to read.
  shown text CONSTRAINT a_shown_name_is_short CHECK (length(shown) BETWEEN 1 AND 200),
  -- Of the last login by a provider, or of the last request by a proxy.
  groups text[] NOT NULL DEFAULT '{}',
  password_hash text CONSTRAINT a_password_is_hashed_by_argon2id
    CHECK (password_hash LIKE '$argon2id$%'),
  -- From which the user has logged in, the last first: guesses from elsewhere delay none of them.
  networks text[] NOT NULL DEFAULT '{}',
  disabled_at timestamptz,
  created_by text NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
COMMENT ON TABLE pgcron.web_user IS 'Who may log in to the pages.';

CREATE TABLE pgcron.web_session (
  -- SHA-256 of what the browser has.
  id bytea PRIMARY KEY CONSTRAINT a_session_is_known_by_its_hash CHECK (length(id) = 32),
  user_name text NOT NULL REFERENCES pgcron.web_user ON DELETE CASCADE,
  method text NOT NULL CONSTRAINT a_login_has_a_method CHECK (method IN ('password', 'oidc')),
  address text,
  agent text,
  created_at timestamptz NOT NULL DEFAULT now(),
  last_seen_at timestamptz NOT NULL DEFAULT now(),
  idle interval NOT NULL,
  expires_at timestamptz NOT NULL
);
COMMENT ON TABLE pgcron.web_session IS 'Who is logged in, and until when.';
CREATE INDEX web_session_user ON pgcron.web_session (user_name, created_at);
CREATE INDEX web_session_expires ON pgcron.web_session (expires_at);

-- Attempts count when they begin, so that many at once are no way around; a success takes its
-- attempt back.
CREATE TABLE pgcron.login_failure (
  key text PRIMARY KEY,
  failures integer NOT NULL DEFAULT 0,
  since timestamptz NOT NULL DEFAULT clock_timestamp(),
  last_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
COMMENT ON TABLE pgcron.login_failure IS 'Failed logins, by account and by network.';
CREATE INDEX login_failure_last ON pgcron.login_failure (last_at);

-- What one customer of a provider has: addresses in it count as one.
CREATE FUNCTION pgcron.login_network(address text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN address IS NOT NULL
  THEN network(set_masklen(address::inet, CASE family(address::inet) WHEN 4 THEN 24 ELSE 64 END))
       ::text ELSE '' END;

-- The counter of an account, which the networks that it is used from do not share (none without a
-- name), and the one of the network. What was typed as a name may be a password: it is not kept.
CREATE FUNCTION pgcron.login_keys(name text, address text) RETURNS text[]
LANGUAGE sql STABLE
RETURN array_remove(ARRAY[
  'account ' || encode(sha256(convert_to(login_keys.name, 'UTF8')), 'hex') || coalesce((
    SELECT ' ' || pgcron.login_network(login_keys.address) FROM pgcron.web_user u
    WHERE u.name = login_keys.name
      AND pgcron.login_network(login_keys.address) = ANY (u.networks)), ''),
  'network ' || pgcron.login_network(login_keys.address)], NULL);

-- For how long no attempt is looked at. After 5 failures of an account 1 s, 2 s, … up to 15 min;
-- a network has 30 attempts in 10 minutes.
CREATE FUNCTION pgcron.login_wait(failure pgcron.login_failure) RETURNS interval
LANGUAGE sql STABLE
RETURN greatest(interval '0', CASE
  WHEN failure.key LIKE 'account %' AND failure.failures >= 5
    THEN failure.last_at
         + least(interval '15 min', interval '1 s' * power(2, least(failure.failures - 5, 20)))
  WHEN failure.key LIKE 'network %' AND failure.failures >= 30
    THEN failure.since + interval '10 min' END - clock_timestamp());

-- Begins an attempt (without a name one by a provider): how many seconds to wait before the next
-- one (0: go on), and the hash to compare the password with, if the user has a password.
CREATE FUNCTION pgcron.begin_login(name text, address text,
    OUT wait double precision, OUT password_hash text)
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  keys CONSTANT text[] := pgcron.login_keys(name, address);
BEGIN
  DELETE FROM pgcron.login_failure f WHERE f.key = ANY (ARRAY(
    SELECT o.key FROM pgcron.login_failure o WHERE o.last_at < now() - interval '1 day'
    ORDER BY o.last_at LIMIT 100 FOR UPDATE SKIP LOCKED));
  -- Who has to wait leaves no row.
  SELECT extract(epoch FROM max(pgcron.login_wait(f))) INTO wait
  FROM pgcron.login_failure f WHERE f.key = ANY (keys);
  IF wait > 0 THEN RETURN; END IF;
  -- Others with one of the keys wait until this attempt is counted.
  INSERT INTO pgcron.login_failure (key) SELECT unnest(keys)
  ON CONFLICT (key) DO UPDATE SET key = excluded.key;
  SELECT extract(epoch FROM max(pgcron.login_wait(f))) INTO wait
  FROM pgcron.login_failure f WHERE f.key = ANY (keys);
  IF wait > 0 THEN RETURN; END IF;
  UPDATE pgcron.login_failure f SET failures = 0, since = clock_timestamp()
  WHERE f.key = ANY (keys) AND f.key LIKE 'network %'
    AND f.since < clock_timestamp() - interval '10 min';
  UPDATE pgcron.login_failure f
  SET failures = least(f.failures + 1, 1000), last_at = clock_timestamp() WHERE f.key = ANY (keys);
  SELECT u.password_hash INTO password_hash FROM pgcron.web_user u
  WHERE u.name = begin_login.name AND u.disabled_at IS NULL;
END $$;

-- After a success: the account begins anew, and the network has its attempt back.
CREATE FUNCTION pgcron.forget_attempt(keys text[]) RETURNS void
LANGUAGE sql AS $$
  DELETE FROM pgcron.login_failure f WHERE f.key = ANY (keys) AND f.key LIKE 'account %';
  UPDATE pgcron.login_failure f SET failures = greatest(f.failures - 1, 0)
  WHERE f.key = ANY (keys) AND f.key LIKE 'network %' $$;

-- What somebody else than this database knows of a user; NULL for one that is disabled, else true.
CREATE FUNCTION pgcron.note_user(name text, shown text, groups text[]) RETURNS boolean
LANGUAGE sql SECURITY DEFINER AS $$
  INSERT INTO pgcron.web_user AS u (name, shown, groups, created_by)
  VALUES (note_user.name, note_user.shown, note_user.groups, 'ui:' || note_user.name)
  ON CONFLICT ON CONSTRAINT web_user_pkey
    DO UPDATE SET shown = excluded.shown, groups = excluded.groups
    WHERE u.disabled_at IS NULL
  RETURNING true $$;

-- Ends an attempt; whether there is a session. By a password: `password_hash` is the one that
-- `begin_login` gave, if what was typed fits it. Else a provider has named the user (oidc). What
-- was counted of an attempt that succeeded counts no more. Sessions that are over go, and of one
-- user all but the newest 50. Only names of users are recorded: others may be passwords in the
-- wrong field.
CREATE FUNCTION pgcron.end_login(name text, method text, password_hash text, shown text,
    groups text[], session bytea, idle interval, life interval, address text, agent text)
  RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  network CONSTANT text := pgcron.login_network(address);
  keys CONSTANT text[] := pgcron.login_keys(CASE method WHEN 'password' THEN name END, address);
BEGIN
  UPDATE pgcron.web_user u
  SET networks = (ARRAY[network] || array_remove(u.networks, network))[1:10]
  WHERE method = 'password' AND u.name = end_login.name AND u.disabled_at IS NULL
    AND u.password_hash = end_login.password_hash;
  IF NOT FOUND AND (
      CASE method WHEN 'oidc' THEN pgcron.note_user(name, shown, groups) END) IS NOT TRUE THEN
    PERFORM pgcron.act_as('ui:nobody', 'ui', address);
    PERFORM pgcron.record_audit('login', 'user', (
        SELECT u.name FROM pgcron.web_user u WHERE u.name = end_login.name),
      note => method, outcome => 'refused');
    RETURN false;
  END IF;
  PERFORM pgcron.forget_attempt(keys);
  DELETE FROM pgcron.web_session s
  WHERE s.id = ANY (
    ARRAY(SELECT o.id FROM pgcron.web_session o WHERE o.expires_at < now()
          ORDER BY o.expires_at LIMIT 100 FOR UPDATE SKIP LOCKED)
    || ARRAY(SELECT o.id FROM pgcron.web_session o WHERE o.user_name = end_login.name
             ORDER BY o.created_at DESC OFFSET 49 LIMIT 100 FOR UPDATE SKIP LOCKED));
  INSERT INTO pgcron.web_session (id, user_name, method, address, agent, idle, expires_at)
  VALUES (session, end_login.name, end_login.method, end_login.address,
          left(end_login.agent, 200), end_login.idle, now() + life);
  PERFORM pgcron.act_as('ui:' || end_login.name, 'ui', end_login.address);
  PERFORM pgcron.record_audit('login', 'user', end_login.name, note => end_login.method);
  RETURN true;
END $$;

-- Whose session it is, if it is not over; each grant is a role, a kind of scope, and a scope. When
-- it was last seen is known to the minute.
CREATE FUNCTION pgcron.user_of_session(session bytea)
  RETURNS TABLE (name text, shown text, grants text[])
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  RETURN QUERY
    SELECT u.name, coalesce(u.shown, u.name), ARRAY(
             SELECT ARRAY[g.role, g.scope_kind, g.scope] FROM pgcron.grants_of(u.name,
               CASE s.method WHEN 'oidc' THEN u.groups ELSE '{}' END) g)  -- else a proxy names them
    FROM pgcron.web_session s JOIN pgcron.web_user u ON u.name = s.user_name
    WHERE s.id = session AND s.expires_at > now() AND s.last_seen_at > now() - s.idle
      AND u.disabled_at IS NULL;
  UPDATE pgcron.web_session s SET last_seen_at = now()
  WHERE FOUND AND s.id = session AND s.last_seen_at < now() - interval '1 min';
END $$;

-- Of a user whom a proxy names: nothing for one that is disabled here. His tokens have the groups
-- that it named last.
CREATE FUNCTION pgcron.user_of_proxy(user_name text, groups text[])
  RETURNS TABLE (name text, shown text, grants text[])
LANGUAGE sql SECURITY DEFINER AS $$
  UPDATE pgcron.web_user u SET groups = user_of_proxy.groups
  WHERE u.name = user_name AND u.groups <> user_of_proxy.groups;
  SELECT user_name, user_name, ARRAY(SELECT ARRAY[g.role, g.scope_kind, g.scope]
                                     FROM pgcron.grants_of(user_name, groups) g)
  WHERE NOT EXISTS (SELECT FROM pgcron.web_user u
                    WHERE u.name = user_name AND u.disabled_at IS NOT NULL) $$;

-- Ends sessions of a user: one by the beginning of its hash, all of them but one, or all, and then
-- the tokens, too; how many there were.
CREATE FUNCTION pgcron.revoke_sessions(name text, session text DEFAULT NULL,
    but bytea DEFAULT NULL, actor text DEFAULT NULL, OUT sessions bigint, OUT tokens bigint)
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  PERFORM pgcron.require_user(name);
  DELETE FROM pgcron.web_session s
  WHERE s.user_name = revoke_sessions.name AND s.id IS DISTINCT FROM revoke_sessions.but
    AND (session IS NULL OR left(encode(s.id, 'hex'), 16) = session);
  GET DIAGNOSTICS sessions = ROW_COUNT;
  PERFORM pgcron.refuse('PC010',
      format('session %L of user %L does not exist', left(session, 100), name),
      'A session is named by the 16 characters that a list of sessions shows, until it ends.',
      'List the sessions: `pgcron-ha users sessions`.')
    WHERE session IS NOT NULL AND sessions = 0;
  WITH gone AS (DELETE FROM pgcron.api_token t
                WHERE t.owner = revoke_sessions.name AND num_nonnulls(session, but) = 0
                RETURNING t.id),
  roles AS (DELETE FROM pgcron.role_grant g USING gone
            WHERE g.subject_kind = 'token' AND g.subject = gone.id)
  SELECT count(*) INTO tokens FROM gone;
  PERFORM pgcron.record_audit('end sessions', 'user', revoke_sessions.name, actor,
      after => jsonb_build_object('sessions', sessions, 'tokens', tokens));
END $$;

CREATE FUNCTION pgcron.log_out(session bytea, address text) RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.act_as(NULL, 'ui', address);
  WITH gone AS (DELETE FROM pgcron.web_session s WHERE s.id = session RETURNING s.user_name)
  SELECT pgcron.record_audit('logout', 'user', g.user_name, 'ui:' || g.user_name) FROM gone g $$;
