// The table of states: search, sort, pages, and details of a state.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = document.querySelector("#states tbody");
  const said = document.getElementById("said");
  const search = document.getElementById("search");
  const only = document.getElementById("only");
  const heads = [...document.querySelectorAll("#states th[data-key]")];
  const keys = { label: 0, visits: 1, moved: 2, gain: 3 };
  const PAGE = 25;
  const PRINTED = 40; // states that change, on paper
  let sort = { key: "", down: true }, page = 0, open = new Set(), paper = false;

  const number = (x) => {
    if (x === null) return "–";
    return String(Number(x.toPrecision(4))).replace("-", "\u2212");
  };
  const share = (x) => x > 0 && x < 0.0005 ? "< 0.1%" : (100 * x).toFixed(x > 0 && x < 0.1 ? 1 : 0) + "%";
  const make = (tag, text, name) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (name) made.className = name;
    return made;
  };

  function chosen() {
    const found = [];
    if (paper) {
      data.states.forEach((state, i) => { if (state[2] > 0) found.push(i); });
      return found;
    }
    const words = search.value.toLowerCase();
    data.states.forEach((state, i) => {
      if (only.value === "changed" && !(state[2] > 0)) return;
      if (only.value === "same" && state[2] > 0) return;
      if (words && !state[0].toLowerCase().includes(words)) return;
      found.push(i);
    });
    if (sort.key) {
      const k = keys[sort.key], sign = sort.down ? -1 : 1;
      found.sort((i, j) => {
        const a = data.states[i][k], b = data.states[j][k];
        const order = typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
        return sign * order || i - j;
      });
    }
    return found;
  }

  function detail(state) {
    const row = make("tr", undefined, "detail"), cell = make("td");
    cell.colSpan = 5;
    const say = (title, which) => {
      if (which < 0) return;
      const line = make("p");
      line.append(make("strong", title + " "), data.reasons[which]);
      cell.append(line);
    };
    say("Why the change was allowed:", state[6]);
    say(state[2] > 0 ? "Why it goes no further:" : "Why it stays:", state[4]);
    const table = make("table"), head = make("tr");
    table.append(make("caption", "Actions in this state"));
    ["action", "baseline", "new", "", "seen", "value", "± s.e."].forEach((name, i) => {
      const th = i === 3 ? make("td", "", "wide") : make("th", name, i ? "n" : "");
      if (i !== 3) th.scope = "col";
      head.append(th);
    });
    const top = make("thead"), rows = make("tbody");
    top.append(head);
    for (const [a, b, pi, n, q, se] of state[5]) {
      const line = make("tr"), name = make("td", undefined, "label");
      name.append(make("span", data.actions[a]));
      const bars = make("td", undefined, "wide"), pair = make("span", undefined, "pair");
      for (const x of [b, pi]) {
        const bar = make("i");
        bar.style.width = 100 * x + "%";
        pair.append(bar);
      }
      pair.setAttribute("aria-hidden", "true");
      bars.append(pair);
      line.append(name, make("td", share(b), "n"), make("td", share(pi), "n"), bars,
        make("td", n.toLocaleString("en"), "n"), make("td", number(q), "n"), make("td", number(se), "n"));
      rows.append(line);
    }
    table.append(top, rows);
    cell.append(table);
    row.append(cell);
    return row;
  }

  function draw() {
    const found = chosen(), pages = Math.max(1, Math.ceil(found.length / PAGE));
    page = Math.min(page, pages - 1);
    body.replaceChildren();
    const shown = paper ? found.slice(0, PRINTED) : found.slice(page * PAGE, (page + 1) * PAGE);
    for (const i of shown) {
      const state = data.states[i], row = make("tr"), name = make("td", undefined, "label");
      const opened = paper || open.has(i), button = make("button", opened ? "Close" : "Open");
      const label = make("span", state[0]);
      label.id = "s" + i;
      button.id = "b" + i;
      button.setAttribute("aria-expanded", String(opened));
      button.setAttribute("aria-labelledby", button.id + " " + label.id);
      button.addEventListener("click", () => {
        open.has(i) ? open.delete(i) : open.add(i);
        draw();
        document.getElementById("b" + i).focus();
      });
      name.append(label);
      const last = make("td", undefined, "n open");
      last.append(button);
      row.append(name, make("td", state[1].toLocaleString("en"), "n"), make("td", state[2] > 0 ? share(state[2]) : "–", "n"),
        make("td", state[2] > 0 ? number(state[3]) : "–", "n"), last);
      body.append(row);
      if (opened) body.append(detail(state));
    }
    for (const th of heads) {
      const mine = th.dataset.key === sort.key;
      th.setAttribute("aria-sort", mine ? (sort.down ? "descending" : "ascending") : "none");
    }
    if (paper) {
      said.textContent = `${shown.length.toLocaleString("en")} of ${found.length.toLocaleString("en")} states that change, of ${data.states.length.toLocaleString("en")} visited; pairs.csv has all.`;
      return;
    }
    const first = found.length ? page * PAGE + 1 : 0;
    said.textContent = `${first} to ${Math.min((page + 1) * PAGE, found.length)} of ${found.length.toLocaleString("en")} state${found.length === 1 ? "" : "s"}`;
    document.getElementById("before").disabled = page === 0;
    document.getElementById("after").disabled = page >= pages - 1;
  }

  for (const th of heads) {
    th.querySelector("button").addEventListener("click", () => {
      sort = { key: th.dataset.key, down: sort.key === th.dataset.key ? !sort.down : th.dataset.key !== "label" };
      page = 0;
      draw();
    });
  }
  for (const control of [search, only]) {
    control.addEventListener("input", () => { page = 0; draw(); });
  }
  document.getElementById("before").addEventListener("click", () => { page--; draw(); });
  document.getElementById("after").addEventListener("click", () => { page++; draw(); });
  for (const [event, now] of [["beforeprint", true], ["afterprint", false]]) {
    window.addEventListener(event, () => { paper = now; draw(); });
  }
  document.querySelector(".needs-script").hidden = false;
  draw();
})();
