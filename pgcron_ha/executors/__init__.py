"""How a handler is executed. Knows nothing of run states, database leases or tables.

`base` is the contract, `python` runs ``py:`` handlers, `shell` runs ``shell:`` templates.
`parameters` makes values of a run's args, `child_pool` has the processes of isolated handlers.
"""
