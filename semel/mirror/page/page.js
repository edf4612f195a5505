// The page of a mirror: its flows, asked for each second while somebody looks.

import { ask } from "./ask.js";
import { setText } from "./element.js";
import { Card } from "./flow.js";

const INTERVAL_MS = 1000;

const list = document.getElementById("flows");
const problem = document.getElementById("problem");
const cards = new Map();
let timer = 0;

function showProblem(text) {
  problem.hidden = !text;
  setText(problem, text);
}

/** Do something to a flow, and look what became of it. */
async function act(method, path) {
  try {
    await ask(method, path);
    showProblem("");
  } catch (error) {
    showProblem(error.message);
    throw error;
  } finally {
    await look();
  }
}

async function look() {
  clearTimeout(timer);
  try {
    for (const flow of await ask("GET", "semel/flows")) {
      if (!cards.has(flow.name)) {
        cards.set(flow.name, new Card(flow.name, act));
        list.append(cards.get(flow.name).node);
      }
      cards.get(flow.name).show(flow);
    }
    if (problem.dataset.away) showProblem("");
    delete problem.dataset.away;
  } catch (error) {
    problem.dataset.away = "yes";
    showProblem(error.message);
  }
  clearTimeout(timer);
  if (!document.hidden) timer = setTimeout(look, INTERVAL_MS);
}

async function showProcess() {
  try {
    const root = await ask("GET", "./");
    setText(document.getElementById("worker"), `semel ${root.version}, writes to cluster ${root.kafka_cluster_id}`);
  } catch {
    // look() says so
  }
}

document.addEventListener("visibilitychange", () => document.hidden || look());
showProcess();
look();
