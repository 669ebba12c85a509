"""Which names a schema of ours may have: those that SQL takes without quotes, everywhere."""

from __future__ import annotations

import re
from typing import Final

from pgcron_ha.errors import ConfigError

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
# Every keyword of PostgreSQL that is more than a name somewhere (`pg_get_keywords`, catcode other
# than U); its appendix C lists them.
_WORDS: Final = """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit
    boolean both case cast char character check coalesce collate collation column concurrently
    constraint create cross current_catalog current_date current_role current_schema
    current_time current_timestamp current_user dec decimal default deferrable desc distinct do
    else end except exists extract false fetch float for foreign freeze from full grant greatest
    group grouping having ilike in initially inner inout int integer intersect interval into is
    isnull join json json_array json_arrayagg json_exists json_object json_objectagg json_query
    json_scalar json_serialize json_table json_value lateral leading least left like limit
    localtime localtimestamp merge_action national natural nchar none normalize not notnull null
    nullif numeric offset on only or order out outer overlaps overlay placing position precision
    primary real references returning right row select session_user setof similar smallint some
    substring symmetric system_user table tablesample then time timestamp to trailing treat trim
    true union unique user using values varchar variadic verbose when where window with
    xmlattributes xmlconcat xmlelement xmlexists xmlforest xmlnamespaces xmlparse xmlpi xmlroot
    xmlserialize xmltable
"""
KEYWORDS: Final = frozenset(_WORDS.split())


def require_plain(schema: str) -> None:
    """Raises ConfigError for a schema that is no plain lower-case name, or somebody else's."""
    if not _PLAIN.fullmatch(schema) or schema.startswith("pg_"):
        raise ConfigError(
            f"schema {schema!r} is not a plain name",
            "It has up to 40 lower-case letters, digits and '_', and does not begin with pg_.",
            "Choose a name such as 'pgcron' or 'jobs'.",
        )
    if schema in KEYWORDS or schema == "information_schema":
        raise ConfigError(
            f"schema {schema!r} is a word of SQL's own",
            "It would have to be quoted in every statement that names it, yours too.",
            "Choose a name such as 'pgcron' or 'jobs'.",
        )
