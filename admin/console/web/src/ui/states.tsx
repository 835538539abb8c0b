// What stands where content is still missing.

import type { ComponentChildren } from "preact";

/** Something is being fetched. */
export function Loading({ what }: { what: string }) {
  return (
    <div class="state" role="status">
      <span class="pulse" aria-hidden="true">
        <i />
        <i />
        <i />
      </span>
      Loading {what}…
    </div>
  );
}

/** There is nothing to show, and why. */
export function Empty({ title, children, page }: { title: string; children?: ComponentChildren; /** It is the whole page. */ page?: boolean }) {
  return (
    <div class="state empty">
      <svg width="40" height="40" viewBox="0 0 40 40" aria-hidden="true">
        <g fill="none" stroke="currentColor" stroke-dasharray="3 3">
          <rect x="2.5" y="2.5" width="15" height="15" rx="3" />
          <rect x="22.5" y="2.5" width="15" height="15" rx="3" />
          <rect x="2.5" y="22.5" width="15" height="15" rx="3" />
          <rect x="22.5" y="22.5" width="15" height="15" rx="3" />
        </g>
      </svg>
      {page ? <h1 class="empty-title">{title}</h1> : <p class="empty-title">{title}</p>}
      {children && <p>{children}</p>}
    </div>
  );
}

/** Something went wrong, in the words of the server. */
export function Failed({ error, onRetry }: { error: Error; onRetry?: () => void }) {
  return (
    <div class="notice bad" role="alert">
      <p>{error.message}</p>
      {onRetry && (
        <button type="button" onClick={onRetry}>
          Try again
        </button>
      )}
    </div>
  );
}
