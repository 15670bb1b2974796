"""Does this Chromium show a page here? `python -m workers.renderer.smoke CHROMIUM [--arg=A] [--env=K=V]`.

Exit 0 if it does, through Playwright and with text drawn; else 1 and one line that says why not.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from playwright.sync_api import Error, sync_playwright

from workers.renderer.errors import tell_in_a_line

TIMEOUT_MS = 20_000
TEXT = "<span style='font-size:40px'>bv3 draws text</span>"


def find_fault(chromium: str, arguments: Sequence[str], env: Mapping[str, str]) -> str:
    """'' if a page with text was drawn; else why not.

    A picture with text must differ from the blank one: where no font is found, Chromium lays the
    text out with a width and draws nothing.
    """
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium,
                args=list(arguments),
                # Playwright's default is no sandbox, whatever the arguments say.
                chromium_sandbox="--no-sandbox" not in arguments,
                env={**os.environ, **env},
                timeout=TIMEOUT_MS,
            )
            page = browser.new_page(viewport={"width": 400, "height": 100})
            page.set_default_timeout(TIMEOUT_MS)
            blank = page.screenshot()
            page.set_content(TEXT)
            drawn = page.screenshot()
            browser.close()
    except Error as error:
        return tell_in_a_line(error.message)
    return "" if drawn != blank else "no text was drawn (no usable font)"


def main() -> None:
    """Try once and say how it went."""
    parser = argparse.ArgumentParser(prog="python -m workers.renderer.smoke", description=__doc__)
    parser.add_argument("chromium")
    parser.add_argument("--arg", action="append", default=[], dest="arguments")
    parser.add_argument("--env", action="append", default=[])
    asked = parser.parse_args()
    fault = find_fault(asked.chromium, asked.arguments, dict(pair.split("=", 1) for pair in asked.env))
    sys.exit(f"Error: {fault}" if fault else 0)


if __name__ == "__main__":
    main()
