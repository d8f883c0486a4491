"""The audit: compute lower bounds on a run's privacy loss, and test what the accountant assumes.

The audit has these tests:

- Same run: if an agent runs again on the messages that it received, it sends the recorded messages again.
- Frames: every number that is sent without noise can be computed from public facts and releases.
- Replay: if an agent runs again on adjacent data, no message changes by more than the accountant assumes.
- Noise: the noise has the distribution that the accountant assumes. It is independent for each agent, round, vector and
  coordinate.
- Game on one run: the sign of every sample's target is a secret, drawn independently. An adversary guesses the signs
  from the messages of the run.
- Game on many runs: an adversary decides which of two adjacent data sets a run had. An adversary who sees all links
  uses the exact likelihood ratio, the most powerful test.

The probabilities of false alarms are bounded by exact distributions, not by approximations.

The modules are:

- `transcripts` runs one agent again on the messages that a run sent, and `changes` defines adjacent data.
- `adjacent_replay` is the replay, `noise` tests the noise, `recorded_frames` tests the frames, and `games` and
  `node_views` play the games. All of them use `transcripts`.
- `statistics` computes lower bounds on ε from the results of the games.
- `small_experiments` makes all experiments, such as the *probes*: small experiments on which a game is played.
- `verdicts` makes the table.
- `user_file` and `checks` are for `mpinodes check`. They test one *part* (an algorithm, a loss function, a stream, ...)
  with the same methods: does the part behave as its code states, for example about a sensitivity?
"""
