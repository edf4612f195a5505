// A page that looks again each second while somebody looks at it, and what it says when that fails.

import { ask } from "./ask.js";
import { setText } from "./element.js";

const INTERVAL_MS = 1000;

/** Call `refresh` again and again. Returns `act`, which asks for something and looks what became of it, and `look`. */
export function looking(refresh) {
  const problem = document.getElementById("problem");
  let timer = 0;

  function showProblem(text) {
    problem.hidden = !text;
    setText(problem, text);
  }

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
      await refresh();
      if (problem.dataset.away) showProblem("");
      delete problem.dataset.away;
    } catch (error) {
      problem.dataset.away = "yes";
      showProblem(error.message);
    }
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(look, INTERVAL_MS);
  }

  document.addEventListener("visibilitychange", () => document.hidden || look());
  return { act, look };
}
