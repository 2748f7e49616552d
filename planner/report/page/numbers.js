// Numbers as people read them: four digits, a unit that suits their size, a real minus.

const PREFIXES = [
  [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"],
];
const BASE_UNITS = new Set(["s", "B", "B/s", "FLOP", "FLOP/s", "Hz"]);
const PREFIXED_UNIT = /^([kMGTP]i?(B|bit|FLOP|W)|[mµun]s\b|%|\$)/;

// A number with so many decimals.
function fixed(value, decimals) {
  return value.toLocaleString("en-US", {minimumFractionDigits: decimals, maximumFractionDigits: decimals})
    .replace(/^-/, "−");
}

// Rounds to so many significant digits; whole numbers keep all of theirs.
function digits(value, significant = 4) {
  const size = Math.abs(value);
  if (size > 0 && (size < 1e-4 || size >= 1e15)) {
    return value.toExponential(significant - 1).replace(/-/g, "−").replace("+", "");
  }
  const whole = size === 0 ? 1 : Math.floor(Math.log10(size)) + 1;
  return fixed(value, Number.isInteger(value) ? 0 : Math.max(0, significant - whole));
}

// All digits of a round number.
function plain(value) {
  return value.toLocaleString("en-US", {maximumFractionDigits: 12}).replace("-", "−");
}

// The factor and the unit that numbers up to `size` are told in.
function unitFor(size, unit) {
  const suits = ([factor]) => size >= factor * 0.9999;
  if (BASE_UNITS.has(unit)) {
    const known = unit === "s" ? PREFIXES.filter(([factor]) => factor <= 1) : PREFIXES;
    const [factor, prefix] = size === 0 ? [1, ""] : known.find(suits) ?? known.at(-1);
    return {factor, unit: prefix + unit};
  }
  if (!PREFIXED_UNIT.test(unit) && size >= 1e4) {
    const [factor, prefix] = PREFIXES.find(suits);
    return {factor, unit: unit ? `${prefix} ${unit}` : prefix};
  }
  return {factor: 1, unit};
}

function shown(value, unit = "", significant = 4) {
  const scaled = unitFor(Math.abs(value), unit);
  const isShort = scaled.factor >= 1e3 && !BASE_UNITS.has(unit);
  const text = digits(value / scaled.factor, isShort ? significant - 1 : significant);
  return scaled.unit ? `${text} ${scaled.unit}` : text;
}

function withSign(text, value) {
  return value > 0 ? `+${text}` : text;
}

function percent(fraction) {
  const value = 100 * fraction;
  const size = Math.abs(value);
  if (size > 0 && size < 0.005) {
    return "<0.01 %";
  }
  return `${plain(Number(value.toFixed(size < 0.995 ? 2 : size < 9.95 ? 1 : 0)))} %`;
}

function counted(count, one, many = `${one}s`) {
  return `${digits(count)} ${count === 1 ? one : many}`;
}

// Round numbers that part low .. high into about `count` steps, and what tells them.
function linearTicks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((nice) => nice * power).find((nice) => nice >= rough * 0.8);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    ticks.push(i * step || 0);  // no −0
  }
  const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return {ticks, text: (tick) => fixed(tick, decimals)};
}

// Powers of ten, with 2 and 5 between them where they are few.
function logTicks(low, high, count) {
  const first = Math.floor(Math.log10(low) + 1e-9);
  const last = Math.ceil(Math.log10(high) - 1e-9);
  const between = Math.log10(high / low) <= count / 3 ? [1, 2, 5] : [1];
  const stride = Math.max(1, Math.ceil((last - first) / count));
  const ticks = [];
  for (let power = first; power <= last; power += stride) {
    ticks.push(...between.map((nice) => nice * 10 ** power));
  }
  const inside = ticks.filter((tick) => tick >= low * 0.999 && tick <= high * 1.001);
  if (inside.length > 1) {
    return inside;
  }
  return low < high ? linearTicks(low, high, count).ticks : [low];
}

function least(values) {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

function most(values) {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}

function total(values) {
  return values.reduce((a, b) => a + b, 0);
}

// The index of the first of ascending `values` in first .. last that is above `value`; last if none is.
function firstAbove(values, value, first = 0, last = values.length) {
  while (first < last) {
    const middle = (first + last) >> 1;
    if (values[middle] > value) {
      last = middle;
    } else {
      first = middle + 1;
    }
  }
  return first;
}
