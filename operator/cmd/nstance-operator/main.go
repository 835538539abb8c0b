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
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/otel/sdk/trace"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"nstance.dev/operator/config"
	"nstance.dev/operator/manager"
	"nstance.dev/operator/telemetry"
)

// version is set by the linker.
var version = "dev"

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // a restart may help
	exitUsage   = 2 // flags or environment are wrong: a restart does not help
)

// garbage is how much of it there may be, in percent of what is in use, before it is
// collected. The operator holds what there is of thousands of Nodes and has little to do:
// memory costs more than the work. GOGC in the environment is stronger.
const garbage = 50

// namespaceFile is where a Pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := start(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// start runs the operator and returns the process's exit code.
func start(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	s, err := config.ParseFlags(args, getenv, podNamespace())
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprint(stdout, config.Usage())
		return exitOK
	case errors.Is(err, config.ErrVersion):
		fmt.Fprintln(stdout, version)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "nstance-operator: %v\n", err)
		return exitUsage
	}
	if getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	log := logger(s, stderr)
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
	options := manager.Options{Version: version, Log: log}
	name, _ := os.Hostname() // without one nothing says which replica it is
	traces, err := telemetry.Start(ctx, getenv, telemetry.Service{Name: "nstance-operator", Version: version, Instance: name})
	if err != nil {
		fmt.Fprintf(stderr, "nstance-operator: %v\n", err)
		return exitUsage
	}
	if traces != nil {
		options.Traces = traces
		defer sendTraces(traces, log)
	}
	if err := manager.Run(ctx, s, options); err != nil {
		log.ErrorContext(ctx, "operator exited", "error", err)
		return exitFailure
	}
	return exitOK
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

func podNamespace() string {
	name, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "" // not in a Pod
	}
	return strings.TrimSpace(string(name))
}

func logger(s config.Settings, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogText {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}
