"""What everything rests on: the contract of parts, messages, sets, schedules, seeds, errors; imports nothing else."""
