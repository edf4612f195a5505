// What pages ask a worker. Paths are relative, so that a page also works behind a proxy that adds a prefix.

/** What the worker refused, or that it does not answer (status 0). */
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Ask REST. Returns the JSON of the answer, or null; throws Refused. */
export async function ask(method, path, body) {
  const request = { method, headers: { Accept: "application/json" }, cache: "no-store" };
  if (body !== undefined) {
    request.body = JSON.stringify(body);
    request.headers["Content-Type"] = "application/json";
  }
  let answer;
  let text;
  try {
    answer = await fetch(path, request);
    text = await answer.text();
  } catch {
    throw new Refused(0, "The worker does not answer. What is shown may be old. Is it still running?");
  }
  let found = null;
  try {
    found = text ? JSON.parse(text) : null;
  } catch {
    throw new Refused(answer.status, `The answer is not JSON (status ${answer.status}). Is a proxy in between?`);
  }
  if (!answer.ok) throw new Refused(answer.status, found?.message ?? `The worker answered ${answer.status}.`);
  return found;
}

/** The path of a connector, as Kafka Connect names it. */
export function pathOf(name, rest = "") {
  return `connectors/${encodeURIComponent(name)}${rest}`;
}
