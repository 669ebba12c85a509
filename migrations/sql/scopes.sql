-- What a person may see and change: where the roles hold that the pages say in each transaction.

-- The owner of a schedule is its team, which needs no row here.
CREATE TABLE pgcron.owned (
  kind text NOT NULL CHECK (pgcron.is_one_of('kind', kind, '{queue,calendar,key,producer}',
        'A team owns queues, calendars, keys (of concurrency) and producers with their quotas; of '
        'schedules it is the owner.',
        'Name one of them.')),
  name text NOT NULL CONSTRAINT what_is_owned_has_1_to_206_characters
    CHECK (length(name) BETWEEN 1 AND 206),
  team text NOT NULL CHECK (pgcron.is_label('team', team, 'Write for example ''billing''.')),
  set_by text NOT NULL DEFAULT session_user,
  set_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, name)
);
COMMENT ON TABLE pgcron.owned IS 'Which team a queue, a calendar, a key or a producer belongs to.';

-- Patterns of LIKE, such as team:billing and queue:mail-%; NULL: everything.
CREATE FUNCTION pgcron.scopes() RETURNS text[]
LANGUAGE sql STABLE
RETURN nullif(current_setting('pgcron_ha.scopes', true), '')::text[];

CREATE FUNCTION pgcron.scope_words(scopes text[]) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN coalesce(nullif(translate(array_to_string(scopes, ', '), '%\', '*'), ''), 'nothing');

-- The owner of the schedule, else the team of the queue; '' for nobody. The LIMIT makes PostgreSQL
-- ask it row by row, which keeps the rows in their order.
CREATE FUNCTION pgcron.team_of(schedule_id bigint, queue text) RETURNS TABLE (team text)
LANGUAGE sql STABLE ROWS 1
BEGIN ATOMIC
  SELECT coalesce((SELECT s.owner FROM pgcron.schedule s WHERE s.id = team_of.schedule_id),
           (SELECT o.team FROM pgcron.owned o WHERE o.kind = 'queue' AND o.name = team_of.queue),
           '') LIMIT 1;
END;

CREATE FUNCTION pgcron.tags_in_scope(tags text[], scopes text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE
RETURN (SELECT bool_or('tag:' || tag LIKE ANY (scopes)) FROM unnest(tags) tag);

CREATE FUNCTION pgcron.team_in_scope(schedule_id bigint, queue text, scopes text[]) RETURNS boolean
LANGUAGE sql STABLE
RETURN (SELECT 'team:' || nullif(t.team, '') LIKE ANY (scopes)
        FROM pgcron.team_of(schedule_id, queue) t);

-- Whether a run or a schedule is in a scope. Of anything else what it shares with runs is given;
-- what shares nothing (all NULL) is seen by those alone who see everything. Statements of pages ask
-- it of each row that they show or count, beyond the bound of what they look at: to others it costs
-- nothing, as their statements are sent without it. PostgreSQL inlines it, as neither it nor its
-- arguments contain a subquery: statements that ask of many rows join the team and give it.
CREATE FUNCTION pgcron.in_scope(schedule_id bigint, queue text, handler text, schedule text,
    tags text[], team text DEFAULT NULL, scopes text[] DEFAULT pgcron.scopes()) RETURNS boolean
LANGUAGE sql STABLE
RETURN scopes IS NULL OR coalesce('queue:' || queue LIKE ANY (scopes)
         OR 'handler:' || handler LIKE ANY (scopes) OR 'schedule:' || schedule LIKE ANY (scopes)
         OR (tags IS NOT NULL AND pgcron.tags_in_scope(tags, scopes))
         OR CASE WHEN team IS NULL THEN pgcron.team_in_scope(schedule_id, queue, scopes)
              ELSE team <> '' AND 'team:' || team LIKE ANY (scopes) END, false);

-- Of a schedule as it is to be: its row may have another owner yet.
CREATE FUNCTION pgcron.schedule_in_scope(s pgcron.schedule, scopes text[] DEFAULT pgcron.scopes())
  RETURNS boolean
LANGUAGE sql STABLE
RETURN pgcron.in_scope(NULL, s.queue, s.handler, s.name, s.tags, s.owner, scopes);

-- A calendar of no team is for everybody to use, unless said otherwise.
CREATE FUNCTION pgcron.calendar_in_scope(name text, scopes text[] DEFAULT pgcron.scopes(),
    or_of_no_team boolean DEFAULT true) RETURNS boolean
LANGUAGE sql STABLE
RETURN scopes IS NULL OR coalesce(
  (SELECT 'team:' || o.team LIKE ANY (scopes) FROM pgcron.owned o
   WHERE o.kind = 'calendar' AND o.name = calendar_in_scope.name), or_of_no_team);

-- Of what has a page: its kind and its name as addresses have them. NULL: there is none.
CREATE FUNCTION pgcron.reaches(kind text, name text, scopes text[] DEFAULT pgcron.scopes())
  RETURNS boolean
LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN CASE
    WHEN scopes IS NULL THEN true
    WHEN scopes = '{}' THEN false
    WHEN kind = 'schedules' THEN
      (SELECT pgcron.schedule_in_scope(s, scopes) FROM pgcron.schedule s
       WHERE s.name = reaches.name)
    WHEN kind IN ('runs', 'dead') THEN
      (SELECT pgcron.in_scope(r.schedule_id, r.queue, r.handler, r.schedule, r.tags, NULL, scopes)
       FROM (SELECT e.schedule_id, e.queue, e.handler, e.schedule, e.tags FROM pgcron.every_run e
             WHERE e.id = reaches.name::bigint
             UNION ALL
             SELECT d.schedule_id, d.queue, d.handler, d.schedule, d.tags FROM pgcron.dead_letter d
             WHERE d.run_id = reaches.name::bigint) r LIMIT 1)
    WHEN kind = 'backfills' THEN
      (SELECT pgcron.schedule_in_scope(s, scopes) FROM pgcron.backfills b
       JOIN pgcron.schedule s ON s.id = b.schedule_id
       WHERE b.id = reaches.name::bigint)
    WHEN kind = 'queues' THEN pgcron.in_scope(NULL, name, NULL, NULL, NULL, NULL, scopes)
    WHEN kind = 'workflows' THEN
      pgcron.in_scope(NULL, NULL, 'workflow:' || name, NULL, NULL, NULL, scopes)
    WHEN kind = 'calendars' THEN
      (SELECT pgcron.calendar_in_scope(c.name, scopes) FROM pgcron.calendar c
       WHERE c.name = reaches.name)
    WHEN kind = 'breakers' THEN
      (SELECT bool_and(pgcron.in_scope(NULL, NULL, m.handler, NULL, NULL, NULL, scopes))
       FROM pgcron.breaker_handler m WHERE m.breaker = reaches.name)
    ELSE false END;
END $$;

CREATE FUNCTION pgcron.run_in_scope(run bigint, scopes text[]) RETURNS boolean
LANGUAGE sql STABLE
RETURN pgcron.reaches('runs', run::text, scopes);

CREATE FUNCTION pgcron.refuse_outside(what text, name text) RETURNS void
LANGUAGE sql STABLE AS $$
  SELECT pgcron.refuse('PC013',
           format('%s %L is, or would be, outside of your scope', what, left(name, 200)),
           format('Your roles let you write %ss within %s.', what,
             pgcron.scope_words(pgcron.scopes())),
           'Stay within it, or ask an administrator for a role there.') $$;

-- What serves the pages may add refusals to the audit, and nothing else. Addresses have a node's
-- incarnation; the audit has its name.
CREATE FUNCTION pgcron.record_refusal(verb text, kind text, name text, note text, actor text)
  RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pgcron.record_audit(verb, kind,
           coalesce((SELECT n.name FROM pgcron.node n
                     WHERE record_refusal.kind = 'node'
                       AND n.incarnation::text = record_refusal.name), record_refusal.name),
           actor, note, outcome => 'refused') $$;

-- A schedule of one's scope takes nothing new of another team: as owner, queue or concurrency key.
CREATE FUNCTION pgcron.keep_schedule_in_scope() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.refuse_outside('schedule', s.name) FROM unnest(ARRAY[OLD, NEW]) s
    WHERE s.id IS NOT NULL AND NOT pgcron.schedule_in_scope(s);
  PERFORM pgcron.refuse('PC013',
      format(CASE part.kind WHEN 'team' THEN 'owner %L is no team of your roles'
               ELSE part.kind || ' %L belongs to another team' END, left(part.name, 200)),
      'What you write takes owners, queues and concurrency keys of your roles, or of no team.',
      'Name another one, or ask an administrator for a role there.')
    FROM (VALUES ('team', NEW.owner, OLD.owner), ('queue', NEW.queue, OLD.queue),
            ('key', NEW.concurrency_key, OLD.concurrency_key)) part(kind, name, before)
    LEFT JOIN pgcron.owned o ON (o.kind, o.name) = (part.kind, part.name)
    WHERE TG_OP <> 'DELETE' AND part.name IS DISTINCT FROM part.before
      AND NOT part.kind || ':' || part.name LIKE ANY (pgcron.scopes())
      AND (part.kind = 'team' OR NOT 'team:' || o.team LIKE ANY (pgcron.scopes()));
  RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;
CREATE TRIGGER keep_schedule_in_scope BEFORE INSERT OR UPDATE OR DELETE ON pgcron.schedule
  FOR EACH ROW WHEN (nullif(current_setting('pgcron_ha.scopes', true), '') IS NOT NULL)
  EXECUTE FUNCTION pgcron.keep_schedule_in_scope();

-- A new calendar belongs to the first team of its creator. Calendars are written by INSERT … ON
-- CONFLICT, so this trigger fires for one that exists, too: that keeps its team.
CREATE FUNCTION pgcron.keep_calendar_in_scope() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  calendar text := CASE WHEN TG_OP = 'DELETE' THEN OLD.name ELSE NEW.name END;
BEGIN
  INSERT INTO pgcron.owned (kind, name, team)
  SELECT 'calendar', calendar, regexp_replace(substr(s, 6), '\\(.)', '\1', 'g')
  FROM unnest(pgcron.scopes()) s
  WHERE TG_OP = 'INSERT' AND NOT EXISTS (SELECT FROM pgcron.calendar c WHERE c.name = calendar)
    AND s LIKE 'team:%' AND strpos(regexp_replace(s, '\\.', '', 'g'), '%') = 0
  ORDER BY s LIMIT 1 ON CONFLICT DO NOTHING;
  PERFORM pgcron.refuse_outside('calendar', calendar)
    WHERE NOT pgcron.calendar_in_scope(calendar, or_of_no_team => false);
  RETURN CASE WHEN TG_OP = 'DELETE' THEN OLD ELSE NEW END;
END $$;

CREATE FUNCTION pgcron.forget_owner() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  DELETE FROM pgcron.owned o WHERE o.kind = 'calendar' AND o.name = OLD.name;
  RETURN NULL;
END $$;

-- Who owns the schema gives roles, and says what belongs to whom.
CREATE FUNCTION pgcron.grant_role(subject_kind text, subject text, role text,
    scope_kind text DEFAULT 'all', scope text DEFAULT '*', actor text DEFAULT NULL) RETURNS void
LANGUAGE sql AS $$
  SELECT pgcron.act_as(actor);
  INSERT INTO pgcron.role_grant (subject_kind, subject, role, scope_kind, scope, granted_by)
  VALUES (subject_kind, subject, role, scope_kind, scope, coalesce(actor, session_user))
  ON CONFLICT DO NOTHING $$;
COMMENT ON FUNCTION pgcron.grant_role IS
    'Gives a user or a group of users of the pages a role (viewer, operator, editor, admin) for '
    'everything, or within a scope: a team, queue, tag, schedule or handler, by its name or by how '
    'names begin (mail-*).';

CREATE FUNCTION pgcron.revoke_role(subject_kind text, subject text, role text,
    scope_kind text DEFAULT 'all', scope text DEFAULT '*', actor text DEFAULT NULL) RETURNS boolean
LANGUAGE sql AS $$
  SELECT pgcron.act_as(actor);
  WITH gone AS (
    DELETE FROM pgcron.role_grant g
    WHERE (g.subject_kind, g.subject, g.role, g.scope_kind, g.scope)
      = (revoke_role.subject_kind, revoke_role.subject, revoke_role.role, revoke_role.scope_kind,
         revoke_role.scope) RETURNING true)
  SELECT EXISTS (SELECT FROM gone) $$;
COMMENT ON FUNCTION pgcron.revoke_role IS
    'Takes a role back that grant_role gave; true if there was one.';

CREATE FUNCTION pgcron.set_team(kind text, object text, team text, actor text DEFAULT NULL)
  RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.is_queue(object) WHERE kind = 'queue';
  PERFORM pgcron.refuse('PC010', format('%s %L does not exist', kind, left(object, 200)),
      'What belongs to a team is there before.', 'Make it first, or correct the name.')
    WHERE set_team.team IS NOT NULL
      AND ((kind = 'calendar' AND NOT EXISTS (SELECT FROM pgcron.calendar c WHERE c.name = object))
        OR (kind = 'producer' AND NOT EXISTS (
              SELECT FROM pgcron.producer p WHERE p.role = to_regrole(quote_ident(object)))));
  DELETE FROM pgcron.owned o WHERE (o.kind, o.name) = (set_team.kind, set_team.object);
  INSERT INTO pgcron.owned (kind, name, team, set_by)
  SELECT set_team.kind, object, set_team.team, coalesce(actor, session_user)
  WHERE set_team.team IS NOT NULL;
  PERFORM pgcron.record_audit('give', kind, object, actor,
      after => jsonb_build_object('team', team));
END $$;
COMMENT ON FUNCTION pgcron.set_team IS
    'Says which team a queue, calendar, key or producer belongs to; NULL: to none.';
