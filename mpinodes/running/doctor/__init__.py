"""What python -m mpinodes.doctor looks at."""
