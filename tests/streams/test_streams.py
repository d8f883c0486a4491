"""Where the losses come from."""

from __future__ import annotations

import numpy as np
import pandas
import pytest
from sklearn.datasets import load_digits

from mpinodes.core.errors import BadInput
from mpinodes.core.parts import files_of
from mpinodes.data import Source
from mpinodes.losses.least_squares import LeastSquares
from mpinodes.losses.logistic import Logistic
from mpinodes.streams import digits as module
from mpinodes.streams.adult import Adult
from mpinodes.streams.digits import Digits
from mpinodes.streams.file import File
from mpinodes.streams.olr import OLR
from mpinodes.streams.unit_ball import UnitBall
from tests.helpers.parts import decisions, resolved, setup_of


def digits(seed: int = 0, agents: int = 7, **settings) -> Digits:
    return Digits(seed=seed, agents=agents, make_loss=Logistic, **settings)


def whole(source: Source) -> np.ndarray:
    return source.features(np.arange(len(source.targets)))


def rows(stream: Digits, rounds: range) -> np.ndarray:
    losses = stream.of(0)
    return np.concatenate([losses(t).features for t in rounds])


def test_the_digits_are_355_split_80_to_20():
    stream = digits()
    sets = stream.labelled()
    assert [len(sets[name].targets) for name in ("train", "test")] == [284, 71]
    assert stream.rounds == 284
    train = whole(sets["train"])
    assert (stream.dimension, train.min(), train.max()) == (64, 0.0, 1.0)
    assert sum((source.targets == 1).sum() for source in sets.values()) == 174
    assert set(np.unique(sets["train"].targets)) == {-1.0, 1.0}


def test_the_split_is_the_same_for_every_seed():
    one, other = (whole(digits(seed=s).labelled()["test"]) for s in (0, 1))
    np.testing.assert_array_equal(one, other)


def test_an_epoch_shows_every_training_sample_once_and_epochs_differ():
    stream = digits(seed=3, epochs=2)
    train = whole(stream.labelled()["train"])
    first, second = rows(stream, range(1, 285)), rows(stream, range(285, 569))
    for epoch in (first, second):
        np.testing.assert_array_equal(np.unique(epoch, axis=0), np.unique(train, axis=0))
    assert not np.array_equal(first, second)
    plain = digits(seed=3, shuffle=False)
    np.testing.assert_array_equal(rows(plain, range(1, 285)), train)


SEEN = [
    "algorithm.name=dpsda-ps data.epochs=5", "algorithm.name=dpsda-c data.epochs=5 data.batch=7",
    "algorithm.name=dpsda-ps data.epochs=5 data.shuffle=false", "algorithm.name=dpsda-ps data.epochs=3 data.batch=100",
    "algorithm.name=dpsda-ps data.name=olr rounds=900", "algorithm.name=dpsda-ps problem.gradient_noise=0",
    "algorithm.name=dpsda-ps data.epochs=5 privacy.epsilon=inf", "algorithm.name=dola data.total=1000 data.epochs=5",
    "algorithm.name=dola data.total=1000 data.batch=all rounds=900",
]  # fmt: skip


