// The form that creates or changes a connector. The worker checks it, and each mistake is shown at its field.

import { Refused, ask, pathOf } from "./ask.js";
import { element } from "./element.js";
import { definitionsOf } from "./rest.js";

const dialog = document.getElementById("form");

class Field {
  constructor(definition, value, change = {}) {
    const id = `field-${definition.name}`;
    this.name = definition.name;
    this.given = definition.default_value ?? "";
    this.input = this.make(definition, id, value, change);
    this.error = element("p", { className: "error", id: `${id}-error`, role: "alert", hidden: true });
    const label = element("label", { for: id }, definition.display_name || definition.name);
    const hint = element("p", { className: "hint", id: `${id}-hint` }, definition.documentation ?? "");
    hint.hidden = !definition.documentation;
    this.node = element("div", { className: "field" }, label, hint, this.input, this.error);
  }

  make(definition, id, value, { choices, multiline }) {
    const options = choices ?? (definition.type === "BOOLEAN" ? ["", "true", "false"] : null);
    const tag = options ? "select" : multiline || (value ?? "").includes("\n") ? "textarea" : "input";
    const made = element(tag, { id, name: definition.name, autocomplete: "off", spellcheck: false });
    made.setAttribute("aria-describedby", `${id}-hint ${id}-error`);
    made.setAttribute("aria-required", String(Boolean(definition.required)));
    for (const one of options ?? []) made.append(element("option", { value: one }, one || `${this.given} (unless set)`));
    if (tag === "input") {
      made.type = definition.type === "PASSWORD" ? "password" : "text";
      made.placeholder = this.given;
    }
    made.value = value ?? "";
    return made;
  }

  get value() {
    return this.input.value.trim();
  }

  showErrors(errors) {
    this.error.hidden = !errors.length;
    this.error.textContent = errors.join("\n");
    this.input.setAttribute("aria-invalid", String(errors.length > 0));
  }
}

