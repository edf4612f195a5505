// One flow on the page: how far it is, its topics and groups, what is stopped, and what can be done with it.

import { pathOf } from "./ask.js";
import { actionButton, element, keepShown, setState, setText } from "./element.js";

const number = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function milliseconds(value) {
  return value === null ? "-" : `${whole.format(value)} ms`;
}

function table(heads, rows) {
  const head = heads.map(([text, className]) => element("th", { className }, text));
  return element("table", {}, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...rows));
}

export class Card {
  constructor(name, act) {
    this.name = name;
    this.act = act;
    this.title = element("h2");
    this.state = element("span", { className: "state" });
    this.rate = element("span", { className: "rate quiet" });
    this.about = element("p", { className: "quiet" });
    this.problem = element("p", { className: "problem", hidden: true });
    this.stopped = element("div");
    this.buttons = {
      pause: this.button("Pause", "PUT", "/pause"),
      resume: this.button("Resume", "PUT", "/resume"),
      stop: this.button("Stop", "PUT", "/stop"),
      restart: this.button("Restart", "POST", "/restart"),
    };
    this.topics = element("div", { className: "wide" });
    this.groups = element("div", { className: "wide" });
    const inside = element("div", {}, element("h3", {}, "Topics"), this.topics, element("h3", {}, "Groups"), this.groups);
    this.node = element(
      "li",
      { className: "card", "data-name": name },
      element("div", { className: "title" }, this.title, this.state, this.rate),
      this.about,
      this.problem,
      this.stopped,
      element("div", { className: "actions" }, ...Object.values(this.buttons)),
      element("details", { open: true }, element("summary", {}, "Topics and groups"), inside),
    );
  }

  button(text, method, path) {
    return actionButton(text, this.name, () => this.act(method, pathOf(this.name, path)));
  }

  /** Show what REST says of it. */
  show(flow) {
    setText(this.title, flow.title);
    setState(this.state, flow.state);
    setText(this.rate, `${number.format(flow.records_per_second)} records/s`);
    const committed = flow.committed_s === null ? "no commit yet" : `last commit ${whole.format(flow.committed_s)} s ago`;
    const latency = `latency ${milliseconds(flow.latency_ms)}`;
    const promise = flow.exactly_once ? "exactly once" : "AT LEAST ONCE";
    setText(this.about, `${whole.format(flow.lag)} records behind · ${latency} · ${committed} · ${promise}`);
    this.problem.hidden = !flow.problem;
    setText(this.problem, flow.problem);
    const running = flow.state !== "PAUSED" && flow.state !== "STOPPED";
    this.buttons.pause.hidden = !running;
    this.buttons.resume.hidden = running;
    this.buttons.stop.hidden = flow.state === "STOPPED";
    this.buttons.restart.hidden = !running;
    this.showStopped(flow.topics);
    this.showTopics(flow.topics);
    this.showGroups(flow.groups);
  }

  showStopped(topics) {
    const stops = topics.flatMap((one) => one.stopped.map((stop) => ({ ...stop, topic: one.topic })));
    keepShown(this.stopped, stops, () =>
      stops.map((stop) => {
        const name = stop.partition === null ? stop.topic : `${stop.topic}-${stop.partition}`;
        return element("p", { className: "problem" }, `${name} is stopped [SEMEL_${stop.tag}]: ${stop.message}`);
      }),
    );
  }

  /** Rows stay while their topics do: a button that somebody is about to press is not replaced. */
  showTopics(topics) {
    keepShown(this.topics, topics.map((one) => [one.topic, one.paused]), () => {
      this.cells = new Map();
      if (!topics.length) return [element("p", { className: "quiet" }, "None is copied yet.")];
      const heads = [["Topic", ""], ["on the target", "worker"], ["Records", "number"], ["behind", "number"]];
      heads.push(["latency", "number worker"], ["", ""]);
      return [table(heads, topics.map((one) => this.topicRow(one)))];
    });
    for (const one of topics) {
      const [records, lag, latency] = this.cells.get(one.topic);
      setText(records, whole.format(one.records));
      setText(lag, whole.format(one.lag));
      setText(latency, milliseconds(one.latency_ms));
    }
  }

  topicRow(one) {
    const [text, path] = one.paused ? ["Resume", "resume"] : ["Pause", "pause"];
    const rest = `/topics/${encodeURIComponent(one.topic)}/${path}`;
    const button = actionButton(text, one.topic, () => this.act("PUT", pathOf(this.name, rest)));
    const numbers = ["number", "number", "number worker"].map((className) => element("td", { className }));
    this.cells.set(one.topic, numbers);
    return element(
      "tr",
      { "data-topic": one.topic },
      element("td", { className: "text" }, one.paused ? `${one.topic} (paused)` : one.topic),
      element("td", { className: "worker" }, one.target),
      ...numbers,
      element("td", {}, button),
    );
  }

  showGroups(groups) {
    keepShown(this.groups, groups, () => {
      if (!groups.length) return [element("p", { className: "quiet" }, "None follows yet.")];
      const rows = groups.map((one) =>
        element(
          "tr",
          { "data-group": one.group },
          element("td", { className: "text" }, one.group),
          element("td", { className: "number" }, `${one.partitions - one.inexact} of ${one.partitions}`),
          element("td", { className: "number" }, milliseconds(one.latency_ms)),
          element("td", { className: "text failed" }, one.problem),
        ),
      );
      const heads = [["Group", ""], ["exact partitions", "number"], ["checkpoint", "number"], ["", ""]];
      return [table(heads, rows)];
    });
  }
}
