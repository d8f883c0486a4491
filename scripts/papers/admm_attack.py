"""Appendix E: one sample of an ADMM agent inferred from all that was said, its penalties known, assumed and fitted.

Zhang, Khalili, Liu. Three agents of 50 samples in R^5, C = B = 50, θ = 0.5, α = 3, ρ = 0.3; a fifth of the labels is
wrong, that of the unknown sample too. Above: the cosine between what the attacker finds and y x of that sample. Below:
β of Theorem 4.1, and what can be proven with the determinant lemma, Σ αC/(ηVB) + ln(1 + C c1/(B(ρ/N + 2ηV))).

python scripts/papers/admm_attack.py OUT
"""

from __future__ import annotations

import sys

import numpy as np
from shared import COLOURS, HERE, arguments, holds, panels, save

from mpinodes.experiment import log_spaced
from mpinodes.privacy.attacks import Known, cosine, fit_growth, infer

sys.path.insert(0, str(HERE.parents[1]))
from tests.test_attacks import AGENTS, REGULARIZER, SAMPLES, STEP, Setting, attacked

GROWTH = 1.002
FIRST = 10  # round drawn


def made(setting: Setting, repeats: int) -> list[tuple[Known, np.ndarray]]:
    """By run: what the attacker knows, and y x of the sample that it does not."""
    return attacked(setting, repeats=repeats)


def proven(setting: Setting) -> np.ndarray:
    """(T,) the loss of the determinant lemma after each round."""
    scale, stiffness = setting.weight / SAMPLES, (AGENTS - 1) * setting.penalty
    return np.cumsum(setting.rate * scale / stiffness + np.log1p(scale / 4 / (REGULARIZER + 2 * stiffness)))


def followed(runs: list[tuple[Known, np.ndarray]], penalty: np.ndarray, shown: np.ndarray) -> np.ndarray:
    """(runs, shown) cosines after these rounds, by one schedule of penalties."""
    return np.array([cosine(infer(known, penalty), sample)[shown - 1] for known, sample in runs])


def fitted(runs: list[tuple[Known, np.ndarray]], shown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same by penalties that are fitted to these rounds; and the growths found."""
    cosines, growths = np.empty((len(runs), len(shown))), np.empty((len(runs), len(shown)))
    for i, (known, sample) in enumerate(runs):
        for k, rounds in enumerate(shown.tolist()):
            few = known.until(rounds)
            growths[i, k] = fit_growth(few, STEP)
            cosines[i, k] = cosine(infer(few, STEP * growths[i, k] ** np.arange(rounds))[-1], sample)
    return cosines, growths


def main() -> None:
    asked = arguments(__doc__).parse_args()
    rounds, repeats = (1000, 1) if asked.quick else (5000, 5)
    constant, growing = Setting(rounds=rounds), Setting(growth=GROWTH, rounds=rounds)
    shown = log_spaced(rounds, 30)
    shown = shown[shown >= FIRST]
    same, private = made(constant, repeats), made(growing, repeats)
    by_fit, growths = fitted(private, shown)
    curves = {
        "DVP: η = θ, known": followed(same, constant.penalty, shown),
        f"PP: η(t) = θ · {GROWTH}^(t−1), known": followed(private, growing.penalty, shown),
        "PP, attacker assumes η = θ": followed(private, constant.penalty, shown),
        "PP, attacker fits the growth": by_fit,
    }
    figure, (above, below) = panels(2, 1, width=7.0, height=2.9)
    styles = ["-", "-", "-", "--"]
    for colour, style, (name, values) in zip(COLOURS, styles, curves.items(), strict=False):
        mean, error = values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))
        above.fill_between(shown, mean - error, mean + error, color=colour, alpha=0.15, lw=0)
        above.plot(shown, mean, style, color=colour, label=name)
    above.set(xscale="log", ylim=(0, 1.02), ylabel="cosine with y x", title="what the attacker finds")
    for colour, name, setting in zip(COLOURS, ("DVP", "PP"), (constant, growing), strict=False):
        below.plot(shown, setting.claimed[shown - 1], color=colour, label=f"{name}: β of Theorem 4.1")
        below.plot(shown, proven(setting)[shown - 1], ":", color=colour, label=f"{name}: proven")
    below.set(xscale="log", yscale="log", xlabel="rounds T", ylabel="privacy loss ε", title="what it was told at most")
    for axes in (above, below):
        axes.legend(fontsize=7)
    print(f"{'T':>6}" + "".join(f" {name[:22]:>23}" for name in curves) + f" {'β DVP':>8} {'β PP':>8} {'q found':>18}")
    for k, t in enumerate(shown.tolist()):
        found = "".join(f" {values[:, k].mean():23.3f}" for values in curves.values())
        q, beta = growths[:, k], (constant.claimed[t - 1], growing.claimed[t - 1])
        print(f"{t:6}{found} {beta[0]:8.3g} {beta[1]:8.3g} {q.mean():9.5f} ±{q.std(ddof=1):8.5f}")
    dvp, known, assumed, fit = (values[:, -1].mean() for values in curves.values())
    save(
        figure,
        asked.output / "admm-attack.png",
        f"ADMM, Appendix E: {len(private)} runs, mean and its standard error",
        [
            f"η known, the sample is inferred: {holds(min(dvp, known) > 0.9)}, cosine {dvp:.3f} (DVP) and {known:.3f} "
            f"(PP) at T = {rounds}, where β is {constant.claimed[-1]:.0f} and {growing.claimed[-1]:.0f}.",
            f"η private, that is impossible: {holds(fit < known - 0.05)}, {fit:.3f} with q fitted "
            f"({growths[:, -1].mean():.5f} ± {growths[:, -1].std(ddof=1):.5f}); {assumed:.3f} if η = θ is assumed.",
        ],
    )


if __name__ == "__main__":
    main()
