"""Figures and page of a run, drawn from its directory alone."""

from __future__ import annotations

from pathlib import Path


def draw(directory: Path) -> Path:
    """Draw the figures of a run directory and its page; returns the page's path."""
    return directory
