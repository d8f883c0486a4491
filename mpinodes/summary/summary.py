"""Define the content of summary.json as classes; a `Summary` object is made, merged, written, read and printed.

The annotation of a field states its type and the rule that merges the field over repeats (`merging`). A field that
appears in tables of runs also has a `Column`. A number that is not finite is None. The values of metrics are no fields:
a `Summary` object holds the values of all metrics in the dictionary `values`, by dotted key. In summary.json, each
metric has the key that the metric declares, such as `accuracy.test`.
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
from mpinodes.core.experiment import Adjacency, Faults
from mpinodes.metrics.built_in import BUILT_IN
from mpinodes.runlog.versions import require_version
from mpinodes.summary import merging
from mpinodes.summary.merging import BY_KEY, Largest, Least, Mean, Same, Total, same

FILE, NOISE_FREE = "summary.json", "noise_free.json"
Sets = dict[str, float]  # a number for each data set, by "train" and "test"
KeyState = Literal["secret", "rehearsal", "unknown"]  # the secrecy of the key that noise is drawn with
SUMS_AGENTS = frozenset(metric.name for metric in BUILT_IN if metric.sums_agents)


class Column(NamedTuple):
    """A column of a table of runs.

    Attributes:
        label: the text that people read.
        unit: the unit of the numbers.
        name: the name of the column in files; "" means the name of the field.
    """

    label: str
    unit: str = ""
    name: str = ""


def columns(part: Struct) -> Iterator[tuple[Column, Any]]:
    """Yield the pair (column, value) for each field of a struct, if the field is a column in tables of runs."""
    for name, hint in get_type_hints(type(part), include_extras=True).items():
        for column in getattr(hint, "__metadata__", ()):
            if isinstance(column, Column):
                yield column._replace(name=column.name or name), getattr(part, name)


# ------------------------------------------------------------------------------------------------------------- privacy
class ProvenSummary(Struct, kw_only=True):
    """The proven bounds of a privacy loss.

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
    """A privacy loss of a run: the proven bounds, and the epsilon that the paper claims.

    Attributes:
        claimed: the claimed epsilon; None if the paper claims nothing.
    """

    claimed: Annotated[float | None, Column("claimed ε", "", "epsilon_claimed")]


P = TypeVar("P", bound=ProvenSummary)


def worst_loss(losses: Sequence[P]) -> P:
    """Return a privacy loss that is at least as large as each of `losses`: every number is the largest of all losses.

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
    """Return for each agent the largest of the agent's privacy losses over the repeats."""
    return [worst_loss(losses) for losses in zip(*repeats, strict=True)]


class TogetherSummary(Struct, kw_only=True):
    """The privacy loss of publishing all repeats of a job together.

    Attributes:
        runs: the number of repeats.
        by: how privacy losses are added over the repeats. With "sample", "round" or "agent", a sum is computed for each
            sample, round or agent, and the result is the largest sum. With "maxima", the samples of
            at least two repeats could not be matched, and the largest privacy losses of these repeats are added.
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
    """The privacy budget of a run.

    Attributes:
        epsilon: the ε of the budget.
        delta: the δ of the budget.
        kept_by: "noise" if the noise is large enough for all rounds; "stopping" if agents stop releasing data.
        stops: for each agent, the round after which the agent reveals nothing more about its data; None if the agent
            never stops.
        covers: always "all": the budget covers all repeats on the same data together.
    """

    epsilon: Same[float]
    delta: Same[float]
    kept_by: Same[str]
    stops: Same[list[int | None]]
    covers: Same[str] = "all"


class NoiseSummary(Struct, kw_only=True):
    """The noise of a run: the scales used, and the scale for which the L1 sensitivity over the scale is the nominal ε.

    A release is a vector of a message, or a gradient, after its noise was added. The numbers `scale`, `least_scale`,
    `calibrated_scale` and `release` cover the releases that are the first to depend on the data of a round, or all
    releases if there are none of this kind.
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
    remark: Same[str]
    multiplier: Annotated[float | UnsetType, same] = UNSET  # `privacy.noise_multiplier`, in the place of the nominal ε


class ViewsSummary(Struct, kw_only=True):
    """The largest proven ε of an agent if the attacker is a single node, by the distance of the node from the agent.

    The node reads only the messages that it receives, and colludes with no other node.

    Attributes:
        relayed_from: the round from which all messages are weighted means of messages of earlier rounds.
        distance: distances in hops; −1 means that no message of the agent arrives.
        largest: the largest epsilon at each distance.
    """

    relayed_from: int
    distance: list[int]
    largest: list[float | None]


