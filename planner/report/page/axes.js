// A plot: two axes with round numbers, and where values stand on them.

// Maps low .. high to pixels from .. to.
function scale(axis, [low, high], [from, to]) {
  const at = axis.is_log ? Math.log10 : (value) => value;
  const span = at(high) - at(low) || 1;
  const place = (value) => from + (at(value) - at(low)) / span * (to - from);
  return {axis, low, high, place};
}

// Where values lie, with some room around them.
function extent(axis, values, {hasZero = false} = {}) {
  const usable = values.filter((value) => Number.isFinite(value) && (!axis.is_log || value > 0));
  if (usable.length === 0) {
    return axis.is_log ? [1, 10] : [0, 1];
  }
  let low = least(usable);
  let high = most(usable);
  if (axis.is_log) {
    const room = (high / low) ** 0.04 * (high === low ? 1.5 : 1);
    return [low / room, high * room];
  }
  if (hasZero) {
    low = Math.min(0, low);
    high = Math.max(0, high);
  }
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  return [low < 0 || !hasZero ? low - room : low, high + room];
}

// Ticks and the unit that they are told in. `marks` are where ticks shall be, if that suits the axis.
function ticksOf({axis, low, high}, count, marks) {
  if (axis.is_log) {
    const hasPrefix = BASE_UNITS.has(axis.unit);
    const told = (value) => {
      const scaled = hasPrefix || value >= 1e4 ? unitFor(value * 1.0001, axis.unit) : {factor: 1, unit: ""};
      const short = hasPrefix ? scaled.unit : scaled.unit.slice(0, 1);
      return `${plain(Number((value / scaled.factor).toPrecision(4)))} ${short}`.trim();
    };
    const places = marks?.filter((mark) => mark >= low) ?? logTicks(low, high, count);
    return {
      unit: hasPrefix ? "" : axis.unit, ticks: places.map((value) => ({value, text: told(value)})),
    };
  }
  const {factor, unit} = unitFor(Math.max(Math.abs(low), Math.abs(high)), axis.unit);
  if (marks?.every(Number.isInteger) && axis.unit === "") {
    return {unit: "", ticks: marks.map((value) => ({value, text: plain(value)}))};
  }
  const {ticks, text} = linearTicks(low / factor, high / factor, count);
  return {unit, ticks: ticks.map((tick) => ({value: tick * factor, text: text(tick)}))};
}

function axisTitle(axis, unit) {
  return unit ? `${axis.name} (${unit})` : axis.name;
}

function text(x, y, content, attributes = {}) {
  return shape("text", {x, y, ...attributes}, content);
}

// A frame with axes in a picture of `width`; `columns` are names instead of values of x.
function frame(width, height, {x, y, xs, ys, columns, marks}) {
  const vertical = scale(y, ys, [height - 44, 30]);
  const yTicks = ticksOf(vertical, Math.max(3, Math.round((height - 74) / 52)));
  const left = Math.ceil(most(yTicks.ticks.map((tick) => textWidth(tick.text, 12)))) + 12;
  const right = width - 12;
  const bottom = height - 44;
  const nodes = [text(0, 14, axisTitle(y, yTicks.unit), {class: "axis-title"})];
  for (const {value, text: label} of yTicks.ticks) {
    const at = vertical.place(value);
    nodes.push(shape("line", {x1: left, x2: right, y1: at, y2: at, class: "grid"}),
      text(left - 8, at + 4, label, {class: "tick", "text-anchor": "end"}));
  }
  let horizontal;
  let title = x.name;
  if (columns) {
    const step = (right - left) / Math.max(1, columns.length);
    horizontal = {step, place: (index) => left + (index + 0.5) * step};
    const widest = most(columns.map((name) => textWidth(name, 12))) + 14;
    const stride = Math.max(1, Math.ceil(widest / step));
    columns.forEach((name, i) => {
      if (i % stride === 0) {
        nodes.push(text(horizontal.place(i), bottom + 18, fitted(name, right - left, 12),
          {class: "tick", "text-anchor": "middle"}));
      }
    });
    title = axisTitle(x, x.unit);
  } else {
    horizontal = scale(x, xs, [left, right]);
    const ticks = ticksOf(horizontal, Math.max(4, Math.round((right - left) / 90)), marks);
    title = axisTitle(x, ticks.unit);
    let free = -Infinity;
    for (const {value, text: label} of ticks.ticks) {
      const at = horizontal.place(value);
      const half = textWidth(label, 12) / 2;
      nodes.push(shape("line", {x1: at, x2: at, y1: 30, y2: bottom, class: "grid"}));
      const middle = Math.min(at, width - half);
      if (middle - half > free) {
        nodes.push(text(middle, bottom + 18, label, {class: "tick", "text-anchor": "middle"}));
        free = middle + half + 8;
      }
    }
  }
  nodes.push(shape("line", {x1: left, x2: right, y1: bottom, y2: bottom, class: "axis"}),
    text((left + right) / 2, height - 6, fitted(title, right - left, 12),
      {class: "axis-title", "text-anchor": "middle"}));
  return {
    x: horizontal.place, y: vertical.place, step: horizontal.step,
    left, right, top: 30, bottom, nodes, xScale: horizontal, yScale: vertical,
  };
}

