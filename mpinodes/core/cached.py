"""Cache results in the memory of a process that does many runs, such as a worker process of a study.

One rule says when a result is used again: the values on which the result depends have equal pickles. Two values never
count as equal if they have no pickle, or if the pickle names a class or function from the Python file of a user,
because two such files may have equal names. Every use gets a copy of the result, so no use can change another use.
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
    """Return the result of `compute`, or a copy of the result of an earlier call with an equal value of `of`.

    If `is_on` is false, the result is always computed.

    Args:
        compute: computes the result, which depends on nothing but the values in `of`.
        of: returns all values on which the result depends, and first a value that names the computation, for example
            its function. If `is_on` is false, `of` is not called.
    """
    global _size
    try:
        content = pickle.dumps(of()) if is_on else USERS
    except (pickle.PicklingError, TypeError, AttributeError):  # a value has no pickle
        content = USERS
    if USERS in content:
        return compute()
    key = blake2b(content).digest()
    data = _stored.get(key)
    if data is None:
        data = _stored[key] = pickle.dumps(compute())
        _size += len(data)
        while _size > MOST:
            _size -= len(_stored.pop(next(iter(_stored))))
    return pickle.loads(data)  # type: ignore[no-any-return]
