"""Define the content of summary.json as classes.

The annotation of a field states the type of the field, and the rule by which the values of several repeats are merged
(`merging`). If the field is a column in tables of runs, the annotation also has a `Column`. A number that is not finite
is stored as None.

The values of metrics are not fields. A `Summary` object holds them in the dictionary `values`, by dotted key. In
summary.json, each metric has its own key, such as `accuracy.test`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mpinodes.core.asked import flat, nested
from mpinodes.core.errors import BadInput
from mpinodes.core.experiment import Adjacency, Faults
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.runlog.versions import require_version
from mpinodes.summary import merging
from mpinodes.summary.merging import BY_KEY, Largest, Least, Mean, Same, Total, hints, same

FILE, NOISE_FREE = "summary.json", "noise_free.json"
Sets = dict[str, float]  # a number for each data set, by "train" and "test"
KeyState = Literal["secret", "rehearsal", "unknown"]  # the secrecy of the key that noise is drawn with
SUMS_AGENTS = frozenset(metric.name for metric in BUILT_IN if metric.sums_agents)


class Column(NamedTuple):
    """Describe a column of a table of runs.

    Attributes:
        label: the text that people read.
        unit: the unit of the numbers.
        name: the name of the column in files; "" means the name of the field.
    """

    label: str
    unit: str = ""
    name: str = ""


def columns(part: Struct) -> Iterator[tuple[Column, Any]]:
    """Yield the fields of a struct that tables of runs show, each as a pair (column, value)."""
    for name, hint in hints(type(part)).items():
        for column in getattr(hint, "__metadata__", ()):
            if isinstance(column, Column):
                yield column._replace(name=column.name or name), getattr(part, name)


# ------------------------------------------------------------------------------------------------------------- privacy
class ProvenSummary(Struct, kw_only=True):
    """Hold the proven bounds of a privacy loss.

    Attributes:
        proven_pure: the bound on ε with δ = 0; None if nothing is proven, or if there is no finite bound.
        proven: the bound on ε at the run's δ; None if nothing is proven, or if there is no finite bound.
        rule: the composition rule that gives `proven`, such as "GDP".
        delta_spent: the part of δ that covers the errors of local solvers; unset if this part is 0.
    """

    proven_pure: Annotated[float | None, Column("proven pure ε", "", "epsilon_proven_pure")]
    proven: Annotated[float | None, Column("proven ε at δ", "", "epsilon_proven")]
    rule: Annotated[str, Column("rule", "", "epsilon_rule")]
    delta_spent: float | UnsetType = UNSET


class LossSummary(ProvenSummary, kw_only=True):
    """Hold a privacy loss of a run: its proven bounds, and the epsilon that the paper of the method claims.

    Attributes:
        claimed: the claimed epsilon; None if the paper claims nothing.
    """

    claimed: Annotated[float | None, Column("claimed ε", "", "epsilon_claimed")]


P = TypeVar("P", bound=ProvenSummary)


def worst_loss(losses: Sequence[P]) -> P:
    """Return one privacy loss, in which each number (such as the proven ε) is the largest over several privacy losses.

    A proven ε that is None counts as infinite; a claimed ε that is None is ignored. The composition rule is the rule of
    the loss with the largest proven ε.
    """
    worst_proven = max(losses, key=lambda loss: inf if loss.proven is None else loss.proven)
    changed: dict[str, Any] = {
        "proven_pure": merging.worst([loss.proven_pure for loss in losses]),
        "delta_spent": max(loss.delta_spent or 0.0 for loss in losses) or UNSET,
    }
    if claims := [loss.claimed for loss in losses if isinstance(loss, LossSummary)]:
        changed["claimed"] = merging.largest(claims)
    return msgspec.structs.replace(worst_proven, **changed)


def worst_losses(repeats: Sequence[list[LossSummary]]) -> list[LossSummary]:
    """Return for each agent the worst of its privacy losses over the repeats."""
    return [worst_loss(losses) for losses in zip(*repeats, strict=True)]


class TogetherSummary(Struct, kw_only=True):
    """Hold the privacy loss of publishing all repeats of a job together.

    Attributes:
        runs: the number of repeats.
        by: how the privacy losses of the repeats are added. "sample", "round" or "agent": the losses of each sample,
            round or agent are added, and the result is the largest sum. "maxima": the largest losses of repeats are
            added, because it is unknown which samples of these repeats are the same.
        network: the privacy loss of the network.
        agents: the privacy loss of each agent.
        unproven_because: the reason why nothing is proven; empty if a privacy loss is proven.
    """

    runs: int
    by: str
    network: ProvenSummary
    agents: list[ProvenSummary]
    unproven_because: str


class BudgetSummary(Struct, kw_only=True):
    """Hold the privacy budget of a run.

    Attributes:
        epsilon: the ε of the budget.
        delta: the δ of the budget.
        kept_by: "noise" if the noise is large enough for all rounds; "stopping" if agents stop releasing data.
        stops: for each agent, the last round in which the agent releases its data; None if the agent never stops.
        covers: always "all": the budget covers all repeats on the same data together.
    """

    epsilon: Same[float]
    delta: Same[float]
    kept_by: Same[str]
    stops: Same[list[int | None]]
    covers: Same[str] = "all"


class TuningSummary(Struct, kw_only=True):
    """Describe how the settings of a run were chosen.

    Attributes:
        mode: "public", "private" or "accounted" (the experiment's `privacy.tuning.mode`).
        trials: the number of trials.
        epsilon: for mode "accounted", the ε of tuning and this run together at the run's δ; None if it is not proven,
            or if no ε includes tuning.
        stated: set if this ε rests on `privacy.tuning` as it is: the section was changed, comes from another computer,
            or omits earlier trials.
    """

    mode: Literal["public", "private", "accounted"]
    trials: int
    epsilon: Annotated[float | None, Column("ε at δ with tuning", "", "epsilon_with_tuning")] = None
    stated: Literal[True] | UnsetType = UNSET


class NoiseSummary(Struct, kw_only=True):
    """Hold the scales of the noise in a run.

    A release is a vector with noise: a vector of a message, or a gradient. The fields `scale`, `least_scale`,
    `calibrated_scale` and `release` describe only releases with a new loss function, which no earlier message of the
    agent used. If there are no such releases, these fields describe all releases. The calibrated scale is:

        calibrated_scale = (largest L1 sensitivity of a release)/(nominal ε)
    """

    mechanism: Same[str]  # privacy.mechanism
    backend: Same[str]  # noise.backend
    entropy: Same[str]  # noise.entropy
    key: Same[int | str]  # noise.key
    rounding: Largest[float]  # the largest L1 change of a release by rounding, in noise scales
    epsilon: Annotated[float, same]  # the nominal ε of a round
    scale: Largest[float]  # the largest scale
    least_scale: Least[float]  # the smallest scale
    calibrated_scale: Annotated[float | None, merging.worst]  # None: the sensitivity is unknown
    calibrated: Same[bool]  # whether privacy.scale is "calibrated"
    release: Annotated[float | None, merging.worst]  # the largest L1 sensitivity over scale; None: no limit
    remark: Same[str] = ""  # always empty
    multiplier: Annotated[float | UnsetType, same] = UNSET  # `privacy.noise_multiplier`, in the place of the nominal ε


class ViewsSummary(Struct, kw_only=True):
    """Hold the proven ε of agents against a single node, for each distance of this node from the agent.

    The node knows only the messages that it receives, and colludes with no other node. For each distance, the ε is the
    largest over all agents.

    Attributes:
        relayed_from: the last round in which any agent sends something new. All messages of later rounds are weighted
            means of earlier messages.
        distance: distances in hops; −1 means that no message of the agent arrives.
        largest: the largest epsilon at each distance.
    """

    relayed_from: int
    distance: list[int]
    largest: list[float | None]


class SamplingSummary(Struct, kw_only=True):
    """Describe how agents draw the secret batches of their gradients.

    The rate is the probability with which a sample is in a batch or, for batches of fixed size, the share of the
    agent's samples that is in a batch.

    Attributes:
        scheme: "poisson" if each sample is in a batch independently of all others; "fixed" if a batch has a fixed
            number of samples.
        least, largest: the smallest and the largest rate of an agent.
        tight_is_idle: whether `privacy.tight` is set, but has no effect on batches of this scheme.
    """

    scheme: Literal["poisson", "fixed"]
    least: float
    largest: float
    tight_is_idle: bool = False


class PrivacySummary(Struct, kw_only=True):
    """Hold the privacy loss of a run, and the facts on which the proof depends."""

    delta: Annotated[float, same, Column("δ")]
    adjacency: Annotated[Adjacency, same]
    agents: Annotated[list[LossSummary], worst_losses]
    network: Annotated[LossSummary, worst_loss]
    together: Same[TogetherSummary] = None  # only for jobs with repeats
    noise: NoiseSummary | None
    key: Same[KeyState]
    shares_noise_with: Annotated[list[str], merging.longest]
    budget: BudgetSummary | None
    samples: Same[int]  # the number of samples or agents in which adjacent data may differ; None: unlimited
    public: Same[str] = None
    unproven_because: Annotated[str, merging.first_words]
    uses_ceiling: Largest[bool] = False
    exact_minimizers: Same[bool]
    against_colluders: Least[bool]
    views: Same[ViewsSummary] = None
    views_left_out: Same[bool] = None
    sampling: Annotated[SamplingSummary | UnsetType, same] = UNSET  # unset if batches are public
    covers_decisions: Annotated[Literal[True] | UnsetType, same] = UNSET  # only if the algorithm noises gradients
    # What the privacy loss counts as sent; set only for the baselines curator, alone and one-shot.
    unsent: Annotated[Literal["gradient", "message"] | UnsetType, same] = UNSET
    tuning: Annotated[TuningSummary | UnsetType, same] = UNSET  # only if the settings were tuned
    recorded: Annotated[int | UnsetType, same] = UNSET  # for a run that ended early: the rounds that the numbers cover


class SolverSummary(Struct, kw_only=True):
    """Hold the accuracy and the cost of local solves: the minimizations that an agent does in every round.

    Attributes:
        tolerance: the gradient norm at which a solve ends.
        largest_residual: the largest gradient norm with which a solve ended.
        unsolved: the number of solves that ended above the tolerance.
        steps: the mean number of steps of a solve.
        most_steps: the largest number of steps of a solve.
    """

    tolerance: Same[float]
    largest_residual: Largest[float | None]
    unsolved: Total[int]
    steps: Mean[float]
    most_steps: Largest[int]


# ------------------------------------------------------------------------------------------------------------- results
class ShownMetric(Struct, kw_only=True):
    """Describe a metric that is shown to people in tables, figures or the page."""

    variable: str  # the name of the variable in record.h5
    key: str  # the dotted key in summary.json
    label: str
    unit: str
    per_round: bool
    figure: bool
    sums_agents: bool | UnsetType = UNSET  # only for user-defined metrics


class StartSummary(Struct, kw_only=True):
    """Hold the metrics that the run would have if all agents stayed at the starting point."""

    average_fitness: Mean[float | None]
    accuracy: Mean[Sets | None] = None
    rmse: Mean[Sets | None] = None


class BaselinesSummary(Struct, kw_only=True):
    """Hold what a run is compared with: trivial methods that learn nothing, and the best fixed decision."""

    majority: Mean[Sets | None]  # the accuracy of always predicting the largest class
    mean_target: Mean[Sets | None] = None  # the error of always predicting the mean target
    # The accuracy or error of the best fixed decision, which is not private, by "accuracy.test", ...; None: unknown.
    best_fixed: Mean[Sets | None] = None
    start: StartSummary


class WorthSummary(Struct, kw_only=True):
    """Hold all results of a run except the privacy loss.

    Attributes:
        values: the last value of every metric, by dotted key; None if the run has no such value.
        comparator_left_out: the reason why the run has no comparator (best fixed decision), and so no regret.
        accuracy_left_out: the reason why the run has no accuracy.
        baselines: the accuracy, the error and the loss of trivial methods and of the best fixed decision.
        metrics: the metrics that are shown to people.
    """

    values: Annotated[dict[str, float | list[float | None] | None], BY_KEY]
    comparator_left_out: Same[str] = None
    accuracy_left_out: Same[str] = None
    baselines: BaselinesSummary | None = None
    metrics: Annotated[list[ShownMetric], merging.longest]

    def value(self, key: str) -> Any:
        """Return the last value of a metric, or None if the run has no value of this metric.

        Args:
            key: the dotted key of the metric in summary.json.
        """
        return self.values.get(key)


class NoiseFree(Struct, kw_only=True):
    """Hold the content of noise_free.json: the results of the same run without noise, at the end and over time."""

    horizon: list[int]  # the rounds at which the values of the other lists are measured
    network_regret: list[float | None] | UnsetType = UNSET
    accuracy: list[float | None] | UnsetType = UNSET
    accuracy_train: list[float | None] | UnsetType = UNSET
    rmse: list[float | None] | UnsetType = UNSET
    rmse_train: list[float | None] | UnsetType = UNSET
    summary: WorthSummary

    @classmethod
    def read(cls, run: Path) -> NoiseFree | None:
        """Read noise_free.json in a run directory; return None if the file does not exist.

        Some short runs with noise write this file at their end. For other runs, `mpinodes report --noise-free` writes
        the file.

        Raises:
            BadInput: the file cannot be read, or its content is not the content that a run writes.
        """
        try:
            tree = msgspec.json.decode((run / NOISE_FREE).read_bytes(), type=dict[str, Any])
            tree["summary"] = parted(msgspec.convert(tree.get("summary"), dict[str, Any]), WorthSummary)
            return msgspec.convert(tree, cls)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(f"{run / NOISE_FREE}: the content is not what a run writes: {error}") from error

    def json(self) -> bytes:
        """Return the content of noise_free.json, encoded as JSON."""
        tree = msgspec.to_builtins(self, enc_hook=float) | {"summary": whole(self.summary)}
        return msgspec.json.encode(tree, enc_hook=float) + b"\n"


class BoundSummary(Struct, kw_only=True):
    """Hold the bound of a theorem at the last round, and the measured value of the bounded metric.

    Attributes:
        name: the name of the theorem.
        of: the name of the metric that the theorem bounds.
        label, unit: the label and unit of the metric.
        variable: the variable of record.h5 that holds the bound over time.
        value: the bound; None if it is infinite.
        measured: the measured value, the largest of all agents; None if the run has no value.
        times: the bound divided by the measured value; None if a number is None, or if the measured value is at most 0.
        applies: whether the run satisfies the assumptions of the theorem, and has a measured value.
        why_not: why the bound does not apply: the first assumption that the run breaks, or the missing measured value;
            empty if the bound applies.
    """

    name: str
    of: str
    label: str
    unit: str
    variable: str
    value: float | None
    measured: float | None
    times: float | None
    applies: bool
    why_not: str


def times(value: float | None, measured: float | None) -> float | None:
    """Return a bound divided by the measured value; None if a number is unknown, or if the measured value is at most 0.

    Args:
        value: the bound.
        measured: the measured value.
    """
    return value / measured if value is not None and measured is not None and measured > 0 else None


def mean_bounds(repeats: Sequence[list[BoundSummary]]) -> list[BoundSummary]:
    """Merge the theorem bounds of all repeats: average the bounds over the repeats, and also the measured values.

    A mean is None if a repeat has no value. The merged bound applies if the bounds of all repeats apply.
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
    """Hold how many messages were lost or late, and for how many rounds agents were absent."""

    asked: Annotated[Faults, same]
    weights: Same[str]
    sent: Total[int] = 0
    lost: Total[int] = 0
    late: Total[int] = 0
    rounds_late: Total[int] = 0
    rounds_away: Total[int] = 0
    agent_rounds: Total[int] = 0


class FeedbackSummary(Struct, kw_only=True):
    """Describe how agents learn about the loss, if gradients arrive late or are estimated from loss values.

    Attributes:
        points: the number of values of the loss function from which an agent estimates a gradient; 0 if agents get
            gradients.
        radius: the setting `feedback.radius`: with two points, the distance in round 1 between the decision and the
            points.
        last_radius: the distance in the last round between the decision and the points; None if `points` is 0.
        delay: the number of rounds after which feedback arrives.
    """

    points: int
    radius: float | None
    last_radius: float | None
    delay: int


class FileSummary(Struct, kw_only=True):
    """Describe a user's file on which proven numbers depend.

    Attributes:
        key: the setting that names the file.
        path: the path of the file.
        sha256: the hash of the file's content.
        tested: whether the properties that the file states, such as a sensitivity, were tested.
    """

    key: str
    path: str
    sha256: str
    tested: bool


class RanksSummary(Struct, kw_only=True):
    """Hold the seconds for which each rank worked and waited during the rounds. The logger is the last rank."""

    working: Total[list[float]]
    waiting: Total[list[float]]


class TimingSummary(Struct, kw_only=True):
    """Hold the seconds that each part of the command took, and their sum `total`.

    Under MPI, `ranks` has the seconds for which each rank worked and waited.
    """

    start_up: Total[float]
    rounds: Total[float]
    comparator: Total[float]
    accounting: Total[float]
    bounds: Total[float]
    report: Total[float]
    total: Total[float]
    ranks: RanksSummary | None = None


class Summary(WorthSummary, kw_only=True):
    """Hold the whole content of summary.json."""

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
    judged: Same[str]  # the decision by which an offline method is judged: "average" or "last"
    agent_regret_every: Annotated[int, same] = 1  # always 1
    checked: Same[list[FileSummary]] = None
    faults: FaultsSummary | None = None
    feedback: Same[FeedbackSummary] = None
    bytes_sent: Annotated[Total[int], Column("bytes sent", "B")]
    seconds: Annotated[Total[float | None], Column("seconds", "s")]
    rounds_per_second: Same[float]  # for repeats: all rounds divided by all seconds
    versions: Same[dict[str, str]]
    asked: Annotated[list[str], merging.longest] = []  # the keys that the user set; all keys after a resumed run
    bounds: Annotated[list[BoundSummary], mean_bounds]
    privacy: PrivacySummary
    solver: SolverSummary | None
    model: Mean[Sets | None] = None  # accuracy or error of model.npz, by "accuracy.test", ...; None: there is no model
    warnings: Same[dict[str, str]] = None  # sentences by code; None: not computed yet, or the repeats differ
    timing: TimingSummary | None = None
    repeats: int | UnsetType = UNSET
    seeds: list[int] | UnsetType = UNSET
    spread: dict[str, float] | UnsetType = UNSET  # of means over repeats, by dotted key with ".std", ".min" or ".max"

    @classmethod
    def read(cls, run: Path) -> Summary:
        """Read the summary.json of a run directory.

        Raises:
            BadInput: there is no summary, its content is not what a run writes, or it has another format version.
        """
        try:
            text = (run / FILE).read_bytes()
        except OSError as error:
            raise BadInput(f"{run}: there is no finished run in it (no {FILE}: {error.strerror})") from error
        try:
            return cls.of_tree(msgspec.json.decode(text), run)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadInput(
                f"{run}: not a finished run: the content of {FILE} is not what a run writes: {error}"
            ) from error

    @classmethod
    def of_tree(cls, tree: Any, run: Path) -> Summary:
        """Return the summary whose content is given as nested dictionaries, as in summary.json.

        Args:
            tree: the content.
            run: the run directory, for error messages.

        Raises:
            BadInput: the content has another format version than `versions.VERSION`, or none.
            msgspec.ValidationError: the content is not the content that a run writes.
        """
        tree = msgspec.convert(tree, dict[str, Any])
        require_version(tree.get("version"), str(run))
        return msgspec.convert(parted(tree, cls), cls)

    def json(self) -> bytes:
        """Return the content of summary.json, encoded as JSON. A number that is not finite becomes null."""
        tree = whole(self)
        if self.spread:
            tree["spread"] = nested(self.spread)
        return msgspec.json.format(msgspec.json.encode(tree, enc_hook=float), indent=2) + b"\n"

    def finite(self) -> Summary:
        """Return this summary as it would be read from summary.json: infinite numbers and nan become None."""
        return self.of_tree(msgspec.json.decode(self.json()), Path())

    def losses_in_a_round(self, variable: str) -> int:
        """Return over how many loss functions a metric sums in one round.

        The result is the number of agents if the metric sums over agents, and if every agent has its own loss function.
        In all other cases, and if the summary does not show the metric, the result is 1.

        Args:
            variable: the name of the metric in record.h5.
        """
        shown = [metric for metric in self.metrics if metric.variable == variable]
        sums_agents = any(metric.sums_agents or variable in SUMS_AGENTS for metric in shown)
        return self.agents if sums_agents and self.decomposable else 1


def parted(tree: dict[str, Any], kind: type[WorthSummary]) -> dict[str, Any]:
    """Return the content of summary.json with the values of all metrics collected in the dictionary `values`.

    A key that is no field of the class `kind` belongs to a metric. In `values`, such keys are dotted, as
    `accuracy.test`.
    """
    fields = {key: value for key, value in tree.items() if key in kind.__struct_fields__ and key != "values"}
    if isinstance(fields.get("spread"), dict):
        fields["spread"] = dict(flat(fields["spread"]))
    return fields | {"values": dict(flat({key: tree[key] for key in tree if key not in fields}))}


def whole(worth: WorthSummary) -> dict[str, Any]:
    """Return the content of summary.json as nested dictionaries, in which each metric has its own key.

    The inverse function is `parted`. Values that are None are left out if the key of the metric is dotted.
    """
    tree: dict[str, Any] = msgspec.to_builtins(worth, enc_hook=float)
    values = nested({key: value for key, value in tree.pop("values").items() if value is not None or "." not in key})
    sections = {key.partition(".")[0]: None for key in worth.values}
    first = {key: tree[key] for key in tree if key not in WorthSummary.__struct_fields__}
    return first | sections | values | tree
