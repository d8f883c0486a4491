"""Define the labels and units of those variables in a record that do not come with a label or unit of their own.

If such a variable has no label here, its label is its name with blanks in place of underscores. If it has no unit here,
it is a pure number.
"""

from __future__ import annotations

PURE_NUMBER = "1"  # the unit of pure numbers in the CF conventions

LONG_NAMES = {
    "decision": "estimate of an agent",
    "offset": "displacement of the two points that an agent plays from its estimate",
    "transcript": "words of the frame that an agent sends",
    "receiver": "whether the message is sent to a neighbor (1) or not (0)",
    "lateness": "rounds until a neighbor receives the message (-1: never)",
    "event_kind": "law of the noise: 0 none, 1 Laplace, 2 Gaussian, 3 penalty, 4 gamma norm",
    "event_scale": "scale of the noise, per coordinate",
    "event_draws": "number of noise draws that are added to the same value",
    "event_l1": "L1 sensitivity",
    "event_l2": "L2 sensitivity",
    "event_uses": "round whose loss this message is the first to depend on (0: none)",
    "event_tv_distance": "total variation distance between the release and the accounted release",
    "event_rounding_l1": "largest L1 change by rounding, in addition to the sensitivity",
    "event_rounding_l2": "largest L2 change by rounding, in addition to the sensitivity",
    "event_residual": "norm of the gradient at the end of a local solve",
    "event_solver_steps": "steps of a local solve",
    "leakage_kind": "kind of the leak: how later messages depend on a sample",
    "leakage_transition": "A of the hidden parts",
    "leakage_gradient": "b, by which a gradient enters the hidden parts",
    "leakage_sensitivity": "L2 change of a gradient between adjacent data",
    "leakage_point": "p, by which hidden parts move the point of the gradient",
    "leakage_lipschitz": "L2 change of a gradient per change of its point",
    "leakage_largest": "largest L2 change of a gradient between two points",
    "leakage_reads": "c, by which a message reads the hidden parts",
    "seed": "seed of the repeat",
    "round": "round t",
    "horizon": "horizon T",
    "viewer": "node that learns",
    "neighbor": "neighbor of the agent",
    "coordinate": "coordinate of the decision",
    "word": "word of a frame",
    "vector": "vector of a message",
    "part": "hidden part",
    "part_before": "hidden part, before",
}
UNITS = {
    "round": "rounds",
    "lateness": "rounds",
    "horizon": "rounds",
    "distance": "hops",
    "event_solver_steps": "steps",
}


def attributes(name: str, label: str, unit: str) -> dict[str, str]:
    """Return the NetCDF attributes `long_name` and `units` of a variable or dimension.

    Args:
        name: the name of the variable or dimension.
        label: the value of `long_name`; an empty text means the default for `name`.
        unit: the value of `units`; an empty text means the default for `name`.
    """
    long_name = label or LONG_NAMES.get(name, name.replace("_", " "))
    return {"long_name": long_name, "units": unit or UNITS.get(name, PURE_NUMBER)}
