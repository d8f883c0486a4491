"""Test the statements of a part: what the code of an algorithm, loss function, stream, ... declares about the part.

A test may show that a statement is false. No test can prove that a statement is true.
"""
