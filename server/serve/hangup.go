package serve

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"nstance.dev/server/configsource"
)

// reloadOnHangup reloads at every SIGHUP, until ctx ends.
func reloadOnHangup(ctx context.Context, r *configsource.Reloader, log *slog.Logger) error {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hangup:
		}
		_, _, updated, err := r.Refresh(ctx)
		if err != nil {
			log.ErrorContext(ctx, "configuration not reloaded; the one before stays in force", "error", err)
			continue
		}
		log.InfoContext(ctx, "configuration reloaded", "updated", updated)
	}
}
