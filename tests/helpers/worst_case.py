"""The games of scripts/worst_case.py, for tests."""

from __future__ import annotations

import importlib.util
import sys

from tests.helpers.running import CHECKOUT

_spec = importlib.util.spec_from_file_location("worst_case", CHECKOUT / "scripts" / "worst_case.py")
assert _spec
assert _spec.loader
_module = sys.modules["worst_case"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)

ALPHA, CASES, MU = _module.ALPHA, _module.CASES, _module.MU
least_mu, proven, scores = _module.least_mu, _module.proven, _module.scores
