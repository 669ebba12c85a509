"""Recurrence rules of iCalendar (RFC 5545)."""
