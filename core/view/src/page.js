"use strict";
(() => {
  const byId = (id) => document.getElementById(id);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const between = (low, x, high) => Math.min(Math.max(x, low), high);

  // Zoom and pan: the view box of each panel.
  const panels = all(".panel").map((element) => {
    const svg = element.querySelector("svg");
    const size = { width: +svg.dataset.width, height: +svg.dataset.height };
    const panel = { element, svg, size, x: 0, y: 0, scale: 1 };
    panel.draw = () => {
      const { width, height } = svg.getBoundingClientRect();
      if (width > 0 && height > 0) {
        svg.setAttribute("viewBox", `${panel.x} ${panel.y} ${width / panel.scale} ${height / panel.scale}`);
      }
    };
    // Shows everything, but no smaller than `least`; then the upper end is shown.
    panel.fit = (least) => {
      const { width, height } = svg.getBoundingClientRect();
      const whole = Math.min(width / size.width, height / size.height);
      panel.scale = between(least, whole, 1.25);
      panel.x = Math.max((size.width - width / panel.scale) / 2, least > 0 && size.width * panel.scale > width ? 0 : -Infinity);
      panel.y = Math.min((size.height - height / panel.scale) / 2, 0);
      if (size.width * panel.scale > width) {
        const node = svg.querySelector(".node.result, .node");
        const box = node && node.querySelector(".body").getBBox();
        if (box) panel.x = between(0, box.x + box.width / 2 - width / panel.scale / 2, size.width - width / panel.scale);
      }
      panel.draw();
    };
    panel.zoom = (factor, x, y) => {
      const { width, height } = svg.getBoundingClientRect();
      const [at, down] = [x ?? width / 2, y ?? height / 2];
      const scale = between(0.02, panel.scale * factor, 6);
      panel.x += at / panel.scale - at / scale;
      panel.y += down / panel.scale - down / scale;
      panel.scale = scale;
      panel.draw();
    };
    panel.move = (dx, dy) => {
      panel.x += dx / panel.scale;
      panel.y += dy / panel.scale;
      panel.draw();
    };
    // Moves the view if the node is not inside of it.
    panel.show = (node) => {
      const { width, height } = svg.getBoundingClientRect();
      const box = node.querySelector(".body").getBBox();
      const [w, h, edge] = [width / panel.scale, height / panel.scale, 12 / panel.scale];
      const inside = box.x >= panel.x + edge && box.x + box.width <= panel.x + w - edge
        && box.y >= panel.y + edge && box.y + box.height <= panel.y + h - edge;
      if (inside) return;
      panel.x = box.x + box.width / 2 - w / 2;
      panel.y = box.height > h ? box.y - edge : box.y + box.height / 2 - h / 2;
      panel.draw();
    };
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 24 : 1;
      if (event.ctrlKey || event.metaKey) {
        const box = svg.getBoundingClientRect();
        panel.zoom(Math.exp(-event.deltaY * lines * 0.003), event.clientX - box.left, event.clientY - box.top);
      } else if (event.shiftKey && event.deltaX === 0) {
        panel.move(event.deltaY * lines, 0);
      } else {
        panel.move(event.deltaX * lines, event.deltaY * lines);
      }
    }, { passive: false });
    let start = null;
    svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0) start = { x: event.clientX, y: event.clientY, moved: false };
    });
    svg.addEventListener("pointermove", (event) => {
      if (!start) return;
      const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
      if (!start.moved && Math.hypot(dx, dy) < 4) return;
      if (!start.moved) {
        svg.setPointerCapture(event.pointerId);
        svg.classList.add("drags");
      }
      panel.move(-dx, -dy);
      start = { x: event.clientX, y: event.clientY, moved: true };
    });
    const stop = () => {
      // The click that ends a drag selects nothing; it comes before the timer.
      const ended = start;
      setTimeout(() => { if (start === ended) start = null; }, 0);
      svg.classList.remove("drags");
    };
    svg.addEventListener("pointerup", stop);
    svg.addEventListener("pointercancel", stop);
    svg.addEventListener("click", (event) => {
      if (start && start.moved) return;
      const node = event.target.closest(".node, .far");
      select(node ? node.id || node.dataset.node : "");
    });
    const actions = { in: () => panel.zoom(1.3), out: () => panel.zoom(1 / 1.3), fit: () => panel.fit(0), read: () => panel.fit(0.8) };
    for (const button of all("button", element)) button.addEventListener("click", actions[button.dataset.do]);
    new ResizeObserver(panel.draw).observe(svg);
    return panel;
  });
  const panelOf = (node) => panels.find((panel) => panel.svg.contains(node));

  // Selection: the fragment of the address is the id of a node.
  let selected = null;
  const select = (id) => {
    if (id) location.hash = id;
    else {
      history.replaceState(null, "", location.pathname + location.search);
      apply();
    }
  };
  const apply = () => {
    const id = location.hash.slice(1);
    const node = id ? byId(id) : null;
    selected = node && node.classList.contains("node") ? node : null;
    for (const name of ["selected", "same", "in", "out"]) {
      for (const marked of all(`svg .${name}`)) marked.classList.remove(name);
    }
    for (const article of all("aside article")) article.hidden = true;
    byId(selected ? `about-${id}` : "about").hidden = false;
    if (!selected) return;
    open("graph");
    selected.classList.add("selected");
    for (const edge of all(`[data-to="${id}"]`)) edge.classList.add("in");
    for (const edge of all(`[data-from="${id}"]`)) edge.classList.add("out");
    panelOf(selected).show(selected);
    const others = (selected.dataset.same || "").split(" ").filter(Boolean).map(byId);
    for (const other of others) other.classList.add("same");
    if (others.length > 0) panelOf(others[0]).show(others[0]);
  };
  addEventListener("hashchange", apply);

  // Tabs.
  const tabs = all("[role=tab]");
  const open = (name) => {
    for (const tab of tabs) {
      const isOpen = tab.getAttribute("aria-controls") === name;
      tab.setAttribute("aria-selected", isOpen);
      tab.tabIndex = isOpen ? 0 : -1;
      byId(tab.getAttribute("aria-controls")).hidden = !isOpen;
    }
  };
  tabs.forEach((tab, i) => {
    tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
    tab.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = tabs[(i + step + tabs.length) % tabs.length];
      next.focus();
      next.click();
    });
  });

  // Search by name, op or source line.
  const search = byId("search");
  const entries = all("aside article[data-node]").map((article) => {
    const line = article.querySelector("pre").textContent;
    const places = all("[data-source]", article).map((place) => place.textContent);
    return { id: article.dataset.node, line, text: [line, ...places].join(" ").toLowerCase() };
  });
  const find = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = words.length > 0 ? entries.filter((entry) => words.every((word) => entry.text.includes(word))) : [];
    for (const node of all("svg .hit")) node.classList.remove("hit");
    for (const entry of found) byId(entry.id).classList.add("hit");
    byId("count").textContent = words.length > 0 ? `${found.length} of ${entries.length}` : "";
    byId("hits").replaceChildren(...found.slice(0, 100).map((entry) => {
      const [item, link] = [document.createElement("li"), document.createElement("a")];
      link.href = `#${entry.id}`;
      link.textContent = entry.line;
      item.append(link);
      return item;
    }));
  };
  search.addEventListener("input", find);
  search.addEventListener("keydown", (event) => {
    const links = all("#hits a");
    if (event.key === "Enter" && links.length > 0) links[0].click();
    if (event.key === "ArrowDown" && links.length > 0) links[0].focus();
    if (event.key !== "Escape" && event.key !== "Enter") return;
    if (event.key === "Escape") search.value = "";
    if (event.key === "Escape") find();
    byId("hits").replaceChildren();
    if (event.key === "Enter" && selected) selected.focus();
  });
  byId("hits").addEventListener("keydown", (event) => {
    const links = all("#hits a");
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = links.indexOf(document.activeElement) + step;
    (links[next] || search).focus();
  });
  byId("hits").addEventListener("click", () => setTimeout(() => byId("hits").replaceChildren(), 0));
  document.addEventListener("pointerdown", (event) => {
    if (!event.target.closest(".search")) byId("hits").replaceChildren();
  });

  // Keys of the graph.
  const step = (key) => {
    if (!selected) return panels[0].svg.querySelector(".node");
    const nodes = all(".node", panelOf(selected).svg);
    if (key === "ArrowLeft") return nodes[nodes.indexOf(selected) - 1];
    if (key === "ArrowRight") return nodes[nodes.indexOf(selected) + 1];
    const [to, from] = key === "ArrowUp" ? ["to", "from"] : ["from", "to"];
    const edge = document.querySelector(`[data-${to}="${selected.id}"]`);
    return edge && byId(edge.dataset[from]);
  };
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.closest("input, [role=tab], #hits, .view:not(#graph)") || byId("graph").hidden) return;
    const panel = (selected && panelOf(selected)) || panels.find((p) => p.element.contains(event.target)) || panels[0];
    const pan = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[event.key];
    if (event.key === "/") search.focus();
    else if (event.key === "+" || event.key === "=") panel.zoom(1.3);
    else if (event.key === "-") panel.zoom(1 / 1.3);
    else if (event.key === "0") panel.fit(0);
    else if (event.key === "1") panel.fit(0.8);
    else if (event.key === "Escape") select("");
    else if ((event.key === "Enter" || event.key === " ") && event.target.closest(".node")) select(event.target.closest(".node").id);
    else if (pan && event.shiftKey) panel.move(...pan);
    else if (pan && event.target.closest("aside")) return;
    else if (pan) {
      const next = step(event.key);
      if (next) {
        select(next.id);
        next.focus({ preventScroll: true });
      }
    } else return;
    event.preventDefault();
  });

  for (const panel of panels) panel.fit(0.8);
  apply();
})();
