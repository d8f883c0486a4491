"""Test the page of a run in a real browser, and take screenshots: desktop, phone, dark and print.

python scripts/click_page.py RUN OUT

The script needs Playwright and Chromium, which are not dependencies of mpinodes: pip install playwright, then either
playwright install chromium or CHROMIUM=/usr/bin/chromium. Exit code 1: an element of the page does not work.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


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
    table = page.locator("table.sortable").first
    cells = table.locator("tbody td:first-child")
    before = cells.all_inner_texts()
    table.locator("th").first.click()
    ascending = cells.all_inner_texts()
    by_words = "words => words.sort(new Intl.Collator('en', {numeric: true}).compare)"  # "‖" among letters: by no code
    check("a table sorts", ascending == page.evaluate(by_words, cells.all_inner_texts()) != before)
    table.locator("th").first.click()
    check("and the other way", cells.all_inner_texts() == ascending[::-1])
    check("and says so", table.locator("th").first.get_attribute("aria-sort") == "descending")
    values = page.locator("details", has=page.locator("summary", has_text="Values by horizon")).last
    values.locator("summary").click()
    head, first = values.locator("th"), values.locator("tbody td:first-child")
    before = first.all_inner_texts()
    head.first.click()
    head.first.click()
    check("numbers sort by size", first.all_inner_texts() == sorted(before, key=int, reverse=True))
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    check("all is unfolded for print", page.locator("details:not([open])").count() == 0)
    return faults


def pictured(browser: Any, run: Path, out: Path, kind: str, options: dict[str, Any]) -> list[str]:
    """Take a screenshot, and test the page if `kind` is desktop; return the expectations that do not hold.

    Args:
        browser: the browser of Playwright.
        run: the run directory.
        out: the directory of the screenshots.
        kind: desktop, phone, dark or print.
        options: the options of the browser's page.
    """
    faults: list[str] = []
    page: Any = browser.new_page(**options)
    page.on("pageerror", lambda error: faults.append(f"script: {error}"))
    page.on("request", lambda asked: faults.append(asked.url) if asked.url.startswith("http") else None)
    page.goto((run / "report.html").resolve().as_uri())
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
