"""How processes start, listen to signals and stop."""
