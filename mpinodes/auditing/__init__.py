"""The audit: what can be shown about a run's privacy from below.

Four tests. Replay: no message moves by more than was accounted for. Noise: what was added to every message follows the
law that its event names, anew for each agent, round and coordinate. One run: every sample's label is a secret of its
own, guessed from what was said. Many runs: which of two adjacent data sets was it? Both guess by the exact likelihood
ratio, so that what they cannot tell no one can, on these data. False alarms are bounded by exact laws alone.
"""
