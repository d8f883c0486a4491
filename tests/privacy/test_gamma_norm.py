"""Gamma-norm noise: its curve against the integral itself, high precision, simulation, and runs by the command."""

from __future__ import annotations

from math import inf, log, sqrt
from pathlib import Path

import mpmath
import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats
from scipy.integrate import quad
from scipy.special import beta, gamma

from mpinodes.core import Kind
from mpinodes.core.events import Events
from mpinodes.mechanisms import gamma_norm
from mpinodes.privacy.accountant import price
from mpinodes.privacy.curves import ORDERS, laplace_rdp, pure_rdp, pure_rho
from mpinodes.privacy.gamma_norm import EXPONENT, LARGEST, MARGIN, gamma_norm_rdp
from mpinodes.privacy.ledger import Costs, Saturated, Uses
from mpinodes.privacy.recursive import open_ledger
from mpinodes.privacy.tight import compose
from tests.helpers.accounting import DELTA, by_round, events, loss
from tests.helpers.parts import run_of
from tests.helpers.records import read, summary_of

DIMENSIONS = (1, 2, 3, 10, 105, 2001)
SHIFTS = (1e-7, 1e-3, 0.1, 1.0, 6.0, 50.0, 300.0, 1000.0)


def curve(d: int, x: float) -> np.ndarray:
    return gamma_norm_rdp(d, np.array([x]))[0]


def truth(d: int, x: float, order: float) -> float:
    """The closed form at sixty digits."""
    with mpmath.workdps(60):
        a, z, nu = mpmath.mpf(order), mpmath.mpf(x) / 2, mpmath.mpf(d) / 2 - 1
        k = 2 * a - 1
        first, second = (mpmath.besseli(n, k * z, maxterms=10**6) for n in (nu, nu + 1))
        one, other = (mpmath.besselk(n, z) for n in (nu + 1, nu))
        return float(mpmath.log(z * k**-nu * (one * first + other * second / k)) / (a - 1))


def integral(d: int, x: float, order: float) -> float:
    """E over norm and cosine of the noise of exp(a(‖e‖ − ‖e − xu‖)): what the curve is by definition."""

    def at(r: float) -> float:
        def over(c: float) -> float:
            return (1 - c * c) ** ((d - 3) / 2) * np.exp(order * (r - sqrt(r * r + x * x - 2 * r * x * c)))

        return r ** (d - 1) * np.exp(-r) * quad(over, -1, 1, points=[0.8, 0.97], epsrel=1e-9)[0]

    total = sum(quad(at, *span, epsrel=1e-9, limit=200)[0] for span in ((0, x), (x, 3 * x + d), (3 * x + d, 200)))
    return log(total / gamma(d) / beta(0.5, (d - 1) / 2)) / (order - 1)


@pytest.mark.parametrize(("d", "x"), [(3, 0.5), (3, 3.0), (10, 0.3), (10, 4.0), (50, 6.0)])
def test_the_curve_is_the_renyi_divergence(d, x):
    for k in (0, 9, 29, 50):
        assert curve(d, x)[k] == pytest.approx(integral(d, x, ORDERS[k]), rel=1e-6)


@pytest.mark.parametrize("d", DIMENSIONS)
@pytest.mark.parametrize("x", SHIFTS)
def test_it_is_never_below_sixty_digits_and_hardly_above(d, x):
    orders, found = ORDERS[::20], curve(d, x)[::20]
    exact = np.array([truth(d, x, a) for a in orders])
    assert (found >= exact).all()
    sound = orders * x < EXPONENT
    np.testing.assert_allclose(found[sound], exact[sound], rtol=1.01 * MARGIN)
    if ORDERS[0] * x < EXPONENT:
        np.testing.assert_allclose(found, exact, rtol=1e-4)


@pytest.mark.parametrize("x", [0.05, 1.0, 7.0, 80.0])
def test_in_one_dimension_it_is_laplace(x):
    sound = ORDERS * x < EXPONENT
    np.testing.assert_allclose(curve(1, x)[sound], laplace_rdp(np.array([x]))[0][sound], rtol=2 * MARGIN)


@pytest.mark.parametrize("d", [*DIMENSIONS, 50_001, LARGEST, LARGEST + 1, 10**7])
def test_it_grows_with_shift_and_order_and_stays_below_all_closed_forms(d):
    x = np.geomspace(1e-6, 1e5, 120)
    found = gamma_norm_rdp(d, x)
    assert np.isfinite(found).all()
    assert (found > 0).all()
    assert (np.diff(found, axis=0) >= 0).all()
    assert (np.diff(found, axis=1) >= -2 * MARGIN * found[:, 1:]).all()
    assert (found <= x[:, None] ** 2 / (2 * d) * ORDERS * (1 + MARGIN)).all()
    known = x >= 1e-3  # below, the closed form of a pure mechanism is lost in rounding
    assert (found[known] <= pure_rdp(x[known])).all()


