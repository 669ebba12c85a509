"""When a schedule fires: specs, their lines, calendars and time zones. No I/O, no clock."""
