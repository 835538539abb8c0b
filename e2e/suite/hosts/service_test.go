//go:build hostservice

package hosts_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/runner/runnertest"
	"nstance.dev/agent/paver/runner/service"
)

// TestMain fails with what is missing: a level that cannot run is not a level that passed.
func TestMain(m *testing.M) {
	flag.Parse()
	err := preflight(nil)
	if err == nil {
		err = service.Available(context.Background())
	}
	if err == nil {
		err = alone()
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "preflight of e2e-hosts-service failed:\n%v\n", err)
		os.Exit(1) //nolint:forbidigo // the process of tests has no other way to say so
	}
	os.Exit(m.Run()) //nolint:forbidigo // as testing does
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

// systemctl is what it says, without line end.
func systemctl(args ...string) string {
	out, _ := exec.Command("systemctl", args...).Output() // the answer may be no
	return strings.TrimSpace(string(out))
}

// TestServiceRepave: machines as services of this host. One starts with it, and is started again
// when its systemd-nspawn is killed.
func TestServiceRepave(t *testing.T) {
	b := newHost(t, archive(t))
	t.Cleanup(func() {
		b.kill()
		if out, err := b.command("reset", "--wipe").CombinedOutput(); err != nil {
			t.Errorf("reset: %v: %s", err, out)
		}
		for _, unit := range []string{"systemd-nspawn@node-a", "systemd-nspawn@node-b"} {
			if got := systemctl("is-active", unit) + " " + systemctl("is-enabled", unit); got != "inactive disabled" {
				t.Errorf("after a reset %s is %s", unit, got)
			}
		}
	})
	b.start()
	b.order(b.assignment(1, pave, "1"))
	b.until("running", 3*time.Minute, running(1))
	began := time.Now()
	b.order(b.assignment(2, repave, "2"))
	s := b.until("running", 3*time.Minute, running(2))
	t.Logf("repaved after %v", time.Since(began).Round(time.Millisecond))
	for unit, want := range map[string]string{"systemd-nspawn@node-a": "inactive disabled", "systemd-nspawn@node-b": "active enabled"} {
		if got := systemctl("is-active", unit) + " " + systemctl("is-enabled", unit); got != want {
			t.Errorf("%s is %s, want %s", unit, got, want)
		}
	}
	before := slotOf(s, "b").GetBootId()
	b.kill() // nobody but systemd starts it again
	if err := syscall.Kill(atoi(t, systemctl("show", "--property=MainPID", "--value", "systemd-nspawn@node-b")), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	b.nodes.all()
	b.eventually("another boot of the machine", time.Minute, func() bool {
		ids := b.nodes.all()
		return len(ids) > 0 && !slices.Contains(ids, before)
	})
	b.start()
	s = b.until("running", time.Minute, running(2))
	if got := slotOf(s, "b").GetBootId(); got == before || got == "" {
		t.Errorf("the machine's boot is %q, before %q", got, before)
	}
}
