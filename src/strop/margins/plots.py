"""Drawings: paths in log time, and unit balls in three dimensions (thesis figure B.9)."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from strop.geometry import Norm
from strop.support import writing

__all__ = ["ball_surface", "draw_ball", "draw_paths", "save_ball_page"]

_PANELS = {
    "gap": "certified gap to the best margin",
    "margin": "margin",
    "direction_error": "distance of the unit weights from the exact ones",
    "log_loss": "-log of the loss",
}


def draw_paths(paths: Sequence[dict[str, Any]]) -> Any:
    """Gap, margin, direction error and log loss in log time, a colour for each method.

    ``paths`` are as ``MarginPath.to_dict`` gives them; the figure is matplotlib's.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 7.5), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True)
    methods = list(dict.fromkeys(path["method"] for path in paths))
    for axes, (key, title) in zip(panels.flat, _PANELS.items(), strict=True):
        for number, method in enumerate(methods):
            label: str | None = method
            for path in (path for path in paths if path["method"] == method):
                records = [r for r in path["records"] if r[key] is not None]
                values = [-r[key] if key == "log_loss" else r[key] for r in records]
                times = [r["iteration"] for r in records]
                axes.plot(times, values, color=f"C{number % 10}", alpha=0.8, label=label)
                label = None
        axes.set(title=title, xscale="log")
        if key == "log_loss":  # grows like ||w||: from below zero to anything
            axes.set_yscale("symlog")
        elif key != "margin":
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
    for axes in panels[1]:
        axes.set_xlabel("iteration")
    if len(methods) <= 12:
        panels[0, 0].legend(fontsize="small")
    return figure


