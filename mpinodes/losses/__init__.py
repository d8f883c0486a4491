"""Hold the losses, one file each. Users choose a loss by its name.

Five modules do not define a loss:

- `linear` has the base classes of losses that depend on a linear prediction, and of losses that wrap another loss.
- `clipping` clips samples' gradients without overflow.
- `enforced` clips the gradients of user-written losses, and verifies the losses of user-written streams.
- `newton` minimizes a loss.
- `two_point` estimates a gradient from two values of a loss.
"""