def test_more_dimensions_hide_more():
    found = [curve(d, 2.0) for d in (1, 2, 3, 10, 50, 105, 784)]
    assert (np.diff(found, axis=0) < 0).all()


# ---- from below, by simulation


def losses(d: int, x: float, runs: int, rng: np.random.Generator) -> np.ndarray:
    """Log density ratios of one release."""
    r, g = rng.gamma(d, size=runs), rng.standard_normal(runs)
    c = g / np.sqrt(g * g + rng.chisquare(d - 1, runs))
    return np.sqrt(r * r + 2 * r * x * c + x * x) - r


@pytest.mark.parametrize(("d", "x"), [(2, 1.0), (10, 0.5), (10, 3.0), (105, 5.0)])
def test_simulated_moments_lie_on_the_curve(d, x):
    """E exp((a − 1) L) for small orders, to five standard errors."""
    drawn = losses(d, x, 400_000, np.random.default_rng(1))
    for k in (0, 4, 9):
        moments = np.exp((ORDERS[k] - 1) * drawn)
        error = 5 * moments.std() / sqrt(len(moments))
        assert abs(moments.mean() - np.exp((ORDERS[k] - 1) * curve(d, x)[k])) < error


@pytest.mark.parametrize(("d", "rounds", "x"), [(3, 5, 1.0), (10, 20, 1.0), (30, 20, 3.0)])
def test_shifts_that_follow_what_was_said_tell_no_more_than_is_proven(d, rounds, x):
    """Hockey-stick divergence from below: whoever shifts along what was said, and less where enough was told."""
    rng, runs, delta = np.random.default_rng(2), 50_000, 1e-3
    told, along = np.zeros(runs), np.eye(d)[np.zeros(runs, int)]
    for _ in range(rounds):
        e = rng.standard_normal((runs, d))
        e *= (rng.gamma(d, size=runs) / np.linalg.norm(e, axis=1))[:, None]
        said = e + np.where(told < 0, 0.97, 1.0)[:, None] * x * along
        told += np.linalg.norm(said, axis=1) - np.linalg.norm(e, axis=1)
        along = said / np.linalg.norm(said, axis=1)[:, None]
    made = events(rounds, Kind.GAMMA_NORM, l1=x, l2=x, uses=1)
    proven, before = (proven_at(replace(made, dimension=known), delta) for known in (d, 0))
    assert 0.5 * proven < epsilon_from_below(told, delta) <= proven < 0.8 * before


def epsilon_from_below(told: np.ndarray, delta: float) -> float:
    """An ε at which the losses show more than δ, with probability 0.999: P(L > ε + 1)(1 − 1/e) > δ."""
    above, counts = np.sort(told)[::-1], np.arange(1, 2000)
    enough = stats.beta(counts, len(told) - counts + 1).ppf(0.001) > delta / (1 - np.exp(-1))
    return float(above[counts[enough][0]] - 1)


def proven_at(made: Events, delta: float) -> float:
    return price([open_ledger(made, Uses.of(made, lambda r: [0]))], [1], len(made), delta, False).epsilon


# ---- in the ledger


def of_kind(kind: Kind, dimension: int = 10, **fields: object) -> Events:
    return replace(events(4, kind, **({"l1": 0.4, "l2": 0.4, "scale": 0.5} | fields)), dimension=dimension)


def test_its_events_cost_the_curve_of_their_l2_change_over_the_scale():
    made = of_kind(Kind.GAMMA_NORM, l1=0.1, l2=0.4, draws=3.0)  # whatever is said of l1
    costs, t, delta = Costs(made), np.array([1, 2]), np.array([0.4, 0.2])
    np.testing.assert_allclose(costs.pure(t, delta), [2.4, 1.2])
    np.testing.assert_allclose(costs.rho(t, delta), [3 * 0.64 / 20, 3 * 0.16 / 20])
    wanted = 3 * gamma_norm_rdp(10, np.array([0.8, 0.4]))
    found = costs.rdp(t, delta)
    assert (found >= wanted * (1 - 1e-12)).all()  # a shift is rounded up by a thousandth
    np.testing.assert_allclose(found, wanted, rtol=0.0025)


