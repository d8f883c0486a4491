"""What summary.json holds: the one definition by which a summary is made, merged, written, read and printed.

Each field has its type and the rule by which it merges over repeats; a field of the tables of runs has its label there.
A number that is not finite is None. The values of metrics stand beside these fields in summary.json: their keys are
those that the metrics declare (`accuracy.test`), and a Summary holds them by dotted key in `values`.
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
from mpinodes.runlog.layout_version import require_version
from mpinodes.summary.merging import (
    BY_KEY,
    Largest,
    Least,
    Mean,
    Same,
    Total,
    first_words,
    largest,
    longest,
    mean,
    same,
    worst,
)

FILE, NOISE_FREE = "summary.json", "noise_free.json"
Sets = dict[str, float]  # by "train" and "test"
KeyState = Literal["secret", "rehearsal", "unknown"]  # what is known of the key that noise is drawn with
SUMS_AGENTS = frozenset(metric.name for metric in BUILT_IN if metric.sums_agents)


class Column(NamedTuple):
    """How a field stands in tables of runs.

    Attributes:
        label: what people call the field.
        unit: of its numbers.
        name: of its column; "": the field's.
    """

    label: str
    unit: str = ""
    name: str = ""


def columns(part: Struct) -> Iterator[tuple[Column, Any]]:
    """Yield the columns of a struct's fields in tables of runs, and their values."""
    for name, hint in get_type_hints(type(part), include_extras=True).items():
        for column in getattr(hint, "__metadata__", ()):
            if isinstance(column, Column):
                yield column._replace(name=column.name or name), getattr(part, name)


# ------------------------------------------------------------------------------------------------------------- privacy
class ProvenSummary(Struct, kw_only=True):
    """What is proven of a privacy loss. None: nothing is, or the loss has no limit."""

    proven_pure: Annotated[float | None, Column("proven pure ε", "", "epsilon_proven_pure")]
    proven: Annotated[float | None, Column("proven ε at δ", "", "epsilon_proven")]
    rule: Annotated[str, Column("rule", "", "epsilon_rule")]
    delta_spent: float | UnsetType = UNSET  # of δ, by the errors of local solvers


class LossSummary(ProvenSummary, kw_only=True):
    """A privacy loss of a run, and what the paper claims of it."""

    claimed: Annotated[float | None, Column("claimed ε", "", "epsilon_claimed")]


P = TypeVar("P", bound=ProvenSummary)


def worst_loss(losses: Sequence[P]) -> P:
    """Return the worst proven loss, with the largest of all other numbers, each by itself."""
    worst_proven = max(losses, key=lambda loss: inf if loss.proven is None else loss.proven)
    changed: dict[str, Any] = {
        "proven_pure": worst([loss.proven_pure for loss in losses]),
        "delta_spent": max(loss.delta_spent or 0.0 for loss in losses) or UNSET,
    }
    if claims := [loss.claimed for loss in losses if isinstance(loss, LossSummary)]:
        changed["claimed"] = largest(claims)
    return msgspec.structs.replace(worst_proven, **changed)


def worst_losses(repeats: Sequence[list[LossSummary]]) -> list[LossSummary]:
    """Return the worst loss of each agent over the repeats."""
    return [worst_loss(losses) for losses in zip(*repeats, strict=True)]


class TogetherSummary(Struct, kw_only=True):
    """What it costs to publish all runs of a job."""

    runs: int
    by: str
    network: ProvenSummary
    agents: list[ProvenSummary]
    unproven_because: str


class BudgetSummary(Struct, kw_only=True):
    """What the run was allowed to lose, and after which round each agent stopped telling of its data."""

    epsilon: Same[float]
    delta: Same[float]
    kept_by: Same[str]
    stops: Same[list[int | None]]
    covers: Same[str] = "all"  # of repeats; older runs may say "each"


class NoiseSummary(Struct, kw_only=True):
    """The noise that was added: scales used, and the scale that makes the nominal ε true of every release."""

    mechanism: Same[str]
    backend: Same[str]
    entropy: Same[str]
    key: Same[int | str]
    rounding: Largest[float]  # in scales, L1
    epsilon: Annotated[float, same]  # nominal, of a round
    scale: Largest[float]
    least_scale: Least[float]
    calibrated_scale: Annotated[float | None, worst]  # None: no sensitivity is known
    calibrated: Same[bool]
    release: Annotated[float | None, worst]  # ε of the worst release; None: no limit
    remark: Same[str]


class ViewsSummary(Struct, kw_only=True):
    """The largest ε toward a single node, by distance in hops; −1: nothing arrives."""

    relayed_from: int
    distance: list[int]
    largest: list[float | None]