class SamplingSummary(Struct, kw_only=True):
    """How agents draw the secret batches of their gradients.

    Attributes:
        scheme: "poisson" if each sample is taken with a probability, independently of all others; "fixed" if a batch
            has a fixed number of samples.
        least, largest: the smallest and the largest rate of an agent: the probability with which a sample is taken, or
            the share of the agent's samples that a batch of fixed size has.
        tight_is_idle: whether `privacy.tight` is set, but has no effect on batches of this scheme.
    """

    scheme: Literal["poisson", "fixed"]
    least: float
    largest: float
    tight_is_idle: bool = False


class PrivacySummary(Struct, kw_only=True):
    """The privacy loss of a run, and the facts that the proof depends on."""

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
    recorded: Annotated[int | UnsetType, same] = UNSET  # for a run that ended early: the rounds that the numbers cover


class SolverSummary(Struct, kw_only=True):
    """The accuracy and the cost of the agents' local solves, the minimizations that an algorithm needs in every round.

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
    """A metric that tables, figures or the page show to people."""

    variable: str  # the name of the variable in record.h5
    key: str  # the dotted key in summary.json
    label: str
    unit: str
    per_round: bool
    figure: bool
    sums_agents: bool | UnsetType = UNSET  # only for user-defined metrics


class StartSummary(Struct, kw_only=True):
    """The metrics that the run would have if all agents kept the start point in all rounds."""

    average_fitness: Mean[float | None]
    accuracy: Mean[Sets | None] = None
    rmse: Mean[Sets | None] = None


class BaselinesSummary(Struct, kw_only=True):
    """The accuracy, error and loss function value of trivial methods that learn nothing."""

    majority: Mean[Sets | None]  # the accuracy of always predicting the largest class
    mean_target: Mean[Sets | None] = None  # the error of always predicting the mean target
    start: StartSummary


class WorthSummary(Struct, kw_only=True):
    """All results of a run except the privacy loss.

    Attributes:
        values: the last value of every metric, by dotted key; None if the run has no such value.
        comparator_left_out: why the run has no comparator (best fixed decision), and so no regret.
        accuracy_left_out: why the run has no accuracy.
        baselines: the accuracy, the error and the loss function value of trivial methods.
        metrics: the metrics that people see.
    """

    values: Annotated[dict[str, float | list[float | None] | None], BY_KEY]
    comparator_left_out: Same[str] = None
    accuracy_left_out: Same[str] = None
    baselines: BaselinesSummary | None = None
    metrics: Annotated[list[ShownMetric], merging.longest]

    def value(self, key: str) -> Any:
        """Return the last value of a metric; None if the run has no value of this metric.

        Args:
            key: the dotted key of the metric in summary.json.
        """
        return self.values.get(key)


class NoiseFree(Struct, kw_only=True):
    """The content of noise_free.json: the results of the same run without noise, and their values over time."""

    horizon: list[int]  # the rounds at which the values of the other lists are measured
    network_regret: list[float | None] | UnsetType = UNSET
    accuracy: list[float | None] | UnsetType = UNSET
    accuracy_train: list[float | None] | UnsetType = UNSET
    rmse: list[float | None] | UnsetType = UNSET
    rmse_train: list[float | None] | UnsetType = UNSET
    summary: WorthSummary

    @classmethod
    def read(cls, run: Path) -> NoiseFree | None:
        """Return the content of noise_free.json in a run directory; None if the file does not exist.

        Some short runs with noise write this file at their end; `mpinodes report --noise-free` writes the file later.

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
        """Return the content of noise_free.json as bytes."""
        tree = msgspec.to_builtins(self, enc_hook=float) | {"summary": whole(self.summary)}
        return msgspec.json.encode(tree, enc_hook=float) + b"\n"


class BoundSummary(Struct, kw_only=True):
    """The bound of a theorem at the last round, beside the measured value.

    Attributes:
        name: the name of the theorem.
        of: the name of the metric that the theorem bounds.
        label, unit: the label and unit of the metric.
        variable: the variable of record.h5 that holds the bound over time.
        value: the bound; None if it is infinite.
        measured: the measured value, the largest of all agents; None if the run has no value.
        times: the bound divided by the measured value; None if a number is None, or if the measured value is at most 0.
        applies: whether the run satisfies the assumptions of the theorem, and has a measured value.
        why_not: the first assumption that the run breaks; empty if there is none.
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
    """Return the bound `value` divided by `measured`; None if a number is unknown, or if `measured` is at most 0."""
    return value / measured if value is not None and measured is not None and measured > 0 else None


def mean_bounds(repeats: Sequence[list[BoundSummary]]) -> list[BoundSummary]:
    """Merge the bounds of all repeats: average the bounds, and average the measured values.

    A theorem bounds a mean over the noise. So bounds and measured values are averaged before they are compared. A mean
    is None if a repeat has no value. The merged bound applies if the bounds of all repeats apply.
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
    """The numbers of messages that were lost or late, and of rounds in which agents were absent."""

    asked: Annotated[Faults, same]
    weights: Same[str]
    sent: Total[int] = 0
    lost: Total[int] = 0
    late: Total[int] = 0
    rounds_late: Total[int] = 0
    rounds_away: Total[int] = 0
    agent_rounds: Total[int] = 0


