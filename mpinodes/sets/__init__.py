"""One file per constraint set, found by its name; imports only the contract and numpy."""
