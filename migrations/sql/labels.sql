-- Labels of a node are names and values; a requirement is a list of words, each a label (key=value), or a name alone for any value.
CREATE FUNCTION pgcron.labels_are_fine(labels jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT CASE WHEN jsonb_typeof(labels) = 'object' THEN
    (SELECT count(*) <= 64 AND coalesce(bool_and(jsonb_typeof(label.value) = 'string' AND label.key ~ '^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}$'
                                                 AND label.value #>> '{}' ~ '^[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99}$'), true) FROM jsonb_each(labels) label) ELSE false END $$;

CREATE FUNCTION pgcron.refuse_labels(labels jsonb) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', format('labels %L are not labels', left(labels::text, 200)),
    'A node has at most 64 labels: names of 1 to 100 letters, digits, "_", ".", "/" and "-", with values that may have ":", "+" and "@", too.', 'Write for example ''{"gpu": "a100"}''.') $$;

-- What a node with these labels satisfies: it may run whatever requires nothing else.
CREATE FUNCTION pgcron.label_words(labels jsonb) RETURNS text[]
LANGUAGE sql IMMUTABLE AS $$
  SELECT coalesce(array_agg(word), '{}') FROM jsonb_each_text(labels) label CROSS JOIN LATERAL (VALUES (label.key), (label.key || '=' || label.value)) satisfied(word) $$;

CREATE FUNCTION pgcron.requires_is_fine(requires text[]) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
  SELECT array_ndims(requires) = 1 AND cardinality(requires) <= 16
     AND (SELECT bool_and((word ~ '^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}(=[A-Za-z0-9_][A-Za-z0-9_.:/+@-]{0,99})?$') IS TRUE) AND count(DISTINCT split_part(word, '=', 1)) = count(*)
            FROM unnest(requires) word) $$;

CREATE FUNCTION pgcron.refuse_requires(requires text[]) RETURNS boolean
LANGUAGE sql VOLATILE AS $$
  SELECT pgcron.refuse('PC001', format('requires %L is not a list of labels', left(requires::text, 200)),
    'It has 1 to 16 labels, none of them twice: key=value, or a key alone for any value. Keys have 1 to 100 letters, digits, "_", ".", "/" and "-", values may have ":", "+" and "@", too.',
    'Write for example ''{gpu=a100,ssd}''; `pgcron-ha nodes` lists the labels of live nodes.') $$;
