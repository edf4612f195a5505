// One connector on the page: its state, its tasks, and what can be done with it.

import { ask, pathOf } from "./ask.js";
import { actionButton, element, keepShown, setState, setText } from "./element.js";
import { definitionsOf } from "./rest.js";

const OFFSETS_MS = 5000;
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

function short(className) {
  return className.split(".").pop();
}

function counted(states) {
  const counts = new Map();
  for (const state of states) counts.set(state, (counts.get(state) ?? 0) + 1);
  return [...counts].map(([state, count]) => `${count} ${state.toLowerCase()}`).join(", ");
}

export class Card {
  constructor(name, does) {
    this.name = name;
    this.does = does;
    this.rows = new Map();
    this.state = element("span", { className: "state" });
    this.rate = element("span", { className: "rate quiet" });
    this.about = element("p", { className: "quiet" });
    this.trace = element("pre", { hidden: true });
    this.buttons = {
      pause: this.button("Pause", () => does.put(name, "/pause")),
      resume: this.button("Resume", () => does.put(name, "/resume")),
      stop: this.button("Stop", () => does.put(name, "/stop")),
      restart: this.button("Restart", () => does.post(name, "/restart?includeTasks=true")),
      change: this.button("Change", () => does.change(name, this.config)),
      remove: this.button("Delete", () => does.remove(name)),
    };
    this.buttons.remove.classList.add("bad");
    this.details = element("details", {}, element("summary", {}, "Tasks, offsets, settings"), this.inside());
    this.details.ontoggle = () => this.details.open && this.look();
    this.node = element(
      "li",
      { className: "card", "data-name": name },
      element("div", { className: "title" }, element("h2", {}, name), this.state, this.rate),
      this.about,
      this.trace,
      element("div", { className: "actions" }, ...Object.values(this.buttons)),
      this.details,
    );
  }

  button(text, action) {
    return actionButton(text, this.name, action);
  }

  inside() {
    this.tasks = element("tbody");
    this.offsets = element("div", { className: "wide" });
    this.topics = element("p", { className: "quiet" });
    this.settings = element("div", { className: "wide" });
    const numbers = { Records: "number", "a second": "number", "open for": "number" };
    const heads = { Task: "", State: "", ...numbers, Worker: "worker", "": "" };
    const head = Object.entries(heads).map(([text, className]) => element("th", { className }, text));
    const table = element("table", {}, element("thead", {}, element("tr", {}, ...head)), this.tasks);
    return element(
      "div",
      {},
      element("h3", {}, "Tasks"),
      element("div", { className: "wide" }, table),
      element("h3", {}, "Offsets"),
      this.offsets,
      element("h3", {}, "Topics"),
      this.topics,
      element("h3", {}, "Settings"),
      this.settings,
    );
  }

  /** Show what REST says of it: its info, its status (undefined: none yet), and what its tasks have read. */
  show(info, status, measured) {
    this.config = info.config;
    const state = status?.connector.state ?? "UNASSIGNED";
    const tasks = status?.tasks ?? [];
    const rate = tasks.reduce((sum, task) => sum + (measured[task.id]?.records_per_second ?? 0), 0);
    setState(this.state, state);
    setText(this.rate, `${number.format(rate)} records/s`);
    const running = tasks.length ? counted(tasks.map((task) => task.state)) : "none";
    setText(this.about, `${short(info.config["connector.class"])} · tasks: ${running}`);
    this.about.classList.toggle("failed", tasks.some((task) => task.state === "FAILED"));
    this.trace.hidden = !status?.connector.trace;
    setText(this.trace, status?.connector.trace ?? "");
    this.buttons.pause.hidden = state === "PAUSED" || state === "STOPPED";
    this.buttons.resume.hidden = !this.buttons.pause.hidden;
    this.buttons.stop.hidden = state === "STOPPED";
    this.buttons.restart.hidden = state === "STOPPED" || state === "PAUSED";
    this.showTasks(tasks, measured);
    if (this.details.open) this.look();
  }

  showTasks(tasks, measured) {
    const known = new Set(tasks.map((task) => task.id));
    for (const [id, row] of this.rows) {
      if (!known.has(id)) {
        row.node.remove();
        row.traced.remove();
        this.rows.delete(id);
      }
    }
    for (const task of tasks) {
      if (!this.rows.has(task.id)) this.addRow(task.id);
      const row = this.rows.get(task.id);
      const found = measured[task.id];
      setState(row.state, task.state);
      setText(row.records, found ? number.format(found.records) : "");
      setText(row.rate, found ? number.format(found.records_per_second) : "");
      setText(row.age, found?.open_seconds ? `${number.format(found.open_seconds)} s` : "");
      setText(row.worker, task.worker_id);
      row.traced.hidden = !task.trace;
      setText(row.trace, task.trace ?? "");
      row.open.open ||= task.state === "FAILED" && !row.seen;
      row.seen = task.state === "FAILED";
    }
  }

  addRow(id) {
    const [state, records, rate, age, worker] = ["span", "td", "td", "td", "td"].map((tag) => element(tag));
    records.className = rate.className = age.className = "number";
    worker.className = "worker";
    const restart = this.button("Restart", () => this.does.post(this.name, `/tasks/${id}/restart`));
    restart.setAttribute("aria-label", `Restart task ${id} of ${this.name}`);
    const trace = element("pre");
    const open = element("details", {}, element("summary", {}, "What happened"), trace);
    const node = element(
      "tr",
      { "data-task": id },
      element("td", {}, String(id)),
      element("td", {}, state),
      records,
      rate,
      age,
      worker,
      element("td", {}, restart),
    );
    const traced = element("tr", { className: "trace", hidden: true }, element("td", { colSpan: 7 }, open));
    this.tasks.append(node, traced);
    this.rows.set(id, { node, traced, state, records, rate, age, worker, trace, open, seen: false });
  }

  /** Ask for what only the open details show. Offsets are read from their topic, so not each second. */
  async look() {
    if (this.looked && Date.now() - this.looked < OFFSETS_MS) return;
    this.looked = Date.now();
    try {
      const [offsets, topics, definitions] = await Promise.all([
        ask("GET", pathOf(this.name, "/offsets")),
        ask("GET", pathOf(this.name, "/topics")),
        definitionsOf(this.config["connector.class"]),
      ]);
      this.showOffsets(offsets.offsets);
      setText(this.topics, topics[this.name].topics.join(", ") || "None yet.");
      this.showSettings(definitions);
    } catch (error) {
      keepShown(this.offsets, error.message, (text) => [element("p", { className: "problem" }, text)]);
    }
  }

  showOffsets(offsets) {
    keepShown(this.offsets, offsets, () => {
      if (!offsets.length) return [element("p", { className: "quiet" }, "None is committed yet.")];
      const cell = (value) => element("td", { className: "text" }, element("code", {}, JSON.stringify(value)));
      const rows = offsets.map((one) => element("tr", {}, cell(one.partition), cell(one.offset)));
      const head = element("tr", {}, element("th", {}, "Source partition"), element("th", {}, "Offset"));
      return [element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows))];
    });
  }

  showSettings(definitions) {
    const secret = new Set(definitions.filter((one) => one.type === "PASSWORD").map((one) => one.name));
    const shown = Object.entries(this.config).map(([name, value]) => [name, secret.has(name) ? "[hidden]" : value]);
    keepShown(this.settings, shown, () => {
      const rows = shown.map(([name, value]) =>
        element("tr", {}, element("td", {}, element("code", {}, name)), element("td", { className: "text" }, value)),
      );
      return [element("table", {}, element("tbody", {}, ...rows))];
    });
  }
}
