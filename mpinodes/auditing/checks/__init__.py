"""Tests of a part's own statements: they may find one false, and prove none true."""
