// Pictures of which one chooses one. What is chosen in one place is shown in every other that has it.

const MOST_LETTERS = 70;  // on buttons; a list of more takes less room
const choosers = [];

function listChoice(label, names, choose) {
  const node = element("select", {"aria-label": label, change: () => choose(node.selectedIndex)},
    ...names.map((name) => element("option", {}, name)));
  return {node, mark: (index) => { node.selectedIndex = index; }};
}

function choose(name) {
  choosers.forEach(({names, show}) => names.includes(name) && show(names.indexOf(name)));
}

function choicesView(view, title) {
  const place = element("div", {class: "chosen"});
  const names = view.choices.map(({name}) => name);
  const make = names.join("").length > MOST_LETTERS ? listChoice : choice;
  const control = make("Shown", names, (i) => choose(names[i]));
  const show = (index) => {
    const {name, note, view: chosen} = view.choices[index];
    control.mark(index);
    place.replaceChildren(...(note ? [element("p", {}, note)] : []),
      ...VIEWS[chosen.kind](chosen, `${title} ${name}`).filter((node) => node));
  };
  choosers.push({names, show});
  if (names.length > 0) {
    show(0);
  }
  return [names.length > 1 ? control.node : element("p", {}, names[0] ?? "There is nothing to show."), place];
}
