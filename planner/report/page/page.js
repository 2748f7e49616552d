// The page: a section for each of the report's, a way to each of them, and the theme.

const VIEWS = {
  text: (view) => view.paragraphs.map((paragraph) => element("p", {}, ...paragraph.split("\n").map(lineOf))),
  table: (view, title) => [table(title, view.columns, view.rows.map(({cells}) => cells))],
  bars: barsView, stacked: stackedView, curves: curvesView, scatter: scatterView, flips: flipsView,
  timeline: timelineView, choices: choicesView,
};

function sectionOf({id, title, note, view}) {
  return element("section", {id, "aria-labelledby": `${id}-title`},
    element("h2", {id: `${id}-title`}, title),
    note ? element("p", {class: "lead"}, note) : null,
    ...VIEWS[view.kind](view, title));
}

function navigation(sections) {
  return element("nav", {"aria-label": "Sections"}, element("ul", {},
    ...sections.map(({id, title}) => element("li", {}, element("a", {href: `#${id}`}, title)))));
}

// Marks the section that one reads.
function followReading(nav) {
  const links = new Map([...nav.querySelectorAll("a")].map((link) => [link.hash.slice(1), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const {isIntersecting, target} of entries) {
      if (isIntersecting) {
        links.forEach((link) => link.removeAttribute("aria-current"));
        links.get(target.id).setAttribute("aria-current", "location");
      }
    }
  }, {rootMargin: "-20% 0px -70% 0px"});
  document.querySelectorAll("main section").forEach((section) => observer.observe(section));
}

function themeButton() {
  const isDark = () => document.documentElement.dataset.theme
    ? document.documentElement.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const changed = () => {
    node.textContent = isDark() ? "Light theme" : "Dark theme";
    dispatchEvent(new Event("themechange"));
  };
  const node = element("button", {type: "button", class: "theme", click: () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    changed();
  }});
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  changed();
  return node;
}

// Canvases are painted in light colours for paper.
for (const [name, isPrinting] of [["beforeprint", true], ["afterprint", false]]) {
  addEventListener(name, () => {
    document.documentElement.toggleAttribute("data-printing", isPrinting);
    dispatchEvent(new Event("themechange"));
  });
}

const report = JSON.parse(document.getElementById("report").textContent);
const nav = navigation(report.sections);
document.querySelector("header").append(themeButton());
document.querySelector("main").before(nav);
document.body.append(patterns(), tip);
document.getElementById("sections").replaceWith(...report.sections.map(sectionOf));
followReading(nav);
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
