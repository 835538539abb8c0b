// Command nstance-operator joins Nstance to Kubernetes and Cluster API. Its settings are
// flags and environment variables; see docs/kubernetes/operator.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"nstance.dev/operator/config"
	"nstance.dev/operator/manager"
	"nstance.dev/operator/program"
	"nstance.dev/operator/telemetry"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := start(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// start runs the operator and returns the process's exit code.
func start(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	s, err := config.ParseFlags(args, getenv, program.Namespace())
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprint(stdout, config.Operator.Usage())
		return program.ExitOK
	case errors.Is(err, config.ErrVersion):
		fmt.Fprintln(stdout, version)
		return program.ExitOK
	case err != nil:
		fmt.Fprintf(stderr, "nstance-operator: %v\n", err)
		return program.ExitUsage
	}
	log := program.Logger(s, stderr)
	program.BoundMemory(getenv, log)
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
	options := manager.Options{Version: version, Log: log}
	name, _ := os.Hostname() // without one nothing says which replica it is
	traces, err := telemetry.Start(ctx, getenv, telemetry.Service{Name: "nstance-operator", Version: version, Instance: name})
	if err != nil {
		fmt.Fprintf(stderr, "nstance-operator: %v\n", err)
		return program.ExitUsage
	}
	if traces != nil {
		options.Traces = traces
		defer sendTraces(traces, log)
	}
	if err := manager.Run(ctx, s, options); err != nil {
		log.ErrorContext(ctx, "operator exited", "error", err)
		return program.ExitFailure
	}
	return program.ExitOK
}

// tracesTimeout is how long the last spans get to be sent.
const tracesTimeout = 5 * time.Second

// sendTraces sends the last spans.
func sendTraces(traces *trace.TracerProvider, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	if err := traces.Shutdown(ctx); err != nil {
		log.WarnContext(ctx, "traces not sent", "error", err)
	}
}
