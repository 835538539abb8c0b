package program

import (
	"io"
	"log/slog"
	"os"
	"strings"

	"nstance.dev/operator/config"
)

// Exit codes.
const (
	ExitOK      = 0
	ExitFailure = 1 // a restart may help
	ExitUsage   = 2 // flags or environment are wrong: a restart does not help
)

// Garbage is how much of it there may be, in percent of what is in use, before it is
// collected. The programs hold what there is of thousands of Nodes and Pods and have little
// to do: memory costs more than the work. GOGC in the environment is stronger.
const Garbage = 50

// namespaceFile is where a Pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// Namespace returns that of the Pod, "" outside of one.
func Namespace() string {
	name, err := os.ReadFile(namespaceFile)
	if err != nil {
		return "" // not in a Pod
	}
	return strings.TrimSpace(string(name))
}

// Logger returns the logger that the settings ask for.
func Logger(s config.Settings, w io.Writer) *slog.Logger {
	o := &slog.HandlerOptions{Level: s.LogLevel}
	if s.LogText {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}
