// Runs after the script of the page. Each finding is a line.
window.addEventListener("load", async () => {
  const lines = [];
  const report = (name, value) => lines.push(`${name}: ${value}`);
  const turn = () => new Promise((resolve) => setTimeout(resolve, 20));
  const press = (key, target = document.body) => target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  const shown = () => [...document.querySelectorAll("aside article")].filter((article) => article.getBoundingClientRect().height > 0).map((article) => article.id).join(" ");
  const errors = [];
  window.addEventListener("error", (event) => errors.push(event.message));

  // Labels and boxes, with the fonts of this machine.
  const nodes = [...document.querySelectorAll("svg .node")];
  const box = (node) => node.querySelector(":scope > .body").getBBox();
  let [outside, overlaps] = [0, 0];
  for (const node of nodes) {
    const body = box(node);
    for (const text of node.querySelectorAll(":scope > text")) {
      const label = text.getBBox();
      if (label.x < body.x || label.x + label.width > body.x + body.width || label.y < body.y || label.y + label.height > body.y + body.height) outside += 1;
    }
  }
  const boxes = nodes.map(box);
  nodes.forEach((a, i) => {
    for (let j = 0; j < i; j += 1) {
      const b = nodes[j];
      if (a.contains(b) || b.contains(a) || a.ownerSVGElement !== b.ownerSVGElement) continue;
      const [p, q] = [boxes[i], boxes[j]];
      if (p.x < q.x + q.width && q.x < p.x + p.width && p.y < q.y + q.height && q.y < p.y + p.height) overlaps += 1;
    }
  });

  // A click at the place where the node is seen.
  const node = document.getElementById(CLICK);
  location.hash = CLICK;
  await turn();
  press("Escape");
  await turn();
  const area = node.querySelector(".body").getBoundingClientRect();
  const [x, y] = [area.left + area.width / 2, area.top + 8];
  const target = document.elementFromPoint(x, y);
  for (const type of ["pointerdown", "pointerup", "click"]) {
    const Kind = type === "click" ? MouseEvent : PointerEvent;
    target.dispatchEvent(new Kind(type, { bubbles: true, cancelable: true, clientX: x, clientY: y, button: 0 }));
  }
  await turn();
  const clicked = shown() === `about-${CLICK}`;
  const fragment = location.hash === `#${CLICK}`;
  const marked = document.querySelectorAll(".edge.in, .edge.out").length > 0;

  press("ArrowUp");
  await turn();
  const up = shown();
  press("Escape");
  await turn();
  const none = shown() === "about";

  const search = document.getElementById("search");
  search.value = document.querySelector(`#about-${CLICK} h2`).textContent.split(",")[0];
  search.dispatchEvent(new Event("input"));
  const hits = [...document.querySelectorAll("#hits a")].map((link) => link.getAttribute("href"));
  const found = hits.includes(`#${CLICK}`) && document.querySelectorAll(".hit").length > 0;
  press("Escape", search);

  const svg = node.closest(".panel").querySelector("svg");
  const view = () => svg.getAttribute("viewBox").split(" ").map(Number);
  const before = view();
  document.querySelector("[data-do=in]").click();
  const zoomed = view();
  svg.dispatchEvent(new WheelEvent("wheel", { deltaY: 50, bubbles: true, cancelable: true }));
  const panned = view();

  document.getElementById("tab-text").click();
  const text = document.getElementById("text").getBoundingClientRect().height > 0 && document.getElementById("graph").getBoundingClientRect().height === 0;
  document.getElementById("tab-graph").click();

  report("errors", errors.join("; "));
  report("labels outside of their box", outside);
  report("boxes that overlap", overlaps);
  report("details after a click", clicked);
  report("fragment after a click", fragment);
  report("marked edges", marked);
  report("details after a key", up.startsWith("about-") && up !== `about-${CLICK}`);
  report("nothing after escape", none);
  report("found by name", found);
  report("zoom", zoomed[2] < before[2]);
  report("pan", panned[1] > zoomed[1]);
  report("text tab", text);
  const findings = document.createElement("pre");
  findings.id = "findings";
  findings.textContent = lines.join("\n");
  document.body.append(findings);
});
