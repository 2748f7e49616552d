#!/usr/bin/env python3
"""The page of reports in a browser: what it shows, how it is used, and how it looks.

usage: page_test.py WRITE_PAGE DIRECTORY [--benchmark | unittest's arguments]

WRITE_PAGE writes a made-up report, and small answers. Pictures of the pages are kept in DIRECTORY. --benchmark tells the
frames per second of the timeline and when the page is first painted. Exit status 77: there is no
browser, or no Playwright."""

import base64
import json
import math
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

ROOT = pathlib.Path(__file__).resolve().parents[3]
BROWSER = shutil.which("chromium-headless-shell")
SKIPPED = 77

# Where tools/install-dependencies puts packages of PyPI.
sys.path += map(str, (ROOT / "build/python/lib").glob("python3*/site-packages"))
try:
    from playwright.sync_api import sync_playwright
except ImportError:
    print("page_test.py: skipped: no Playwright (tools/install-dependencies)")
    sys.exit(SKIPPED)
if BROWSER is None:
    print("page_test.py: skipped: no chromium-headless-shell, a package of Debian")
    sys.exit(SKIPPED)

WRITE_PAGE, DIRECTORY = sys.argv[1], pathlib.Path(sys.argv[2])
PAGE, DOCUMENT = DIRECTORY / "page.html", DIRECTORY / "report.json"
ANSWERS = DIRECTORY / "answers"
ADDRESS = PAGE.resolve().as_uri()

PREFIXES = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "m": 1e-3, "µ": 1e-6, "n": 1e-9}


def value_of(text, unit):
    """The number that a text such as "765.8 ms" tells, in `unit`."""
    number, _, told = text.replace(",", "").replace("−", "-").replace("+", "").partition(" ")
    if told == unit:
        return float(number)
    for prefix, factor in PREFIXES.items():
        if told in (prefix + unit, f"{prefix} {unit}".strip()):
            return float(number) * factor
    raise AssertionError(f"{text!r} is not in {unit!r}")


class Step:
    """A schedule's actions, unpacked by Python."""

    def __init__(self, schedule):
        numbers = zlib.decompress(base64.b64decode(schedule["actions"]))
        count = sum(schedule["num_actions"])
        self.gaps, self.durations, self.kinds, self.microbatches, self.chunks = (
            struct.unpack_from(f"<{count}i", numbers, 4 * count * column) for column in range(5))
        self.tick, self.first, self.starts = schedule["tick_s"], [0], []
        for actions in schedule["num_actions"]:
            ticks = 0
            for i in range(self.first[-1], self.first[-1] + actions):
                self.starts.append((ticks + self.gaps[i]) * self.tick)
                ticks += self.gaps[i] + self.durations[i]
            self.first.append(self.first[-1] + actions)

    def busy(self, rank):
        return sum(self.durations[self.first[rank]:self.first[rank + 1]]) * self.tick


# Luminance and contrast as in WCAG 2; colours are texts such as "rgb(1, 2, 3)".
def channels(color):
    return [float(part) for part in re.findall(r"[\d.]+", color)[:3]]


def linear(color):
    return [part / 3294.6 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4
            for part in channels(color)]


def luminance(color):
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear(color)))


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


# How people without one kind of cone see (Viénot, Brettel, Mollon 1999), in linear colours.
PROTANOPIA = ((0.11238, 0.88762, 0), (0.11238, 0.88762, 0), (0.00401, -0.00401, 1))
DEUTERANOPIA = ((0.29275, 0.70725, 0), (0.29275, 0.70725, 0), (-0.02234, 0.02234, 1))
ALL_CONES = ((1, 0, 0), (0, 1, 0), (0, 0, 1))


def lab(color, seen_by):
    seen = [sum(w * part for w, part in zip(row, linear(color))) for row in seen_by]
    xyz = [sum(w * max(0, part) for w, part in zip(row, seen)) / white for row, white in (
        ((0.4124, 0.3576, 0.1805), 0.9505), ((0.2126, 0.7152, 0.0722), 1),
        ((0.0193, 0.1192, 0.9505), 1.089))]
    x, y, z = (part ** (1 / 3) if part > 0.008856 else 7.787 * part + 16 / 116 for part in xyz)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


# Of each visible text: the colour, and what is behind it. Colours are read back from a canvas.
READ_TEXTS = """() => {
  const context = Object.assign(document.createElement('canvas'), {width: 1, height: 1}).getContext(
    '2d', {willReadFrequently: true});
  const rgba = (color) => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    return [...context.getImageData(0, 0, 1, 1).data];
  };
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const color = rgba(getComputedStyle(node).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255, 255];
  };
  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ['SCRIPT', 'STYLE', 'NOSCRIPT'].includes(node.tagName)) continue;
    if (!node.checkVisibility() || node.closest('.unseen')) continue;
    const style = getComputedStyle(node);
    const color = rgba(node instanceof SVGElement ? style.fill : style.color);
    texts.push({text: walker.currentNode.data.trim(), color: `rgb(${color})`, behind: `rgb(${behind(node)})`});
  }
  return texts;
}"""

