"""Cache results in the memory of a process that does many runs, such as a worker process of a study.

A cached result is used again if the values on which it depends have the same pickle as before. A result is never cached
if one of these values has no pickle, or if the pickle names a class or function from a user's Python file, because two
such files may have equal names. A caller gets a copy of the cached result, which the caller may change.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, TypeVar

T = TypeVar("T")
MOST = 64_000_000  # bytes of stored results; if there are more, the oldest are dropped
USERS = b"mpinodes_user_"  # begins the name of the module of a user's file

is_on = False  # whether results are cached
_stored: dict[bytes, bytes] = {}
_size = 0


def cached(compute: Callable[[], T], of: Callable[[], Any]) -> T:
    """Return the result of `compute`, or a copy of the result of an earlier call with the same values.

    If `is_on` is false, nothing is cached.

    Args:
        compute: computes the result, which depends on nothing but the values that `of` returns.
        of: returns the values on which the result depends. One of the values, such as a function, names the
            computation, so that different computations never share a result.
    """
    global _size
    if not (key := _key(of)):
        return compute()
    data = _stored.get(key)
    if data is None:
        data = _stored[key] = pickle.dumps(compute())
        _size += len(data)
        while _size > MOST:
            _size -= len(_stored.pop(next(iter(_stored))))
    return pickle.loads(data)  # type: ignore[no-any-return]


def is_known(of: Callable[[], Any]) -> bool:
    """Return whether the result that depends on the values of `of` is stored."""
    return _key(of) in _stored


def _key(of: Callable[[], Any]) -> bytes:
    """Return a hash of the values of `of`; empty if a result that depends on them is never cached."""
    try:
        content = pickle.dumps(of()) if is_on else USERS
    except (pickle.PicklingError, TypeError, AttributeError):  # a value has no pickle
        content = USERS
    return b"" if USERS in content else blake2b(content).digest()
