import { keys } from "../keys";
import { looks } from "../model/state";
import { Dialog } from "./dialog";
import { Mark } from "./shapes";

/** The keys, and what the marks mean. */
export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys and marks" onClose={onClose}>
      <div class="help">
        <section aria-label="Keys">
          <dl class="keys">
            {keys.map((k) => (
              <div key={k.keys.join()}>
                <dt>
                  {k.keys.map((key, i) => (
                    <kbd key={i}>{key}</kbd>
                  ))}
                </dt>
                <dd>{k.does}</dd>
              </div>
            ))}
          </dl>
        </section>
        <section aria-label="Marks">
          <dl class="marks">
            {looks.map((look) => (
              <div key={look.status}>
                <dt class="status">
                  <Mark status={look.status} size={14} /> {look.label}
                </dt>
                <dd>{look.meaning}</dd>
              </div>
            ))}
          </dl>
        </section>
      </div>
    </Dialog>
  );
}
