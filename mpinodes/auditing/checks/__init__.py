"""Test whether a part (an algorithm, a loss function, a stream, ...) behaves as its code states.

A statement is a fact that the code declares about the part, such as a sensitivity. A test may show that a statement is
false. No test can prove that a statement is true.
"""
