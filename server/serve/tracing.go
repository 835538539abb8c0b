package serve

import (
	"context"
	"log/slog"
	"os"
	"time"

	"go.opentelemetry.io/otel/trace"

	"nstance.dev/server/telemetry"
)

// startTracing begins to send traces, if the environment says where to. What it returns
// beside the tracer sends the last ones.
func startTracing(ctx context.Context, opts Options, log *slog.Logger) (t trace.Tracer, stop func(), err error) {
	service := telemetry.Service{Name: "nstance-server", Version: opts.Version, Shard: opts.Shard, Server: opts.ID}
	provider, shutdown, err := telemetry.Start(ctx, os.Getenv, service)
	if err != nil {
		return nil, nil, err
	}
	return provider.Tracer("nstance.dev/server"), func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTraces)
		defer cancel()
		if err := shutdown(ctx); err != nil {
			log.WarnContext(ctx, "last traces not sent", "error", err)
		}
	}, nil
}

// lastTraces is how long a stop waits for the traces that are not sent yet.
const lastTraces = time.Second