READ_VARIABLE = """(name) => {
  const probe = document.body.appendChild(document.createElement('span'));
  probe.style.color = `var(--${name})`;
  const {color} = getComputedStyle(probe);
  probe.remove();
  return color;
}"""

# What has the focus: what it is, its name, and whether one sees that it has the focus.
READ_FOCUS = """() => {
  const node = document.activeElement;
  const style = getComputedStyle(node);
  return {
    tag: node.tagName.toLowerCase(),
    name: node.getAttribute('aria-label') || node.textContent.trim(),
    isSeen: (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2)
      || (node instanceof SVGElement && parseFloat(style.strokeWidth) >= 2),
    isLast: node === document.body,
  };
}"""


class Browser:
    """The browser, and pages in it that keep what they say and ask for."""

    def __init__(self):
        ANSWERS.mkdir(parents=True, exist_ok=True)
        subprocess.run([WRITE_PAGE, PAGE, DOCUMENT, ANSWERS], check=True)
        self.document = json.loads(DOCUMENT.read_text(encoding="utf-8"))
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])

    def close(self):
        self.browser.close()
        self.playwright.stop()

    def view(self, section):
        return next(part["view"] for part in self.document["sections"] if part["id"] == section)

    def open(self, faults, width=1280, script=None, address=ADDRESS, **options):
        context = self.browser.new_context(viewport={"width": width, "height": 900}, **options)
        page = context.new_page()
        page.on("console", lambda message: faults.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: faults.append(f"error: {error} {error.stack}"))
        page.on("dialog", lambda dialog: (faults.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: request.url == address or faults.append(request.url))
        if script:
            page.add_init_script(script)
        page.goto(address)
        return page


def until_drawn(page):
    page.wait_for_function("""() => [...document.querySelectorAll('canvas.timeline')].every(
        (canvas) => canvas.dataset.drawn) && [...document.querySelectorAll('.picture')].every(
        (picture) => picture.firstChild)""")
    return page


def packed(*columns):
    """Columns of numbers as a timeline has them."""
    numbers = [number for column in columns for number in column]
    return base64.b64encode(zlib.compress(struct.pack(f"<{len(numbers)}i", *numbers))).decode()


def schedule(name="1f1b", num_actions=(), actions=None, end_s=0.0):
    return {"name": name, "end_s": end_s, "bubble_s": 0.0, "tick_s": 0.5, "num_actions": list(num_actions),
            "actions": actions or packed(*[[]] * 5), "critical_path": {"ranks": [], "indices": []}}


AXIS, LOG_AXIS = ({"name": "it", "unit": "s", "is_log": is_log} for is_log in (False, True))
KIND = {"name": "forward", "letter": "F", "tint": "compute"}
BAR = {"name": "n" * 300, "value": -2.5, "tint": "idle", "low": -3, "high": 0}
POINT = {"x": 0, "y": -1, "name": "p"}
# Little, nothing, zeros, negative numbers, long names, many ranks.
HARD_VIEWS = [
    {"kind": "text", "paragraphs": []}, {"kind": "table", "columns": [], "rows": []},
    {"kind": "bars", "unit": "s", "is_waterfall": False, "bars": []},
    {"kind": "bars", "unit": "s", "is_waterfall": True, "bars": [BAR], "total": BAR},
    {"kind": "bars", "unit": "", "is_waterfall": False, "bars": [{**BAR, "value": 0, "low": 0}]},
    {"kind": "stacked", "x": AXIS, "y": AXIS, "categories": [], "columns": []},
    {"kind": "stacked", "x": AXIS, "y": AXIS, "categories": ["a"], "columns": [{"name": "0", "values": [0]}]},
    *({"kind": "curves", "x": axis, "y": axis, "limits": [], "curves": curves} for axis in (AXIS, LOG_AXIS)
      for curves in ([], [{"name": "c", "x": [], "y": [], "has_steps": True}],
                     [{"name": "c", "x": [1], "y": [0], "has_steps": False}],
                     [{"name": "c", "x": [0, 1], "y": [-1, 1e-12], "has_steps": True}])),
    *({"kind": "scatter", "x": axis, "y": axis, "groups": [{"name": "g", "points": points}], "curves": [],
       "parts": [], "part_unit": ""} for axis in (AXIS, LOG_AXIS)
      for points in ([], [POINT], [POINT, POINT, {**POINT, "x": 1e9, "y": 3}])),
    {"kind": "curves", "x": AXIS, "y": LOG_AXIS, "limits": [{"name": "l", "value": 0}], "curves": []},
    {"kind": "curves", "x": AXIS, "y": AXIS, "limits": [], "marks": [{"name": "m" * 200, "value": 0.5}],
     "curves": [{"name": "c", "x": [0, 1], "y": [1, 2], "has_steps": False}]},
    {"kind": "choices", "choices": []},
    {"kind": "choices", "choices": [
        {"name": "n" * 300, "view": {"kind": "bars", "unit": "s", "is_waterfall": False, "bars": []}}]},
    {"kind": "flips", "inputs": []}, {"kind": "flips", "inputs": [{"name": "i", "steps": []}]},
    {"kind": "flips", "inputs": [{"name": "i", "steps": [{"change": 0.1, "winner": "", "is_same": True}]}]},
    {"kind": "timeline", "num_ranks": 0, "kinds": [], "schedules": []},
    {"kind": "timeline", "num_ranks": 1, "kinds": [KIND], "schedules": [schedule(num_actions=[0])]},
    {"kind": "timeline", "num_ranks": 1, "kinds": [KIND], "schedules": [
        schedule("measured", [1], packed([0], [1], [0], [-1], [-1]), 0.5)]},
    {"kind": "timeline", "num_ranks": 1000, "kinds": [KIND], "schedules": [
        schedule("1f1b", [1] * 1000, packed(*[[1] * 1000, [2] * 1000, *[[0] * 1000] * 3]), 1.5)]},
]


def open_all(page):
    for summary in page.locator("summary").all():
        summary.click()
    page.wait_for_function("""() => [...document.querySelectorAll('details.numbers')].every(
        (details) => details.querySelector('table'))""")


class PageTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.document = cls.browser.document

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def setUp(self):
        self.faults = []

    def tearDown(self):
        self.assertEqual(self.faults, [], "the page said or asked for something")

    def open(self, **options):
        page = self.browser.open(self.faults, **options)
        self.addCleanup(page.context.close)
        return page

    def drawn(self, **options):
        return until_drawn(self.open(**options))

    # What it shows

    def test_tells_the_answer_without_a_script(self):
        page = self.open(java_script_enabled=False)
        self.assertEqual(page.locator("h1").text_content(), self.document["title"])
        self.assertEqual(page.locator(".sentence").text_content(), self.document["sentence"])
        self.assertEqual(page.locator("ul.rests-on li").all_text_contents(), self.document["rests_on"])
        self.assertIn("need JavaScript", page.locator("noscript").inner_text())

    def test_has_each_section_and_a_way_to_it(self):
        page = self.drawn()
        titles = [section["title"] for section in self.document["sections"]]
        self.assertEqual(page.locator("section > h2").all_text_contents(), titles)
        self.assertEqual(page.locator("nav a").all_text_contents(), titles)
        page.locator("nav a", has_text="Does it fit?").click()
        self.assertTrue(page.url.endswith("#memory"))
        page.wait_for_function(
            "() => Math.abs(document.getElementById('memory').getBoundingClientRect().top) < 40")

    def test_shows_hostile_names_as_text(self):
        page = self.drawn()
        hostile = self.document["sections"][-1]["title"]
        self.assertEqual(page.locator("#hostile h2").text_content(), hostile)
        self.assertEqual(page.locator("#hostile p").last.text_content(), "Plain.")
        self.assertEqual(page.locator("img").count(), 0)
        self.assertIn(hostile, page.locator("#stacks td").all_text_contents())

    def numbers(self, page, section):
        """The rows of the table under a picture: of each cell its number, if it has one, and its text."""
        details = page.locator(f"#{section} details.numbers")
        details.locator("summary").click()
        details.locator("table").wait_for()
        return details.locator("tbody tr").evaluate_all(
            """(rows) => rows.map((row) => [...row.cells].map(
              (cell) => [cell.dataset.value && Number(cell.dataset.value), cell.textContent]))""")

    def assert_told(self, rows, units):
        """Each number of the rows is told in the unit of its column, to 3 digits."""
        for row in rows:
            for (value, text), unit in zip(row, units, strict=True):
                if value is not None:
                    self.assertTrue(math.isclose(value_of(text, unit), value, rel_tol=6e-3),
                                    f"{text!r} for {value}")

    def test_has_the_numbers_of_bars_and_columns(self):
        page = self.drawn()
        bars = self.browser.view("time")
        rows = self.numbers(page, "time")
        expected = [[bar["name"], *(bar.get(key) for key in ("value", "low", "high"))]
                    for bar in [*bars["bars"], bars["total"]]]
        self.assertEqual([[row[0][1], *(number for number, _ in row[1:4])] for row in rows], expected)
        self.assert_told(rows, [None, "s", "s", "s", None, None])
        self.assertEqual([row[4][1] for row in rows[:2]], ["49 %", "20 %"])
        rows = self.numbers(page, "memory")
        columns = self.browser.view("memory")["columns"]
        for row in rows:  # stages that read alike are one row: "3 to 60"
            first, _, last = row[0][1].partition(" to ")
            num = int(last or first) - int(first) + 1
            alike, columns = columns[:num], columns[num:]
            self.assertEqual([alike[0]["name"], alike[-1]["name"]], [first, last or first])
            self.assertEqual([number for number, _ in row[1:-1]], alike[0]["values"])
            self.assertAlmostEqual(row[-1][0], sum(alike[0]["values"]))
            for column in alike:
                self.assert_told([[(value, text) for value, (_, text) in zip(column["values"], row[1:-1])]],
                                 ["GiB"] * 5)
        self.assertEqual(columns, [])
        self.assertLess(len(rows), len(self.browser.view("memory")["columns"]))
        self.assert_told(rows, [None, *["GiB"] * 6])

    def test_has_the_numbers_of_curves_and_points(self):
        page = self.drawn()
        rows = self.numbers(page, "scaling")
        expected = [[x, curve["y"][i], *(curve[end][i] if end in curve else None for end in ("low", "high"))]
                    for curve in self.browser.view("scaling")["curves"] for i, x in enumerate(curve["x"])]
        self.assertEqual([[number for number, _ in row[1:]] for row in rows], expected)
        self.assert_told(rows, [None, "", *["tokens/s"] * 3])
        for section, units in (("candidates", ("s", "GiB", None, None)),  # no point of the other has a note
                               ("roofline", ("FLOP/B", "FLOP/s", None))):
            rows = self.numbers(page, section)
            points = [point for group in self.browser.view(section)["groups"] for point in group["points"]]
            self.assertEqual([[row[0][1], row[1][0], row[2][0]] for row in rows],
                             [[point["name"], point["x"], point["y"]] for point in points])
            self.assert_told(rows, [None, *units])

    def test_tells_what_becomes_of_the_answer(self):
        page = self.drawn()
        steps = [(flip["name"], step) for flip in self.browser.view("flips")["inputs"]
                 for step in flip["steps"]]
        rows = [[text if number is None else number for number, text in row]
                for row in self.numbers(page, "flips")]
        for (name, step), row in zip(steps, rows, strict=True):
            self.assertEqual(row, [
                name, step["change"], step.get("time_s", "nothing fits"), step.get("same_s", "cannot run"),
                "the same" if step["is_same"] else step["winner"]])
        flipping = {name for name, step in steps if not step["is_same"]}
        self.assertIn(f"{len(flipping)} of 6 inputs", page.locator("#flips > p").first.text_content())
        self.assertEqual(page.locator("#flips .picture .flip").count(),
                         sum(not step["is_same"] for _, step in steps))

    def test_draws_bars_as_long_as_their_values(self):
        page = self.drawn()
        bars = self.browser.view("time")["bars"]
        widths = page.locator("#time .picture .row rect:not(.hit)").evaluate_all(
            "(bars) => bars.filter((bar) => bar.style.fill).map((bar) => [Number(bar.getAttribute('x')), "
            "Number(bar.getAttribute('width'))])")
        (first, length), share = widths[0], widths[0][1] / bars[0]["value"]
        reached = 0
        for (x, width), bar in zip(widths, bars):
            self.assertAlmostEqual(x, first + reached * share, delta=0.01)
            self.assertAlmostEqual(width, bar["value"] * share, delta=0.01)
            reached += bar["value"]
        self.assertGreater(length, 100)

    def page_of(self, views):
        """A page that shows these views."""
        document = {**self.document, "rests_on": [], "sections": [
            {"id": f"s{i}", "title": f"{i}: {view['kind']}", "note": "", "view": view}
            for i, view in enumerate(views)]}
        before, _, rest = PAGE.read_text(encoding="utf-8").partition('id="report">')
        file = DIRECTORY / "other.html"
        file.write_text(f'{before}id="report">{json.dumps(document)}{rest[rest.index("</script>"):]}',
                        encoding="utf-8")
        return file.resolve().as_uri()

    def test_draws_little_and_nothing(self):
        for width in (390, 1280):
            page = self.drawn(width=width, address=self.page_of(HARD_VIEWS))
            self.assertEqual(page.locator("section").count(), len(HARD_VIEWS))
            open_all(page)
            for canvas in page.locator("canvas.timeline").all():
                canvas.click()
                for key in ("ArrowDown", "ArrowRight", "+", "]", "Shift+ArrowUp", "Home"):
                    page.keyboard.press(key)
            html = page.locator("main").evaluate("(main) => main.outerHTML")
            self.assertEqual(re.findall(".{100}(?:NaN|Infinity|undefined).{30}", html), [])
            self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width)

    def test_says_which_schedule_is_damaged(self):
        page = self.open(address=self.page_of([{
            "kind": "timeline", "num_ranks": 1, "kinds": [KIND],
            "schedules": [schedule("1f1b", [2], packed([0], [1], [0], [0], [0]))]}]))
        page.get_by_text("The actions of 1f1b cannot be read: expected 5 numbers for each of 2 actions, found 5").wait_for()

    # How it is used

    def facts(self, page, section="steps"):
        """What the page tells of the action at the pointer or the cursor."""
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        told = page.locator(f"#{section} .told")
        names = told.locator("strong").all_text_contents()
        parts = told.locator(":scope > span").all_text_contents()
        return {"name": names[0] if names else None,
                **{part.split(" ")[0]: part.split(" ", 1)[1] for part in parts if names}}

    def at(self, page, section, x, y):
        page.locator(f"#{section} canvas").hover(position={"x": x, "y": y})
        return self.facts(page, section)

    def test_moves_a_cursor_over_actions_by_keys(self):
        page = self.drawn()
        step = Step(self.browser.view("steps")["schedules"][0])
        canvas = page.locator("#steps canvas")
        page.locator("#steps button", has_text="Critical path").focus()
        page.keyboard.press("Tab")
        self.assertTrue(canvas.evaluate("(canvas) => canvas === document.activeElement"))
        facts = self.facts(page)
        self.assertEqual((facts["name"], facts["rank"], facts["microbatch"]), ("forward", "0", "0"))
        self.assertEqual(facts["waits"], "not at all")
        for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
            page.keyboard.press(key)
        facts = self.facts(page)
        action = step.first[2] + 1
        self.assertEqual((facts["rank"], facts["microbatch"]), ("2", str(step.microbatches[action])))
        self.assertAlmostEqual(value_of(facts["starts"].removeprefix("at "), "s"), step.starts[action], 5)
        page.keyboard.press("ArrowLeft")
        facts = self.facts(page)
        gap = step.gaps[step.first[2]] * step.tick
        self.assertAlmostEqual(value_of(facts["waits"].split(" for ")[0], "s"), gap, 4)
        self.assertTrue(facts["waits"].endswith("for activations of the stage before"))

    def test_keeps_the_action_that_was_clicked(self):
        page = self.drawn()
        canvas = page.locator("#measured canvas")
        canvas.click(position={"x": 300, "y": 60})
        clicked = self.facts(page, "measured")
        self.assertNotEqual(self.at(page, "measured", 500, 100), clicked)
        page.mouse.move(5, 5)
        self.assertEqual(self.facts(page, "measured"), clicked)
        page.keyboard.press("Escape")
        self.assertIsNone(self.facts(page, "measured")["name"])

    def test_zooms_around_the_pointer_and_back(self):
        page = self.drawn()
        canvas = page.locator("#steps canvas")
        canvas.click(position={"x": 400, "y": 300})
        def start(x):
            return value_of(self.at(page, "steps", x, 300)["starts"].removeprefix("at "), "s")
        whole = start(600) - start(300)
        near = start(400)
        for _ in range(10):
            page.mouse.wheel(0, -120)
        self.assertAlmostEqual(start(400), near, delta=0.5)
        part = start(600) - start(300)
        self.assertLess(part, whole / 5)
        page.keyboard.press("Shift+ArrowRight")
        self.assertGreater(start(400), near)
        page.keyboard.press("Home")
        self.assertAlmostEqual(start(600) - start(300), whole, delta=0.3)
        page.get_by_role("button", name="Zoom in").first.click()
        self.assertAlmostEqual(start(600) - start(300), whole / 1.5, delta=0.3)
        page.mouse.move(5, 5)
        canvas.focus()
        for _ in range(3):
            page.keyboard.press("-")
        self.assertAlmostEqual(start(600) - start(300), whole, delta=0.3)

    def test_scrolls_by_the_wheel_until_the_timeline_is_chosen(self):
        page = self.drawn()
        page.locator("#steps canvas").hover()
        before = page.evaluate("scrollY")
        page.mouse.wheel(0, 200)
        page.wait_for_function(f"() => scrollY > {before}")

    def test_drags_and_makes_rows_taller(self):
        page = self.drawn()
        for _ in range(4):
            page.get_by_role("button", name="Zoom in").first.click()
            page.get_by_role("button", name="Taller rows").first.click()
        before = self.at(page, "steps", 400, 200)
        page.mouse.down()
        box = page.locator("#steps canvas").bounding_box()
        page.mouse.move(box["x"] + 300, box["y"] + 300, steps=4)
        page.mouse.up()
        after = self.at(page, "steps", 300, 300)
        self.assertEqual(after, before)
        self.assertNotEqual(self.at(page, "steps", 400, 200)["rank"], before["rank"])

    def test_switches_schedules_and_shows_the_critical_path(self):
        page = self.drawn()
        schedules = self.browser.view("steps")["schedules"]
        steps = page.locator("#steps")
        canvas = steps.locator("canvas")
        def pixels():
            self.facts(page)
            return canvas.evaluate("(canvas) => canvas.toDataURL()")
        first = pixels()
        steps.get_by_role("button", name="Critical path").click()
        self.assertNotEqual(pixels(), first)
        steps.get_by_role("button", name="Critical path").click()
        self.assertEqual(pixels(), first)
        other = steps.get_by_role("button", name="gpipe")
        other.click()
        steps.locator("p.note", has_text="gpipe: 65,536 actions of 64 ranks").wait_for()
        self.assertEqual(other.get_attribute("aria-pressed"), "true")
        self.assertNotEqual(pixels(), first)
        step = Step(schedules[1])
        rows = self.numbers(page, "steps")
        self.assertEqual(len(rows), 64)
        for rank, row in enumerate(rows):
            self.assertEqual([text for _, text in row[:3]], ["gpipe", str(rank), "1024"])
            self.assertAlmostEqual(row[3][0], step.busy(rank), 9)

    def test_draws_what_was_measured_below_what_was_predicted(self):
        page = self.drawn()
        predicted, measured = map(Step, self.browser.view("measured")["schedules"])
        above = self.at(page, "measured", 47, 60)
        below = self.at(page, "measured", 47, 228)
        self.assertEqual((above["name"], below["name"]), ("forward, 1f1b", "forward, measured"))
        for facts, step in ((above, predicted), (below, measured)):
            self.assertEqual(facts["rank"], "0")
            self.assertAlmostEqual(value_of(facts["takes"], "s"), step.durations[0] * step.tick, 5)

    def test_pins_a_point_beside_the_best(self):
        page = self.drawn()
        view = self.browser.view("candidates")
        point = view["groups"][-1]["points"][4]
        node = page.get_by_role("button", name=re.compile(f"^{re.escape(point['name'])}:"))
        node.click()
        self.assertEqual(node.get_attribute("aria-pressed"), "true")
        panel = page.locator("#candidates .pinned")
        self.assertEqual(panel.locator("h3").text_content(), point["name"])
        self.assertIn(point["note"], panel.locator("p").all_text_contents())
        more = {name: here - there for name, here, there in
                zip(view["parts"], point["parts"], view["reference"]["parts"])}
        rows = [row.locator("td") for row in panel.locator("tbody tr").all()]
        self.assertEqual([row.first.text_content() for row in rows[:-1]],
                         sorted(more, key=lambda name: -abs(more[name])))
        for row in rows[:-1]:
            self.assertAlmostEqual(float(row.last.get_attribute("data-value")),
                                   more[row.first.text_content()])
        self.assertAlmostEqual(float(rows[-1].last.get_attribute("data-value")), sum(more.values()))
        panel.get_by_role("button", name="Unpin").click()
        self.assertEqual(panel.count(), 0)
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        self.assertEqual(panel.count(), 1)
        self.assertNotEqual(panel.locator("h3").text_content(), point["name"])
        page.keyboard.press("Escape")
        self.assertEqual(panel.count(), 0)

    def test_shows_what_is_chosen_wherever_it_can_be(self):
        page = self.drawn()
        few, many = self.browser.view("by-stack")["choices"], self.browser.view("memory-by-stack")["choices"]
        bars, names = page.locator("#by-stack"), page.locator("#memory-by-stack select")
        self.assertEqual(bars.locator(".chosen p").first.text_content(), few[0]["note"])
        self.assertIn("waiting", bars.locator(".legend").inner_text())
        other = bars.locator("button").nth(1)
        self.assertEqual(other.text_content(), few[1]["name"])
        other.click()
        self.assertEqual(other.get_attribute("aria-pressed"), "true")
        self.assertEqual(self.numbers(page, "by-stack")[0][1][0], few[1]["view"]["bars"][0]["value"])
        self.assertEqual(names.input_value(), few[1]["name"])
        cells = page.locator("#memory-by-stack tbody td").all_text_contents
        self.assertEqual(cells(), many[1]["view"]["rows"][0]["cells"])
        names.select_option(index=2)  # the other section does not have it
        self.assertEqual(cells(), many[2]["view"]["rows"][0]["cells"])
        self.assertEqual(other.get_attribute("aria-pressed"), "true")
        names.focus()
        page.keyboard.press("Home")
        self.assertEqual(cells(), many[0]["view"]["rows"][0]["cells"])
        self.assertEqual(other.get_attribute("aria-pressed"), "false")

    def test_marks_a_place_of_curves(self):
        page = self.drawn()
        self.assertEqual(page.locator("#scaling .mark text").text_content(), "more than a rack from 1,024")
        at = float(page.locator("#scaling .mark line").get_attribute("x1"))
        ticks = page.locator("#scaling .tick[text-anchor=middle]").evaluate_all(
            "(all) => all.map((tick) => [tick.textContent, Number(tick.getAttribute('x'))])")
        self.assertAlmostEqual(at, dict(ticks)["1,024"], delta=0.1)

    def test_says_what_the_pointer_is_at(self):
        page = self.drawn()
        tip = page.locator(".tip")
        page.locator("#time .row").nth(1).hover()
        self.assertIn("18.20 s .. 23.40 s", tip.inner_text())
        page.locator("#memory-over-time .hit").hover()
        self.assertIn("GiB", tip.inner_text())
        page.mouse.move(2, 2)
        self.assertTrue(tip.is_hidden())

    def test_says_when_a_browser_cannot_unpack_the_timeline(self):
        page = self.open(script="delete window.DecompressionStream")
        self.assertIn("no DecompressionStream", page.locator("#steps .warning").inner_text())
        self.assertTrue(page.locator("#time svg").first.is_visible())

    # How it looks

    def test_fits_its_window_in_both_themes(self):
        for width in (390, 1280):
            for theme in ("light", "dark"):
                with self.subTest(width=width, theme=theme):
                    page = self.drawn(width=width, color_scheme=theme)
                    page.screenshot(path=DIRECTORY / f"page-{width}-{theme}.png", full_page=True)
                    open_all(page)
                    self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width)

    def test_shows_every_answer_in_both_themes_and_widths(self):
        files = sorted(ANSWERS.glob("*.html"))
        self.assertEqual(len(files), 5)
        for file in files:
            for width in (390, 1280):
                for theme in ("light", "dark"):
                    with self.subTest(answer=file.stem, width=width, theme=theme):
                        page = self.drawn(width=width, color_scheme=theme, address=file.resolve().as_uri())
                        page.screenshot(path=DIRECTORY / f"{file.stem}-{width}-{theme}.png", full_page=True)
                        open_all(page)
                        self.assertEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                        weak = [text for text in page.evaluate(READ_TEXTS)
                                if contrast(text["color"], text["behind"]) < 4.5]
                        self.assertEqual(weak, [])
                        self.assertEqual(page.locator("img").count(), 0)
                        html = page.locator("main").evaluate("(main) => main.outerHTML")
                        self.assertEqual(re.findall(".{100}(?:NaN|Infinity|undefined).{30}", html), [])

    def test_has_texts_that_can_be_read_in_both_themes(self):
        page = self.drawn()
        open_all(page)
        page.locator("#candidates [role=button]").nth(9).press("Enter")
        page.mouse.move(5, 5)
        for theme in ("Dark theme", "Light theme"):
            texts = page.evaluate(READ_TEXTS)
            self.assertGreater(len(texts), 500)
            weak = [text for text in texts if contrast(text["color"], text["behind"]) < 4.5]
            self.assertEqual(weak, [], f"before {theme}")
            page.get_by_role("button", name=theme).click()

    def test_has_a_button_for_the_theme(self):
        page = self.drawn(color_scheme="light")
        background = "getComputedStyle(document.body).backgroundColor"
        pixels = "document.querySelector('#steps canvas').toDataURL()"
        light, picture = page.evaluate(background), page.evaluate(pixels)
        page.get_by_role("button", name="Dark theme").click()
        self.assertGreater(luminance(light), 0.8)
        self.assertLess(luminance(page.evaluate(background)), 0.05)
        self.assertNotEqual(page.evaluate(pixels), picture)
        page.get_by_role("button", name="Light theme").click()
        self.assertEqual(page.evaluate(background), light)

    def test_has_colours_that_everyone_tells_apart(self):
        page = self.drawn()
        kinds = [[f"series-{i}" for i in range(1, 9)],
                 ["compute", "waste", "communication", "idle", "optimizer", "plain"]]
        for theme in ("Dark theme", "Light theme"):
            surface = page.evaluate(READ_VARIABLE, "surface")
            for names in kinds:
                colors = {name: page.evaluate(READ_VARIABLE, name) for name in names}
                for name, color in colors.items():
                    if name != "idle":  # nothing happens there
                        self.assertGreaterEqual(contrast(color, surface), 3, f"{name} before {theme}")
                for i, one in enumerate(names):
                    for other in names[:i]:
                        for seen_by in (ALL_CONES, PROTANOPIA, DEUTERANOPIA):
                            apart = math.dist(lab(colors[one], seen_by), lab(colors[other], seen_by))
                            self.assertGreater(apart, 12, f"{one} and {other} before {theme}")
            page.get_by_role("button", name=theme).click()

    def test_names_what_it_draws_and_orders_its_headings(self):
        page = self.drawn()
        self.assertEqual(page.evaluate("document.documentElement.lang"), "en")
        levels = [int(tag[1]) for tag in page.locator("h1, h2, h3").evaluate_all(
            "(all) => all.map((heading) => heading.tagName)")]
        self.assertEqual(levels[0], 1)
        self.assertEqual(levels.count(1), 1)
        self.assertTrue(all(after <= before + 1 for before, after in zip(levels, levels[1:])))
        for picture in page.locator(".picture > svg, canvas.timeline").all():
            self.assertIn(picture.get_attribute("role"), ("img", "group", "application"))
            self.assertGreater(len(picture.get_attribute("aria-label")), 20)
        self.assertIn("the largest is matrix products with 50.21 s of 102.7 s",
                      page.locator("#time svg[role=img]").get_attribute("aria-label"))
        for button in page.get_by_role("button").all():
            self.assertTrue(button.get_attribute("aria-label") or button.inner_text().strip())
        self.assertEqual(page.locator("section").count(), page.get_by_role("region").filter(
            has=page.locator("h2")).count())
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(({id}) => id)")
        self.assertEqual(len(ids), len(set(ids)))

    def test_can_be_used_without_a_mouse(self):
        page = self.drawn()
        seen = []
        for _ in range(120):
            page.keyboard.press("Tab")
            focus = page.evaluate(READ_FOCUS)
            if focus["isLast"]:
                break
            self.assertTrue(focus["isSeen"], focus)
            self.assertTrue(focus["name"], focus)
            seen.append(focus["tag"])
        self.assertTrue(focus["isLast"])
        count = page.locator("button, select, canvas, nav a, summary, .scrolled").evaluate_all(
            "(all) => all.filter((node) => node.checkVisibility()).length")
        self.assertEqual(len([tag for tag in seen if tag != "path"]), count)
        self.assertEqual(seen.count("path"), 2)  # one for each scatter

    def test_prints_in_light_colours_without_what_paper_cannot_do(self):
        page = self.drawn(color_scheme="dark")
        file = DIRECTORY / "page.pdf"
        page.pdf(path=file, format="A4")
        self.assertTrue(file.read_bytes().startswith(b"%PDF"))
        page.emulate_media(media="print")
        self.assertGreater(luminance(page.evaluate("getComputedStyle(document.body).backgroundColor")), 0.95)
        self.assertLess(luminance(page.evaluate("getComputedStyle(document.body).color")), 0.05)
        for hidden in ("nav", "button", "details.numbers"):
            self.assertTrue(page.locator(hidden).first.is_hidden(), hidden)
        for kept in page.locator(".picture").all():
            self.assertEqual(kept.evaluate("(node) => getComputedStyle(node).breakInside"), "avoid")

    def test_moves_nothing_where_that_is_not_wanted(self):
        for wish, behaviour in (("reduce", "auto"), ("no-preference", "smooth")):
            page = self.open(reduced_motion=wish)
            self.assertEqual(
                page.evaluate("getComputedStyle(document.documentElement).scrollBehavior"), behaviour)


