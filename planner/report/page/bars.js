// Bars below each other, and columns of stacked values.

const NARROW = 560;
const MANY_BARS = 24;

// Where each bar begins and ends, the total of a waterfall last.
function placedBars(view) {
  let reached = 0;
  const placed = view.bars.map((bar) => {
    const from = view.is_waterfall ? reached : 0;
    reached = from + bar.value;
    return {bar, from, to: reached, isTotal: false};
  });
  if (view.total) {
    placed.push({bar: view.total, from: 0, to: view.total.value, isTotal: true});
  }
  return placed;
}

function whisker({bar, from}, place, y) {
  if (bar.low === undefined || bar.high === undefined) {
    return null;
  }
  const [low, high] = [place(from + bar.low), place(from + bar.high)];
  const d = `M${low},${y - 4}v8M${low},${y}H${high}M${high},${y - 4}v8`;
  return shape("g", {}, shape("path", {d, class: "halo"}), shape("path", {d, class: "whisker"}));
}

function barTip({bar}, unit, share) {
  return [bar.name, ["value", shown(bar.value, unit)],
    bar.low === undefined || bar.high === undefined ? "" :
      ["90 % interval", `${shown(bar.low, unit)} .. ${shown(bar.high, unit)}`],
    share === undefined ? "" : ["of the whole", percent(share)], bar.note];
}

// Where the bar of a row begins, and how high it is.
function barPlace(top, height, isNarrow) {
  const room = height < 24 ? 3 : 6;
  return isNarrow ? [top + 19, height - 29] : [top + room, height - 2 * room];
}

function barRow(placed, {top, height, isNarrow, nameWidth, width, place, unit, whole, shareWidth}) {
  const {bar, from, to, isTotal} = placed;
  const share = whole > 0 && !isTotal ? bar.value / whole : undefined;
  const [barTop, barHeight] = barPlace(top, height, isNarrow);
  const middle = barTop + barHeight / 2;
  const textY = isNarrow ? top + 13 : middle + 4.5;
  const x = Math.min(place(from), place(to));
  const length = Math.max(1, Math.abs(place(to) - place(from)));
  const valueRight = width - shareWidth;
  const valueWidth = textWidth(shown(bar.value, unit));
  const nameRoom = isNarrow ? valueRight - valueWidth - 12 : nameWidth - 12;
  const group = shape("g", {class: isTotal ? "row total" : "row"},
    shape("rect", {x: 0, y: top, width, height, class: "hit"}),
    text(0, textY, fitted(bar.name, nameRoom), {class: "name"}),
    patterned("rect", {x, y: barTop, width: length, height: barHeight, rx: 2}, `var(--${bar.tint})`, TINT_PATTERNS[bar.tint]),
    whisker(placed, place, middle),
    text(valueRight, textY, shown(bar.value, unit), {class: "value", "text-anchor": "end"}),
    share === undefined ? null
      : text(width, textY, percent(share), {class: "share", "text-anchor": "end"}));
  return withTip(group, () => barTip(placed, unit, share));
}

function drawBars(view, placed, width, label) {
  const isNarrow = width < NARROW;
  const rowHeight = placed.length > MANY_BARS ? isNarrow ? 34 : 19 : isNarrow ? 46 : 32;
  const whole = view.is_waterfall ? view.total?.value ?? placed.at(-1)?.to ?? 0 : 0;
  const nameWidth = isNarrow ? 0
    : Math.min(width * 0.34, most(placed.map(({bar, isTotal}) => textWidth(bar.name) * (isTotal ? 1.12 : 1))) + 16);
  const shareWidth = whole > 0 ? most(view.bars.map(({value}) => textWidth(percent(value / whole)))) + 14 : 0;
  const valueWidth = most(placed.map(({bar}) => textWidth(shown(bar.value, view.unit)))) + shareWidth + 24;
  const ends = placed.flatMap(({bar, from, to}) =>
    [0, from, to, from + (bar.low ?? 0), from + (bar.high ?? bar.value)]);
  const axis = {unit: view.unit, is_log: false};
  const horizontal = scale(axis, [least(ends), most(ends)],
    [nameWidth, isNarrow ? width - 2 : width - valueWidth]);
  const {ticks, unit} = ticksOf(horizontal, Math.max(2, Math.round((width - nameWidth - valueWidth) / 110)));
  const height = placed.length * rowHeight + 26;
  const grid = ticks.flatMap(({value, text: tick}, i) => {
    const at = horizontal.place(value);
    const anchor = i === 0 ? "start" : at > width - 30 ? "end" : "middle";
    return [shape("line", {x1: at, x2: at, y1: 0, y2: height - 22, class: "grid"}),
      text(at, height - 6, i === ticks.length - 1 && unit ? `${tick} ${unit}` : tick,
        {class: "tick", "text-anchor": anchor})];
  });
  const links = view.is_waterfall ? placed.slice(1).map(({isTotal, from}, i) => {
    const at = horizontal.place(isTotal ? placed[i].to : from);
    const [top, height] = barPlace(i * rowHeight, rowHeight, isNarrow);
    return shape("line", {x1: at, x2: at, y1: top + height, y2: top + rowHeight, class: "link"});
  }) : [];
  const rows = placed.map((one, i) => barRow(one, {
    top: i * rowHeight, height: rowHeight, isNarrow, nameWidth, width, place: horizontal.place,
    unit: view.unit, whole, shareWidth,
  }));
  return drawing(width, height, label, ...grid, ...links, ...rows);
}

