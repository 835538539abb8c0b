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
