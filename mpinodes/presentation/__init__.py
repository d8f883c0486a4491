"""A run in words, figures and a page."""

import logging

# Before matplotlib is imported: without a handler, it prints every line of a bad settings file.
logging.getLogger("matplotlib").addHandler(logging.NullHandler())