class PrivacySummary(Struct, kw_only=True):
    """What the run cost in privacy, and what the proof rests on."""

    delta: Annotated[float, same, Column("δ")]
    adjacency: Annotated[Literal["one-sample", "one-round", "one-agent"], same]
    agents: Annotated[list[LossSummary], worst_losses]
    network: Annotated[LossSummary, worst_loss]
    together: Same[TogetherSummary] = None  # of repeats alone
    noise: NoiseSummary | None
    key: Same[KeyState]
    shares_noise_with: Annotated[list[str], longest]
    budget: BudgetSummary | None
    samples: Same[int]  # or agents, that adjacent data may differ in; None: unlimited
    public: Same[str] = None
    unproven_because: Annotated[str, first_words]
    uses_ceiling: Largest[bool] = False
    exact_minimizers: Same[bool]
    against_colluders: Least[bool]
    views: Same[ViewsSummary] = None
    views_left_out: Same[bool] = None
    recorded: Annotated[int | UnsetType, same] = UNSET  # rounds that the numbers cover, of a partial run


class SolverSummary(Struct, kw_only=True):
    """How the agents' local solves went."""

    tolerance: Same[float]
    largest_residual: Largest[float | None]
    unsolved: Total[int]
    steps: Mean[float]
    most_steps: Largest[int]


# --------------------------------------------------------------------------------------------------------------- worth
class ShownMetric(Struct, kw_only=True):
    """A metric that people are shown."""

    variable: str  # of record.h5
    key: str  # in summary.json, dotted
    label: str
    unit: str
    per_round: bool
    figure: bool
    sums_agents: bool | UnsetType = UNSET  # of a metric that is not built in


class StartSummary(Struct, kw_only=True):
    """What staying at the start is worth."""

    average_fitness: Mean[float | None]
    accuracy: Mean[Sets | None] = None
    rmse: Mean[Sets | None] = None


class BaselinesSummary(Struct, kw_only=True):
    """What is had without learning."""

    majority: Mean[Sets | None]  # accuracy of naming the largest class
    mean_target: Mean[Sets | None] = None  # error of naming the mean target
    start: StartSummary


class WorthSummary(Struct, kw_only=True):
    """What a run was worth.

    Attributes:
        values: the last value of every metric by dotted key; None: the run has none.
    """

    values: Annotated[dict[str, float | list[float | None] | None], BY_KEY]
    comparator_left_out: Same[str] = None
    accuracy_left_out: Same[str] = None
    baselines: BaselinesSummary | None = None
    metrics: Annotated[list[ShownMetric], longest]

    def value(self, key: str) -> Any:
        """Return the value of a metric by its dotted key; None: the run has none."""
        return self.values.get(key)


class NoiseFree(Struct, kw_only=True):
    """What the same run is worth without noise, as noise_free.json has it: curves by horizon, and a summary."""

    horizon: list[int]
    network_regret: list[float | None] | UnsetType = UNSET
    accuracy: list[float | None] | UnsetType = UNSET
    accuracy_train: list[float | None] | UnsetType = UNSET
    rmse: list[float | None] | UnsetType = UNSET
    rmse_train: list[float | None] | UnsetType = UNSET
    summary: WorthSummary

    @classmethod
    def read(cls, run: Path) -> NoiseFree | None:
        """Return what was made of a run directory: short runs make it, and `mpinodes report`; None: it was not made.

        Raises:
            BadInput: the file holds something else.
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
        """Return the content of noise_free.json."""
        tree = msgspec.to_builtins(self, enc_hook=float) | {"summary": whole(self.summary)}
        return msgspec.json.encode(tree, enc_hook=float) + b"\n"


class BoundSummary(Struct, kw_only=True):
    """A theorem's bound beside what it bounds, at the last horizon."""

    name: str
    of: str
    label: str
    unit: str
    variable: str
    value: float | None
    measured: float | None
    times: float | None  # the bound divided by what was measured
    applies: bool
    why_not: str


def times(value: float | None, measured: float | None) -> float | None:
    """Return a bound as a multiple of what was measured; None: one of them is no number, or 0 or less was measured."""
    return value / measured if value is not None and measured is not None and measured > 0 else None


def mean_bounds(repeats: Sequence[list[BoundSummary]]) -> list[BoundSummary]:
    """Return the bounds of all repeats: a theorem bounds a mean over the noise, so both sides are means."""
    merged = []
    for bounds in zip(*repeats, strict=True):
        value, measured = mean([b.value for b in bounds]), mean([b.measured for b in bounds])
        applies, why_not = all(b.applies for b in bounds), first_words([b.why_not for b in bounds])
        changed = {"value": value, "measured": measured, "times": times(value, measured)}
        merged.append(msgspec.structs.replace(bounds[0], **changed, applies=applies, why_not=why_not))
    return merged


