-- What keeps a waiting run from beginning, as one word and one sentence: SQL, pages and commands
-- say the same. The first in this order: paused, previous, workflow (which no pause of its queue
-- keeps), breaker, no_node, overlap, blocked; then, for a ready run: limit_trouble, queue_limit,
-- key_limit, rate, weight (no node has so many slots), node_trouble, slots. The troubles: a row or
-- a node is at fault, as the sentence says.

CREATE FUNCTION pgcron.time_left(until timestamptz) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT CASE WHEN s < 120 THEN s || ' s'
              WHEN s < 7200 THEN round(s / 60.0) || ' m'
              ELSE round(s / 3600.0) || ' h' END
  FROM (SELECT greatest(1, ceil(extract(epoch FROM until - clock_timestamp())))) seconds(s) $$;

-- The sentence begins with what is paused.
CREATE FUNCTION pgcron.is_paused_by(who text, note text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN format(' is paused by %s', coalesce(who, 'somebody'))
         || coalesce(' (' || left(nullif(note, ''), 80) || ')', '');

-- That a workflow is not defined, and which one is named like it; NULL for any other handler.
CREATE FUNCTION pgcron.undefined_workflow(handler text) RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT format('workflow %L does not exist', given.name)
         || coalesce((SELECT format(' (did you mean %L?)', min(d.name))
                      FROM pgcron.workflow_definition d
                      WHERE left(d.name, 2) = left(given.name, 2) AND d.name <> 'ad_hoc'
                        AND d.deleted_at IS NULL
                        AND pgcron.in_scope(NULL, NULL, 'workflow:' || d.name, NULL, NULL)
                      HAVING count(*) > 0), '')
  FROM (SELECT substr(handler, 10)) given(name)
  WHERE handler LIKE 'workflow:%' AND handler <> 'workflow:ad_hoc'
    AND pgcron.newest_workflow(given.name) IS NULL $$;

-- Why no live node takes such runs, and whether one is cordoned that could; with a weight the
-- handler is offered, but by no node with so many slots.
CREATE FUNCTION pgcron.nobody_offers(handler text, queue text, requires text[], weight int)
  RETURNS text
LANGUAGE sql STABLE AS $$
  SELECT coalesce(pgcron.undefined_workflow(handler),
         CASE WHEN needed.words = '' THEN 'no live node ' || node.offers
              ELSE format('needs %s: no live node that %s %s', needed.words, node.offers,
                  CASE WHEN weight IS NULL THEN 'announces it' ELSE 'has so many' END) END
         || coalesce((SELECT format(' (node %s does, and is cordoned)', min(n.name))
                      FROM pgcron.offer o JOIN pgcron.node n USING (incarnation)
                      WHERE o.handler = nobody_offers.handler AND n.state = 'cordoned'
                        AND nobody_offers.queue = ANY(n.queues) AND n.slots >= coalesce(weight, 1)
                        AND coalesce(requires, '{}') <@ pgcron.label_words(n.labels)
                      HAVING count(*) > 0), ''))
  FROM (SELECT format('offers ''%s'' for queue ''%s''', handler, queue)) node(offers),
       (SELECT concat_ws(', ', VARIADIC coalesce(requires, '{}') || (weight || ' slots')))
         needed(words) $$;

-- The state of a breaker that is not closed: ``the circuit of http:billing is open for another
-- 25 s: 5 failures in 1 m, last: …``.
CREATE FUNCTION pgcron.circuit_words(b pgcron.breaker) RETURNS text
LANGUAGE sql STABLE
RETURN format('the circuit of %s %s: %s', b.name,
         CASE WHEN b.state = 'half_open' THEN format('is tried by run %s', b.probe_run)
              WHEN b.open_until > clock_timestamp()
                THEN format('is open for another %s', pgcron.time_left(b.open_until))
              ELSE 'is to be tried by its next run' END, b.reason)
         || CASE WHEN b.last_error IS NULL OR pgcron.scopes() IS NOT NULL THEN ''
                 ELSE ', last: ' || left(b.last_error, 200) END;

-- What a ready run that is due waits for.
CREATE FUNCTION pgcron.waits_for_room(r pgcron.run, OUT waits_for text, OUT waits_detail text)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  q pgcron.queue;
  k record;
  too_heavy text;
  trouble text := (
      SELECT format('%s %L waits until it is mended: %s', b.kind, b.name, b.error)
      FROM pgcron.broken_settings() b
      WHERE (b.kind = 'queue' AND b.name = r.queue)
        OR (b.kind = 'key' AND pgcron.rule_fits(b.name, r.concurrency_key))
      ORDER BY b.kind DESC, b.name LIMIT 1);
BEGIN
  SELECT * INTO q FROM pgcron.queue s WHERE s.name = r.queue;
  SELECT * INTO k FROM pgcron.concurrency_slots(ARRAY[r.concurrency_key]) l
  WHERE r.concurrency_key IS NOT NULL;
  SELECT format('%s takes %s slots of its concurrency key %s, %s',
           CASE WHEN h.id = r.id THEN 'it' ELSE format('run %s, which goes first,', h.id) END,
           h.weight, left(r.concurrency_key, 60), CASE WHEN h.weight > k.slots
             THEN 'which has ' || k.slots ELSE format('of which %s are free', k.room) END)
  INTO too_heavy FROM pgcron.key_candidates(r.queue, r.concurrency_key, r.priority, 1000) h
  WHERE k.by_weight AND h.weight > k.room AND (h.due_at, h.id) <= (r.due_at, r.id)
    AND (h.id = r.id
         OR h.weight <= least(k.slots, pgcron.largest_server(h.handler, r.queue, h.requires)))
  ORDER BY h.id = r.id DESC LIMIT 1;
  CASE
    WHEN trouble IS NOT NULL THEN
      waits_for := 'limit_trouble'; waits_detail := trouble;
    WHEN q.max_running IS NOT NULL
        AND q.max_running <= (SELECT count(*) FROM pgcron.run b WHERE b.state = 'running'
                                AND b.owner IS NOT NULL AND b.queue = r.queue) THEN
      waits_for := 'queue_limit';
      waits_detail := format('queue %s executes %s already, as many as it may', r.queue,
            q.max_running);
    WHEN k.room <= 0 OR too_heavy IS NOT NULL THEN
      waits_for := 'key_limit';
      waits_detail := coalesce(too_heavy, format('every slot of its concurrency key %s is taken',
            left(r.concurrency_key, 60)));
    ELSE
      SELECT format('%s has used up its rate; the next starts in %s', w.words,
                 pgcron.time_left(o.next_at)) INTO waits_detail
      FROM (VALUES ('queue', 'queue ' || r.queue, r.queue, q.rate, q.per),
                   ('key', 'concurrency key ' || left(r.concurrency_key, 60), r.concurrency_key,
                    k.rate, k.per))
             w(kind, words, name, rate, per)
      CROSS JOIN LATERAL pgcron.rate_room(w.kind, w.name, w.rate, w.per, clock_timestamp()) o
      WHERE w.rate IS NOT NULL AND o.room = 0 ORDER BY o.next_at DESC LIMIT 1;
      IF FOUND THEN
        waits_for := 'rate';
      ELSIF pgcron.largest_server(r.handler, r.queue, r.requires) < r.weight THEN
        waits_for := 'weight';
        waits_detail := pgcron.nobody_offers(r.handler, r.queue, r.requires, r.weight);
      ELSE
        trouble := pgcron.claim_trouble(r.queue);
        waits_for := CASE WHEN trouble IS NULL THEN 'slots' ELSE 'node_trouble' END;
        waits_detail := coalesce(trouble, 'it waits for a free slot');
      END IF;
  END CASE;
END $$;

-- Both NULL: the run is not due, or it executes. `waits_on` is the run that it waits for.
CREATE FUNCTION pgcron.waits(r pgcron.run, OUT waits_for text, OUT waits_detail text,
    OUT waits_on bigint)
LANGUAGE plpgsql STABLE AS $$
DECLARE
  paused text;
  broken pgcron.breaker;
BEGIN
  IF r.state = 'running'
    OR (r.due_at > now() AND coalesce(r.gate, '') NOT IN ('breaker', 'no_node')) THEN
    RETURN;
  END IF;
  SELECT CASE WHEN c.paused_at IS NOT NULL
                THEN 'the whole cluster' || pgcron.is_paused_by(c.paused_by, c.paused_note)
              WHEN c.quarantine_until > now()
                THEN format('the cluster was restored and begins nothing for %s',
                         pgcron.time_left(c.quarantine_until))
              WHEN q.paused_at IS NOT NULL AND r.gate IS DISTINCT FROM 'workflow'
                THEN 'queue ' || q.name || pgcron.is_paused_by(q.paused_by, q.paused_note) END
  INTO paused FROM pgcron.cluster c LEFT JOIN pgcron.queue q ON q.name = r.queue;
  SELECT b.* INTO broken FROM pgcron.breaker_handler m JOIN pgcron.breaker b ON b.name = m.breaker
  WHERE m.handler = r.handler AND b.state <> 'closed' AND pgcron.breaker_is_fine(b)
    AND b.fallback_queue IS DISTINCT FROM r.queue AND b.probe_run IS DISTINCT FROM r.id;
  CASE
    WHEN paused IS NOT NULL THEN
      waits_for := 'paused'; waits_detail := paused;
    WHEN r.gate = 'previous' THEN
      waits_for := 'previous'; waits_detail := 'the fire before it is not over';
    WHEN r.gate = 'workflow' THEN
      waits_for := 'workflow';
      waits_detail := (SELECT format('%s of %s steps are not over', w.waiting + w.ready + w.running,
                                w.steps)
                              || CASE WHEN w.paused_at IS NULL THEN ''
                                      ELSE ', and it' || pgcron.is_paused_by(w.paused_by,
                                                           w.paused_note) END
                       FROM pgcron.workflow_runs w WHERE w.run_id = r.id);
    WHEN broken.name IS NOT NULL THEN
      waits_for := 'breaker'; waits_detail := pgcron.circuit_words(broken);
    WHEN pgcron.largest_server(r.handler, r.queue, r.requires) IS NULL THEN
      waits_for := 'no_node';
      waits_detail := pgcron.nobody_offers(r.handler, r.queue, r.requires, NULL);
    WHEN r.gate = 'overlap' THEN
      waits_for := 'overlap';
      SELECT o.id INTO waits_on FROM pgcron.run o
      WHERE o.schedule_id = r.schedule_id AND o.overlap_slot IS NOT NULL AND o.id <> r.id LIMIT 1;
      waits_detail := CASE WHEN waits_on IS NULL THEN 'it waits for its turn in its schedule'
                           ELSE format('run %s of the same schedule is not over (overlap: %s)',
                                    waits_on, r.overlap) END;
    WHEN r.state = 'blocked' THEN
      waits_for := 'blocked'; waits_detail := 'what kept it is over: it is let go within seconds';
    ELSE
      SELECT w.* INTO waits_for, waits_detail FROM pgcron.waits_for_room(r) w;
  END CASE;
END $$;

CREATE VIEW pgcron.waiting AS
  SELECT r.id, r.state, w.* FROM pgcron.run r
  CROSS JOIN LATERAL pgcron.waits(r) w WHERE r.state <> 'running';
