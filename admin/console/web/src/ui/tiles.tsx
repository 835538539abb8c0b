// The instances of a group as tiles on a canvas. Tiles of states that last move softly, and one
// whose state has just changed glows for a moment; who asked for less motion sees none.

import { useEffect, useRef } from "preact/hooks";
import { moved, now } from "../live";
import { layout, place, tileAt, type Layout } from "../model/layout";
import type { GroupEntry } from "../model/fleet";
import { lookOf } from "../model/state";
import type { Instance } from "../model/types";
import { go } from "../router";
import { palette } from "../theme";
import { drawTile } from "./shapes";
import { hideTip, showTip } from "./tip";

const flash = 1_200;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

interface Props {
  entry: GroupEntry;
  /** Instances to show, in order. */
  instances: readonly Instance[];
  /** Places for instances that are wanted and do not exist yet. */
  ghosts: number;
  label: string;
}

class Field {
  instances: readonly Instance[] = [];
  ghosts = 0;
  entry!: GroupEntry;
  private at: Layout = layout(0, 1);
  private width = 0;
  private seen = false;
  private frame = 0;
  private drawn = 0;
  private readonly resize: ResizeObserver;
  private readonly view: IntersectionObserver;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.resize = new ResizeObserver(([e]) => {
      this.width = e?.contentRect.width ?? 0;
      this.draw();
    });
    this.view = new IntersectionObserver(([e]) => {
      this.seen = e?.isIntersecting ?? false;
      if (this.seen) this.draw();
    }, { rootMargin: "300px" });
    this.resize.observe(canvas.parentElement as HTMLElement);
    this.view.observe(canvas);
  }

  close(): void {
    this.resize.disconnect();
    this.view.disconnect();
    cancelAnimationFrame(this.frame);
  }

  /** The instance at a point of the canvas. */
  find(x: number, y: number): { instance: Instance; x: number; y: number } | undefined {
    const i = tileAt(this.at, this.instances.length, x, y);
    const instance = this.instances[i];
    return instance && { instance, ...place(this.at, i) };
  }

  draw(): void {
    const n = this.instances.length + this.ghosts;
    if (this.width === 0) return;
    this.at = layout(n, this.width);
    this.canvas.style.height = `${this.at.height}px`;
    if (!this.seen) return;
    const scale = devicePixelRatio;
    const [w, h] = [Math.round(this.width * scale), Math.round(this.at.height * scale)];
    if (this.canvas.width !== w || this.canvas.height !== h) [this.canvas.width, this.canvas.height] = [w, h];
    const c = this.canvas.getContext("2d");
    if (!c) return;
    c.setTransform(scale, 0, 0, scale, 0, 0);
    c.clearRect(0, 0, this.width, this.at.height);
    this.paint(c);
  }

  private paint(c: CanvasRenderingContext2D): void {
    const colours = palette();
    const t = performance.now();
    const wall = Date.now();
    const still = calm.matches;
    let moving = false;
    this.instances.forEach((instance, i) => {
      const look = lookOf(instance.status);
      const { x, y } = place(this.at, i);
      const changed = moved.size > 0 ? moved.get(`${this.entry.shard}/${instance.instanceId}`) : undefined;
      if (!still && (look.tone === "start" || look.tone === "leave")) {
        c.globalAlpha = 0.62 + 0.38 * Math.sin(t / 520 + i * 0.7) ** 2;
        moving = true;
      }
      drawTile(c, look.shape, x, y, this.at.size, colours[look.tone], colours.paper);
      c.globalAlpha = 1;
      if (!still && changed !== undefined && wall - changed < flash) {
        const age = (wall - changed) / flash;
        c.globalAlpha = (1 - age) * 0.8;
        c.lineWidth = 2;
        c.strokeStyle = colours[look.tone];
        const grow = 1 + age * this.at.gap * 1.5;
        c.strokeRect(x - grow, y - grow, this.at.size + 2 * grow, this.at.size + 2 * grow);
        c.globalAlpha = 1;
        moving = true;
      }
    });
    c.setLineDash([2, 2]);
    c.lineWidth = 1;
    c.strokeStyle = colours.faint;
    for (let i = 0; i < this.ghosts; i++) {
      const { x, y } = place(this.at, this.instances.length + i);
      c.strokeRect(x + 0.5, y + 0.5, this.at.size - 1, this.at.size - 1);
    }
    c.setLineDash([]);
    if (moving && this.seen) this.again();
  }

  /** Draws again in a while: thirty pictures a second are soft enough. */
  private again(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame((t) => {
      if (t - this.drawn < 32 || document.hidden) return this.again();
      this.drawn = t;
      this.draw();
    });
  }
}

/** The tiles of a group. The canvas is a picture with a description; the group's page has the list. */
export function Tiles({ entry, instances, ghosts, label }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const field = useRef<Field | undefined>(undefined);
  const colours = palette();

  useEffect(() => {
    const f = new Field(canvas.current as HTMLCanvasElement);
    field.current = f;
    return () => f.close();
  }, []);
  useEffect(() => {
    const f = field.current;
    if (!f) return;
    [f.entry, f.instances, f.ghosts] = [entry, instances, ghosts];
    f.draw();
  }, [entry, entry.version, instances, ghosts, colours]);

  const under = (e: MouseEvent) => field.current?.find(e.offsetX, e.offsetY);
  return (
    <div class="tiles">
      <canvas
        ref={canvas}
        role="img"
        aria-label={label}
        onMouseMove={(e) => {
          const found = under(e);
          const canvasAt = e.currentTarget.getBoundingClientRect();
          if (found) showTip(found.instance, canvasAt.left + found.x, canvasAt.top + found.y, now.peek());
          else hideTip();
          e.currentTarget.classList.toggle("hit", found !== undefined);
        }}
        onMouseLeave={hideTip}
        onClick={(e) => {
          const found = under(e);
          if (!found) return;
          hideTip();
          go({ page: "instance", shard: entry.shard, id: found.instance.instanceId });
        }}
      />
    </div>
  );
}
