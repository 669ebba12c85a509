"""Parts of ``pgcron_ha.web`` that tests look at by themselves."""

from __future__ import annotations

from pgcron_ha.model.workflow_graph import items_words
from pgcron_ha.web import verbs
from pgcron_ha.web.access import Entry, LocalKey
from pgcron_ha.web.address import instants, singular, written_instant
from pgcron_ha.web.app import create_app
from pgcron_ha.web.callbacks import (
    MOST_AT_ONCE,
    MOST_OF_ONE,
    TokenCheck,
    callback_listener,
    create_callback_app,
)
from pgcron_ha.web.graph import (
    MOST_GROUPS,
    MOST_NODES,
    NODE_HEIGHT,
    NODE_WIDTH,
    Drawing,
    drawing_of,
    shape_of,
    step_mark,
)
from pgcron_ha.web.metrics import NodeCollector, WebMetrics
from pgcron_ha.web.ops import BOUNDS as OPS_BOUNDS
from pgcron_ha.web.ops import ops_listener
from pgcron_ha.web.page_request import LIVE_HEADER, REFRESH_SECONDS
from pgcron_ha.web.pages import audit as audit_page
from pgcron_ha.web.pages import schedule_edit as schedule_edit_page
from pgcron_ha.web.pages.schedules import NEXT_FIRES, future_fire_lines, schedule_sentence
from pgcron_ha.web.plots import TRACK_HEIGHT, distance, gantt, spark, timeline, where_time_went
from pgcron_ha.web.plots import WIDTH as PLOTS_WIDTH
from pgcron_ha.web.reading import LIFE_SECONDS, MOST_SNAPSHOTS, Reader
from pgcron_ha.web.routes import ROUTES, WebRoute
from pgcron_ha.web.security import MOST_BODY_BYTES, require_loopback
from pgcron_ha.web.services import Services
from pgcron_ha.web.serving import Bounds, WebServer, group_of

__all__ = [
    "LIFE_SECONDS",
    "LIVE_HEADER",
    "MOST_AT_ONCE",
    "MOST_BODY_BYTES",
    "MOST_GROUPS",
    "MOST_NODES",
    "MOST_OF_ONE",
    "MOST_SNAPSHOTS",
    "NEXT_FIRES",
    "NODE_HEIGHT",
    "NODE_WIDTH",
    "OPS_BOUNDS",
    "PLOTS_WIDTH",
    "REFRESH_SECONDS",
    "ROUTES",
    "TRACK_HEIGHT",
    "Bounds",
    "Drawing",
    "Entry",
    "LocalKey",
    "NodeCollector",
    "Reader",
    "Services",
    "TokenCheck",
    "WebMetrics",
    "WebRoute",
    "WebServer",
    "audit_page",
    "callback_listener",
    "create_app",
    "create_callback_app",
    "distance",
    "drawing_of",
    "future_fire_lines",
    "gantt",
    "group_of",
    "instants",
    "items_words",
    "ops_listener",
    "require_loopback",
    "schedule_edit_page",
    "schedule_sentence",
    "shape_of",
    "singular",
    "spark",
    "step_mark",
    "timeline",
    "verbs",
    "where_time_went",
    "written_instant",
]
