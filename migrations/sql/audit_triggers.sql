-- What people write into tables is recorded as it is written, by a function, a file or plain SQL.
-- What the engine writes as it works is in other columns, or in other tables.

-- Arguments: the kind, the columns of the name, and the verbs of INSERT, UPDATE and DELETE. An
-- UPDATE that changed nothing, but who set it and when, is not recorded.
CREATE FUNCTION pgcron.audit_change() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  left_out text[] := '{id,uuid,version,calendars,parts,hash,steps,set_by,set_at,updated_by,'
    'updated_at,created_by,created_at,granted_by,granted_at,paused_by,is_plain,'
    'incarnation,state,failed_at,openings}';
  of_pauses CONSTANT text[] := '{enabled,paused_at,paused_note,paused_until}';
  named CONSTANT text[] := string_to_array(TG_ARGV[1], ' ');
  old_row jsonb := CASE WHEN TG_OP = 'INSERT' THEN '{}' ELSE to_jsonb(OLD) END;
  new_row jsonb := CASE WHEN TG_OP = 'DELETE' THEN '{}' ELSE to_jsonb(NEW) END;
  before jsonb;
  after jsonb;
  verb text := TG_ARGV[array_position('{INSERT,UPDATE,DELETE}', TG_OP) + 1];
BEGIN
  IF TG_OP <> 'UPDATE' THEN left_out := left_out || named; END IF;
  SELECT jsonb_object_agg(key, o.value), jsonb_object_agg(key, n.value) INTO before, after
  FROM jsonb_each(old_row) o FULL JOIN jsonb_each(new_row) n USING (key)
  WHERE coalesce(o.value, 'null') <> coalesce(n.value, 'null') AND key <> ALL (left_out);
  IF TG_OP = 'UPDATE' AND after IS NULL THEN
    RETURN NULL;
  ELSIF TG_OP <> 'DELETE' AND after - of_pauses = '{}' THEN
    verb := CASE WHEN coalesce((new_row -> 'enabled')::boolean, new_row -> 'paused_at' = 'null')
                   THEN 'resume' ELSE 'pause' END;
  ELSIF TG_OP = 'UPDATE' THEN
    verb := CASE WHEN after ? 'name' THEN 'rename' ELSE verb END;
  END IF;
  PERFORM pgcron.record_audit(verb, TG_ARGV[0],
      (SELECT string_agg(CASE TG_OP WHEN 'INSERT' THEN new_row ELSE old_row END ->> n, ' ')
       FROM unnest(named) n),
      note => coalesce(nullif(current_setting('pgcron_ha.version_note', true), ''),
        after ->> 'paused_note', after ->> 'note'),
      before => CASE WHEN TG_OP <> 'INSERT' THEN before END,
      after => CASE WHEN TG_OP <> 'DELETE' THEN after END);
  RETURN NULL;
END $$;

CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON pgcron.schedule FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('schedule', 'name', 'create', 'edit', 'delete');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON pgcron.calendar FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('calendar', 'name', 'create', 'edit', 'delete');
-- pgcron.delete_workflow marks all versions.
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OF managed_by, source
  ON pgcron.workflow_definition FOR EACH ROW WHEN (NEW.name <> 'ad_hoc')
  EXECUTE FUNCTION pgcron.audit_change('workflow', 'name', 'put', 'put');
CREATE TRIGGER audit_change AFTER UPDATE OF paused_at, paused_note ON pgcron.cluster FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('cluster', '', '', 'edit');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON pgcron.queue FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('queue', 'name', 'set', 'set', 'delete');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON pgcron.concurrency_limit
  FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('concurrency', 'concurrency_key', 'set', 'set', 'delete');
-- Its state is the engine's; pgcron.reset_breaker records what it does.
CREATE TRIGGER audit_change AFTER INSERT OR DELETE OR UPDATE OF failures, within, open_for,
    open_for_at_most, fallback_handler, fallback_queue ON pgcron.breaker FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('breaker', 'name', 'set', 'set', 'delete');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE ON pgcron.breaker_handler FOR EACH ROW
  WHEN (NEW.handler <> NEW.breaker)
  EXECUTE FUNCTION pgcron.audit_change('breaker_handler', 'handler', 'set', 'set');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE ON pgcron.cordon FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('node', 'node', 'cordon', 'cordon');
-- A cordon of a process goes with it: that is nobody's act.
CREATE TRIGGER audit_delete AFTER DELETE ON pgcron.cordon FOR EACH ROW
  WHEN (OLD.incarnation IS NULL OR pg_trigger_depth() = 0)
  EXECUTE FUNCTION pgcron.audit_change('node', 'node', 'cordon', 'cordon', 'uncordon');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON pgcron.retention FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('table_retention', 'relation', 'set', 'set', 'delete');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON pgcron.retention_rule FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('retention', 'queue outcome', 'set', 'set', 'delete');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON pgcron.producer FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('producer', 'role', 'confine', 'confine', 'delete');
CREATE TRIGGER audit_change AFTER INSERT OR UPDATE OR DELETE ON pgcron.role_grant FOR EACH ROW
  EXECUTE FUNCTION pgcron.audit_change('role', 'subject_kind subject', 'grant', 'grant', 'revoke');
