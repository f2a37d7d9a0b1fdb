// What textual-serve's client (textual.js) needs to be told, and what it does not do.
"use strict";

// Why the server closes a connection: stage.py has the numbers.
const WHY = {
  4000: ["The chat has ended.", "Start again"],
  4001: ["The chat is open in another tab.", "Use it here"],
  1001: ["chatkv run --web has ended in its terminal.", "Try again"],
};
const LOST = ["The connection was lost; the chat goes on.", "Connect again"];
const FONT_PX = 16;

// The token is not left in the address bar: a cookie has taken its place. Nor does textual.js see options.
history.replaceState(null, "", location.pathname);

class Connection extends WebSocket {
  constructor(url) {
    super(url);
    // One can type at once, without a click.
    this.addEventListener("open", () => document.querySelector(".xterm-helper-textarea")?.focus());
    this.addEventListener("close", ({ code, reason }) => say(WHY[code] ?? LOST, reason));
  }
}
window.WebSocket = Connection;

function say([why, button], reason) {
  document.querySelector("#why").textContent = reason ? `${why} (${reason})` : why;
  const again = document.querySelector("#again");
  again.textContent = button;
  again.hidden = false;
  again.onclick = () => location.reload();
  // textual.js does it too, but later: what can't be seen takes no focus.
  document.body.classList.add("-closed");
  again.focus();
}

// ctrl+v pastes what the system has; the app would see only a key.
addEventListener(
  "keydown",
  (event) => {
    if (event.ctrlKey && !event.altKey && !event.metaKey && event.key.toLowerCase() === "v") {
      event.stopImmediatePropagation();
    }
  },
  true,
);

// Without https, browsers give a clipboard only to pages of their own machine.
if (!navigator.clipboard) {
  const writeText = async (text) => {
    const area = document.createElement("textarea");
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    document.querySelector(".xterm-helper-textarea")?.focus();
  };
  Object.defineProperty(navigator, "clipboard", { value: { writeText, readText: async () => "" } });
}

// The client measures its font when it starts: the font must be there by then.
const start = window.onload;
window.onload = async (event) => {
  const terminal = document.querySelector("#terminal");
  terminal.dataset.sessionWebsocketUrl = `${location.origin.replace(/^http/, "ws")}/ws`;
  terminal.dataset.fontSize = FONT_PX;
  const looks = ["", "bold ", "italic ", "bold italic "].map((look) =>
    document.fonts.load(`${look}${FONT_PX}px "Roboto Mono"`),
  );
  await Promise.allSettled(looks);
  start(event);
};
