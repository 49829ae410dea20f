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
    """(2r, r, 3) points of the unit sphere of a norm on R^3: each direction over its norm.

    >>> from strop.geometry import L2
    >>> surface = ball_surface(L2, resolution=8)
    >>> bool(np.allclose(np.linalg.norm(surface, axis=-1), 1))
    True
    """
    around = np.linspace(0, 2 * np.pi, 2 * resolution)
    down = np.linspace(0, np.pi, resolution)
    directions = np.stack(
        [
            np.outer(np.cos(around), np.sin(down)),
            np.outer(np.sin(around), np.sin(down)),
            np.outer(np.ones_like(around), np.cos(down)),
        ],
        axis=-1,
    )
    flat = torch.as_tensor(directions.reshape(-1, 3))
    return np.asarray((flat / norm(flat)[:, None]).numpy().reshape(directions.shape))


def draw_ball(norm: Norm, *, resolution: int = 80) -> Any:
    """A matplotlib figure of the unit ball in 3-D (red) with its three shadows (green)."""
    from matplotlib.figure import Figure

    surface = ball_surface(norm, resolution=resolution)
    x, y, z = np.moveaxis(surface, -1, 0)
    reach = 1.25 * np.abs(surface).max()
    wall = 1.6 * reach
    figure = Figure(figsize=(6, 6))
    axes = figure.add_subplot(projection="3d")
    shadow: dict[str, Any] = {"color": "tab:green", "alpha": 0.25, "linewidth": 0, "shade": False}
    axes.plot_surface(x, y, np.full_like(z, -wall), **shadow)
    axes.plot_surface(x, np.full_like(y, wall), z, **shadow)
    axes.plot_surface(np.full_like(x, -wall), y, z, **shadow)
    axes.plot_surface(x, y, z, color="tab:red", alpha=0.9, linewidth=0, antialiased=True)
    axes.set(
        xlim=(-wall, wall), ylim=(-wall, wall), zlim=(-wall, wall), title=f"unit ball of {norm!r}"
    )
    axes.set_box_aspect((1, 1, 1))
    return figure


def save_ball_page(norm: Norm, path: str | os.PathLike[str], *, resolution: int = 48) -> None:
    """The ball as a page that turns under the mouse or a finger; a file that loads nothing."""
    from strop.support.page import page

    points = np.round(ball_surface(norm, resolution=resolution), 4).tolist()
    body = (
        f"<h1>The unit ball of {norm!r}</h1>"
        '<p class="lede">Drag to turn it. Its shadows are in green.</p>'
        '<canvas id="ball" width="720" height="720" style="width:100%;max-width:45rem;'
        'touch-action:none;cursor:grab" tabindex="0" role="img" '
        f'aria-label="the unit ball of {norm!r}; arrow keys turn it"></canvas>'
        f"<script>const grid = {json.dumps(points)};\n{_SCRIPT}</script>"
    )
    with writing(path) as partial:
        partial.write_text(page(f"The unit ball of {norm!r}", body), encoding="utf-8")


_SCRIPT = """
const canvas = document.getElementById("ball"), pen = canvas.getContext("2d");
let yaw = 0.7, pitch = 0.5, held = null;
const reach = Math.max(...grid.flat(2).map(Math.abs)), wall = 1.7 * reach;
const turn = ([x, y, z]) => {
  const a = x * Math.cos(yaw) - y * Math.sin(yaw), b = x * Math.sin(yaw) + y * Math.cos(yaw);
  const up = z * Math.cos(pitch) - b * Math.sin(pitch);
  const deep = z * Math.sin(pitch) + b * Math.cos(pitch);
  const scale = canvas.width / (5.2 * reach);
  return [canvas.width / 2 + a * scale, canvas.height / 2 - up * scale, deep];
};
const faces = (flatten) => {
  const made = [];
  for (let i = 0; i + 1 < grid.length; i++) for (let j = 0; j + 1 < grid[i].length; j++) {
    const corners = [grid[i][j], grid[i + 1][j], grid[i + 1][j + 1], grid[i][j + 1]].map(flatten);
    made.push(corners.map(turn));
  }
  return made;
};
const fill = (face, colour) => {
  pen.beginPath();
  face.forEach(([x, y], k) => k ? pen.lineTo(x, y) : pen.moveTo(x, y));
  pen.closePath(); pen.fillStyle = pen.strokeStyle = colour; pen.fill(); pen.stroke();
};
function draw() {
  pen.clearRect(0, 0, canvas.width, canvas.height);
  const floor = ([x, y]) => [x, y, -wall], back = ([x, , z]) => [x, wall, z];
  const side = ([, y, z]) => [-wall, y, z];
  for (const flat of [floor, back, side])
    for (const face of faces(flat)) fill(face, "#9ccc9c");
  const body = faces((p) => p);
  const depth = (face) => face.reduce((sum, p) => sum + p[2], 0);
  body.sort((a, b) => depth(b) - depth(a));
  for (const face of body) {
    const [p, q, r] = face, nx = (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]);
    const size = Math.hypot(q[0] - p[0], q[1] - p[1]) * Math.hypot(r[0] - p[0], r[1] - p[1]) || 1;
    const light = 38 + 22 * Math.min(1, Math.abs(nx) / size);
    fill(face, `hsl(6 70% ${light}%)`);
  }
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