class FeedbackSummary(Struct, kw_only=True):
    """How agents learn about loss functions, if gradients arrive late or are estimated from values of the function.

    Attributes:
        points: the number of values of the loss function from which an agent estimates a gradient; 0 if agents get
            gradients.
        radius: the distance in round 1 between the decision and the points at which losses are evaluated.
        last_radius: the distance between the decision and these points in the last round.
        delay: the number of rounds after which feedback arrives.
    """

    points: int
    radius: float | None
    last_radius: float | None
    delay: int


class FileSummary(Struct, kw_only=True):
    """A user-defined file on which proven numbers depend.

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
    """The seconds that each rank worked and waited during the rounds; the logger is the last rank."""

    working: Total[list[float]]
    waiting: Total[list[float]]


class TimingSummary(Struct, kw_only=True):
    """The seconds that each part of the command took, their sum `total`, and the seconds of the ranks under MPI."""

    start_up: Total[float]
    rounds: Total[float]
    comparator: Total[float]
    accounting: Total[float]
    bounds: Total[float]
    report: Total[float]
    total: Total[float]
    ranks: RanksSummary | None = None


def codes(repeats: Sequence[dict[str, str] | None]) -> dict[str, str]:
    """Merge the warnings of repeats: return a dictionary from the code of each warning to an empty text.

    The sentences of a warning differ between repeats; the caller writes one sentence for all repeats.
    """
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
    judged: Same[str]  # the decision by which an offline method is judged: "average" or "last"
    agent_regret_every: Annotated[int, same] = 1  # always 1
    checked: Same[list[FileSummary]] = None
    faults: FaultsSummary | None = None
    feedback: Same[FeedbackSummary] = None
    bytes_sent: Annotated[Total[int], Column("bytes sent", "B")]
    seconds: Annotated[Total[float | None], Column("seconds", "s")]
    rounds_per_second: Same[float]  # for repeats: all rounds divided by all seconds
    versions: Same[dict[str, str]]
    bounds: Annotated[list[BoundSummary], mean_bounds]
    privacy: PrivacySummary
    solver: SolverSummary | None
    warnings: Annotated[dict[str, str] | None, codes] = None  # sentences by code; None: not computed yet
    timing: TimingSummary | None = None
    repeats: int | UnsetType = UNSET
    seeds: list[int] | UnsetType = UNSET
    spread: dict[str, float] | UnsetType = UNSET  # of means over repeats, by dotted key with ".std", ".min" or ".max"

    @classmethod
    def read(cls, run: Path) -> Summary:
        """Read the summary.json of a run directory.

        Raises:
            BadInput: there is no summary, its content is not what a run writes, or another version of mpinodes wrote
            it.
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
        """Convert the content of summary.json, as nested dictionaries, to a summary.

        Args:
            tree: the content.
            run: the run directory, for error messages.

        Raises:
            BadInput: another version of mpinodes wrote the file.
            msgspec.ValidationError: the content is not the content that a run writes.
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
        """Return this summary as it is after writing and reading the file: infinite numbers and nan become None."""
        return self.of_tree(msgspec.json.decode(self.json()), Path())

    def losses_in_a_round(self, metric: ShownMetric) -> int:
        """Return how many loss functions a metric sums in a round.

        For a metric that sums over agents, the result is the number of agents if every agent has a loss function, and 1
        if all agents share one loss function. For other metrics, the result is 1.
        """
        sums_agents = metric.sums_agents or metric.variable in SUMS_AGENTS
        return self.agents if sums_agents and self.decomposable else 1


def parted(tree: dict[str, Any], kind: type[WorthSummary]) -> dict[str, Any]:
    """Rearrange the content of summary.json: collect the values of all metrics in the dictionary `values`.

    A key that is no field of the class `kind` belongs to a metric. Such keys are moved into `values`, under dotted
    names such as `accuracy.test`.
    """
    fields = {key: value for key, value in tree.items() if key in kind.__struct_fields__ and key != "values"}
    if isinstance(fields.get("spread"), dict):
        fields["spread"] = dict(flat(fields["spread"]))
    return fields | {"values": dict(flat({key: tree[key] for key in tree if key not in fields}))}


def whole(worth: WorthSummary) -> dict[str, Any]:
    """Return the content of summary.json as nested dictionaries, with the values of metrics beside the other fields.

    A value that is None is left out if its key is dotted.
    """
    tree: dict[str, Any] = msgspec.to_builtins(worth, enc_hook=float)
    values = nested({key: value for key, value in tree.pop("values").items() if value is not None or "." not in key})
    sections = {key.partition(".")[0]: None for key in worth.values}
    first = {key: tree[key] for key in tree if key not in WorthSummary.__struct_fields__}
    return first | sections | values | tree
