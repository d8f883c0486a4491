"""One file per step schedule, found by its name; imports only the contract."""