/** Lines of name=value, as properties files have them; # begins a comment. */
function parsed(text) {
  const found = {};
  for (const line of text.split("\n").map((one) => one.trim())) {
    if (!line || line.startsWith("#")) continue;
    const at = line.indexOf("=");
    if (at < 1) throw new Refused(400, `"${line}" is not a property. Write name=value.`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}

const OTHERS = {
  name: "others",
  display_name: "Other properties",
  documentation: "One a line, as name=value: transformations, predicates, what a converter is told.",
};

class Form {
  constructor(known, done) {
    this.known = known;
    this.done = done;
    this.problem = element("p", { className: "problem", role: "alert", hidden: true });
    this.inside = element("div");
  }

  async open() {
    const plugins = (await ask("GET", "connector-plugins")).map((one) => one.class);
    const chosen = this.known?.config["connector.class"] ?? plugins[0];
    const classes = plugins.includes(chosen) ? plugins : [chosen, ...plugins];
    const definition = { name: "class", display_name: "Class", documentation: "" };
    this.className = new Field({ ...definition, required: true }, chosen, { choices: [...classes, "another class"] });
    this.className.input.onchange = () => this.showClass({}).catch((error) => this.show(error));
    const another = { name: "another", display_name: "Class of your own", documentation: "As package.module.Class." };
    this.another = new Field(another, "");
    this.another.input.onchange = this.className.input.onchange;
    const save = element("button", { type: "submit", className: "main" }, this.known ? "Save" : "Create");
    const close = element("button", { type: "button" }, "Cancel");
    close.onclick = () => dialog.close();
    const title = this.known ? `Change ${this.known.name}` : "New connector";
    const form = element(
      "form",
      { noValidate: true },
      element("h2", { id: "form-title" }, title),
      this.className.node,
      this.another.node,
      this.inside,
      this.problem,
      element("div", { className: "end" }, close, save),
    );
    form.onsubmit = async (event) => {
      event.preventDefault();
      save.disabled = true;
      try {
        await this.submit();
      } catch (error) {
        this.show(error);
      } finally {
        save.disabled = false;
      }
    };
    dialog.replaceChildren(form);
    await this.showClass(this.known?.config ?? {});
    dialog.showModal();
  }

  get chosen() {
    return this.className.value === "another class" ? this.another.value : this.className.value;
  }

  /** Show the fields of the class. What was written into a field of the same name stays. */
  async showClass(config) {
    this.problem.hidden = true;
    this.another.node.hidden = this.className.value !== "another class";
    const chosen = this.chosen;
    const all = chosen ? await definitionsOf(chosen) : [];
    if (chosen !== this.chosen) return; // another one was chosen meanwhile
    const before = Object.fromEntries((this.fields ?? []).map((field) => [field.name, field.value]));
    const others = this.others?.value;
    this.inside.replaceChildren();
    this.fields = [];
    if (!chosen) return;
    const definitions = all.filter((one) => one.name !== "connector.class");
    const names = new Set([...definitions.map((one) => one.name), "connector.class"]);
    const field = (definition) => {
      const made = new Field(definition, config[definition.name] ?? before[definition.name]);
      if (definition.name === "name" && this.known) made.input.readOnly = true;
      this.fields.push(made);
      return made.node;
    };
    const required = (one) => (one.required ? 0 : 1);
    const first = definitions.filter((one) => one.group === null).sort((a, b) => required(a) - required(b));
    const common = definitions.filter((one) => one.group !== null);
    const front = common.filter((one) => one.name === "name" || one.name === "tasks.max");
    const rest = common.filter((one) => !front.includes(one));
    const left = Object.entries(config).filter(([name]) => !names.has(name));
    this.others = new Field(OTHERS, others ?? left.map(([name, value]) => `${name}=${value}`).join("\n"), {
      multiline: true,
    });
    const more = element("summary", {}, "More settings");
    this.more = element("details", {}, more, ...rest.map(field), this.others.node);
    this.inside.append(...front.slice(0, 1).map(field), ...first.map(field), ...front.slice(1).map(field), this.more);
  }

  config() {
    const given = this.fields.filter((field) => field.value !== "").map((field) => [field.name, field.value]);
    return { ...parsed(this.others?.value ?? ""), ...Object.fromEntries(given), "connector.class": this.chosen };
  }

  async submit() {
    this.problem.hidden = true;
    const config = this.config();
    const path = `connector-plugins/${encodeURIComponent(this.chosen)}/config/validate`;
    const examined = await ask("PUT", path, config);
    if (this.showErrors(examined.configs)) return;
    if (this.known) await ask("PUT", pathOf(this.known.name, "/config"), config);
    else await ask("POST", "connectors", { name: config.name, config });
    dialog.close();
    await this.done();
  }

  /** Show each error at its field; return whether there is one. */
  showErrors(configs) {
    const errors = new Map(configs.map((one) => [one.value.name, one.value.errors]));
    let first = null;
    for (const field of this.fields) {
      const found = errors.get(field.name) ?? [];
      field.showErrors(found);
      errors.delete(field.name);
      if (found.length) first ??= field;
    }
    this.className.showErrors(errors.get("connector.class") ?? []);
    errors.delete("connector.class");
    const left = [...errors.values()].flat();
    this.others.showErrors(left);
    if (left.length) first ??= this.others;
    if (first && this.more.contains(first.node)) this.more.open = true;
    first?.input.focus();
    return first !== null || !this.className.error.hidden;
  }

  show(error) {
    this.problem.hidden = false;
    this.problem.textContent = error.message;
  }
}

/** Open it for a new connector (null), or for one that is known. `done` is called once something was written. */
export async function openForm(known, done) {
  const form = new Form(known, done);
  try {
    await form.open();
  } catch (error) {
    if (!dialog.open) {
      const close = element("button", { type: "button" }, "Close");
      close.onclick = () => dialog.close();
      dialog.replaceChildren(form.problem, element("div", { className: "end" }, close));
      dialog.showModal();
    }
    form.show(error);
  }
}