# ----------------------------------------------------------------------------------------------------------- the whole
class FaultsSummary(Struct, kw_only=True):
    """What became of the messages of a run with faults."""

    asked: Annotated[Faults, same]
    weights: Same[str]
    sent: Total[int] = 0
    lost: Total[int] = 0
    late: Total[int] = 0
    rounds_late: Total[int] = 0
    rounds_away: Total[int] = 0
    agent_rounds: Total[int] = 0


class FeedbackSummary(Struct, kw_only=True):
    """What agents were told of their losses, where that is not the gradient of the round, at once."""

    points: int
    radius: float | None
    last_radius: float | None
    delay: int


class FileSummary(Struct, kw_only=True):
    """A file of the user's that proven numbers rest on."""

    key: str
    path: str
    sha256: str
    tested: bool


class RanksSummary(Struct, kw_only=True):
    """Seconds that the rounds took of every rank, the logger last."""

    working: Total[list[float]]
    waiting: Total[list[float]]


class TimingSummary(Struct, kw_only=True):
    """Seconds of the command, by part."""

    start_up: Total[float]
    rounds: Total[float]
    comparator: Total[float]
    accounting: Total[float]
    bounds: Total[float]
    report: Total[float]
    total: Total[float]
    ranks: RanksSummary | None = None


def codes(repeats: Sequence[dict[str, str] | None]) -> dict[str, str]:
    """Return the codes of the warnings of all repeats, without sentences."""
    return {code: "" for warnings in repeats for code in warnings or {}}


class Summary(WorthSummary, kw_only=True):
    """What summary.json holds."""

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
    agent_regret_every: Annotated[int, same] = 1  # rounds; older runs may have found it in one round of so many
    checked: Same[list[FileSummary]] = None
    faults: FaultsSummary | None = None
    feedback: Same[FeedbackSummary] = None
    bytes_sent: Annotated[Total[int], Column("bytes sent", "B")]
    seconds: Annotated[Total[float | None], Column("seconds", "s")]
    rounds_per_second: Same[float]  # of all repeats: made of the sums
    versions: Same[dict[str, str]]
    bounds: Annotated[list[BoundSummary], mean_bounds]
    privacy: PrivacySummary
    solver: SolverSummary | None
    warnings: Annotated[dict[str, str] | None, codes] = None  # sentences by code; None: an older run
    timing: TimingSummary | None = None
    repeats: int | UnsetType = UNSET
    seeds: list[int] | UnsetType = UNSET
    spread: dict[str, float] | UnsetType = UNSET  # of means over repeats, by dotted key and "std", "min" or "max"

    @classmethod
    def read(cls, run: Path) -> Summary:
        """Return the summary of a run directory.

        Raises:
            BadInput: there is none, or it is not what this version of mpinodes writes.
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
        """Return a summary of the content of summary.json.

        Raises:
            BadInput: another version of mpinodes wrote it.
            msgspec.ValidationError: it is not what a run writes.
        """
        tree = msgspec.convert(tree, dict[str, Any])
        require_version(tree.get("version"), str(run))
        return msgspec.convert(parted(tree, cls), cls)

    def json(self) -> bytes:
        """Return the content of summary.json; a number that is not finite is null there."""
        tree = whole(self)
        if self.spread:
            tree["spread"] = nested(self.spread)
        return msgspec.json.format(msgspec.json.encode(tree, enc_hook=float), indent=2) + b"\n"

    def finite(self) -> Summary:
        """Return the summary as it is read from its file: without numbers that are not finite."""
        return self.of_tree(msgspec.json.decode(self.json()), Path())

    def losses_in_a_round(self, metric: ShownMetric) -> int:
        """Return how many losses a round sums in a metric: the agents', where each has its own; else one."""
        sums_agents = metric.sums_agents or metric.variable in SUMS_AGENTS
        return self.agents if sums_agents and self.decomposable else 1


def parted(tree: dict[str, Any], kind: type[WorthSummary]) -> dict[str, Any]:
    """Return the content of summary.json with all that is no field of `kind` in `values`, by dotted key."""
    fields = {key: value for key, value in tree.items() if key in kind.__struct_fields__ and key != "values"}
    if isinstance(fields.get("spread"), dict):
        fields["spread"] = dict(flat(fields["spread"]))
    return fields | {"values": dict(flat({key: tree[key] for key in tree if key not in fields}))}


def whole(worth: WorthSummary) -> dict[str, Any]:
    """Return plain data as summary.json has it: values of metrics beside the other fields."""
    tree: dict[str, Any] = msgspec.to_builtins(worth, enc_hook=float)
    values = nested({key: value for key, value in tree.pop("values").items() if value is not None or "." not in key})
    sections = {key.partition(".")[0]: None for key in worth.values}
    first = {key: tree[key] for key in tree if key not in WorthSummary.__struct_fields__}
    return first | sections | values | tree
