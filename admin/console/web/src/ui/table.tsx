// Tables. Long ones hold the rows alone that the window shows.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface Column<Row> {
  name: string;
  /** Width as a track of a CSS grid. */
  width: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers stand on the right. */
  right?: boolean;
}

interface Props<Row> {
  label: string;
  columns: Column<Row>[];
  rows: readonly Row[];
  rowKey: (row: Row) => string;
  /** Class of a row. */
  tone?: (row: Row) => string | undefined;
}

const height = 38;
const whole = 120; // tables up to this length are not cut
const spare = 12;

interface Slice {
  from: number;
  to: number;
}

function useSlice(length: number) {
  const body = useRef<HTMLDivElement>(null);
  const [slice, setSlice] = useState<Slice>({ from: 0, to: whole });
  useLayoutEffect(() => {
    if (length <= whole) return;
    const look = () => {
      const top = body.current?.getBoundingClientRect().top ?? 0;
      const from = Math.max(0, Math.min(length, Math.floor(-top / height) - spare));
      const to = Math.min(length, from + Math.ceil(innerHeight / height) + 2 * spare);
      setSlice((old) => (old.from === from && old.to === to ? old : { from, to }));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    addEventListener("resize", look);
    return () => {
      removeEventListener("scroll", look);
      removeEventListener("resize", look);
    };
  }, [length]);
  return { body, slice: length <= whole ? { from: 0, to: length } : slice };
}

export function Table<Row>({ label, columns, rows, rowKey, tone }: Props<Row>) {
  const { body, slice } = useSlice(rows.length);
  const grid = { gridTemplateColumns: columns.map((c) => c.width).join(" ") };
  return (
    <div class="table-frame" tabIndex={0} role="region" aria-label={label}>
      <div class="table" role="table" aria-label={label} aria-rowcount={rows.length + 1}>
        <div role="rowgroup">
          <div role="row" class="row head" style={grid} aria-rowindex={1}>
            {columns.map((c) => (
              <span role="columnheader" key={c.name} class={c.right ? "right" : undefined}>
                {c.name}
              </span>
            ))}
          </div>
        </div>
        <div role="rowgroup" ref={body} style={{ paddingTop: `${slice.from * height}px`, paddingBottom: `${Math.max(0, rows.length - slice.to) * height}px` }}>
          {rows.slice(slice.from, slice.to).map((row, i) => (
            <div role="row" key={rowKey(row)} class={`row ${tone?.(row) ?? ""}`} style={grid} aria-rowindex={slice.from + i + 2}>
              {columns.map((c) => (
                <span role="cell" key={c.name} class={c.right ? "right" : undefined}>
                  {c.cell(row)}
                </span>
              ))}
            </div>
          ))}
        </div>
      </div>
    </div>
  );
}
