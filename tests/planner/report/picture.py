"""Writes a section of a page as a picture: the README's is `time` of the plan that it shows.
usage: picture.py PAGE SECTION PICTURE.png"""

import pathlib
import sys

from playwright.sync_api import sync_playwright

BROWSER = "/usr/bin/chromium-headless-shell"


def main():
    page_file, section, picture = sys.argv[1:]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1080, "height": 900}, color_scheme="light")
        page.goto(pathlib.Path(page_file).absolute().as_uri())
        page.locator("#" + section).screenshot(path=picture)
        browser.close()


if __name__ == "__main__":
    main()
