-- Runs that take several slots of a node, and keys that no node serves: what a claim does beside.

-- A run that takes more slots than are free would wait for ever behind a flow of light ones, which
-- take each slot as it gets free. So one node that is large enough keeps what gets free until it
-- has enough: after two seconds, in which a node with room may be found. No other node does the
-- same for that run, and the first node with room claims it; a node awaits one run at a time, and
-- claims others before it awaits the next.
CREATE FUNCTION pgcron.choose_awaited(incarnation uuid, heavy bigint[]) RETURNS SETOF pgcron.claim
LANGUAGE sql VOLATILE AS $$
  UPDATE pgcron.node mine SET awaits = chosen.id
  FROM (SELECT r.id, r.weight FROM unnest(choose_awaited.heavy) WITH ORDINALITY given(id, place)
        JOIN pgcron.run r ON r.id = given.id
        WHERE r.due_at <= now() - interval '2 seconds'
          AND r.weight <= (SELECT n.slots FROM pgcron.node n
                           WHERE n.incarnation = choose_awaited.incarnation)
          AND NOT EXISTS (SELECT FROM pgcron.node other
                          WHERE other.awaits = r.id AND other.state = 'alive'
                            AND other.lease_until > now())
        ORDER BY given.place LIMIT 1) chosen
  WHERE mine.incarnation = choose_awaited.incarnation AND mine.state = 'alive'
  RETURNING (pgcron.no_claim('await', chosen.id, weight => chosen.weight)).* $$;

-- Due runs at the heads of keys that no live node may take leave the claim index: else they would
-- be in front of others of their key, and read in each round. The claim does it where it looks, as
-- there may be more keys than one search walks over. Of each key those among the first thousand
-- that need the same, a thousand in a call. Returns those that were blocked.
CREATE FUNCTION pgcron.block_keys(pairs pgcron.gated_pair[], handlers text[]) RETURNS SETOF bigint
LANGUAGE plpgsql VOLATILE AS $$
BEGIN
  RETURN QUERY SELECT b.* FROM pgcron.block_ready(ARRAY(
      SELECT alike.id
      FROM unnest(block_keys.pairs) pair
      CROSS JOIN LATERAL pgcron.key_candidates(pair.queue, pair.concurrency_key, pair.priority, 1)
        head
      CROSS JOIN LATERAL pgcron.key_candidates(pair.queue, pair.concurrency_key, pair.priority,
          1000) alike
      WHERE (head.handler <> ALL(block_keys.handlers) OR head.requires IS NOT NULL)
        AND NOT pgcron.is_served(head.handler, pair.queue, head.requires)
        AND alike.handler = head.handler
        AND alike.requires IS NOT DISTINCT FROM head.requires
      LIMIT 1000), 'no_node') b;
END $$;
