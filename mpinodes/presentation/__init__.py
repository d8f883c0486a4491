"""Present a run to people: the text at the end of a run, the warnings, the figures and the page report.html."""

import logging

# Add a handler before matplotlib is imported; otherwise matplotlib prints every line of a wrong matplotlibrc file.
logging.getLogger("matplotlib").addHandler(logging.NullHandler())
