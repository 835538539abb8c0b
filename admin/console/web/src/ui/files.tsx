import { instant } from "../format/time";
import { now } from "../live";
import type { Instance } from "../model/types";
import { Ago } from "./ago";

/** The files and certificates on an instance, and whether they are the newest. */
export function Files({ files }: { files: Instance["files"] }) {
  if (!files?.length) return <p class="quiet">It has none, or its agent has not reported them in this term.</p>;
  return (
    <ul class="files">
      {files.map((f, i) => {
        const ends = instant(f.expiresAt);
        const over = ends !== undefined && ends < now.value;
        return (
          <li key={`${f.name}-${i}`}>
            <span class="file-kind">{f.kind === "certificate" ? "certificate" : "file"}</span>
            <span class="mono">{f.name}</span>
            <span class="quiet">
              {ends !== undefined && (
                <>
                  {over ? "ended" : "ends"} <Ago at={ends} />
                </>
              )}
            </span>
            <span class={`flag tone-${f.current && !over ? "run" : "leave"}`}>{over ? "expired" : f.current ? "current" : "being updated"}</span>
          </li>
        );
      })}
    </ul>
  );
}