@pytest.mark.parametrize("words", SEEN)
def test_losses_of_a_round_are_the_same_in_turn_and_out_of_turn(words):
    """As an agent sees them: in turn over the ends of epochs, and out of turn: rounds again, back, and far ahead."""
    setup = setup_of(words)
    in_turn, last = setup.losses(1), setup.experiment.rounds
    x, block = np.random.default_rng(4).standard_normal(setup.dimension), setup.blocks[1]
    for t in [*range(1, min(last, 700) + 1), 4, 4, 5, last // 2, last // 2 + 1, last - 1, last, last, 1, 2]:
        one, other = in_turn(t), setup.losses(1)(t)
        assert one.value(x) == other.value(x)
        np.testing.assert_array_equal(one.grad(x, block), other.grad(x, block))


BUFFERED = """
from dataclasses import dataclass

import numpy as np

from mpinodes.streams.olr import OLR

__all__ = ["Buffered"]


@dataclass(frozen=True)
class Buffered(OLR):
    def of(self, agent):
        own, features, targets = super().of(agent), np.empty((1, self.dimension)), np.empty(1)

        def loss(t):
            if t == 30 and agent == 1 and self.variance == 7.0:
                raise ValueError("planted")
            features[:], targets[:] = own(t).features, own(t).targets
            return self.make_loss(features, targets)

        return loss
"""


def test_a_stream_of_ones_own_is_asked_for_one_round_at_a_time(tmp_path, monkeypatch):
    """It may read into one buffer, and what it raises is of the round that it is raised in."""
    (tmp_path / "buffered.py").write_text(BUFFERED)
    monkeypatch.chdir(tmp_path)
    words = "algorithm.name=dola privacy.epsilon=inf topology.name=ring topology.agents=3 rounds=90 data."
    own, builtin = decisions(setup_of(words + "path=buffered.py")), decisions(setup_of(words + "name=olr"))
    np.testing.assert_array_equal(own, builtin)
    losses = setup_of(words + "path=buffered.py data.variance=7").losses(1)
    for t in range(1, 30):
        losses(t)
    with pytest.raises(ValueError, match="planted"):
        losses(30)


def test_batches_leave_the_rest_out():
    stream = digits(batch=100, epochs=3)
    assert stream.rounds == 6
    assert rows(stream, range(1, 3)).shape == (200, 64)


@pytest.mark.parametrize("stream", [digits(epochs=2), OLR(0, 7, LeastSquares)])
def test_rounds_are_random_access_and_alike_for_all_agents(stream):
    forward, backward, other = stream.of(0), stream.of(0), stream.of(3)
    ahead = {t: forward(t).features.copy() for t in (1, 2, 300, 5)}
    for t in (5, 300, 2, 1):
        np.testing.assert_array_equal(ahead[t], backward(t).features)
        np.testing.assert_array_equal(ahead[t], other(t).features)


MERGED = [
    "data.epochs=3", "data.epochs=2 data.shuffle=false", "data.epochs=2 data.batch=5 problem.average=true",
    "algorithm.name=dola data.total=100 data.epochs=3 data.batch=4", "data.name=olr rounds=30",
    "algorithm.name=dola data.total=100 data.batch=all rounds=5", "algorithm.name=dola data.name=olr rounds=30",
]  # fmt: skip


@pytest.mark.parametrize("words", MERGED)
def test_rounds_merged_are_those_one_by_one(words):
    """In any order, within an epoch and across its end."""
    setup = setup_of(words)
    for agent in (0, 2):
        losses, merged = setup.stream.of(agent), setup.stream.merged(agent)
        last = setup.experiment.rounds
        for first, until in ((last // 3, last), (1, 1), (1, last - 1), (last // 2, last // 2 + 2)):
            found, seen = merged(first, until), [losses(t) for t in range(first, until + 1)]
            np.testing.assert_array_equal(found.features, np.concatenate([loss.features for loss in seen]))
            np.testing.assert_array_equal(found.targets, np.concatenate([loss.targets for loss in seen]))
            assert (type(found), found.divisor) == (type(seen[0]), seen[0].divisor)


def test_olr_has_the_papers_law():
    """10,000 rounds: features uniform on [−½, ½], noise of variance 0.2 (4 standard errors)."""
    losses = OLR(5, 7, LeastSquares).of(0)
    rounds = [losses(t) for t in range(1, 10_001)]
    a = np.concatenate([f.features for f in rounds])
    b = np.concatenate([f.targets for f in rounds])
    assert a.shape == (10_000, 21)
    assert (a.min(), a.max()) == pytest.approx((-0.5, 0.5), abs=1e-3)
    assert a.var() == pytest.approx(1 / 12, abs=4 * 0.075 / np.sqrt(a.size))
    truth, residual, *_ = np.linalg.lstsq(a, b)
    assert residual[0] / (10_000 - 21) == pytest.approx(0.2, abs=4 * 0.2 * np.sqrt(2 / 10_000))
    assert 0.3 < truth.std() < 2


# ---- who sees which samples

SOURCES = ["digits", "ball", "file"]


@pytest.fixture(params=SOURCES)
def make(request, tmp_path):
    """A function that makes a stream: 284, 300 or 150 training samples, no two alike."""
    if request.param == "digits":
        return digits
    if request.param == "ball":
        return lambda seed=0, agents=7, **settings: UnitBall(seed, agents, Logistic, total=300, **settings)
    rng = np.random.default_rng(0)
    path = tmp_path / "samples.npz"
    np.savez(path, features=rng.standard_normal((150, 4)), targets=rng.choice([3.0, 5.0], 150))
    return lambda seed=0, agents=7, **settings: File(seed, agents, Logistic, file=str(path), **settings)


def total(stream) -> int:
    return len(stream.labelled()["train"].targets)


def dealt(stream) -> list[list[int]]:
    return [share.tolist() for share in stream.shares]


def seen(stream, agent: int, rounds: range) -> tuple[np.ndarray, np.ndarray]:
    """Features and targets that an agent is given in some rounds."""
    loss = stream.of(agent)
    shown = [(loss(t).features, loss(t).targets) for t in rounds]
    return np.concatenate([a for a, _ in shown]), np.concatenate([b for _, b in shown])


def sorted_rows(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    return np.unique(np.column_stack([features, targets]), axis=0)


def assert_disjoint(stream) -> None:
    everybody = [row for share in dealt(stream) for row in share]
    assert len(set(everybody)) == len(everybody)
    assert set(everybody) <= set(range(total(stream)))


def test_even_shares_are_disjoint_cover_everything_and_differ_by_at_most_one(make):
    stream = make(partition="even")
    assert_disjoint(stream)
    sizes = [len(share) for share in stream.shares]
    assert (sum(sizes), max(sizes) - min(sizes) <= 1) == (total(stream), True)
    assert stream.rounds == min(sizes)


@pytest.mark.parametrize("partition", ["even", "uneven", "by-label"])
def test_an_agent_sees_its_own_share_once_an_epoch_and_nothing_else(make, partition):
    stream = make(partition=partition, agents=4, epochs=2, batch=3)
    train = stream.labelled()["train"]
    for agent, share in enumerate(stream.shares):
        batches = len(share) // 3
        for epoch in range(2):
            rounds = range(1 + epoch * batches, 1 + (epoch + 1) * batches)
            features, targets = seen(stream, agent, rounds)
            shown = sorted_rows(features, targets)
            assert len(shown) == 3 * batches  # no sample twice
            own = sorted_rows(train.features(share), train.targets[share])
            assert {tuple(row) for row in shown} <= {tuple(row) for row in own}
            numbers = [k for t in rounds for k in stream.samples(agent)(t)]
            np.testing.assert_array_equal(features, train.features(share)[numbers])
    assert stream.rounds == 2 * (min(map(len, stream.shares)) // 3)


def test_uneven_shares_have_the_sizes_asked_for(make):
    stream = make(partition="uneven", sizes=(5, 60, 31), agents=3, batch=2)
    assert [len(share) for share in stream.shares] == [5, 60, 31]
    assert_disjoint(stream)
    assert stream.rounds == 2


@pytest.mark.parametrize("sizes", [(5, 60), (1, 60, 31), (100, 100, 100_000)])
def test_sizes_that_do_not_fit_are_refused(make, sizes):
    with pytest.raises(BadInput, match=r"expected 3 sizes, one for each agent, each at least data\.batch = 2"):
        _ = make(partition="uneven", sizes=sizes, agents=3, batch=2).shares


def test_drawn_shares_hold_a_batch_at_least_and_their_spread_falls_with_the_concentration(make):
    spread = []
    for concentration in (0.2, 2.0, 1e6):
        streams = [make(seed, partition="uneven", concentration=concentration, batch=4) for seed in range(5)]
        sizes = np.array([[len(share) for share in stream.shares] for stream in streams])
        for stream in streams:
            assert_disjoint(stream)
        assert sizes.min() >= 4
        assert (total(streams[0]) - sizes.sum(axis=1) <= 7).all()  # less than one sample an agent is left over
        assert len({tuple(row) for row in sizes}) > 1 or concentration == 1e6
        spread.append(sizes.std(axis=1).mean())
    assert spread[0] > 1.5 * spread[1] > 1.5 * 1.5 * spread[2]
    assert spread[2] < 1


def test_shares_by_label_are_pure_but_for_the_one_at_the_boundary(make):
    stream = make(partition="by-label")
    train = stream.labelled()["train"]
    assert_disjoint(stream)
    assert sum(map(len, stream.shares)) == total(stream)
    means = [train.targets[share].mean() for share in stream.shares]
    assert sum(abs(mean) < 1 for mean in means) <= 1
    assert means == sorted(means)
    assert {-1.0, 1.0} <= set(means)
    shown = seen(stream, 0, range(1, stream.rounds + 1))[1]
    assert set(shown) == {-1.0}


@pytest.mark.parametrize("partition", ["even", "uneven", "by-label"])
def test_the_same_seed_deals_the_same_and_another_another(make, partition):
    one, again, other = (dealt(make(seed, partition=partition)) for seed in (3, 3, 4))
    assert one == again
    assert one != other


def test_shared_samples_come_alike_to_all_and_dealt_ones_in_orders_of_their_own(make):
    shared = make(partition="shared", agents=2)
    for t in (1, 7, 40):
        np.testing.assert_array_equal(shared.of(0)(t).features, shared.of(1)(t).features)
    dealt_out = make(partition="even", agents=2)
    assert dealt_out.samples(0)(1) != dealt_out.samples(1)(1)


@pytest.mark.parametrize("partition", ["even", "by-label"])
def test_more_agents_than_batches_are_refused(make, partition):
    with pytest.raises(BadInput, match="do not give 7 agents a batch of 60 each"):
        _ = make(partition=partition, batch=60).shares


def test_a_seed_for_the_data_alone_fixes_it_while_noise_changes():
    words = "algorithm.name=dola data.total=100"
    fixed = [setup_of(f"{words} data.seed=9 seed={seed}") for seed in (1, 2)]
    free = [setup_of(f"{words} seed={seed}") for seed in (1, 2, 9)]
    one, other, first, second, ninth = ([p.stream.of(2)(t).features for t in (1, 5)] for p in (*fixed, *free))
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one, ninth)
    assert not np.array_equal(first, second)
    edges = [p.topology.edges(1) for p in fixed]
    assert edges[0] != edges[1]  # graphs, like noise, still come from the run's seed


def test_one_file_for_each_agent_is_its_share(tmp_path):
    rng = np.random.default_rng(1)
    whole = []
    for i, size in enumerate((4, 6, 5)):
        features, targets = rng.standard_normal((size, 2)), rng.choice([0.0, 1.0], size)
        targets[:2] = 0.0, 1.0
        np.savez(tmp_path / f"part-{i}.npz", features=features, targets=targets)
        whole.append((features, 2 * targets - 1))
    stream = File(0, 3, Logistic, file=str(tmp_path / "part-{agent}.npz"), partition="even", shuffle=False)
    assert [len(share) for share in stream.shares] == [4, 6, 5]
    assert stream.rounds == 4
    for agent, (features, targets) in enumerate(whole):
        shown = seen(stream, agent, range(1, len(targets) + 1))
        np.testing.assert_array_equal(shown[0], features)
        np.testing.assert_array_equal(shown[1], targets)


@pytest.mark.parametrize("ending", ["csv", "parquet", "npz", "svm"])
def test_labels_are_the_same_as_a_list_which_other_ranks_are_sent(ending, tmp_path):
    frame = pandas.DataFrame({"a": [1.0, 2], "y": ["no", "yes"]})
    frame.to_csv(tmp_path / "own.csv", index=False)
    frame.to_parquet(tmp_path / "own.parquet")
    np.savez(tmp_path / "own.npz", features=np.ones((2, 1)), targets=np.array(["no", "yes"]))
    (tmp_path / "own.svm").write_text("no 1:1\nyes 1:2\n")
    stream = File(0, 1, Logistic, file=str(tmp_path / f"own.{ending}"), labels=["no", "yes"])
    assert stream.open()[0].targets.tolist() == [-1, 1]


OTHER_COLUMNS = {
    "in another order": (["a", "b", "y"], ["b", "a", "y"], ""),
    "others": (["a", "b", "y"], ["a", "c", "y"], ""),
    "the target among others": (["a", "b", "y"], ["a", "y", "b"], ""),
    "around a target that is named": (["a", "b", "y"], ["y", "b", "a"], "y"),
    "in capitals": (["a", "b", "y"], ["A", "b", "y"], ""),
}


@pytest.mark.parametrize("case", OTHER_COLUMNS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_of_agents_whose_columns_have_other_names_are_not_joined_by_place(case, ending, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, second, target = OTHER_COLUMNS[case]
    for k, names in enumerate([first, first, second]):
        frame = pandas.DataFrame([[0.5, 0, 1], [0, 1, 0]], columns=names)
        frame.to_csv(f"part-{k}.csv", index=False)
        frame.to_parquet(f"part-{k}.parquet")
    words = [f"data.file=part-{{agent}}.{ending}", "data.targets=real", f"data.target={target}"]
    with pytest.raises(BadInput) as caught:
        setup_of(
            " ".join(["algorithm.name=dola topology.agents=3 topology.name=complete problem.loss=absolute", *words])
        )
    said = str(caught.value)
    assert f"part-2.{ending}: the columns are " in said
    assert f"part-0.{ending} a, b, y; give all files the same columns" in said


def test_olr_agents_draw_their_own_samples_of_one_truth():
    even = OLR(5, 3, LeastSquares, partition="even", dimension=4, batch=50)
    truths = []
    for agent in range(3):
        a, b = seen(even, agent, range(1, 40))
        truths.append(np.linalg.lstsq(a, b)[0])
        assert not np.array_equal(a[:50], seen(even, (agent + 1) % 3, range(1, 2))[0])
    np.testing.assert_allclose(truths, np.tile(np.mean(truths, axis=0), (3, 1)), atol=0.2)
    assert np.linalg.norm(truths[0]) > 1


def test_samples_outside_the_accounted_domain_are_refused(tmp_path):
    """Mushrooms of other values than 0 and 1: smoothness would be accounted a hundred times too small."""
    (tmp_path / "mushrooms").write_text("1 1:10 2:1\n2 3:1\n1 4:1\n2 1:1\n")
    words = f"algorithm.name=dpsr data.name=mushrooms data.dir={tmp_path} data.train=1 topology.agents=2 rounds=2"
    parts = setup_of(words)
    with pytest.raises(BadInput, match=r"training sample \d+ \(from 0\) has a feature of size 10, which is above 1"):
        [parts.stream.of(i) for i in range(2)]


def test_a_file_of_a_hundred_million_features_is_asked_about(tmp_path):
    (tmp_path / "typo.libsvm").write_text("1 99999999:1\n-1 1:1\n")
    words = f"algorithm.name=dola data.file={tmp_path}/typo.libsvm topology.agents=1 rounds=1"
    with pytest.raises(BadInput, match=r"set data\.columns=99999999"):
        resolved(words)


def test_a_fixed_noise_scale_goes_with_shared_losses_only():
    dola = resolved("algorithm.name=dola data.name=digits rounds=9", 8)
    assert (dola.privacy.scale, dola.privacy.clip) == ("calibrated", 1.0)
    assert resolved("algorithm.name=dpsda-ps data.name=digits", 8).privacy.scale == 4.5


# ---- adult

TRAIN = """\
39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, 40, Cuba, <=50K
50, Private, 83311, HS-grad, 9, Divorced, Sales, Husband, Black, Male, 0, 1902, 13, United-States, >50K
88, ?, 999999, HS-grad, 9, Divorced, ?, Husband, White, Male, 0, 0, 99, United-States, <=50K
28, Local-gov, 338409, Masters, 14, Separated, Tech-support, Wife, Other, Female, 0, 0, 45, Japan, <=50K
"""
TEST = """\
|1x3 Cross validator
25, Private, 226802, 11th, 7, Never-married, Sales, Own-child, Black, Male, 0, 0, 60, United-States, <=50K.
63, Private, 104626, Prof-school, 15, Widowed, Prof-specialty, Husband, White, Male, 7688, 0, 32, Peru, >50K.
"""
PUBLIC = [100, 1.5e6, 16, 99_999, 5000, 100]
MAXIMA = [63, 338_409, 15, 7688, 1902, 60]  # of the five complete rows, by eye


@pytest.fixture
def people(tmp_path):
    """A function that makes the stream of three people to train and two to test."""
    (tmp_path / "adult.data").write_text(TRAIN)
    (tmp_path / "adult.test").write_text(TEST)
    return lambda agents=2, **settings: Adult(3, agents, Logistic, dir=str(tmp_path), **settings)


def numbers(text: str, bounds: list[float]) -> np.ndarray:
    """The six numeric features of the complete rows, then the constant, divided by the rows' norms."""
    fields = [line.split(", ") for line in text.splitlines() if line[0] != "|" and "?" not in line]
    scaled = np.array([[float(row[k]) for k in (0, 2, 4, 10, 11, 12)] for row in fields]) / bounds
    columns = np.column_stack([scaled, np.ones(len(scaled))])
    return columns / np.sqrt(8 + (columns**2).sum(axis=1, keepdims=True))  # eight indicators are 1


@pytest.mark.parametrize(("scaling", "bounds"), [("public", PUBLIC), ("maxima", MAXIMA)])
def test_adult_trains_on_one_file_or_on_both_by_either_scaling(people, scaling, bounds):
    split, everybody = (people(rows=rows, scaling=scaling).labelled() for rows in ("split", "all"))
    assert (list(split), list(everybody)) == (["train", "test"], ["train"])
    assert everybody["train"].targets.tolist() == [-1, 1, -1, -1, 1]
    for found, text in ((split["train"], TRAIN), (split["test"], TEST), (everybody["train"], TRAIN + TEST)):
        features = whole(found)
        np.testing.assert_allclose(features[:, 98:], numbers(text, bounds), rtol=1e-14)
        assert ((features[:, :98] > 0).sum(axis=1) == 8).all()
        np.testing.assert_allclose(np.linalg.norm(features, axis=1), 1, rtol=1e-15)
        assert features.shape == (len(found.targets), 105)


def test_adult_is_split_and_scaled_by_public_constants_by_default(people):
    plain, same = people(), people(rows="split", scaling="public")
    assert plain == same
    assert plain.unproven_because == ""
    assert people(scaling="maxima").unproven_because.startswith("columns are divided by the largest values")


@pytest.mark.parametrize("rows", ["split", "all"])
def test_adult_says_how_much_of_upstreams_it_found(people, rows):
    assert people(rows=rows).title == "Adult (subset: 5 of 45,222)"


def test_all_of_adult_comes_in_shares_and_batches_across_both_files(people):
    stream = people(rows="all", scaling="maxima", partition="uneven", sizes=(3, 2), batch=2, epochs=3)
    assert [len(share) for share in stream.shares] == [3, 2]
    assert sorted(np.concatenate(stream.shares)) == [0, 1, 2, 3, 4]
    assert stream.rounds == 3
    expected, labels = numbers(TRAIN + TEST, MAXIMA), np.array([-1, 1, -1, -1, 1])
    for agent in range(2):
        loss, samples = stream.of(agent), stream.samples(agent)
        for t in range(1, 4):
            own = stream.shares[agent][samples(t)]
            assert len(own) == 2
            np.testing.assert_allclose(loss(t).features[:, 98:], expected[own], rtol=1e-14)
            np.testing.assert_array_equal(loss(t).targets, labels[own])


def test_the_command_line_knows_adults_options(people):
    words = "algorithm.name=dola data.name=adult data.rows=all data.scaling=maxima data.partition=uneven"
    graph = "topology.name=complete topology.agents=2"  # two rounds of a drawn one may be without an edge
    parts = setup_of(f"{words} data.sizes=[2,3] {graph} rounds=2 data.dir={people().dir}")
    assert [len(share) for share in parts.stream.shares] == [2, 3]
    assert parts.stream.unproven_because


def test_the_digits_are_those_of_uci_in_their_order():
    """scikit-learn brings a copy of optdigits.tes."""
    whole = load_digits()
    kept = np.isin(whole.target, (6, 8))
    own = np.loadtxt(module.FILE, delimiter=",")
    np.testing.assert_array_equal(own, np.column_stack([whole.data, whole.target])[kept])


def test_brackets_in_the_name_of_a_file_are_no_pattern(tmp_path):
    for name in ("mine [1].csv", "mine 1.csv", "part[0]-0.csv", "part[0]-1.csv"):
        (tmp_path / name).write_text("1,2\n")
    assert files_of(tmp_path / "mine [1].csv") == [tmp_path / "mine [1].csv"]
    assert [file.name for file in files_of(tmp_path / "part[0]-{agent}.csv")] == ["part[0]-0.csv", "part[0]-1.csv"]
