"""The pages: server-made HTML over one shared read of the database. How to add one.

A page is a statement, a function and a template, in this order::

    read  ──►  rows, and what is computed  ──►  template
    db/queries/pages/*.py    web/pages/*.py    web/templates/*.html
    named, bounded SQL       judges            shows, decides nothing

**1. Ask.** Statements are in ``pgcron_ha/db/sql/pages_NOUN.sql`` (``-- name: page_…``,
parameters ``:like_this`` with casts, every one bounded by a LIMIT that a constant names), one
`Query` for each in ``pgcron_ha/db/queries/pages/NOUN.py``: ``node = Query("page_…", limit=50)``,
``await node(connection, schema=schema, key=value)`` gives dictionaries. Intervals come as seconds
(``extract(epoch FROM …)::float8``), JSON as text, long texts cut with ``left(…, 300)``. A new file
is found by itself.

**2. Put it together** in ``pgcron_ha/web/pages/NOUN.py``: the template reads rows as they are, and
what is computed, each by its keyword: ``row=…`` is ``view.row`` there::

    async def show_node(page_request: PageRequest) -> Response:
        name = page_request.segments["name"]               # {name} of the path, decoded
        given = page_request.query("state")                # unknown filters: 400
        choice(given.get("state"), ("alive", "dead"), "state")
        snapshot = await page_request.read(                # one read a second for all viewers
            "node", ask.node, name                     # NotFound
        )
        return page_request.page(                          # judged at snapshot.now
            "node.html", snapshot, title=name, row=snapshot.value, …
        )

What asks several statements of a `Session` is read by `PageRequest.gather`. The rows of a view are
chosen by what it is given, and by nothing else. Raise errors of `pgcron_ha.errors`; `failures`
makes pages of them, with the names that are like one that does not exist (and an attribute ``near``
of (name, address) pairs, which `NoSuch` has). When the database is away the last snapshot is shown
with a banner; a page does nothing for that.

**3. Verbs** are POST, go through `pgcron_ha.db.commands` with the actor, and end in a redirect. One
that is a single command on what the address names is a line::

    cancel = verb(functions.cancel_run, "run", "cancelled", "reason")

`verbs` reads the fields of its form. A verb that makes a run is a `run_verb`: a form that is sent
twice makes one run. What else a verb does is done by `PageRequest.form`, ``act`` and ``redirect``.
``done`` is a word of `templating.NOTICES`. A GET never writes (its connection could not).
Origin, host, body size and headers are checked before a page is called (`security`).

**4. Register** a line in `routes.ROUTES` with the permission it needs. The links on top of each
page are those of `templating.NAVIGATION`.

**5. Write the template**: what stands in the frame, ``base.html``, which includes it; it has the
macros of ``_macros.html`` and ``_forms.html`` that the frame names.

- Addresses only by ``page_request.link("route", {"query": value}, segment=value)``.
- Instants only by ``when(instant)``; durations ``seconds|duration``; states
  ``badge(word|mark)``; names from outside ``name(text, href)``; other text from outside
  ``|plain`` (one line) or ``|harmless`` (many lines); numbers ``|number``, ``n|plural("run")``.
- No ``|safe``, no ``Markup`` (but for documents: `pages.docs`), no ``style=``, no inline script:
  the policy of the browser would refuse them, and a test does. Plots are coordinates made by
  `plots` and drawn by the template.
- A region that stays fresh has an ``id`` and ``data-live``: the script asks for the page again (the
  same template, without its frame) and replaces regions that changed and that nobody uses.
- A region with a heading is ``{% call card("id", "Heading", "note") %}``, a table ``{% call(row)
  table(view.rows, "caption", "cards", "Head", …, empty="None.") %}``: the block draws the cells of
  one row; a card that is one table is a ``table_card`` with what both take, and a page that is one
  table a ``list``. ``cards`` are what its rows become on a phone, where each cell has a
  ``data-label``.
- A page of one thing begins with ``{% call head(name(row.name), word|mark) %}``; the filters of a
  list are ``{% call filters("route", view.chips) %}``, and `PageRequest.listed` gives their texts.
- Empty states differ: nothing exists yet (how to make one), nothing matches (how to clear).

**6. Look** at it with ``python -m tests.web.seed DSN`` behind it, light and dark, 1280 and 390
wide, and test it in ``tests/web`` through HTTP (fixture ``site``). ``tests/web/browser`` follows
links with Chromium: a page that nothing links to, that is wider than a phone, breaks the policy or
lacks a label fails there without a line of its own; verbs are pressed in ``test_verbs``.

`reading` shares reads, `security` is the outermost layer, `page_request` one request, `address`
reads addresses and forms, `verbs` what forms do, `health` a schedule's word, `formats` all wording,
`metrics` and `probes` what machines ask, `serving` the server."""
