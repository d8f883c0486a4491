"""Merge the summaries of the repeats of a run into one summary.

The annotation of a field names the rule by which the values of the repeats are merged, and `merged` applies the rules:

    bytes_sent: Total[int]          # merged by the sum
    solver: SolverSummary | None    # no rule: merged field by field

For each field that is merged by the mean, the standard deviation, the least and the largest value over the repeats are
stored, too. These three numbers are missing if a repeat has no value of the field.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
import numpy as np
from msgspec import UNSET

Rule = Callable[[Sequence[Any]], Any]
T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)


def same(values: Sequence[Any]) -> Any:
    """Return the value that is the same in all repeats; None if the values differ."""
    return values[0] if all(value == values[0] for value in values) else None


def mean(values: Sequence[Any]) -> Any:
    """Return the mean of the values, or None if one of them is None.

    Lists are averaged position by position, and dictionaries key by key.
    """
    if any(value is None for value in values):
        return None
    if isinstance(values[0], dict):
        return {key: mean([value.get(key) for value in values]) for key in values[0]}
    return np.array(values, dtype=float).mean(axis=0).tolist()


def total(values: Sequence[Any]) -> Any:
    """Return the sum of the values, or None if one of them is None. Lists are added position by position."""
    return None if any(value is None for value in values) else _chosen(sum, values)


def largest(values: Sequence[Any]) -> Any:
    """Return the largest value; values that are None are ignored. If all values are None, return None.

    For lists, return a list of the largest entry at each position.
    """
    return _chosen(max, values)


def least(values: Sequence[Any]) -> Any:
    """Return the least value; values that are None are ignored. If all values are None, return None.

    For lists, return a list of the least entry at each position.
    """
    return _chosen(min, values)


def _chosen(choose: Callable[[Any], Any], values: Sequence[Any]) -> Any:
    """Apply `choose`, such as `max`, to the values that are not None. Lists are combined position by position."""
    there = [value for value in values if value is not None]
    if there and isinstance(there[0], list):
        return [choose(place) for place in zip(*there, strict=True)]
    return choose(there) if there else None


def worst(values: Sequence[float | None]) -> float | None:
    """Return the largest value, or None if one of them is None, because None means infinity."""
    return None if any(value is None for value in values) else largest(values)


def longest(values: Sequence[list[Any]]) -> list[Any]:
    """Return the longest list. If several lists have this length, return the first of them."""
    return max(values, key=len)


def first_words(values: Sequence[str]) -> str:
    """Return the first text that is not empty, or "" if all texts are empty."""
    return next((words for words in values if words), "")


def BY_KEY(values: Sequence[Any]) -> Any:
    """Mark, in the annotation of a field, that the field is a dictionary with a merging rule for each key.

    The function `merged` receives these rules as an argument. `BY_KEY` itself is never called.
    """
    raise TypeError("merged by the rules of its keys")


RULES: dict[str, Rule] = {"mean": mean, "largest": largest, "least": least, "sum": total, "same": same}  # of metrics

Same = Annotated[T | None, same]
Mean = Annotated[T, mean]
Total = Annotated[T, total]
Largest = Annotated[T, largest]
Least = Annotated[T, least]


@cache
def hints(kind: type[Any]) -> dict[str, Any]:
    """Return the annotation of each field of a struct."""
    return get_type_hints(kind, include_extras=True)


def merged(parts: Sequence[S], rules: Mapping[str, Rule]) -> tuple[S, dict[str, float]]:
    """Merge the structs of several repeats into one struct, field by field.

    - If the annotation of a field has a merging rule, this rule is applied.
    - If a field has no rule, the field contains a struct, which is merged field by field. Repeats in which this field
      is None are ignored.
    - If a field is unset in all structs, the field stays unset.

    Args:
        parts: one or more structs of the same class.
        rules: the rule of each key, for the fields marked `BY_KEY`, such as the values of metrics.

    Returns:
        The merged struct, and a dictionary by dotted key: the standard deviation, the least and the largest value of
        each field that is merged by the mean and that all structs have.
    """
    spread: dict[str, float] = {}

    def by_rule(rule: Rule, values: Sequence[Any], place: str) -> Any:
        if rule is mean:
            spread.update(_spread(place, values))
        return rule(values)

    def field_by_field(parts: Sequence[Any], path: str) -> Any:
        there, fields = [part for part in parts if part is not None], {}
        if not there:
            return None
        kind: Any = type(there[0])
        for name, hint in hints(kind).items():
            values, rule = [getattr(part, name) for part in there], rule_of(hint)
            if rule is BY_KEY:
                fields[name] = {key: by_rule(rules[key], [v.get(key) for v in values], key) for key in rules}
            elif not all(value is UNSET for value in values):
                place = f"{path}{name}"
                fields[name] = by_rule(rule, values, place) if rule else field_by_field(values, f"{place}.")
        return type(there[0])(**fields)

    return field_by_field(parts, ""), spread


def rule_of(hint: Any) -> Rule | None:
    """Return the merging rule in the annotation of a field.

    If the field is a struct that is merged field by field, return None.
    """
    return next((rule for rule in getattr(hint, "__metadata__", ()) if callable(rule)), None)


def _spread(path: str, values: Sequence[Any]) -> Iterator[tuple[str, float]]:
    """Yield the standard deviation, the least and the largest of the repeats' values, each with its dotted key.

    A list is replaced by its mean. If a value is None, nothing is yielded. The standard deviation of one value is 0.
    """
    if any(value is None for value in values):
        return
    if isinstance(values[0], dict):
        for key in values[0]:
            yield from _spread(f"{path}.{key}", [value.get(key) for value in values])
        return
    means = np.array([np.mean(value) for value in values])
    yield f"{path}.std", float(means.std(ddof=1)) if len(means) > 1 else 0.0
    yield f"{path}.min", float(means.min())
    yield f"{path}.max", float(means.max())
