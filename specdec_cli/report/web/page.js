"use strict";
// The page's own behaviour: views, filters, theme, keyboard. Vega draws; all data are in the page.
(() => {
  const page = JSON.parse(document.getElementById("specdec-data").textContent);
  const find = (id) => document.getElementById(id);
  const root = document.documentElement;

  // Columns back into rows; texts are stored once, as numbers into a list.
  const rowsOf = (table) => {
    const names = Object.keys(table.columns);
    const rows = [];
    for (let at = 0; at < table.length; at += 1) {
      const row = {};
      for (const name of names) {
        const value = table.columns[name][at];
        row[name] = name in table.texts ? table.texts[name][value] : value;
      }
      rows.push(row);
    }
    return rows;
  };
  const datasets = Object.fromEntries(Object.entries(page.tables).map(([name, table]) => [name, rowsOf(table)]));

  const state = {
    view: page.first.view, log: false, hidden: [], series: page.first.series, batch: page.first.batch,
    focus: -1, theme: null,
  };
  let view = null;
  let drawn = 0;

  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = () => state.theme ?? (dark.matches ? "dark" : "light");
  const layoutOf = (series) => page.series.find((line) => line.name === series)?.layout ?? "";
  const values = () => ({
    hidden: state.hidden, series: state.series ?? "", layout: layoutOf(state.series), batch: state.batch,
    focus: state.focus, ink: page.themes[theme()].ink, ground: page.themes[theme()].ground, texts: texts(),
  });
  // Numbers fit a cell of 34 pixels.
  const texts = () => {
    const batches = new Set(datasets.points.filter((row) => row.on_grid).map((row) => row.batch));
    return find("chart").clientWidth / (batches.size + 2) > 34 ? 1 : 0;
  };

  const draw = async () => {
    const turn = (drawn += 1);
    root.dataset.theme = theme();
    const name = state.view === "frontier" && state.log ? "frontier_log" : state.view;
    const spec = structuredClone(page.specs[name]);
    spec.datasets = datasets;
    const wanted = values();
    for (const parameter of spec.params) {
      if (parameter.name in wanted) parameter.value = wanted[parameter.name];
    }
    const narrow = find("chart").clientWidth < 560;
    spec.height = narrow ? 340 : 440;
    const config = structuredClone(page.themes[theme()].config);
    config.legend = { ...config.legend, columns: narrow ? 2 : 4 };
    const result = await vegaEmbed(find("drawing"), spec, {
      config,
      renderer: datasets.points.length > 1500 ? "canvas" : "svg",
      actions: { export: { svg: true, png: true }, source: false, compiled: false, editor: false },
      downloadFileName: "specdec",
      tooltip: { theme: theme(), disableDefaultStyle: false },
    });
    if (turn !== drawn) { result.finalize(); return; }
    if (view) view.finalize();
    view = result.view;
    view.addEventListener("click", (_, item) => { if (item?.datum && "id" in item.datum) show(item.datum); });
    window.specdecView = view;
    window.specdecDrawn = turn;
    describe();
  };

  const update = () => {
    if (!view) return;
    for (const [name, value] of Object.entries(values())) {
      try { view.signal(name, value); } catch { /* a chart that reads no such parameter has none */ }
    }
    view.runAsync();
    describe();
  };

  const describe = () => {
    for (const element of document.querySelectorAll("[data-for]")) {
      element.hidden = !element.dataset.for.split(" ").includes(state.view);
    }
    find("about").textContent = page.about[state.view];
  };

  // The points of the view that is shown, in the order in which arrow keys walk them.
  const walk = () => {
    const shown = (row) => !state.hidden.includes(row.series);
    const ours = (row) => row.series === state.series || (row.draft_length === 0 && row.layout === layoutOf(state.series));
    switch (state.view) {
      case "frontier":
        return datasets.points.filter((row) => (row.on_line || row.chosen) && shown(row)).sort((a, b) =>
          page.series.findIndex((line) => line.name === a.series) - page.series.findIndex((line) => line.name === b.series)
          || a.interactivity_tokens_per_s_per_user - b.interactivity_tokens_per_s_per_user);
      case "speedup":
        return datasets.points.filter((row) => row.on_grid && row.draft_length > 0 && row.series === state.series)
          .sort((a, b) => a.draft_length - b.draft_length || a.batch - b.batch);
      case "step":
        return datasets.points.filter((row) => row.on_grid && row.batch === state.batch && ours(row))
          .sort((a, b) => a.draft_length - b.draft_length);
      default:
        return datasets.acceptance.filter(shown);
    }
  };

  // The formats of the tooltips, which are d3's, for the panel below the chart.
  const numbers = {
    ",d": { maximumFractionDigits: 0 },
    "d": { maximumFractionDigits: 0, useGrouping: false },
    ".2f": { minimumFractionDigits: 2, maximumFractionDigits: 2 },
    ",.4~r": { maximumSignificantDigits: 4 },
  };
  const said = (value, format) => {
    if (value === null || value === undefined) return "-";
    return format ? new Intl.NumberFormat("en-US", numbers[format]).format(value) : String(value);
  };
  const show = (row) => {
    state.focus = row.id;
    const list = document.createElement("dl");
    for (const [key, title, format] of page.tips[state.view] ?? page.tips.points) {
      const pair = document.createElement("div");
      const name = document.createElement("dt");
      const value = document.createElement("dd");
      name.textContent = title;
      value.textContent = said(row[key], format);
      pair.append(name, value);
      list.append(pair);
    }
    find("point").replaceChildren(list);
    update();
  };
  const forget = () => {
    state.focus = -1;
    find("point").replaceChildren(find("hint").content.cloneNode(true));
    update();
  };

  find("chart").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    const rows = walk();
    if (event.key === "Escape") { forget(); return; }
    if (!rows.length || (!step && event.key !== "Home" && event.key !== "End")) return;
    event.preventDefault();
    const at = rows.findIndex((row) => row.id === state.focus);
    const next = event.key === "Home" ? 0 : event.key === "End" ? rows.length - 1
      : at < 0 ? (step > 0 ? 0 : rows.length - 1) : (at + step + rows.length) % rows.length;
    show(rows[next]);
  });

  for (const input of document.querySelectorAll("input[name=view]")) {
    input.addEventListener("change", () => { state.view = input.value; state.focus = -1; forget(); draw(); });
  }
  for (const button of document.querySelectorAll("[data-line]")) {
    button.addEventListener("click", () => {
      const name = page.series[Number(button.dataset.line)].name;
      const on = state.hidden.includes(name);
      state.hidden = on ? state.hidden.filter((other) => other !== name) : [...state.hidden, name];
      button.setAttribute("aria-pressed", String(on));
      update();
    });
  }
  find("log")?.addEventListener("change", (event) => { state.log = event.target.checked; draw(); });
  find("series")?.addEventListener("change", (event) => { state.series = event.target.value; forget(); });
  find("batch")?.addEventListener("change", (event) => { state.batch = Number(event.target.value); forget(); });
  find("theme").addEventListener("click", () => { state.theme = theme() === "dark" ? "light" : "dark"; draw(); });
  dark.addEventListener("change", draw);

  // Copy: the clipboard where the browser grants it, else by way of a selection.
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const text = button.parentElement.querySelector("pre").textContent;
      let done = false;
      try { await navigator.clipboard.writeText(text); done = true; } catch {
        const range = document.createRange();
        range.selectNodeContents(button.parentElement.querySelector("pre"));
        getSelection().removeAllRanges();
        getSelection().addRange(range);
        done = document.execCommand("copy");
      }
      button.textContent = done ? "Copied" : "Selected: press Ctrl+C";
      setTimeout(() => { button.textContent = "Copy"; }, 1800);
    });
  }

  let width = 0;
  new ResizeObserver(([entry]) => {
    const now = Math.round(entry.contentRect.width);
    if (now < 100) return; // hidden, or being printed
    if (width && (now < 560) !== (width < 560)) draw();
    width = now;
  }).observe(find("chart"));

  forget();
  draw();
})();
