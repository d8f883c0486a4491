"""The contents of summary.json, defined once: a summary is made, merged, written, read and printed by these classes.

Each field has its type and, in the annotation, the rule that merges it over repeats. A field that is shown in tables of
runs also has a `Column`. A number that is not finite is None. The values of metrics are beside these fields in
summary.json, under the keys that the metrics declare (`accuracy.test`). A `Summary` holds these values by dotted key in
`values`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, get_type_hints

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mpinodes.core.asked import flat, nested
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Faults
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.runlog.versions import require_version
from mpinodes.summary import merging
from mpinodes.summary.merging import BY_KEY, Largest, Least, Mean, Same, Total, same

FILE, NOISE_FREE = "summary.json", "noise_free.json"
Sets = dict[str, float]  # by "train" and "test"
KeyState = Literal["secret", "rehearsal", "unknown"]  # the secrecy of the key that noise is drawn with
SUMS_AGENTS = frozenset(metric.name for metric in BUILT_IN if metric.sums_agents)


class Column(NamedTuple):
    """A column of a table of runs.

    Attributes:
        label: the text that people read.
        unit: the unit of the numbers.
        name: the name of the column; "" means the name of the field.
    """

    label: str
    unit: str = ""
    name: str = ""


def columns(part: Struct) -> Iterator[tuple[Column, Any]]:
    """Yield the columns of a struct's fields in tables of runs, with the values of the fields."""
    for name, hint in get_type_hints(type(part), include_extras=True).items():
        for column in getattr(hint, "__metadata__", ()):
            if isinstance(column, Column):
                yield column._replace(name=column.name or name), getattr(part, name)


# ------------------------------------------------------------------------------------------------------------- privacy
class ProvenSummary(Struct, kw_only=True):
    """The proven bounds of a privacy loss; a bound is None if nothing is proven, or if the loss has no limit."""

    proven_pure: Annotated[float | None, Column("proven pure ε", "", "epsilon_proven_pure")]
    proven: Annotated[float | None, Column("proven ε at δ", "", "epsilon_proven")]
    rule: Annotated[str, Column("rule", "", "epsilon_rule")]
    delta_spent: float | UnsetType = UNSET  # the part of δ that covers the errors of local solvers


class LossSummary(ProvenSummary, kw_only=True):
    """A privacy loss of a run: the proven bounds, and the epsilon that the paper claims."""

    claimed: Annotated[float | None, Column("claimed ε", "", "epsilon_claimed")]


P = TypeVar("P", bound=ProvenSummary)


def worst_loss(losses: Sequence[P]) -> P:
    """Return the loss with the largest proven epsilon, in which every other number is the largest of all losses."""
    worst_proven = max(losses, key=lambda loss: inf if loss.proven is None else loss.proven)
    changed: dict[str, Any] = {
        "proven_pure": merging.worst([loss.proven_pure for loss in losses]),
        "delta_spent": max(loss.delta_spent or 0.0 for loss in losses) or UNSET,
    }
    if claims := [loss.claimed for loss in losses if isinstance(loss, LossSummary)]:
        changed["claimed"] = merging.largest(claims)
    return msgspec.structs.replace(worst_proven, **changed)


def worst_losses(repeats: Sequence[list[LossSummary]]) -> list[LossSummary]:
    """Return the worst loss of each agent over the repeats."""
    return [worst_loss(losses) for losses in zip(*repeats, strict=True)]


class TogetherSummary(Struct, kw_only=True):
    """The privacy loss of all runs of a job, if all of them are published."""

    runs: int
    by: str
    network: ProvenSummary
    agents: list[ProvenSummary]
    unproven_because: str


class BudgetSummary(Struct, kw_only=True):
    """The privacy budget of a run, and the round after which each agent stopped releasing anything about its data."""

    epsilon: Same[float]
    delta: Same[float]
    kept_by: Same[str]
    stops: Same[list[int | None]]
    covers: Same[str] = "all"  # the budget covers all repeats together


