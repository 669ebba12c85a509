"""The configuration: one table of settings, four sources, one frozen value.

`settings.SETTINGS` is the table: the loader, ``pgcron-ha config --explain``, documents and tests
all read it. Sources, each over the one before: default < ``pgcron-ha.toml`` < environment < flags.
`loading` merges them as raw values that remember where they came from, applies the types once, at
the end, and reports every problem together. `capability_table` reads what the same file lets this
node run.
"""