def test_rounding_to_a_lattice_adds_its_l2_size():
    costs = Costs(of_kind(Kind.GAMMA_NORM, rounding_l1=9.0, rounding_l2=0.1))
    t, delta = np.array([1]), np.array([0.4])
    assert costs.pure(t, delta) == pytest.approx(1.0)
    assert costs.rho(t, delta) == pytest.approx(1 / 20)


@pytest.mark.parametrize("made", [of_kind(Kind.GAMMA_NORM, dimension=0), of_kind(Kind.PURE)])
def test_what_is_no_such_shift_or_of_no_known_dimension_costs_as_any_pure_mechanism(made):
    costs, t, delta = Costs(made), np.array([1]), np.array([0.4])
    assert costs.rho(t, delta) == pytest.approx(pure_rho(0.8))
    np.testing.assert_allclose(costs.rdp(t, delta), pure_rdp(np.array([0.8])), rtol=0.0025)


def test_hidden_state_adds_up_per_order():
    """Every later message moves by the most it can: rows of the ledger's curve add up."""
    made = of_kind(Kind.GAMMA_NORM, largest=0.2, lipschitz=inf)
    ledger = open_ledger(made, Uses.of(made, by_round))
    assert isinstance(ledger, Saturated)
    ledger.at(4)
    wanted = gamma_norm_rdp(10, np.array([0.8, 0.4])).T @ [1, 2]
    np.testing.assert_allclose(ledger.rdp(np.array([0]))[0], wanted, rtol=0.0025)


def test_numerical_composition_takes_it_as_any_pure_mechanism():
    one, other = (of_kind(kind) for kind in (Kind.GAMMA_NORM, Kind.PURE))
    assert loss(one).epsilon < loss(other).epsilon
    found = []
    for made in (one, other):
        ledger = open_ledger(made, Uses.of(made, by_round))
        ledger.at(4)
        found.append(compose([ledger], [1])(DELTA))
    assert found[0] == found[1] > 0


# ---- runs


@pytest.mark.parametrize(("d", "proven"), [(10, 127.4), (50, 40.9), (105, 24.8)])
def test_pvp_admm_is_proven_below_what_a_pure_mechanism_would_cost(d, proven, tmp_path):
    """The default run; all three were 380.6 before."""
    run = run_of(tmp_path / "run", {"algorithm": {"name": "pvp-admm"}, "data": {"dimension": d}, "comparator": False})
    told = summary_of(run)["privacy"]["network"]
    assert told["proven_pure"] == pytest.approx(380.6, abs=0.1)
    assert told["rule"] == "RDP"
    assert told["proven"] == pytest.approx(proven, abs=0.1)


@pytest.mark.parametrize(
    ("name", "kind"), [("pvp-admm", Kind.GAMMA_NORM), ("dvp-admm", Kind.PURE), ("pp-admm", Kind.PURE)]
)
def test_only_a_shift_that_does_not_depend_on_its_noise_is_one(name, kind, tmp_path):
    run = run_of(tmp_path / "run", {"algorithm": {"name": name}, "rounds": 5, "comparator": False})
    kinds = read(run, "event_kind")
    assert (kinds[0] == Kind.CLEAN).all()
    assert (kinds[1:] == kind).all()


def test_a_users_mechanism_may_name_the_law_or_not(tmp_path):
    """One that says no more than that it is pure is charged as before, one that names the law by the curve."""
    source = (Path(gamma_norm.__file__)).read_text()
    proven, asked = {}, {"algorithm": {"name": "pvp-admm"}, "rounds": 11, "comparator": False}
    for kind in ("GAMMA_NORM", "PURE"):
        file = tmp_path / f"{kind.lower()}.py"
        pure = source.replace(
            "Event.of(query, Kind.GAMMA_NORM, scale)", "Event.of(query, Kind.PURE, scale)._replace(l1=query.l2)"
        )
        own = source if kind == "GAMMA_NORM" else pure
        file.write_text(
            own.replace(
                "class GammaNorm(Mechanism):", 'class GammaNorm(Mechanism):\n    takes_the_place_of = "gamma-norm"\n'
            )
        )
        run = run_of(tmp_path / kind, asked | {"privacy": {"path": str(file)}})
        proven[kind] = summary_of(run)["privacy"]["network"]["proven"]
    built_in = run_of(tmp_path / "own", asked)
    assert proven["GAMMA_NORM"] == summary_of(built_in)["privacy"]["network"]["proven"] < 0.7 * proven["PURE"]
