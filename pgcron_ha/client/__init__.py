"""The Python interface: an `App` has handlers and schedules and enqueues runs."""
