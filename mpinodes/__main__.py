"""Run a command by its name: `mpinodes COMMAND ...` does the same as `python -m mpinodes.COMMAND ...`."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from mpinodes import __version__

# No import here may load numpy: the module of a command first sets the number of BLAS threads.
HERE = Path(__file__).parent


def commands() -> list[str]:
    """Return the names of all commands. A command is a module at the top of the package, such as `run`."""
    return sorted(path.stem for path in HERE.glob("[a-z]*.py"))


def usage() -> str:
    """Return the text of `mpinodes --help`: a line for each command, which says what the command does."""
    import ast

    lines = ["usage: [mpirun -n N] mpinodes COMMAND ...", ""]
    for name in commands():
        text = ast.get_docstring(ast.parse((HERE / f"{name}.py").read_text("utf-8"))) or ""
        lines.append(f"  {name:8} {text.partition(': ')[0].partition(chr(10))[0].rstrip('.')}")
    return "\n".join([*lines, "", "mpinodes COMMAND --help prints details; python -m mpinodes.COMMAND does the same."])


def _without_one(argv: list[str]) -> int:
    """Answer a command line without a command: --help, -h and --version.

    Under mpirun, only rank 0 prints the answer. The function returns the exit code 0.

    Raises:
        BadInput: the command line is empty, or its first word is not the name of a command.
    """
    from mpinodes.core.errors import BadInput
    from mpinodes.launch.launching import launcher

    if argv[:1] in (["--help"], ["-h"], ["--version"]):
        if (started := launcher()) is None or started.rank == 0:
            print(__version__ if argv[0] == "--version" else usage())
        return 0
    from mpinodes.config.schema import suggest

    if not argv:
        raise BadInput(f"the command is missing; choose from: {', '.join(commands())}; see mpinodes --help")
    raise BadInput(f"{argv[0]}: there is no such command; {suggest(argv[0], commands())}")


def main() -> None:
    """Run the command that the command line names, and end this process."""
    name, *rest = sys.argv[1:] or [""]
    if name not in commands():
        from mpinodes.launch.launching import command, leave

        leave(command(_without_one)(sys.argv[1:]))
    if not sys.flags.safe_path:
        sys.path[0] = ""  # as with python -m: a user's file may import modules from the working directory
    sys.argv[1:] = rest
    runpy.run_module(f"mpinodes.{name}", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
