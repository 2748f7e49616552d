// What becomes of the answer when its inputs change: a tornado.

function fittingSteps(input) {
  return input.steps.filter(({time_s: time}) => time !== undefined);
}

function change(value) {
  return value === 0 ? "as it is" : withSign(percent(value), value);
}

function flipRows(view) {
  const rows = view.inputs.map((input) => {
    const fitting = fittingSteps(input);
    const times = fitting.map(({time_s: time}) => time);
    return {
      input, low: fitting.find((step) => step.change < 0), high: fitting.findLast((step) => step.change > 0),
      swing: times.length > 0 ? most(times) - least(times) : 0,
      others: fitting.filter(({is_same: isSame}) => !isSame),
      unfit: input.steps.filter(({time_s: time}) => time === undefined),
    };
  });
  return rows.sort((a, b) => b.swing - a.swing);
}

function flipTip({input}) {
  const told = ({time_s: time, winner, is_same: isSame}) => time === undefined ? "nothing fits"
    : `${shown(time, "s")}${isSame ? "" : ` by ${winner}`}`;
  return [input.name, ...input.steps.map((step) => [change(step.change), told(step)])];
}

function flipRow(row, {top, base, place, nameWidth, isNarrow, width}) {
  const barTop = top + (isNarrow ? 20 : 7);
  const middle = barTop + 8;
  const side = (step, color, pattern) => {
    const [a, b] = [place(base), place(step?.time_s ?? base)];
    return patterned("rect", {x: Math.min(a, b), y: barTop, width: Math.max(1, Math.abs(a - b)), height: 16},
      color, pattern);
  };
  const ends = [row.low, row.high].filter((step) => step)
    .sort((a, b) => a.time_s - b.time_s);
  // Where both ends are on one side, the farther one alone has a label.
  const isOneSided = ends.length === 2 && (ends[0].time_s - base) * (ends[1].time_s - base) > 0;
  const labels = isOneSided ? [ends[0].time_s < base ? ends[0] : ends[1]] : ends;
  const marks = row.others.map((step) => shape("path", {
    d: "M0,-7L6,0L0,7L-6,0Z", transform: `translate(${place(step.time_s)},${middle})`, class: "flip",
  }));
  const name = row.input.name + (row.unfit.length > 0 ? " ✕" : "");
  const nameRoom = (isNarrow ? width : nameWidth) - 12;
  return withTip(shape("g", {class: "row"},
    shape("rect", {x: 0, y: top, width, height: isNarrow ? 42 : 30, class: "hit"}),
    text(0, isNarrow ? top + 13 : middle + 4.5, fitted(name, nameRoom), {class: "name"}),
    side(row.low, "var(--series-1)", ""), side(row.high, "var(--series-2)", "falling"),
    ...labels.map((step) => {
      const isLeft = step.time_s < base || (step.time_s === base && step === ends[0]);
      return text(place(step.time_s) + (isLeft ? -10 : 10), middle + 4.5, change(step.change),
        {class: "share", "text-anchor": isLeft ? "end" : "start"});
    }), ...marks), () => flipTip(row));
}

function drawFlips(rows, base, width, label) {
  const isNarrow = width < NARROW;
  const rowHeight = isNarrow ? 42 : 30;
  const nameWidth = isNarrow ? 0
    : Math.min(width * 0.3, most(rows.map(({input}) => textWidth(input.name))) + 40);
  const times = rows.flatMap(({input}) => input.steps.map(({time_s: time}) => time ?? base));
  const horizontal = scale({name: "time", unit: "s", is_log: false}, [Math.min(base, least(times)), Math.max(base, most(times))],
    [nameWidth + 58, width - 62]);
  const {ticks, unit} = ticksOf(horizontal, Math.max(2, Math.round((width - nameWidth) / 130)));
  const height = rows.length * rowHeight + 44;
  const bottom = height - 40;
  const grid = ticks.flatMap(({value, text: tick}) => {
    const at = horizontal.place(value);
    return [shape("line", {x1: at, x2: at, y1: 0, y2: bottom, class: "grid"}),
      text(at, bottom + 16, tick, {class: "tick", "text-anchor": "middle"})];
  });
  const at = horizontal.place(base);
  return drawing(width, height, label, ...grid,
    shape("line", {x1: at, x2: at, y1: 0, y2: bottom, class: "axis"}),
    ...rows.map((row, i) => flipRow(row,
      {top: i * rowHeight, base, place: horizontal.place, nameWidth, isNarrow, width})),
    text((nameWidth + width) / 2, height - 6, `time of an iteration (${unit}); the line: ${shown(base, "s")}`,
      {class: "axis-title", "text-anchor": "middle"}));
}

function flipsFinding(rows) {
  const flipping = rows.filter(({others}) => others.length > 0);
  const unfit = rows.filter(({unfit: steps}) => steps.length > 0);
  const names = (some) => some.map(({input}) => input.name).join(", ");
  const count = `${flipping.length} of ${counted(rows.length, "input")}`;
  return (flipping.length === 0 ? "No change that was searched makes another plan win"
    : `Another plan wins under changes of ${count}: ${names(flipping)}`) +
    (unfit.length > 0 ? `. Nothing fits under some changes of ${names(unfit)}` : "");
}

function flipsView(view, title) {
  const rows = flipRows(view);
  if (!view.inputs.some((input) => fittingSteps(input).length > 0)) {
    return [element("p", {}, "No change was tried under which something fits."), view.note ?? ""];
  }
  const label = `${flipsFinding(rows)}.`;
  return [
    element("p", {}, label),
    legend([
      {name: "input smaller", mark: swatch("var(--series-1)", "")},
      {name: "input larger", mark: swatch("var(--series-2)", "falling")},
      {name: "another plan wins", mark: shape("path", {d: "M11,0L17,7L11,14L5,7Z", class: "flip"})},
      ...(rows.some(({unfit}) => unfit.length > 0) ? [{name: "nothing fits somewhere",
        mark: text(11, 12, "✕", {class: "name", "text-anchor": "middle"})}] : []),
    ]),
    picture((width) => drawFlips(rows, view.base_s, width, label)),
    view.note ? element("p", {class: "note"}, view.note) : null,
    numbers(title, ["input", "change", "time", "this plan", "best plan"], () =>
      view.inputs.flatMap(({name, steps}) => steps.map((step) => [
        name, {value: step.change, text: change(step.change)},
        step.time_s === undefined ? "nothing fits" : quantity(step.time_s, "s"),
        step.same_s === undefined ? "cannot run" : quantity(step.same_s, "s"),
        step.is_same ? "the same" : step.winner])))];
}
