// Where the tiles of a group stand.

export interface Layout {
  /** Edge of a tile, and the gap to the next one; CSS pixels. */
  size: number;
  gap: number;
  columns: number;
  rows: number;
  height: number;
}

/** The layout of n tiles in a width: the more there are, the smaller they get. */
export function layout(n: number, width: number): Layout {
  const size = n <= 120 ? 16 : n <= 300 ? 12 : n <= 800 ? 8 : n <= 2000 ? 6 : 5;
  const gap = size >= 16 ? 4 : size >= 12 ? 3 : size >= 6 ? 2 : 1;
  const columns = Math.max(1, Math.floor((width + gap) / (size + gap)));
  const rows = Math.ceil(n / columns);
  return { size, gap, columns, rows, height: Math.max(size, rows * (size + gap) - gap) };
}

/** The upper left corner of tile i. */
export const place = (l: Layout, i: number): { x: number; y: number } => ({
  x: (i % l.columns) * (l.size + l.gap),
  y: Math.floor(i / l.columns) * (l.size + l.gap),
});

/** The tile at a point; -1 if there is none, as in gaps at the end of the last row. */
export function tileAt(l: Layout, n: number, x: number, y: number): number {
  const step = l.size + l.gap;
  const column = Math.floor(x / step);
  if (x < 0 || y < 0 || column >= l.columns) return -1;
  const i = Math.floor(y / step) * l.columns + column;
  return i < n ? i : -1;
}
