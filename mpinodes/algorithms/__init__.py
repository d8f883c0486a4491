"""One file per algorithm, found by its name; imports only protocol, schedules, sets and numpy."""
