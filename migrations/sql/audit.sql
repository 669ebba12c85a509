-- Who acts, and who did what: one row for each command that controls, in its transaction.

CREATE FUNCTION pgcron.actor() RETURNS text
LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('pgcron_ha.actor', true), ''), session_user::text);

CREATE FUNCTION pgcron.interface() RETURNS text
LANGUAGE sql STABLE
RETURN coalesce(nullif(current_setting('pgcron_ha.interface', true), ''), 'sql');

CREATE FUNCTION pgcron.act_as(actor text, interface text DEFAULT NULL, address text DEFAULT NULL)
  RETURNS void
LANGUAGE sql AS $$
  SELECT set_config('pgcron_ha.' || said.what, said.given, true)
  FROM (VALUES ('actor', actor), ('interface', interface), ('address', address)) said(what, given)
  WHERE said.given IS NOT NULL $$;
COMMENT ON FUNCTION pgcron.act_as IS
    'For the rest of the transaction: who acts, through which interface, and from which address; '
    'what is NULL stays as it was. The audit has it beside the role that logged in.';

CREATE TABLE pgcron.audit (
  id bigint GENERATED ALWAYS AS IDENTITY,
  at timestamptz NOT NULL DEFAULT clock_timestamp(),
  -- The role that logged in to PostgreSQL, which nobody can claim to be.
  login text NOT NULL DEFAULT session_user,
  -- Who acted, as that role says.
  actor text NOT NULL,
  interface text NOT NULL,
  address text,
  verb text NOT NULL,
  kind text NOT NULL,
  name text,
  note text,
  before jsonb,
  after jsonb,
  outcome text NOT NULL DEFAULT 'done' CONSTRAINT an_audited_verb_was_done_or_refused
    CHECK (outcome IN ('done', 'refused')),
  PRIMARY KEY (id, at)
) PARTITION BY RANGE (at);
COMMENT ON TABLE pgcron.audit IS
    'One row for each command that controls, each login and each refusal. Nobody changes a row.';
CREATE INDEX audit_at ON pgcron.audit (at, id);
CREATE INDEX audit_name ON pgcron.audit (name, at, id);

-- Also to its owner: what is outlived goes with its whole month (set_table_retention).
CREATE FUNCTION pgcron.refuse_audit_change() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pgcron.refuse('PC013', format('%s of the audit is not allowed', lower(TG_OP)),
      'What was recorded stays as it is until its retention is over.',
      'SELECT pgcron.set_table_retention(''audit'', …) says how long that is.');
  RETURN NULL;
END $$;
CREATE TRIGGER audit_stays BEFORE UPDATE OR DELETE ON pgcron.audit FOR EACH ROW
  EXECUTE FUNCTION pgcron.refuse_audit_change();
CREATE TRIGGER audit_is_not_emptied BEFORE TRUNCATE ON pgcron.audit FOR EACH STATEMENT
  EXECUTE FUNCTION pgcron.refuse_audit_change();

-- The values of an object, each of 2000 characters at most; what was cut says so. Args, payloads
-- and results may be about persons, and nothing of the audit can be erased: of them the names of
-- the keys are kept.
CREATE FUNCTION pgcron.cut_values(given jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE AS $$
  SELECT jsonb_object_agg(v.key,
           CASE WHEN v.key IN ('args', 'payload', 'result')
                  THEN CASE jsonb_typeof(v.value)
                         WHEN 'object' THEN (SELECT coalesce(jsonb_agg(k ORDER BY k), '[]')
                                             FROM jsonb_object_keys(v.value) k)
                         ELSE to_jsonb(jsonb_typeof(v.value)) END
                WHEN length(v.value::text) > 2000
                  THEN to_jsonb(format('%s … (cut, of %s characters)', left(v.value::text, 2000),
                         length(v.value::text)))
                ELSE v.value END)
  FROM jsonb_each(given) v $$;

-- Records a command. What its transaction says of itself (pgcron.act_as) fills in what is left out.
-- before and after are objects. The transaction has its number before the row has its own: see
-- pgcron.settle_audit.
CREATE FUNCTION pgcron.record_audit(verb text, kind text, name text, actor text DEFAULT NULL,
    note text DEFAULT NULL, before jsonb DEFAULT NULL, after jsonb DEFAULT NULL,
    outcome text DEFAULT 'done') RETURNS void
LANGUAGE sql SECURITY DEFINER AS $$
  SELECT pg_current_xact_id();
  INSERT INTO pgcron.audit (actor, interface, address, verb, kind, name, note, before, after,
        outcome)
  VALUES (left(coalesce(record_audit.actor, pgcron.actor()), 300), pgcron.interface(),
          left(coalesce(nullif(current_setting('pgcron_ha.address', true), ''),
              host(inet_client_addr())), 300),
          record_audit.verb, record_audit.kind, left(record_audit.name, 500),
          left(record_audit.note, 2000), pgcron.cut_values(record_audit.before),
          pgcron.cut_values(record_audit.after), record_audit.outcome) $$;

-- How far the audit is complete, and how far it was sent. A transaction that is open may still
-- commit a row with a lower number than those that are there: who reads on from a number would
-- never see it.
CREATE TABLE pgcron.audit_export (
  one boolean PRIMARY KEY DEFAULT true CONSTRAINT there_is_one_audit_export CHECK (one),
  -- No row up to this one is still to come.
  settled bigint NOT NULL DEFAULT 0,
  -- So it is up to this one, once every transaction below next_xid is over.
  next_id bigint NOT NULL DEFAULT 0,
  next_xid xid8 NOT NULL DEFAULT '0',
  -- The last row that the webhook took, and how it goes on.
  sent bigint NOT NULL DEFAULT 0,
  failures int NOT NULL DEFAULT 0,
  error text,
  due_at timestamptz NOT NULL DEFAULT '-infinity'
);
COMMENT ON TABLE pgcron.audit_export IS
    'One row: up to which row the audit is complete, and up to which it was sent to a webhook.';
INSERT INTO pgcron.audit_export DEFAULT VALUES;

-- Up to which row the audit is complete. A restored database counts transactions anew, so a number
-- that none has reached is no bound.
CREATE FUNCTION pgcron.settle_audit() RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
  FOR round IN 1 .. 2 LOOP      -- the second settles what the first has found, if nobody is at work
    UPDATE pgcron.audit_export e
    SET settled = e.next_id,
        next_id = greatest(e.next_id, (SELECT max(a.id) FROM pgcron.audit a)),
        next_xid = pg_snapshot_xmax(pg_current_snapshot())
    WHERE e.one = ANY(ARRAY(SELECT x.one FROM pgcron.audit_export x FOR UPDATE SKIP LOCKED))
      AND (e.next_xid <= pg_snapshot_xmin(pg_current_snapshot())
           OR e.next_xid > pg_snapshot_xmax(pg_current_snapshot()));
  END LOOP;
  RETURN (SELECT e.settled FROM pgcron.audit_export e);
END $$;
