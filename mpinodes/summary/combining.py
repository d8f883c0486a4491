"""How repeats combine: every key of the summary has a rule, and a key without one is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

Json = dict[str, Any]
Rule = Callable[[Sequence[Any]], Any]
Rules = Mapping[str, "Rule | Rules"]


def same(found: Sequence[Any]) -> Any:
    """What all repeats say; null where they do not agree."""
    return found[0] if all(value == found[0] for value in found) else None


def mean(found: Sequence[Any]) -> Any:
    """Of numbers, or of lists of numbers place by place; null where a repeat has none. It comes with its `spread`."""
    if any(value is None for value in found):
        return None
    return np.array(found, dtype=float).mean(axis=0).tolist()


def total(found: Sequence[Any]) -> Any:
    """The sum, null where a repeat has none."""
    return None if any(value is None for value in found) else _of(sum, found)


def largest(found: Sequence[Any]) -> Any:
    """The largest there is; null where there is none."""
    return _of(max, found)


def least(found: Sequence[Any]) -> Any:
    """The least there is; null where there is none."""
    return _of(min, found)


def _of(choose: Callable[[Any], Any], found: Sequence[Any]) -> Any:
    """Of numbers, or of lists place by place."""
    there = [value for value in found if value is not None]
    if there and isinstance(there[0], list):
        return [choose(place) for place in zip(*there, strict=True)]
    return choose(there) if there else None


def worst(found: Sequence[float | None]) -> float | None:
    """The largest, where null says that there is no end of it."""
    return None if any(value is None for value in found) else largest(found)


def longest(found: Sequence[list[Any]]) -> list[Any]:
    """Of lists, the first of the longest: one that has what others leave out."""
    return max(found, key=len)


def first_words(found: Sequence[str]) -> str:
    """The first that says something."""
    return next((words for words in found if words), "")


RULES: dict[str, Rule] = {"mean": mean, "largest": largest, "least": least, "sum": total, "same": same}  # of metrics


def combine(rules: Rules, found: Sequence[Json | None]) -> Json | None:
    """One summary of many, key by key; null where all are.

    Raises:
        LookupError: a key has no rule.
    """
    there = [summary for summary in found if summary is not None]
    combined: Json = {}
    for key in dict.fromkeys(key for summary in there for key in summary):
        if key not in rules:
            raise LookupError(f"no rule says how the repeats' {key!r} combine")
        rule, values = rules[key], [summary.get(key) for summary in there]
        combined[key] = combine(rule, values) if isinstance(rule, Mapping) else rule(values)
    return combined if there else None


def spreads(rules: Rules, found: Sequence[Any]) -> Json:
    """Beside every mean its standard deviation, least and largest value; of lists, those of their means."""
    spread: Json = {}
    there: list[Json] = [summary for summary in found if summary is not None]
    for key, rule in rules.items():
        values: list[Any] = [summary.get(key) for summary in there]
        if isinstance(rule, Mapping):
            if inner := spreads(rule, values):
                spread[key] = inner
        elif rule is mean and values and not any(value is None for value in values):
            spread[key] = _spread(np.array([np.mean(value) for value in values]))
    return spread


def _spread(values: np.ndarray) -> Json:
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return {"std": deviation, "min": float(values.min()), "max": float(values.max())}


def nested(rules: Mapping[str, Rule]) -> Json:
    """Dotted keys as dictionaries within each other."""
    tree: Json = {}
    for key, value in rules.items():
        *path, last = key.split(".")
        place = tree
        for part in path:
            place = place.setdefault(part, {})
        place[last] = value
    return tree