function barsFinding(view, placed) {
  const bars = view.bars.slice().sort((a, b) => b.value - a.value);
  if (bars.length === 0) {
    return "No bars";
  }
  const largest = `the largest is ${bars[0].name} with ${shown(bars[0].value, view.unit)}`;
  const whole = view.is_waterfall ? ` of ${shown(placed.at(-1).to, view.unit)}` : "";
  const picture = view.is_waterfall ? "Waterfall" : "Picture";
  return `${picture} of ${counted(bars.length, "bar")}; ${largest}${whole}`;
}

const TINT_NAMES = {
  compute: "computation", waste: "waste", communication: "communication", idle: "idle",
  optimizer: "optimizer", plain: "other",
};

function tintLegend({bars, meanings = []}) {
  const own = Object.fromEntries(meanings.map(({tint, meaning}) => [tint, meaning]));
  const names = {...own, ...TINT_NAMES, ...own};  // its own ones stand first
  const used = Object.keys(names).filter((tint) => bars.some((bar) => bar.tint === tint));
  return used.length < 2 ? null : legend(used.map((tint) =>
    ({name: names[tint], mark: swatch(`var(--${tint})`, TINT_PATTERNS[tint])})));
}

function barsView(view, title) {
  const placed = placedBars(view);
  const label = barsFinding(view, placed);
  const whole = view.is_waterfall && view.total ? view.total.value : 0;
  return [tintLegend(view),
    picture((width) => drawBars(view, placed, width, label)),
    numbers(title, ["bar", "value", "5 %", "95 %", "share", "what it holds"], () =>
      placed.map(({bar}) => [bar.name, quantity(bar.value, view.unit), quantity(bar.low, view.unit),
        quantity(bar.high, view.unit), whole > 0 ? percent(bar.value / whole) : "", bar.note ?? ""]))];
}

function stackedTip(view, column) {
  const lines = view.categories.map((name, i) => [name, shown(column.values[i], view.y.unit)]);
  return [column.name, ...lines.reverse(), ["together", shown(total(column.values), view.y.unit)]];
}

function drawStacked(view, width, label) {
  const height = Math.min(380, Math.max(260, width * 0.5));
  const sums = view.columns.map(({values}) => total(values));
  const plot = frame(width, height, {
    x: view.x, y: view.y, ys: extent(view.y, [...sums, view.limit?.value ?? 0], {hasZero: true}),
    columns: view.columns.map(({name}) => name),
  });
  const gap = plot.step > 14 ? Math.max(plot.step * 0.2, plot.step - 110) : plot.step > 4 ? 1 : 0;
  // One path for each category: a printer takes seconds for hundreds of patterns.
  const paths = view.categories.map(() => "");
  const columns = view.columns.map((column, i) => {
    let reached = 0;
    column.values.forEach((value, category) => {
      const [bottom, top] = [plot.y(reached), plot.y(reached + value)];
      reached += value;
      const height = bottom - top - (bottom - top > 3 ? 1 : 0);
      if (height > 0) {
        paths[category] += `M${plot.x(i) - plot.step / 2 + gap / 2},${top}h${plot.step - gap}v${height}H` +
          `${plot.x(i) - plot.step / 2 + gap / 2}Z`;
      }
    });
    return withTip(shape("rect", {x: plot.x(i) - plot.step / 2, y: plot.top, width: plot.step,
      height: plot.bottom - plot.top, class: "hit column"}), () => stackedTip(view, column));
  });
  const layers = paths.map((d, i) =>
    patterned("path", {d}, seriesColor(i), plot.step > 8 ? seriesPattern(i) : ""));
  return drawing(width, height, label, ...plot.nodes, ...layers, ...columns,
    view.limit ? limitLine(plot, view.limit, view.y.unit, width) : null);
}

function stackedFinding(view) {
  const sums = view.columns.map(({values}) => total(values));
  const largest = sums.indexOf(most(sums));
  if (largest < 0) {
    return "No columns";
  }
  const limit = view.limit ? `; ${view.limit.name} is ${shown(view.limit.value, view.y.unit)}` : "";
  return `${counted(sums.length, "column")} of ${view.y.name}; the highest is ` +
    `${view.columns[largest].name} with ${shown(sums[largest], view.y.unit)}${limit}`;
}

function stackedView(view, title) {
  const label = stackedFinding(view);
  const unit = view.y.unit;
  return [
    legend(view.categories
      .map((name, i) => ({name, mark: swatch(seriesColor(i), seriesPattern(i))}))
      .filter((_, i) => view.columns.some(({values}) => values[i] !== 0))),
    picture((width) => drawStacked(view, width, label)),
    numbers(title, [view.x.name, ...view.categories, "together"], () =>
      groupedRows(view.columns.map(({name, values}) =>
        [name, ...values.map((value) => quantity(value, unit)), quantity(total(values), unit)]), 0))];
}
