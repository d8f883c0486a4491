"""The losses: one file per loss, which users choose by name.

`linear` has the base classes of losses that depend on a linear prediction. `clipping` clips samples' gradients without
overflow, `enforced` clips the gradients of user-written losses, `newton` minimizes, and `two_point` estimates gradients
from two values of a loss.
"""
