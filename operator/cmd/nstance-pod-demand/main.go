// Command nstance-pod-demand writes a CapacityRequest for each Pod of a Kubernetes cluster, as
// the operator does by default, in a process of its own. Its settings are flags; see
// docs/demand/pods.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"nstance.dev/operator/config"
	"nstance.dev/operator/poddemand"
	"nstance.dev/operator/program"
)

// version is set by the linker.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	code := start(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// start runs the controller and returns the process's exit code.
func start(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	s, err := config.PodDemand.ParseFlags(args, getenv, program.Namespace())
	switch {
	case errors.Is(err, config.ErrHelp):
		fmt.Fprint(stdout, config.PodDemand.Usage())
		return program.ExitOK
	case errors.Is(err, config.ErrVersion):
		fmt.Fprintln(stdout, version)
		return program.ExitOK
	case err != nil:
		fmt.Fprintf(stderr, "nstance-pod-demand: %v\n", err)
		return program.ExitUsage
	}
	log := program.Logger(s, stderr)
	program.BoundMemory(getenv, log)
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	klog.SetSlogLogger(log)
	if err := poddemand.Run(ctx, s, poddemand.Options{Version: version, Log: log}); err != nil {
		log.ErrorContext(ctx, "controller of Pods exited", "error", err)
		return program.ExitFailure
	}
	return program.ExitOK
}
