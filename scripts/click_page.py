"""Test the page of a run or of a study in a real browser, and take screenshots: desktop, phone, dark and print.

python scripts/click_page.py RUN|STUDY OUT

The page is RUN/report.html, or STUDY/compare/compare.html.

The script needs Playwright and Chromium, which are not dependencies of mpinodes: pip install playwright, then either
playwright install chromium or CHROMIUM=/usr/bin/chromium. Exit code 1: an element of the page does not work.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


def size(text: str) -> tuple[int, float | None]:
    """Return a key that sorts the cells of a column: numbers by size, then words, then empty cells."""
    text = text.strip()
    try:
        return 0, float(text.split()[0].strip("[(%,").replace(",", "").replace("−", "-").replace("∞", "inf"))
    except (ValueError, IndexError):
        return (1 if text else 2), None


def clicked(page: Any) -> list[str]:
    """Click and type on all elements of a page; return the expectations that do not hold."""
    faults = []

    def check(expectation: str, holds: bool) -> None:
        if not holds:
            faults.append(expectation)

    fold = page.locator("details").first
    fold.locator("summary").first.click()
    check("a section folds", fold.get_attribute("open") is None)
    fold.locator("summary").first.click()
    check("and unfolds", fold.get_attribute("open") is not None)
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    check("all is unfolded for print", page.locator("details:not([open])").count() == 0)
    for table in page.locator("table.sortable").all():
        for number, head in enumerate(table.locator("th").all(), 1):
            cells, title = table.locator(f"tbody td:nth-child({number})"), head.inner_text()
            before = cells.all_text_contents()
            head.click()
            ascending = cells.all_text_contents()
            check(f"{title}: sorts by size", [*map(size, ascending)] == sorted(map(size, before)))
            check(f"{title}: says so", head.get_attribute("aria-sort") == "ascending")
            head.focus()
            page.keyboard.press("Enter")
            numbers = [n for _, n in map(size, cells.all_text_contents()) if n is not None]
            check(f"{title}: sorts by keyboard, too", numbers == sorted(numbers, reverse=True))
            others = [text for text in cells.all_text_contents() if size(text)[1] is None]
            check(f"{title}: words are last", cells.all_text_contents()[len(numbers) :] == others)
    return faults


def pictured(browser: Any, run: Path, out: Path, kind: str, options: dict[str, Any]) -> list[str]:
    """Take a screenshot, and test the page if `kind` is desktop; return the expectations that do not hold.

    Args:
        browser: the browser of Playwright.
        run: the directory of a run or a study.
        out: the directory of the screenshots.
        kind: desktop, phone, dark or print.
        options: the options of the browser's page.
    """
    faults: list[str] = []
    page: Any = browser.new_page(**options)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("request", lambda asked: faults.append(asked.url) if asked.url.startswith("http") else None)
    study = run / "compare" / "compare.html"
    page.goto((study if study.exists() else run / "report.html").resolve().as_uri())
    if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
        faults.append(f"{kind}: wider than its window")
    if kind == "print":
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.emulate_media(media="print")
    page.screenshot(path=out / f"{kind}.png", full_page=True)
    return faults + (clicked(page) if kind == "desktop" else [])


def main(run: Path, out: Path) -> int:
    """Test the page of a run and take all screenshots; return the exit code."""
    from playwright.sync_api import sync_playwright

    out.mkdir(parents=True, exist_ok=True)
    kinds: dict[str, dict[str, Any]] = {
        "desktop": {"viewport": DESKTOP}, "phone": {"viewport": PHONE},
        "dark": {"viewport": DESKTOP, "color_scheme": "dark"}, "print": {"viewport": DESKTOP},
    }  # fmt: skip
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=os.environ.get("CHROMIUM"), args=["--no-sandbox"])
        faults = [fault for kind, options in kinds.items() for fault in pictured(browser, run, out, kind, options)]
        browser.close()
    print("\n".join(faults) or f"all elements work; screenshots in {out}")
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
