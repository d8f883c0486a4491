"""Write and read the files of a run that contain its rounds.

    RUN/log.txt       messages; the job that writes to the directory holds a lock on this file
    RUN/rounds.log    all rounds so far, appended while the run goes on; module `log`
    RUN/record.h5     all rounds and the results, written after the last round; module `export`

The module `reader` reads rounds from `record.h5` or `rounds.log`. The file `rounds.log` of a finished run is removed
together with the checkpoints, unless `checkpoint.every` is set. If a run ended early, `mpinodes report` writes a
record.h5 of the recorded rounds, and rounds.log stays.
"""