// What keeps curves inside the frame. Its name is unique in the page.
let clips = 0;
function clipOf({left, right, top, bottom}) {
  const id = `clip-${++clips}`;
  return {
    path: `url(#${id})`,
    node: shape("clipPath", {id},
      shape("rect", {x: left, y: top, width: right - left, height: bottom - top})),
  };
}

function limitLine(plot, limit, unit, width) {
  const at = plot.y(limit.value);
  if (!Number.isFinite(at)) {
    return null;
  }
  const label = `${limit.name}: ${shown(limit.value, unit)}`;
  return shape("g", {class: "limit"},
    shape("line", {x1: plot.left, x2: plot.right, y1: at, y2: at}),
    text(plot.right, at - 6, fitted(label, width - plot.left, 12), {"text-anchor": "end"}));
}

// An upright line, with its name where there is more room.
function markLine(plot, mark, unit) {
  const at = plot.x(mark.value);
  const [anchor, shift, room] = at - plot.left < plot.right - at
    ? ["start", 6, plot.right - at] : ["end", -6, at - plot.left];
  return shape("g", {class: "mark"},
    shape("line", {x1: at, x2: at, y1: plot.top, y2: plot.bottom}),
    text(at + shift, plot.bottom - 8, fitted(`${mark.name} ${shown(mark.value, unit)}`, room, 12),
      {"text-anchor": anchor}));
}

// The points of a curve that can be drawn, as pixels.
function pixelsOf(plot, curve, ys = curve.y) {
  const pixels = curve.x.map((x, i) => [plot.x(x), plot.y(ys[i])]);
  return pixels.filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
}

function pathOf(pixels, hasSteps) {
  const places = pixels.map(([x, y], i) => {
    const place = `${x.toFixed(1)},${y.toFixed(1)}`;
    return i === 0 ? place : hasSteps ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `L${place}`;
  });
  return places.length > 0 ? `M${places.join("")}` : "";
}

function bandOf(pixels, others, hasSteps) {
  const forth = pathOf(pixels, hasSteps);
  const back = others.slice().reverse();
  const steps = hasSteps
    ? back.map(([x, y], i) => i === 0 ? `L${x},${y}` : `V${y}H${x}`)
    : back.map(([x, y]) => `L${x},${y}`);
  return `${forth}${steps.join("")}Z`;
}

function curveShapes(plot, curve, index, color = seriesColor(index)) {
  const nodes = [];
  if (curve.low && curve.high) {
    nodes.push(shape("path", {
      d: bandOf(pixelsOf(plot, curve, curve.low), pixelsOf(plot, curve, curve.high), curve.has_steps),
      class: "band", style: `fill: ${color}`,
    }));
  }
  nodes.push(shape("path", {
    d: pathOf(pixelsOf(plot, curve), curve.has_steps), class: "curve", style: `stroke: ${color}`,
    "stroke-dasharray": DASHES[index % 8] || false,
  }));
  return nodes;
}

function curveMark(index, color = seriesColor(index)) {
  return shape("path", {
    d: "M0,7H22", class: "curve", style: `stroke: ${color}`,
    "stroke-dasharray": DASHES[index % 8] || false,
  });
}