BENCHMARK = """async () => {
  const canvas = document.querySelector('#steps canvas');
  canvas.scrollIntoView({block: 'center', behavior: 'instant'});
  canvas.focus();
  const box = canvas.getBoundingClientRect();
  const at = (x, y) => ({clientX: box.left + x, clientY: box.top + y, bubbles: true, cancelable: true});
  const wheel = (deltaY) => canvas.dispatchEvent(new WheelEvent('wheel', {...at(500, 250), deltaY}));
  const key = (key) => canvas.dispatchEvent(new KeyboardEvent('keydown', {key, shiftKey: true}));
  const told = [];
  const run = async (name, frames, act) => {
    const begin = performance.now();
    for (let i = 0, last = begin, worst = 0; i < frames; ++i) {
      act(i);
      await new Promise(requestAnimationFrame);
      worst = Math.max(worst, performance.now() - last);
      last = performance.now();
      if (i + 1 === frames) {
        told.push(`${name}: ${(1000 * frames / (last - begin)).toFixed(1)} frames/s, longest ${worst.toFixed(0)} ms`);
      }
    }
  };
  await run('zoom around the whole', 100, (i) => wheel(i % 2 ? -20 : 10));
  await run('zoom out', 100, () => wheel(20));
  await run('zoom in', 100, () => wheel(-20));
  await run('pan', 100, (i) => key(i % 20 < 10 ? 'ArrowRight' : 'ArrowLeft'));
  await run('point', 100, (i) => canvas.dispatchEvent(new PointerEvent('pointermove', at(100 + 5 * i, 250))));
  document.querySelector('#steps .toolbar > button').click();
  await run('pan with the critical path', 100, (i) => key(i % 20 < 10 ? 'ArrowRight' : 'ArrowLeft'));
  return told;
}"""


def benchmark():
    browser = Browser()
    page = until_drawn(browser.open([]))
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    drawn = page.evaluate("performance.now()")
    print(f"first paint: {paint:.0f} ms; the timeline: {drawn:.0f} ms")
    print("\n".join(page.evaluate(BENCHMARK)))
    browser.close()


if __name__ == "__main__":
    del sys.argv[1:3]
    if "--benchmark" in sys.argv:
        benchmark()
    else:
        unittest.main()
