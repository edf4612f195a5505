// The page of a worker: its connectors, asked for each second while somebody looks.

import { ask, pathOf } from "./ask.js";
import { Card } from "./connector.js";
import { element, setText } from "./element.js";
import { openForm } from "./form.js";
import { looking } from "./look.js";

const list = document.getElementById("connectors");
const cards = new Map();

const { act, look } = looking(async () => {
  const [connectors, measured] = await Promise.all([
    ask("GET", "connectors?expand=info&expand=status"),
    ask("GET", "semel/tasks"),
  ]);
  show(connectors, measured);
});

function confirmDelete(name) {
  const dialog = document.getElementById("confirm");
  const close = element("button", { type: "button" }, "Keep it");
  const remove = element("button", { type: "button", className: "bad" }, "Delete");
  dialog.replaceChildren(
    element("h2", { id: "confirm-title" }, `Delete ${name}?`),
    element("p", {}, "Its tasks end. What it has written stays, and so do its offsets: a connector of this name goes on there."),
    element("div", { className: "end" }, close, remove),
  );
  close.onclick = () => dialog.close();
  remove.onclick = async () => {
    dialog.close();
    await act("DELETE", pathOf(name)).catch(() => {});
  };
  dialog.showModal();
}

const does = {
  put: (name, what) => act("PUT", pathOf(name, what)),
  post: (name, what) => act("POST", pathOf(name, what)),
  change: (name, config) => openForm({ name, config }, look),
  remove: confirmDelete,
};

function show(connectors, measured) {
  const names = Object.keys(connectors).filter((name) => connectors[name].info).sort();
  for (const [name, card] of cards) {
    if (!names.includes(name)) {
      card.node.remove();
      cards.delete(name);
    }
  }
  names.forEach((name, index) => {
    if (!cards.has(name)) cards.set(name, new Card(name, does));
    const card = cards.get(name);
    if (list.children[index] !== card.node) list.insertBefore(card.node, list.children[index] ?? null);
    card.show(connectors[name].info, connectors[name].status, measured[name] ?? {});
  });
  document.getElementById("none").hidden = names.length > 0;
}

async function showWorker() {
  try {
    const root = await ask("GET", "./");
    setText(document.getElementById("worker"), `semel ${root.version}, cluster ${root.kafka_cluster_id}`);
  } catch {
    // look() says so
  }
}

document.getElementById("new").onclick = () => openForm(null, look);
showWorker();
look();
