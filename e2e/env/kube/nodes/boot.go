package nodes

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"k8s.io/client-go/kubernetes"
)

// Boot runs the agent of a machine until the power is turned off by the returned
// function, at the latest when the test ends. Its warnings go to the test's log.
func Boot(t testing.TB, client kubernetes.Interface, machine Machine) (agent *Agent, off func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	agent = New(client, machine, log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- agent.Run(ctx) }()
	off = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent of %s: %v", machine.Name, err)
		}
	})
	t.Cleanup(off)
	return agent, off
}
