"""Plant bugs for the audit to find: files of mechanisms, algorithms and mixings, as a user would write them."""

from __future__ import annotations

import runpy
from pathlib import Path

from tests.helpers.running import CHECKOUT

FILES = Path(__file__).parent / "user_files"

SCRIPT = runpy.run_path(str(CHECKOUT / "scripts" / "bench" / "audits.py"))
MECHANISM, FAULTS = SCRIPT["MECHANISM"], SCRIPT["FAULTS"]
NOISE = dict(list(FAULTS.items())[:5])  # none, and those that were missed once; the script has more

BATCH = """
from dataclasses import dataclass, replace
from mpinodes.core import Query, Queries
{imports}
__all__ = ["Bug"]

def smaller(payload, batch):
    changes = dict(l1=payload.l1 / batch, l2=payload.l2 / batch)
    if payload.calibration is not None:
        changes["calibration"] = payload.calibration / batch
    return payload._replace(**changes) if hasattr(payload, "_replace") else replace(payload, **changes)

SEEN = {{}}

@dataclass(frozen=True)
class Bug({base}):
    def message(self, s, here):
        said, batch = super().message(s, here), SEEN.get(here.agent, 1)
        if isinstance(said, Query):
            return smaller(said, batch)
        if isinstance(said, Queries):
            return replace(said, vectors={{name: smaller(p, batch) for name, p in said.vectors.items()}})
        return said

    def update(self, s, here, inbox, loss):
        SEEN[here.agent] = len(getattr(loss, "loss", loss).targets)
        return super().update(s, here, inbox, loss)
"""

SCALAR = """
from dataclasses import dataclass
import numpy as np
from mpinodes.mixing.push_sum import PushSum
{imports}
__all__ = ["Bug"]

TOLD = {{}}

@dataclass(frozen=True)
class Telling(PushSum):
    def outgoing(self, s, here):
        share, w = super().outgoing(s, here)
        return share, np.nextafter(w, 9.0) if TOLD.get(here.agent) else w

@dataclass(frozen=True)
class Bug({base}):
    mixings = (Telling,)

    def update(self, s, here, inbox, loss):
        TOLD[here.agent] = bool(loss.targets[0] > 0)
        return super().update(s, here, inbox, loss)
"""


def own_class(name: str) -> tuple[str, str]:
    """Return code that imports a user's algorithm from its file, and the name of its class, for subclasses."""
    path = FILES / f"{name}.py"
    lines = (
        "import importlib.util, sys\n"
        f"spec = importlib.util.spec_from_file_location('planted_{name}', {str(path)!r})\n"
        "base = importlib.util.module_from_spec(spec); sys.modules[spec.name] = base; spec.loader.exec_module(base)"
    )
    words = path.read_text().split('__all__ = ["')[1]
    return lines, f"base.{words[: words.index(chr(34))]}"
