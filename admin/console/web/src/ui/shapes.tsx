// The marks of states, in SVG for text and on canvases for tiles. Both draw the same shapes.

import { lookOf, type Shape } from "../model/state";

/** The mark of a status beside its word. */
export function Mark({ status, size = 12 }: { status: string | undefined; size?: number }) {
  const look = lookOf(status);
  return (
    <svg class={`mark tone-${look.tone}`} width={size} height={size} viewBox="0 0 12 12" aria-hidden="true">
      <Form shape={look.shape} />
    </svg>
  );
}

function Form({ shape }: { shape: Shape }) {
  switch (shape) {
    case "full":
      return <rect x="1" y="1" width="10" height="10" rx="2.5" fill="currentColor" />;
    case "ring":
      return <rect x="2" y="2" width="8" height="8" rx="2" fill="none" stroke="currentColor" stroke-width="1.8" />;
    case "half":
      return (
        <g>
          <rect x="2" y="2" width="8" height="8" rx="2" fill="none" stroke="currentColor" stroke-width="1.8" />
          <rect x="2" y="6" width="8" height="4" fill="currentColor" />
        </g>
      );
    case "alert":
      return (
        <g>
          <rect x="0.5" y="0.5" width="11" height="11" rx="2.5" fill="currentColor" />
          <path d="M6 2.6v4M6 8.2v1.4" stroke="var(--paper)" stroke-width="1.8" />
        </g>
      );
    case "down":
      return <path d="M1.2 2h9.6L6 10.8z" fill="currentColor" />;
    case "cross":
      return <path d="M2.2 2.2l7.6 7.6M9.8 2.2L2.2 9.8" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" />;
    case "off":
      return <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" stroke-width="1.8" />;
    case "dash":
      return <rect x="2" y="2" width="8" height="8" rx="2" fill="none" stroke="currentColor" stroke-width="1.4" stroke-dasharray="2 1.6" />;
  }
}

/** The mark of a status and its word. */
export function Status({ status }: { status: string | undefined }) {
  return (
    <span class="status">
      <Mark status={status} /> {lookOf(status).label}
    </span>
  );
}

/** Draws a shape as a tile whose upper left corner is at x, y. */
export function drawTile(c: CanvasRenderingContext2D, shape: Shape, x: number, y: number, size: number, colour: string, paper: string): void {
  const r = Math.max(1, size * 0.2);
  const line = Math.max(1, size * 0.16);
  c.fillStyle = c.strokeStyle = colour;
  c.lineWidth = line;
  switch (shape) {
    case "full":
      block(c, x, y, size, r, true);
      return;
    case "ring":
      block(c, x + line / 2, y + line / 2, size - line, r, false);
      return;
    case "half":
      block(c, x + line / 2, y + line / 2, size - line, r, false);
      c.fillRect(x + line / 2, y + size / 2, size - line, size / 2 - line / 2);
      return;
    case "alert":
      block(c, x, y, size, r, true);
      c.fillStyle = paper;
      c.fillRect(x + size / 2 - line / 2, y + size * 0.2, line, size * 0.36);
      c.fillRect(x + size / 2 - line / 2, y + size * 0.68, line, size * 0.14);
      return;
    case "down":
      c.beginPath();
      c.moveTo(x, y + size * 0.1);
      c.lineTo(x + size, y + size * 0.1);
      c.lineTo(x + size / 2, y + size * 0.95);
      c.fill();
      return;
    case "cross":
      c.beginPath();
      c.moveTo(x + size * 0.15, y + size * 0.15);
      c.lineTo(x + size * 0.85, y + size * 0.85);
      c.moveTo(x + size * 0.85, y + size * 0.15);
      c.lineTo(x + size * 0.15, y + size * 0.85);
      c.stroke();
      return;
    case "off":
      c.beginPath();
      c.arc(x + size / 2, y + size / 2, size / 2 - line, 0, 2 * Math.PI);
      c.stroke();
      return;
    case "dash":
      c.setLineDash([size / 5, size / 6]);
      block(c, x + line / 2, y + line / 2, size - line, r, false);
      c.setLineDash([]);
  }
}

function block(c: CanvasRenderingContext2D, x: number, y: number, size: number, r: number, filled: boolean): void {
  if (filled && size < 6) {
    c.fillRect(x, y, size, size);
    return;
  }
  c.beginPath();
  c.roundRect(x, y, size, size, r);
  if (filled) c.fill();
  else c.stroke();
}
