"""The audit: lower bounds on a run's privacy loss, and tests of what the accountant assumes.

The audit has four tests. Replay: on adjacent data, no message changes by more than the accountant assumes. Noise: the
noise of every message follows the law that its event names, independently for each agent, round and coordinate. Game on
one run: every sample's label is a secret of its own, guessed from what was sent. Game on many runs: an adversary
decides which of two adjacent data sets a run had. Both games use the exact likelihood ratio, so no other adversary does
better on these data. False alarms are bounded by exact probability laws alone.

`transcripts` runs one agent again on what was sent, which replay (`adjacent_replay`, `changes`), the tests of the noise
(`noise`), the comparison of frames (`recorded_frames`) and the games (`games`, `node_views`, `statistics`) use.
`small_experiments` makes the experiments, and `verdicts` makes the table. `user_file` and `checks` test the statements
of one part for `mpinodes check`; they use the same transcripts, replays, tests of noise and comparison of frames.
"""
