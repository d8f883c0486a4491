"""DOLA with an end of its own choosing."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from typing import Literal

from mpinodes.algorithms.dola import DOLA

__all__ = ["Doomed"]


@dataclass(frozen=True)
class Doomed(DOLA):
    fate: Literal["live", "raise", "die"] = "live"

    def message(self, s, here):
        if here.t == 3 and self.fate == "raise":
            raise ArithmeticError("as was to be expected")
        if here.t == 3 and self.fate == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().message(s, here)
