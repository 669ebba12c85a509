"""Pure decisions: states of a run, plans of the materializer, backfills. No I/O, no clock."""
