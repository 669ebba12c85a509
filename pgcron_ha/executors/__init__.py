'''How a handler is executed. Knows nothing of run states, database leases or tables.

`contract` is what all kinds share: `base` says what an executor does, `context` what a handler is
given, `tasks` what executors made of asyncio tasks have in common, `transaction` how effects are
committed with a run's completion. `python` runs ``py:`` handlers, `process` runs ``shell:``
templates and supervises processes, `http` calls ``http:`` destinations, `sql` executes ``sql:``
profiles.

A package can bring executors of its own. Its entry point in the group ``pgcron_ha.executors`` has
the kind of handlers as its name (1 to 20 lower-case letters, digits and ``_``) and is called once,
when a node starts, with the tables ``[KIND.NAME]`` of the node's file and a
`contract.base.ExecutorServices`::

    # pyproject.toml
    [project.entry-points."pgcron_ha.executors"]
    touch = "pgcron_touch:TouchExecutor"

    # pgcron_touch.py
    from pathlib import Path

    from pgcron_ha.errors import ConfigError
    from pgcron_ha.executors.contract.base import Context, Failed, Outcome
    from pgcron_ha.executors.contract.failures import outcome_of_result
    from pgcron_ha.executors.contract.tasks import TaskExecutor

    class TouchExecutor(TaskExecutor):
        """Each table [touch.NAME] is a handler "touch:NAME" that makes files in a directory."""

        def __init__(self, tables, executor_services):
            for name, table in tables.items():
                if set(table) != {"directory"}:
                    raise ConfigError(f"[touch.{name}] must have a directory and nothing else")
            self.tables = tables
            super().__init__("touch", [f"touch:{name}" for name in tables], executor_services)

        async def execute(self, context: Context) -> Outcome:
            name = context.args.get("name")
            if not isinstance(name, str) or "/" in name:
                return Failed("InvalidInput", "the arg 'name' is no file name", retry=False)
            directory = self.tables[context.handler.removeprefix("touch:")]["directory"]
            context.check()  # before each outside effect: is the run still ours?
            Path(directory, name).touch()
            context.log(f"made {name}")
            return outcome_of_result({"made": name})

    # pgcron-ha.toml
    [touch.here]
    directory = "/tmp"

A node offers such handlers only if its own file has a table for them, or ``node.executors`` names
the kind. An executor need not be a `TaskExecutor`: what has the methods of `base.Executor` will do.
Whether it keeps the contract is shown by `pgcron_ha.testing.conformance`.
'''
