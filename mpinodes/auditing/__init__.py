"""The audit: compute lower bounds on a run's privacy loss, and test what the accountant assumes.

The audit has these tests. Same run: the messages follow from the recorded releases. Frames: every number that is sent
without noise follows from public facts and releases. Replay: if an agent runs again on adjacent data, no message
changes by more than the accountant assumes. Noise: the noise of every message has the distribution that the message's
event states (an event records the noise and the sensitivity of a message), independently for each agent, round, vector
and coordinate. Game on one run: the sign of every sample's target is a secret, drawn independently, and an adversary
guesses signs from the messages sent. Game on many runs: an adversary decides which of two adjacent data sets a run had.
An adversary who sees all links uses the exact likelihood ratio, the most powerful test. Probabilities of false alarms
are bounded by exact distributions, not by approximations.

A *probe* is a small experiment on which a game is played. `transcripts` runs one agent again on the messages that a run
sent; `changes` defines adjacent data. The replay (`adjacent_replay`), the tests of the noise (`noise`), the comparison
of frames (`recorded_frames`) and the games (`games`, `node_views`) are built on `transcripts`. `statistics` computes
lower bounds on ε from the results of the games. `small_experiments` makes the probes and all other experiments, and
`verdicts` makes the table. A *part* is an algorithm, a loss function, a stream, a topology
or another replaceable part of an experiment; its *statements* are what its code declares, such as a sensitivity. For
`mpinodes check`, `user_file` and `checks` test the statements of one part with the same transcripts, replays, tests of
noise and comparison of frames.
"""
