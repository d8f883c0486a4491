"""The audit: compute lower bounds on a run's privacy loss, and test what the accountant assumes.

The audit has four tests. They use replays: in a replay, one agent runs again on the messages that it received.

- Same run: a replay on the agent's data must send the recorded messages again.
- Frames: headers, scalars, starting points and relayed vectors must follow from public facts and from releases.
- Replay: in a replay on adjacent data, no message may change by more than the accountant assumes.
- Noise: the noise must have the distribution that the accountant assumes, independently for each agent, round, vector
  and coordinate.

The audit has two games. In a game, an adversary guesses private data from the messages of runs.

- Game on one run: the sign of every sample's target is drawn at random. The adversary guesses the signs.
- Game on many runs: the adversary decides which of two adjacent data sets a run had. An adversary who sees all links
  uses the exact likelihood ratio, which is the most powerful test.

The bounds on the probabilities of false alarms hold without approximations.

The modules are:

- `transcripts` replays one agent, and `changes` defines adjacent data.
- `adjacent_replay` is the test Replay, `noise` the test Noise, and `recorded_frames` the test Frames.
- `games` and `node_views` play the games.
- `statistics` computes lower bounds on ε from the results of the games.
- `small_experiments` makes all experiments, such as the *probes*: small experiments on which a game is played.
- `verdicts` makes the table.
- `user_file` and `checks` are for `mpinodes check`, which tests one *part* (an algorithm, a loss function, a stream,
  ...) by the same methods.
"""
