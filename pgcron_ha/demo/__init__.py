"""The demo's parts: its database, its folder, what its nodes execute.

`pgcron_ha.cli.demo` puts them together with the product's own commands and tables. On Linux the
nodes end with the demo however it ends; elsewhere a demo that is killed by ``kill -9`` leaves them
running.
"""
