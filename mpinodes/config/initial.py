"""Write the first experiment on a user's own data files: `mpinodes init` calls these functions."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

import tomli_w

from mpinodes.config import registry
from mpinodes.config.compose import compose
from mpinodes.core.asked import Tree, flat, merge, overridden
from mpinodes.core.errors import BadInput

AGENT = "{agent}"
BUDGET, DELTA = 8.0, 1e-5
HEAD = """\
# Written by mpinodes init. The facts in [data] were read from the data, so nothing is proven yet. Check that each fact
# may be public: the names of the labels, the number of columns, the bounds in scaling. Replace bounds by numbers that
# you know without looking at the data. Then set facts = "stated". If the median of a column is near its smallest or
# largest value, the bounds lie around the median.
"""


def experiment(files: Sequence[str], asked: Tree) -> tuple[Tree, str, str]:
    """Return an experiment on one file for all agents, or on one file for each agent.

    Args:
        files: the files. The names of the agents' files differ only in a number, which counts from 0.
        asked: settings of the user, which override those of the experiment.

    Returns:
        The settings, the text of the TOML file, and a line that describes the samples.

    Raises:
        BadInput: the files cannot be used; the message says what to do.
    """
    if wrong := {"facts", "file"} & asked.get("data", {}).keys():
        raise BadInput(f"data.{min(wrong)}: leave this key out, because init reads the facts of the named files")
    name, number = _common_name(files), len(files) if len(files) > 1 else 0
    settings, line, columns = registry.find(registry.STREAMS, "file").initial(name, asked.get("data", {}), number)
    algorithm = registry.chosen(registry.ALGORITHMS, asked.get("algorithm") or settings["algorithm"])
    unfit = ["rounds", "step"] * (not algorithm.takes_steps) + ["privacy"] * algorithm.solves
    settings = {key: settings[key] for key in settings if key not in unfit}
    tree = overridden(merge(settings, {"privacy": {"delta": DELTA, "budget": {"epsilon": BUDGET}}}), asked)
    compose(tree, None)
    comment = textwrap.fill(line, 120, initial_indent="# ", subsequent_indent="# ")
    text = tomli_w.dumps(tree)
    for key, numbers in flat(tree):
        if key in columns and isinstance(numbers, list):  # behind the number of a column stands the column's name
            start = f"\n{key.rpartition('.')[2]} = [\n"
            named = (f"    {x},  # {name!r}\n" for x, name in zip(numbers, columns[key], strict=True))
            text = text.replace(start + "".join(f"    {x},\n" for x in numbers), start + "".join(named))
    return tree, f"{HEAD}{comment}\n{text}", line


def _common_name(files: Sequence[str]) -> str:
    """Return the name of the only file, or the names of the agents' files with {agent} in place of the number."""
    if len(files) == 1:
        return files[0]
    numbers = list(re.finditer(r"\d+", files[0]))
    for number in reversed(numbers):
        name = files[0][: number.start()] + AGENT + files[0][number.end() :]
        if {name.replace(AGENT, str(i)) for i in range(len(files))} == set(files):
            return name
    raise BadInput(
        f"{' '.join(files)}: the names of the agents' files must differ only in a number that counts from 0, as in "
        "part-0.csv part-1.csv; for all agents together, give one file"
    )
