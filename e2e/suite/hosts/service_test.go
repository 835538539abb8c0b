//go:build hostservice

package hosts_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner/runnertest"
	"nstance.dev/agent/paver/runner/service"
)

// TestMain fails with what is missing: a level that cannot run is not a level that passed.
func TestMain(m *testing.M) {
	flag.Parse()
	err := preflight()
	if err == nil {
		err = service.Available(context.Background())
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "preflight of e2e-hosts-service failed:\n%v\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestServiceRunnerContract: real machines, started by the systemd of this host.
func TestServiceRunnerContract(t *testing.T) {
	const machines = "/var/lib/machines"
	if err := os.MkdirAll(machines, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"contract-a", "contract-b"} {
		path := filepath.Join(machines, name)
		unpack(t, path)
		t.Cleanup(func() {
			if out, err := exec.Command("rm", "-rf", "--one-file-system", path).CombinedOutput(); err != nil {
				t.Errorf("remove %s: %v: %s", path, err, out)
			}
		})
	}
	runnertest.Run(t, func(*testing.T) runnertest.Subject {
		r := service.New(service.Options{Name: func(s journal.Slot) string { return "contract-" + string(s) }})
		return runnertest.Subject{Runner: r, Shell: true}
	})
	expectNothingLeft(t, "contract-a", "contract-b")
}
