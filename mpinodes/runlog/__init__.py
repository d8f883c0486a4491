"""The files of a run, which hold its rounds.

    RUN/log.txt       its lock is held by the one process that writes to the directory
    RUN/rounds.log    all rounds so far, appended to while the run goes on: `log`
    RUN/record.h5     the same and what is known at the end, written once: `export`

`reader` reads rounds from either file. A run that ended keeps `rounds.log` for as long as it keeps its checkpoints.
"""