def ball_surface(norm: Norm, *, resolution: int = 80) -> NDArray[np.float64]:
    """(6, r + 1, r + 1, 3) points of the unit sphere of a norm on R^3, r about half the resolution.

    Directions are those of grids on the faces of a cube, each over its norm: edges of the cube and
    of the octahedron lie along lines of the grids and stay straight.

    >>> from strop.geometry import L2
    >>> surface = ball_surface(L2, resolution=8)
    >>> surface.shape, bool(np.allclose(np.linalg.norm(surface, axis=-1), 1))
    ((6, 5, 5, 3), True)
    """
    side = np.tan(np.linspace(-np.pi / 4, np.pi / 4, 2 * max(1, resolution // 4) + 1))
    along, across = np.meshgrid(side, side, indexing="ij")
    faces = []
    for axis in range(3):
        for sign in (1.0, -1.0):
            # The order of the other two turns with the sign, so that every face looks outwards.
            pair = (along, across) if sign > 0 else (across, along)
            faces.append(np.roll(np.stack([np.full_like(along, sign), *pair], -1), axis, axis=-1))
    directions = np.stack(faces)
    flat = torch.as_tensor(directions.reshape(-1, 3))
    return np.asarray((flat / norm(flat)[:, None]).numpy().reshape(directions.shape))


def draw_ball(norm: Norm, *, resolution: int = 80) -> Any:
    """A matplotlib figure of the unit ball in 3-D (red) with its three shadows (green)."""
    from matplotlib.figure import Figure

    surface = ball_surface(norm, resolution=resolution)
    wall = 2 * np.abs(surface).max()
    figure = Figure(figsize=(6, 6))
    axes = figure.add_subplot(projection="3d")
    count = surface.shape[1]
    every: dict[str, Any] = {"linewidth": 0, "rcount": count, "ccount": count}
    shadow: dict[str, Any] = every | {"color": "tab:green", "alpha": 0.25, "shade": False}
    for x, y, z in (np.moveaxis(face, -1, 0) for face in surface):
        axes.plot_surface(x, y, np.full_like(z, -wall), **shadow)
        axes.plot_surface(x, np.full_like(y, wall), z, **shadow)
        axes.plot_surface(np.full_like(x, -wall), y, z, **shadow)
        axes.plot_surface(x, y, z, color="tab:red", antialiased=False, **every)
    axes.set(
        xlim=(-wall, wall), ylim=(-wall, wall), zlim=(-wall, wall), title=f"unit ball of {norm!r}"
    )
    axes.set_box_aspect((1, 1, 1))
    return figure


def save_ball_page(norm: Norm, path: str | os.PathLike[str], *, resolution: int = 80) -> None:
    """The ball as a page that turns under the mouse or a finger; a file that loads nothing."""
    from strop.support.page import page

    points = np.round(ball_surface(norm, resolution=resolution), 4).tolist()
    body = (
        f"<h1>The unit ball of {norm!r}</h1>"
        '<p class="lede">Drag to turn it. Its shadows are in green.</p>'
        '<canvas id="ball" width="720" height="720" style="width:100%;max-width:45rem;'
        'touch-action:none;cursor:grab" tabindex="0" role="img" '
        f'aria-label="the unit ball of {norm!r}; arrow keys turn it"></canvas>'
        f"<script>const grids = {json.dumps(points)};\n{_SCRIPT}</script>"
    )
    with writing(path) as partial:
        partial.write_text(page(f"The unit ball of {norm!r}", body), encoding="utf-8")


_SCRIPT = """
const canvas = document.getElementById("ball"), pen = canvas.getContext("2d");
let yaw = 0.7, pitch = 0.5, held = null;
const reach = Math.max(...grids.flat(3).map(Math.abs)), wall = 1.7 * reach;
const turn = ([x, y, z]) => {
  const a = x * Math.cos(yaw) - y * Math.sin(yaw), b = x * Math.sin(yaw) + y * Math.cos(yaw);
  const up = z * Math.cos(pitch) - b * Math.sin(pitch);
  const deep = z * Math.sin(pitch) + b * Math.cos(pitch);
  const scale = canvas.width / (5.2 * reach);
  return [canvas.width / 2 + a * scale, canvas.height / 2 - up * scale, deep * scale];
};
const normal = ([p, q, , s]) => {
  const [ux, uy, uz] = q.map((v, k) => v - p[k]), [vx, vy, vz] = s.map((v, k) => v - p[k]);
  const n = [uy * vz - uz * vy, uz * vx - ux * vz, ux * vy - uy * vx];
  const size = Math.hypot(...n) || 1;
  return n.map((v) => v / size);
};
// The body is convex: faces turned towards the eye hide nothing of each other, and cover it once.
const fill = (flatten, colour) => {
  for (const grid of grids)
    for (let i = 0; i + 1 < grid.length; i++) for (let j = 0; j + 1 < grid[i].length; j++) {
      const corners = [grid[i][j], grid[i + 1][j], grid[i + 1][j + 1], grid[i][j + 1]];
      const face = corners.map(flatten).map(turn), n = normal(face);
      if (n[2] >= 0) continue;
      pen.beginPath();
      face.forEach(([x, y], k) => k ? pen.lineTo(x, y) : pen.moveTo(x, y));
      pen.closePath(); pen.fillStyle = pen.strokeStyle = colour(n); pen.fill(); pen.stroke();
    }
};
function draw() {
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const floor = ([x, y]) => [x, y, -wall], back = ([x, , z]) => [x, wall, z];
  const side = ([, y, z]) => [-wall, y, z];
  for (const flat of [floor, back, side]) fill(flat, () => "#9ccc9c");
  const light = (n) => 24 + 36 * Math.max(0, -0.35 * n[0] - 0.6 * n[1] - 0.72 * n[2]);
  fill((p) => p, (n) => `hsl(6 70% ${light(n)}%)`);
}
canvas.onpointerdown = (e) => {
  held = [e.clientX, e.clientY]; canvas.setPointerCapture(e.pointerId);
};
canvas.onpointerup = () => { held = null; };
canvas.onpointermove = (e) => {
  if (!held) return;
  yaw += (e.clientX - held[0]) / 120; pitch += (e.clientY - held[1]) / 120;
  held = [e.clientX, e.clientY]; draw();
};
canvas.onkeydown = (e) => {
  const turns = { ArrowLeft: [-.1, 0], ArrowRight: [.1, 0], ArrowUp: [0, -.1], ArrowDown: [0, .1] };
  const by = turns[e.key];
  if (by) { yaw += by[0]; pitch += by[1]; draw(); e.preventDefault(); }
};
draw();
"""
