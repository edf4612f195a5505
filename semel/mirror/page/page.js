// The page of a mirror: its flows, asked for each second while somebody looks.

import { ask } from "./ask.js";
import { setText } from "./element.js";
import { Card } from "./flow.js";
import { looking } from "./look.js";

const list = document.getElementById("flows");
const cards = new Map();

const { act, look } = looking(async () => {
  for (const flow of await ask("GET", "semel/flows")) {
    if (!cards.has(flow.name)) {
      cards.set(flow.name, new Card(flow.name, act));
      list.append(cards.get(flow.name).node);
    }
    cards.get(flow.name).show(flow);
  }
});

async function showProcess() {
  try {
    const root = await ask("GET", "./");
    setText(document.getElementById("worker"), `semel ${root.version}, writes to cluster ${root.kafka_cluster_id}`);
  } catch {
    // look() says so
  }
}

showProcess();
look();
