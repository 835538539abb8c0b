// A chart of lines over time.

import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "preact/hooks";
import { clock } from "../format/time";
import { palette, type Palette } from "../theme";

export interface Line {
  name: string;
  tone: keyof Palette;
  /** Fills the space below. */
  area?: boolean;
  dashed?: boolean;
}

interface Props {
  /** What the chart shows, in words. */
  label: string;
  lines: Line[];
  /** Seconds, then the values of each line. */
  data: uPlot.AlignedData;
  height: number;
}

const steps = uPlot.paths.stepped?.({ align: 1 });

function options({ lines, height }: Props, colours: Palette, width: number): uPlot.Options {
  const axis = {
    stroke: colours.quiet,
    font: "11px 'Geist Mono Variable', monospace",
    grid: { stroke: colours.line, width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height,
    padding: [8, 12, 0, 0],
    legend: { show: false },
    cursor: { drag: { x: false, y: false }, points: { size: 6 }, y: false },
    scales: { x: { time: true }, y: { range: (_, __, max) => [0, Math.max(2, Math.ceil(max * 1.06))] } },
    axes: [
      { ...axis, grid: { show: false }, values: (_, ticks) => ticks.map((t) => clock(t * 1000).slice(0, ticks.length > 1 && (ticks[1] as number) - (ticks[0] as number) < 60 ? 8 : 5)), space: 80 },
      { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000] },
    ],
    series: [
      {},
      ...lines.map((line): uPlot.Series => ({
        label: line.name,
        stroke: colours[line.tone],
        width: 2,
        ...(line.area && { fill: `${colours[line.tone]}2b` }),
        ...(line.dashed && { dash: [5, 4] }),
        ...(steps && { paths: steps }),
        points: { show: false },
      })),
    ],
  };
}

export function Chart(props: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const colours = palette();
  const shape = props.lines.map((l) => l.name).join();

  useEffect(() => {
    const at = frame.current as HTMLDivElement;
    const chart = new uPlot(options(props, colours, at.clientWidth), props.data, at);
    plot.current = chart;
    const resize = new ResizeObserver(() => chart.setSize({ width: at.clientWidth, height: props.height }));
    resize.observe(at);
    return () => {
      resize.disconnect();
      chart.destroy();
      plot.current = undefined;
    };
  }, [colours, shape, props.height]);
  useEffect(() => plot.current?.setData(props.data), [props.data]);

  return (
    <figure class="chart">
      <div ref={frame} role="img" aria-label={props.label} style={{ minHeight: `${props.height}px` }} />
      <figcaption>
        {props.lines.map((l) => (
          <span key={l.name} class="chart-key">
            <i class={`swatch tone-${l.tone} ${l.dashed ? "dashed" : ""}`} /> {l.name}
          </span>
        ))}
      </figcaption>
    </figure>
  );
}
