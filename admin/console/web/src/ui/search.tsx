import { useMemo, useState } from "preact/hooks";
import { fleet, ticks } from "../live";
import { search } from "../model/search";
import { Dialog } from "./dialog";
import { Mark } from "./shapes";

/** The search over everything: a combobox with the hits below it. */
export function Search({ onClose, visit }: { onClose: () => void; visit: (href: string) => void }) {
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const version = ticks.fleet.value;
  const hits = useMemo(() => search(fleet, text), [text, version]);
  const chosen = Math.min(at, hits.length - 1);
  const move = (by: number) => setAt((chosen + by + hits.length) % Math.max(1, hits.length));
  return (
    <Dialog title="Search" onClose={onClose}>
      <input
        class="search-input"
        type="text"
        role="combobox"
        aria-label="Search groups, instances and pages"
        aria-expanded={hits.length > 0}
        aria-controls="hits"
        aria-autocomplete="list"
        aria-activedescendant={hits[chosen] ? `hit-${chosen}` : undefined}
        placeholder="Group, instance, address, page…"
        autocomplete="off"
        spellcheck={false}
        autoFocus
        value={text}
        onInput={(e) => {
          setText(e.currentTarget.value);
          setAt(0);
        }}
        onKeyDown={(e) => {
          if (e.key === "ArrowDown") move(1);
          else if (e.key === "ArrowUp") move(-1);
          else if (e.key === "Enter" && hits[chosen]) visit(hits[chosen].href);
          else return;
          e.preventDefault();
        }}
      />
      <ul class="hits" id="hits" role="listbox" aria-label="What was found">
        {hits.map((hit, i) => (
          <li
            key={hit.href + hit.name}
            id={`hit-${i}`}
            role="option"
            aria-selected={i === chosen}
            class={i === chosen ? "chosen" : undefined}
            onMouseMove={() => setAt(i)}
            onClick={() => visit(hit.href)}
          >
            <span class="hit-kind">{hit.kind}</span>
            <span class={hit.kind === "instance" ? "mono" : undefined}>{hit.name}</span>
            <span class="quiet hit-detail">{hit.detail}</span>
            {hit.kind === "instance" && <Mark status={hit.status} />}
          </li>
        ))}
      </ul>
      {hits.length === 0 && <p class="quiet nothing">Nothing has “{text.trim()}” in its name or address.</p>}
    </Dialog>
  );
}
