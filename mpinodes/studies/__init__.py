"""Many runs as one thing: a study's points, their runs, and what these say side by side."""
