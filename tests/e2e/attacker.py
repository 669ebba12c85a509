"""A schema in which everything that our SQL may look up stands, and answers with an error: for
databases that have such a one before ``pg_catalog`` on everybody's path.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import asyncpg

import pgcron_ha
from pgcron_ha.assets import MIGRATIONS

_CALLED: Final = re.compile(r"\b([a-z_][a-z0-9_]*)\(")
_NAMED: Final = re.compile(r"\b(?:pgcron|pg_catalog)\.([a-z_][a-z0-9_]*)")
_TYPES: Final = (
    *("bool", "bytea", "date", "float8", "int4", "int8", "interval", "json", "jsonb", "name"),
    *("numeric", "oid", "text", "timestamp", "timestamptz", "uuid"),
)

# A name that can't be taken (an argument of type internal, a type that is there) is left out.
_TRAPS: Final = """
DO $do$
DECLARE one record;
BEGIN
  FOR one IN
    SELECT format('FUNCTION attacker.%I(%s) RETURNS %s', p.proname,
                  pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid)) AS head
      FROM pg_proc p WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f'
       AND p.proname = ANY (string_to_array('{called}', ' '))
    UNION
    SELECT format('FUNCTION attacker.%I(%s) RETURNS %s', p.proname, t.name,
                  CASE p.proname WHEN 'count' THEN 'bigint' ELSE t.name END)
      FROM pg_proc p CROSS JOIN unnest(string_to_array('{types}', ' ')) t(name)
     WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'a' AND p.pronargs = 1
       AND p.proname = ANY (string_to_array('{called}', ' '))
    UNION
    SELECT format('FUNCTION attacker.operator_%s(%s, %s) RETURNS %s',
                  o.oid, o.oprleft::regtype, o.oprright::regtype, o.oprresult::regtype)
      FROM pg_operator o JOIN pg_type l ON l.oid = o.oprleft JOIN pg_type r ON r.oid = o.oprright
     WHERE l.typname = ANY (string_to_array('{types}', ' '))
       AND r.typname = ANY (string_to_array('{types}', ' '))
  LOOP
    BEGIN
      EXECUTE format('CREATE %s LANGUAGE plpgsql AS $$BEGIN RAISE ''%%'', %L; END$$',
                     one.head, 'trapped: ' || one.head);
    EXCEPTION WHEN OTHERS THEN NULL;
    END;
  END LOOP;
  FOR one IN
    SELECT format('OPERATOR attacker.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = attacker.%I)',
                  o.oprname, o.oprleft::regtype, o.oprright::regtype, p.proname) AS head
      FROM pg_proc p JOIN pg_operator o ON p.proname = format('operator_%s', o.oid)
     WHERE p.pronamespace = 'attacker'::regnamespace
  LOOP
    EXECUTE format('CREATE %s', one.head);
  END LOOP;
  FOR one IN SELECT * FROM unnest(string_to_array('{named}', ' ')) u(name) LOOP
    EXECUTE format('CREATE TABLE IF NOT EXISTS attacker.%I ()', one.name);
  END LOOP;
  FOR one IN SELECT * FROM unnest(string_to_array('{types}', ' ')) u(name) LOOP
    EXECUTE format('CREATE DOMAIN attacker.%I AS pg_catalog.%I CHECK (false)', one.name, one.name);
  END LOOP;
END $do$
"""


async def stand_before_everything(dsn: str) -> int:
    """Makes the schema, first on the path of every session from now on, whoever's.

    Returns how many functions wait there.
    """
    texts = [
        path.read_text(encoding="utf-8")
        for folder in (MIGRATIONS / "sql", Path(pgcron_ha.__file__).parent / "db" / "sql")
        for path in folder.glob("*.sql")
    ]
    called = {name for text in texts for name in _CALLED.findall(text)}
    named = {name for text in texts for name in _NAMED.findall(text)}
    connection = await asyncpg.connect(dsn)
    database = await connection.fetchval("SELECT current_database()")
    await connection.execute("CREATE SCHEMA attacker; GRANT USAGE ON SCHEMA attacker TO PUBLIC")
    traps = {"called": called, "types": _TYPES, "named": named - set(_TYPES)}
    await connection.execute(
        _TRAPS.format(**{name: " ".join(sorted(words)) for name, words in traps.items()})
    )
    await connection.execute(f"ALTER DATABASE {database} SET search_path = attacker, pg_catalog")
    count: int = await connection.fetchval(
        "SELECT count(*) FROM pg_proc WHERE pronamespace = 'attacker'::regnamespace"
    )
    await connection.close()
    return count
