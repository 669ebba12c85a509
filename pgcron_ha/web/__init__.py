"""The pages: server-made HTML over one shared read of the database. How to add one.

A page is three things, in this order::

    read  ──►  context dataclass  ──►  template
    db/pages/*.py            contexts.py             web/templates/*.html
    named, bounded SQL       documented fields       shows, decides nothing

**1. Ask.** Statements stand in ``pgcron_ha/db/sql/pages_NOUN.sql`` (``-- name: page_…``,
parameters ``:like_this`` with casts, every one bounded by a LIMIT that a constant names), one
function for each in ``pgcron_ha/db/queries/pages/NOUN.py``: ``await fetch(connection, "page_…",
schema, key=value)`` gives dictionaries. Intervals come as seconds (``extract(epoch FROM
…)::float8``), JSON as ``::text``, long texts cut with ``left(…, 300)``. A new file is found by
itself.

**2. Say what the template gets**: a frozen dataclass in `contexts`, a docstring under each field
that needs one.

**3. Put them together** in ``pgcron_ha/web/pages/NOUN.py``::

    async def show_node(visit: Visit) -> Response:
        name = visit.segment("name")                       # {name} of the path, decoded
        given = visit.query("state")                       # unknown filters: 400
        choice(given.get("state"), ("alive", "dead"), "state")
        snapshot = await visit.read(                       # one read a second for all viewers
            ("node", name), lambda connection: ask.node(connection, name, schema=visit.schema)
        )
        if (drawn := visit.drawn(snapshot)) is not None:   # another viewer's, same snapshot
            return drawn
        if snapshot.value is None:
            raise NotFound(f"node '{name}' does not exist", "…the rule…", "…what now…")
        view = NodeView(row=snapshot.value, …)             # judged at snapshot.now
        return visit.page("node.html", view, snapshot, title=name, section="nodes")

The key of `PageRequest.read` names the view and holds everything that chooses its rows. Raise
errors of `pgcron_ha.errors`; `failures` makes pages of them (an attribute ``near`` of (name,
address) pairs is shown as "did you mean"). When the database is away the last snapshot is shown
with a banner; nothing is to be done for that.

**4. Verbs** are POST, go through `pgcron_ha.db.commands.functions` with the actor, and end in a
redirect::

    async def cancel(visit: Visit) -> Response:
        reason = (await visit.form("reason")).get("reason")
        await visit.act(
            lambda connection: functions.cancel_run(
                connection, run, reason, actor=visit.actor, schema=visit.schema
            )
        )
        return visit.redirect("run", {"done": "cancelled"}, id=run)

A verb that makes a run goes through `PageRequest.make_run`, which does what one form asks for once,
however often it is sent. ``done`` is a word of `viewing.NOTICES`. A GET never writes (its
connection could not). Same origin, host, body size and headers are judged before the page is asked
(`security`).

**5. Register** a line in `routes.ROUTES` with the permission it needs (a word of `PERMISSIONS`).
The links on top of each page are those of `viewing.NAVIGATION`.

**6. Draw**: ``{% extends "live.html" if frame.is_live else "base.html" %}``, a ``main`` block, and
``{% from "_macros.html" import badge, name, post, run_link, spark, when with context %}``.

- Addresses only by ``visit.link("route", {"query": value}, segment=value)``.
- Instants only by ``when(instant)``; durations ``seconds|duration``; states
  ``badge(word|state_mark)``; names from outside ``name(text, href)``; other text from outside
  ``|plain`` (one line) or ``|harmless`` (many lines); numbers ``|number``, ``n|plural("run")``.
- No ``|safe``, no ``Markup``, no ``style=``, no inline script: the policy of the browser would
  refuse them, and a test does. Plots are coordinates made by `plots` and drawn by the template.
- What should stay fresh has an ``id`` and ``data-live``: the script asks for the page again (the
  same template, without its frame) and puts regions in place that changed and that nobody uses.
- Tables that become cards on a phone are ``class="cards"`` and each cell has a ``data-label``.
- Empty states differ: nothing exists yet (how to make one), nothing matches (how to clear).

**7. Look** at it with ``python -m tests.web.seed DSN`` behind it, light and dark, 1280 and 390
wide, and test it in ``tests/web`` through HTTP (fixture ``site``). ``tests/web/browser`` follows
links with Chromium: a page that nothing leads to, that is wider than a phone, breaks the policy or
lacks a label fails there without a line of its own; verbs are pressed in ``test_verbs``.

`reading` shares reads, `security` is the outermost layer, `page_request` one request, `address`
what an address or a form says, `health` a schedule's word, `formats` all wording, `metrics`,
`node_metrics` and `probes` what machines ask, `serving` the server."""
