// Elements of the page. Text is set as text, never as HTML.

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") {
      node.addEventListener(name, value);
    } else if (value !== undefined && value !== false) {
      node.setAttribute(name, value === true ? "" : value);
    }
  }
  node.append(...children.filter((child) => child !== undefined && child !== null));
  return node;
}

function element(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function shape(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

const measuring = document.createElement("canvas").getContext("2d");
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

function textWidth(text, size = 13) {
  measuring.font = `${size}px ${FONT}`;
  return measuring.measureText(text).width;
}

// The text, cut so that it takes at most `width` pixels.
function fitted(text, width, size = 13) {
  if (textWidth(text, size) <= width) {
    return text;
  }
  let kept = text.length - 1;
  while (kept > 1 && textWidth(`${text.slice(0, kept)}…`, size) > width) {
    --kept;
  }
  return `${text.slice(0, kept).trimEnd()}…`;
}

// A picture that is drawn anew where its width changes: `draw(width)` returns it.
function picture(draw) {
  const box = element("div", {class: "picture"});
  let drawn = 0;
  new ResizeObserver(() => {
    const width = Math.floor(box.clientWidth);
    if (width > 0 && width !== drawn && !matchMedia("print").matches) {
      drawn = width;
      box.replaceChildren(draw(width));
    }
  }).observe(box);
  return box;
}

function drawing(width, height, label, ...children) {
  return shape("svg", {
    viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label,
  }, ...children);
}

// A number of a table: told in its unit, with all of its digits at hand.
function quantity(value, unit = "") {
  return value === undefined || value === null ? "" : {value, text: shown(value, unit)};
}

function cell(content) {
  if (typeof content === "object") {
    return element("td", {class: "number", "data-value": content.value, title: content.value},
      content.text);
  }
  const isNumber = /^[−+-]?[$€]?[\d.,]+(\s?[^\s\d]{1,8})?$/.test(content);
  return element("td", {class: isNumber ? "number" : content.length > LONG_CELL ? "long" : "short"}, content);
}

// A line of a paragraph, as far to the right as it is indented; what one types looks like it.
function lineOf(line) {
  const text = line.trimStart();
  return element("span", {class: "line", style: `padding-left: ${0.6 * (line.length - text.length)}em`},
    /^(--|ptdp[- ])/.test(text) ? element("code", {}, text) : text);
}

const LONG_CELL = 24;  // letters from which the text of a cell may take several lines
const MOST_ROWS = 2000;
const SHOWN_ROWS = 40;  // without scrolling

function table(title, allColumns, rows) {
  const all = rows.slice(0, MOST_ROWS).map((row) => row.map(cell));
  const isKept = allColumns.map((_, i) => all.length === 0 || all.some((row) => row[i].textContent !== ""));
  const columns = allColumns.filter((_, i) => isKept[i]);
  const cells = all.map((row) => row.filter((_, i) => isKept[i]));
  const isNumber = columns.map((_, i) => cells.length > 0 &&
    cells.every((row) => row[i].className === "number" || row[i].textContent === ""));
  cells.forEach((row) => row.forEach((node, i) => {  // among words a number stands as they do
    node.className = isNumber[i] || node.dataset.value ? node.className : node.className.replace("number", "short");
  }));
  const head = columns.map((name, i) =>
    element("th", {scope: "col", class: isNumber[i] ? "number" : false}, name));
  const left = rows.length - cells.length;
  const size = cells.length > SHOWN_ROWS ? "scrolled tall" : "scrolled";
  return element("div", {class: size, tabindex: 0, role: "region", "aria-label": `${title}: table`},
    element("table", {},
      element("caption", {class: "unseen"}, title),
      element("thead", {}, element("tr", {}, ...head)),
      element("tbody", {}, ...cells.map((row) => element("tr", {}, ...row)))),
    left > 0 ? element("p", {class: "note"},
      `The first ${digits(MOST_ROWS)} of ${digits(rows.length)} rows; the document in this page has all.`)
      : null);
}

// The numbers under a picture, made when one looks: `rows()` returns them.
function numbers(title, columns, rows) {
  const details = element("details", {class: "numbers"},
    element("summary", {}, "Numbers", element("span", {class: "unseen"}, ` of “${title}”`)));
  details.addEventListener("toggle", () => {
    if (details.open && details.childElementCount === 1) {
      details.append(table(title, columns, rows()));
    }
  });
  return details;
}

// What stands beside the pointer, or beside what has the focus.
const tip = element("div", {class: "tip", hidden: true, "aria-hidden": "true"});

function showTip(x, y, lines) {
  const [first, ...others] = lines.filter((line) => line);
  tip.replaceChildren(element("strong", {}, first),
    ...others.map((line) => Array.isArray(line)
      ? element("div", {class: "pair"}, element("span", {}, line[0]), element("span", {}, line[1]))
      : element("div", {}, line)));
  tip.hidden = false;
  const {offsetWidth: width, offsetHeight: height} = tip;
  const left = x + 14 + width > innerWidth ? x - 14 - width : x + 14;
  const top = y + 14 + height > innerHeight ? y - 14 - height : y + 14;
  tip.style.left = `${Math.max(4, left)}px`;
  tip.style.top = `${Math.max(4, top)}px`;
}

function hideTip() {
  tip.hidden = true;
}

function withTip(node, lines) {
  return fill(node, {
    pointermove: (event) => showTip(event.clientX, event.clientY, lines()),
    pointerleave: hideTip,
  }, []);
}

// Colours of tints and series, with a pattern each, so that colour alone tells nothing.
const TINT_PATTERNS = {waste: "falling", communication: "upright", idle: "dots"};
const SERIES_PATTERNS = ["", "falling", "dots", "rising", "", "upright", "rising", "dots"];
const DASHES = ["", "7 4", "2 3", "10 3 2 3", "5 2", "1 4", "12 4", "4 4 1 4"];

// Of the ninth and later ones the pattern differs from that of the first of the same colour.
function seriesPattern(index) {
  return SERIES_PATTERNS[(index + 3 * Math.floor(index / 8)) % 8];
}

function seriesColor(index) {
  return `var(--series-${index % 8 + 1})`;
}

function patterns() {
  const lines = {
    falling: "M-2,2l4,-4M0,8l8,-8M6,10l4,-4", rising: "M-2,6l4,4M0,0l8,8M6,-2l4,4",
    upright: "M2,0v8M6,0v8", dots: "M2,2h1.6M6,6h1.6",
  };
  return shape("svg", {width: 0, height: 0, "aria-hidden": "true", class: "patterns"},
    shape("defs", {}, ...Object.entries(lines).map(([name, path]) =>
      shape("pattern", {id: `pattern-${name}`, width: 8, height: 8, patternUnits: "userSpaceOnUse"},
        shape("path", {d: path, class: "hatch"})))));
}

// A shape of a colour under a pattern; it may have none.
function patterned(name, place, color, pattern) {
  return shape("g", {}, shape(name, {...place, style: `fill: ${color}`}),
    pattern ? shape(name, {...place, fill: `url(#pattern-${pattern})`}) : null);
}

// Pointing at an entry with `alone` shows what it stands for alone.
function legend(entries) {
  return element("ul", {class: "legend"}, ...entries.map(({name, mark, alone}) =>
    element("li", alone ? {pointerenter: () => alone(true), pointerleave: () => alone(false)} : {},
      shape("svg", {width: 22, height: 14, "aria-hidden": "true"}, mark), name)));
}

// Makes one row of rows after one another that differ in the cell at `place` alone: "3 to 60".
function groupedRows(rows, place) {
  const key = (row) => JSON.stringify(row.map((cell, i) => i === place ? "" : cell?.text ?? cell));
  const runs = [];
  for (const row of rows) {
    const run = runs.at(-1);
    if (run && key(run.first) === key(row)) {
      run.last = row;
    } else {
      runs.push({first: row, last: row});
    }
  }
  const told = (cell) => cell.text ?? cell;
  return runs.map(({first, last}) => first === last ? first : first.map((cell, i) =>
    i === place ? `${told(cell)} to ${told(last[i])}` : cell));
}

function swatch(color, pattern) {
  return patterned("rect", {x: 1, y: 1, width: 20, height: 12, rx: 2}, color, pattern);
}
