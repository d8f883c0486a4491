"""What everything rests on: the contract of parts, messages, sets, schedules, seeds, errors; it imports nothing else."""
