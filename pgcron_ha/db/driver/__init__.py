"""Connections, pools and statements."""
