package lease

import (
	"context"
	"fmt"
)

// AwaitLeadership returns nil once this server leads, or the error of ctx.
func (e *Elector) AwaitLeadership(ctx context.Context) error {
	for {
		e.mu.Lock()
		leading, changed := e.leading(), e.changed
		e.mu.Unlock()
		if leading {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for leadership of %s: %w", e.key, ctx.Err())
		}
	}
}
