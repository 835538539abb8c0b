import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  title: string;
  onClose: () => void;
  children: ComponentChildren;
  /** The narrow form of questions. */
  small?: boolean;
}

let counter = 0;

/** A modal dialog: the browser keeps the focus in it and gives it back afterwards. */
export function Dialog({ title, onClose, children, small }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useRef(`dialog-${++counter}`);
  useEffect(() => {
    const d = dialog.current;
    d?.showModal();
    return () => d?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={small ? "small" : undefined}
      aria-labelledby={id.current}
      onCancel={(e) => {
        e.preventDefault();
        onClose();
      }}
      onClick={(e) => {
        if (e.target === dialog.current) onClose();
      }}
    >
      <div class="dialog-body">
        <header>
          <h2 id={id.current}>{title}</h2>
          <button type="button" class="plain" onClick={onClose} aria-label="Close">
            ✕
          </button>
        </header>
        {children}
      </div>
    </dialog>
  );
}
