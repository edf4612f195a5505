// Elements of the page. Text is only ever set as text: names and traces come from others.

/** An element with these properties and children. A child that is a string becomes text. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.includes("-") || name === "for" || name === "role") made.setAttribute(name, value);
    else made[name] = value;
  }
  made.append(...children);
  return made;
}

/** Set the text of an element, if it is another one: what a reader has selected stays selected. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Replace what an element holds when what it is made of has changed. */
export function keepShown(node, content, build) {
  const key = JSON.stringify(content);
  if (node.dataset.shown === key) return;
  node.dataset.shown = key;
  node.replaceChildren(...build(content));
}

/** Show the state of a connector or a task in a word and a colour. */
export function setState(node, state) {
  node.className = `state ${state}`;
  setText(node, state);
}

/** A button that does something to what is named, and is disabled meanwhile. The page says what was refused. */
export function actionButton(text, name, action) {
  const made = element("button", { type: "button", "aria-label": `${text} ${name}` }, text);
  made.onclick = async () => {
    made.disabled = true;
    try {
      await action();
    } catch {
      // the page says what was refused
    } finally {
      made.disabled = false;
    }
  };
  return made;
}
