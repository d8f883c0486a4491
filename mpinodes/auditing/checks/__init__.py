"""Tests of the statements of a part: they may show that a statement is false, but they prove none."""
