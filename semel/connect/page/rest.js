// The settings of classes of connectors, by the worker's REST interface.

import { ask } from "./ask.js";

const definitions = new Map();

/** The settings of a class of connectors, asked for once. */
export async function definitionsOf(className) {
  if (!definitions.has(className)) {
    definitions.set(className, await ask("GET", `connector-plugins/${encodeURIComponent(className)}/config`));
  }
  return definitions.get(className);
}