class NoiseSummary(Struct, kw_only=True):
    """The noise of a run: the scales used, and the scale at which every release keeps the nominal epsilon."""

    mechanism: Same[str]
    backend: Same[str]
    entropy: Same[str]
    key: Same[int | str]
    rounding: Largest[float]  # in scales, L1
    epsilon: Annotated[float, same]  # nominal, of a round
    scale: Largest[float]
    least_scale: Least[float]
    calibrated_scale: Annotated[float | None, merging.worst]  # None: the sensitivity is unknown
    calibrated: Same[bool]
    release: Annotated[float | None, merging.worst]  # ε of the worst release; None: no limit
    remark: Same[str]


class ViewsSummary(Struct, kw_only=True):
    """The largest epsilon toward a single node, by distance in hops; −1 means that no message arrives."""

    relayed_from: int
    distance: list[int]
    largest: list[float | None]


class PrivacySummary(Struct, kw_only=True):
    """The privacy loss of a run, and the facts that the proof rests on."""

    delta: Annotated[float, same, Column("δ")]
    adjacency: Annotated[Literal["one-sample", "one-round", "one-agent"], same]
    agents: Annotated[list[LossSummary], worst_losses]
    network: Annotated[LossSummary, worst_loss]
    together: Same[TogetherSummary] = None  # only of jobs with repeats
    noise: NoiseSummary | None
    key: Same[KeyState]
    shares_noise_with: Annotated[list[str], merging.longest]
    budget: BudgetSummary | None
    samples: Same[int]  # samples or agents in which adjacent data may differ; None: unlimited
    public: Same[str] = None
    unproven_because: Annotated[str, merging.first_words]
    uses_ceiling: Largest[bool] = False
    exact_minimizers: Same[bool]
    against_colluders: Least[bool]
    views: Same[ViewsSummary] = None
    views_left_out: Same[bool] = None
    recorded: Annotated[int | UnsetType, same] = UNSET  # of a partial run: the rounds that the numbers cover


class SolverSummary(Struct, kw_only=True):
    """The accuracy and the cost of the agents' local solves."""

    tolerance: Same[float]
    largest_residual: Largest[float | None]
    unsolved: Total[int]
    steps: Mean[float]
    most_steps: Largest[int]


# --------------------------------------------------------------------------------------------------------------- worth
class ShownMetric(Struct, kw_only=True):
    """A metric that is shown to people."""

    variable: str  # of record.h5
    key: str  # in summary.json, dotted
    label: str
    unit: str
    per_round: bool
    figure: bool
    sums_agents: bool | UnsetType = UNSET  # only of user-defined metrics


class StartSummary(Struct, kw_only=True):
    """The metrics of the start point, as if no agent ever moved."""

    average_fitness: Mean[float | None]
    accuracy: Mean[Sets | None] = None
    rmse: Mean[Sets | None] = None


class BaselinesSummary(Struct, kw_only=True):
    """The accuracy, error and loss that are reached without learning."""

    majority: Mean[Sets | None]  # the accuracy of always naming the largest class
    mean_target: Mean[Sets | None] = None  # the error of always naming the mean target
    start: StartSummary


class WorthSummary(Struct, kw_only=True):
    """The results of a run other than its privacy loss.

    Attributes:
        values: the last value of every metric, by dotted key; None if the run has no such value.
    """

    values: Annotated[dict[str, float | list[float | None] | None], BY_KEY]
    comparator_left_out: Same[str] = None
    accuracy_left_out: Same[str] = None
    baselines: BaselinesSummary | None = None
    metrics: Annotated[list[ShownMetric], merging.longest]

    def value(self, key: str) -> Any:
        """Return the value of a metric, given its dotted key; None if the run has no such value."""
        return self.values.get(key)


