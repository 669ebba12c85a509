"""Schedules as files: YAML definitions, and imports of other schedulers' files.

A file has a table ``schedules``: names, and for each ``spec``, ``handler`` and policies, named as
the columns of ``pgcron.schedule``::

    schedules:
      nightly-report:
        spec: 0 3 * * mon-fri
        timezone: Europe/Berlin
        handler: py:report
        args: {kind: full}
        timeout: 30m

Beside it a table ``calendars`` may have the lines of calendars by name, as one text or a list::

    calendars:
      holidays: |
        yearly 12-25 # Christmas Day
        yearly easter+1

A table ``workflows`` has workflows by name, in the form of ``pgcron.put_workflow``::

    workflows:
      etl:
        steps:
          - {name: extract, handler: py:extract, args_from: {day: $.args.day}}
          - {name: load, handler: shell:load, after: extract}

What a definition leaves out has its default; a pause is left unchanged unless the file has
``enabled``. A *source* (one file, or a folder of them) is known by its name: it owns what
it defines, and pruning deletes what it once owned and defines no longer.

`documents` reads files with the lines of their keys, `definitions` checks and writes them,
`json_schema` is the published form; `crontab`, `kubernetes` and `pg_cron` import.
"""
