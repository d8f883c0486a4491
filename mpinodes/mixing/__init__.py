"""One file per mixing, found by its name; imports only protocol and the standard library or numpy."""