class NoiseFree(Struct, kw_only=True):
    """The content of noise_free.json: the curves, by horizon, and the results of the same run without noise."""

    horizon: list[int]
    network_regret: list[float | None] | UnsetType = UNSET
    accuracy: list[float | None] | UnsetType = UNSET
    accuracy_train: list[float | None] | UnsetType = UNSET
    rmse: list[float | None] | UnsetType = UNSET
    rmse_train: list[float | None] | UnsetType = UNSET
    summary: WorthSummary

    @classmethod
    def read(cls, run: Path) -> NoiseFree | None:
        """Return the content of noise_free.json in a run directory; None if the file does not exist.

        Short runs write the file at their end; `mpinodes report --noise-free` writes the file for any run.

        Raises:
            BadInput: the file has another content than a run writes.
        """
        try:
            tree = msgspec.json.decode((run / NOISE_FREE).read_bytes(), type=dict[str, Any])
            tree["summary"] = parted(msgspec.convert(tree.get("summary"), dict[str, Any]), WorthSummary)
            return msgspec.convert(tree, cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(f"{run / NOISE_FREE}: not what a run writes: {error}") from error

    def json(self) -> bytes:
        """Return the content of noise_free.json as bytes."""
        tree = msgspec.to_builtins(self, enc_hook=float) | {"summary": whole(self.summary)}
        return msgspec.json.encode(tree, enc_hook=float) + b"\n"


class BoundSummary(Struct, kw_only=True):
    """The bound of a theorem at the last horizon, beside the measured value."""

    name: str
    of: str
    label: str
    unit: str
    variable: str
    value: float | None
    measured: float | None
    times: float | None  # the bound divided by the measured value
    applies: bool
    why_not: str


def times(value: float | None, measured: float | None) -> float | None:
    """Return a bound as a multiple of the measured value; None if either is unknown, or the latter is 0 or less."""
    return value / measured if value is not None and measured is not None and measured > 0 else None


def mean_bounds(repeats: Sequence[list[BoundSummary]]) -> list[BoundSummary]:
    """Return the bounds of all repeats as one list: the means of the bounds and of the measured values.

    A theorem bounds a mean over the noise. So both sides are averaged before they are compared.
    """
    merged = []
    for bounds in zip(*repeats, strict=True):
        value, measured = merging.mean([b.value for b in bounds]), merging.mean([b.measured for b in bounds])
        applies, why_not = all(b.applies for b in bounds), merging.first_words([b.why_not for b in bounds])
        changed = {"value": value, "measured": measured, "times": times(value, measured)}
        merged.append(msgspec.structs.replace(bounds[0], **changed, applies=applies, why_not=why_not))
    return merged


# ----------------------------------------------------------------------------------------------------------- the whole
class FaultsSummary(Struct, kw_only=True):
    """The numbers of messages that were lost or late, and of rounds that agents were away."""

    asked: Annotated[Faults, same]
    weights: Same[str]
    sent: Total[int] = 0
    lost: Total[int] = 0
    late: Total[int] = 0
    rounds_late: Total[int] = 0
    rounds_away: Total[int] = 0
    agent_rounds: Total[int] = 0


class FeedbackSummary(Struct, kw_only=True):
    """The feedback that agents get about their losses, if it is not the gradient of the present round."""

    points: int
    radius: float | None
    last_radius: float | None
    delay: int


class FileSummary(Struct, kw_only=True):
    """A user-defined file that proven numbers rest on."""

    key: str
    path: str
    sha256: str
    tested: bool


class RanksSummary(Struct, kw_only=True):
    """The seconds that each rank spent on the rounds, the logger last."""

    working: Total[list[float]]
    waiting: Total[list[float]]


class TimingSummary(Struct, kw_only=True):
    """The seconds that each part of the command took."""

    start_up: Total[float]
    rounds: Total[float]
    comparator: Total[float]
    accounting: Total[float]
    bounds: Total[float]
    report: Total[float]
    total: Total[float]
    ranks: RanksSummary | None = None


def codes(repeats: Sequence[dict[str, str] | None]) -> dict[str, str]:
    """Return the codes of the warnings of all repeats; the sentences are left empty."""
    return {code: "" for warnings in repeats for code in warnings or {}}


class Summary(WorthSummary, kw_only=True):
    """The whole content of summary.json."""

    version: Annotated[int, same]
    name: Same[str]
    algorithm: Same[str]
    data: Same[str]
    partition: Annotated[str, same]
    decomposable: Annotated[bool, same]
    topology: Same[str]
    connectivity: Same[int]
    agents: Annotated[int, same, Column("agents")]
    rounds: Annotated[Largest[int], Column("rounds")]
    rounds_asked: Annotated[int, same]
    partial: Largest[bool] = False
    dimension: Annotated[int, same]
    seed: Least[int]
    reproducible: Annotated[bool, same]
    judged: Same[str]  # the decision that judges an offline method
    agent_regret_every: Annotated[int, same] = 1  # always 1
    checked: Same[list[FileSummary]] = None
    faults: FaultsSummary | None = None
    feedback: Same[FeedbackSummary] = None
    bytes_sent: Annotated[Total[int], Column("bytes sent", "B")]
    seconds: Annotated[Total[float | None], Column("seconds", "s")]
    rounds_per_second: Same[float]  # of repeats: computed from the sums
    versions: Same[dict[str, str]]
    bounds: Annotated[list[BoundSummary], mean_bounds]
    privacy: PrivacySummary
    solver: SolverSummary | None
    warnings: Annotated[dict[str, str] | None, codes] = None  # sentences by code; None: not computed yet
    timing: TimingSummary | None = None
    repeats: int | UnsetType = UNSET
    seeds: list[int] | UnsetType = UNSET
    spread: dict[str, float] | UnsetType = UNSET  # of means over repeats, by dotted key and "std", "min" or "max"

    @classmethod
    def read(cls, run: Path) -> Summary:
        """Return the summary in a run directory.

        Raises:
            BadInput: there is no summary, or another version of mpinodes wrote it.
        """
        try:
            text = (run / FILE).read_bytes()
        except OSError as error:
            raise BadInput(f"{run}: there is no finished run in it (no {FILE}: {error.strerror})") from error
        try:
            return cls.of_tree(msgspec.json.decode(text), run)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(f"{run}: not a finished run: its {FILE} is not what a run writes: {error}") from error

    @classmethod
    def of_tree(cls, tree: Any, run: Path) -> Summary:
        """Return a summary, given the content of summary.json as nested dictionaries.

        Raises:
            BadInput: another version of mpinodes wrote the file.
            msgspec.ValidationError: the content is not what a run writes.
        """
        tree = msgspec.convert(tree, dict[str, Any])
        require_version(tree.get("version"), str(run))
        return msgspec.convert(parted(tree, cls), cls)

    def json(self) -> bytes:
        """Return the content of summary.json as bytes; a number that is not finite becomes null."""
        tree = whole(self)
        if self.spread:
            tree["spread"] = nested(self.spread)
        return msgspec.json.format(msgspec.json.encode(tree, enc_hook=float), indent=2) + b"\n"

    def finite(self) -> Summary:
        """Return the summary as `read` would return it: every number that is not finite is None."""
        return self.of_tree(msgspec.json.decode(self.json()), Path())

    def losses_in_a_round(self, metric: ShownMetric) -> int:
        """Return the number of losses that a metric sums in a round: one per agent, or 1 if all share one loss."""
        sums_agents = metric.sums_agents or metric.variable in SUMS_AGENTS
        return self.agents if sums_agents and self.decomposable else 1


def parted(tree: dict[str, Any], kind: type[WorthSummary]) -> dict[str, Any]:
    """Return the content of summary.json with every key that is no field of `kind` moved to `values`, by dotted key."""
    fields = {key: value for key, value in tree.items() if key in kind.__struct_fields__ and key != "values"}
    if isinstance(fields.get("spread"), dict):
        fields["spread"] = dict(flat(fields["spread"]))
    return fields | {"values": dict(flat({key: tree[key] for key in tree if key not in fields}))}


def whole(worth: WorthSummary) -> dict[str, Any]:
    """Return nested dictionaries as summary.json holds them, with the values of metrics beside the other fields."""
    tree: dict[str, Any] = msgspec.to_builtins(worth, enc_hook=float)
    values = nested({key: value for key, value in tree.pop("values").items() if value is not None or "." not in key})
    sections = {key.partition(".")[0]: None for key in worth.values}
    first = {key: tree[key] for key in tree if key not in WorthSummary.__struct_fields__}
    return first | sections | values | tree
