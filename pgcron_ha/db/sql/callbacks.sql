-- name: open_callback
-- Before the service is called. Sent again after an answer that got lost it opens the same one,
-- with the same token.
INSERT INTO pgcron.callback (run_id, fence, token_hash)
SELECT r.id, r.fence, :token_hash::bytea FROM pgcron.run r
WHERE r.id = :run_id::bigint AND r.token = :token::uuid
ON CONFLICT (run_id, fence) DO UPDATE SET token_hash = EXCLUDED.token_hash
RETURNING run_id;

-- name: hear_callbacks
-- News of the callbacks that this node waits for. The same answer is returned again, in case it
-- got lost on the way.
WITH news AS (
  SELECT c.* FROM pgcron.callback c
  JOIN unnest(:run_ids::bigint[], :fences::bigint[]) asked(run_id, fence) USING (run_id, fence)
  WHERE c.has_news OR c.status IS NOT NULL ORDER BY c.run_id FOR UPDATE OF c)
UPDATE pgcron.callback c SET has_news = false, lines = '{}' FROM news
WHERE c.run_id = news.run_id AND c.fence = news.fence
RETURNING news.run_id, news.fence, news.status, news.result::text AS result, news.error,
    news.retry_after, news.has_news, news.done, news.total, news.note, news.lines;

-- name: close_callback
-- No answer is accepted from now on; one that came before is returned.
UPDATE pgcron.callback c SET closed_at = coalesce(c.closed_at, now())
WHERE c.run_id = :run_id AND c.fence = :fence
RETURNING c.run_id, c.fence, c.status, c.result::text AS result, c.error, c.retry_after, c.has_news,
    c.done, c.total, c.note, c.lines;

-- name: known_callbacks
-- Checked before the body of a request is read; for all that wait at once.

-- name: answer_callback

-- name: forget_callbacks
-- forgets: pgcron.callback
-- For a day an answer may be delivered once more; what is still waited for stays.
o.opened_at < now() - interval '1 day'
  AND coalesce(o.answered_at, o.closed_at, o.opened_at) < now() - interval '1 day'
  AND NOT EXISTS (SELECT FROM pgcron.run r WHERE r.id = o.run_id AND r.fence = o.fence)
ORDER BY o.opened_at;
