//go:build kube && operator

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/agent/paver"
	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/journal"
	paverlogs "nstance.dev/agent/paver/logs"
	"nstance.dev/agent/paver/operation"
	"nstance.dev/agent/paver/pavertest"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/report"
	"nstance.dev/agent/paver/runner/fake"
	"nstance.dev/agent/paver/settings"
	"nstance.dev/agent/paver/socket"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/providers/local"
)

// rebooting is a host whose agent is a process of this box and whose paver, the real one with its journal and its record
// of operations on disk, runs in this test: its machines are those of the fake runner, and what it reboots is what there
// is to reboot, both of them. While it is down its agent is away.
type rebooting struct {
	t    *testing.T
	dir  string
	away time.Duration // how long it takes to come back

	policy   string
	users    []string // of the host
	images   host.Images
	runner   *fake.Runner
	network  func(context.Context, ...string) ([]byte, error)
	executor func(*host.Host) paver.Executor

	mu     sync.Mutex
	boots  int
	downs  int  // how often it went down because its paver had it
	goes   bool // it is about to
	stop   context.CancelFunc
	ended  chan struct{}
	server func() // killed and started anew while the host is down; nil: it is not
}

func newRebooting(t *testing.T, away time.Duration) *rebooting {
	t.Helper()
	h := newBare(t)
	h.away, h.policy = away, "allow: {pave: true, operations: [reboot]}\n"
	h.executor = func(*host.Host) paver.Executor { return bareExecutor{h} }
	h.begin()
	return h
}

// newBare returns a host that is not started.
func newBare(t *testing.T) *rebooting {
	t.Helper()
	dir, err := os.MkdirTemp("", "host") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	h := &rebooting{t: t, dir: dir, boots: 1, runner: &fake.Runner{}}
	h.network = func(context.Context, ...string) ([]byte, error) { return nil, exec.ErrNotFound }
	for _, sub := range []string{"agents", "state", "run", "machines", "root/etc", "root/proc/sys/kernel", "root/proc/sys/vm"} {
		h.must(os.MkdirAll(filepath.Join(dir, sub), 0o700))
	}
	return h
}

// begin starts it for the first time.
func (h *rebooting) begin() {
	h.start()
	h.t.Cleanup(h.end)
}

func (h *rebooting) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// userData has the agent of a machine run again and again, as a host does at each boot, but while it is down.
func (h *rebooting) userData() string {
	return strings.Replace(local.DefaultUserData, `exec "$NSTANCE_AGENT"`, fmt.Sprintf(`export %s=%s
trap 'kill $agent 2>/dev/null; exit 0' TERM
while :; do
	while [ -e %s ]; do sleep 0.1; done
	"$NSTANCE_AGENT" & agent=$!
	echo $agent > '%s/{{ .Instance.ID }}'
	wait $agent || :
done`, identity.EnvPaverSocket, h.socket(), h.down(), filepath.Join(h.dir, "agents")), 1)
}

func (h *rebooting) socket() string { return filepath.Join(h.dir, "paver.sock") }

func (h *rebooting) down() string { return filepath.Join(h.dir, "down") }

// start starts the paver, and has the agent reach it.
func (h *rebooting) start() {
	h.t.Helper()
	log := slog.New(slog.DiscardHandler)
	allowed, err := policy.Parse([]byte(h.policy))
	h.must(err)
	root := filepath.Join(h.dir, "root")
	bare := &bareHost{of: h, Host: host.New(host.Options{
		Dir: filepath.Join(h.dir, "state"), Machines: filepath.Join(h.dir, "machines"), Runner: h.runner, Images: h.images, Log: log,
		Policy: func() (policy.Policy, error) { return allowed, nil },
		Settings: settings.Host{
			Root: root, Load: func(context.Context, string) error { return nil }, Reload: func(context.Context) error { return nil },
		},
		Facts:   facts.Options{Root: root, UserExists: func(user string) bool { return slices.Contains(h.users, user) }},
		Network: h.network,
		Probe:   func(context.Context, preflight.Targets) (preflight.Facts, error) { return pavertest.Facts(), nil },
		Disk:    host.Disk{Free: func(string) (uint64, uint64, error) { return 100 << 30, 200 << 30, nil }, Shares: func(string, string) bool { return true }},
	})}
	p, err := paver.New(paver.Options{
		Host: bare, Executor: h.executor(bare.Host), Dir: filepath.Join(h.dir, "state"), RunDir: filepath.Join(h.dir, "run"), Version: "test", Log: log,
		Jitter: func() float64 { return 0 },
	})
	h.must(err)
	server, err := socket.Listen(socket.Options{Path: h.socket(), Version: "test", Paver: p, Log: log})
	h.must(err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	h.mu.Lock()
	h.stop, h.ended, h.goes = stop, ended, false
	h.mu.Unlock()
	go func() {
		defer close(ended)
		var both sync.WaitGroup
		both.Go(func() { _ = p.Run(ctx) })
		both.Go(func() { _ = server.Run(ctx) })
		both.Wait()
	}()
}

func (h *rebooting) end() {
	h.mu.Lock()
	stop, ended := h.stop, h.ended
	h.mu.Unlock()
	stop()
	<-ended
}

// reboot takes the host down, and lets it come back.
func (h *rebooting) reboot() {
	if err := os.WriteFile(h.down(), nil, 0o600); err != nil {
		h.t.Error(err)
	}
	h.end()
	if err := h.killAgents(); err != nil {
		h.t.Error(err)
	}
	h.mu.Lock()
	h.boots++
	server := h.server
	h.server = nil
	h.mu.Unlock()
	if server != nil {
		server()
	}
	time.Sleep(h.away) //nolint:forbidigo // a host that is down is down
	h.start()
	if err := os.Remove(h.down()); err != nil {
		h.t.Error(err)
	}
}

// killAgents kills the agents of all machines of this kind.
func (h *rebooting) killAgents() error {
	all, err := os.ReadDir(filepath.Join(h.dir, "agents"))
	for _, of := range all {
		text, read := os.ReadFile(filepath.Join(h.dir, "agents", of.Name()))
		pid, parsed := strconv.Atoi(strings.TrimSpace(string(text)))
		if err = errors.Join(err, read, parsed); err != nil {
			return err
		}
		if killed := unix.Kill(pid, unix.SIGKILL); killed != nil && !errors.Is(killed, unix.ESRCH) {
			return killed
		}
	}
	return err
}

// bareHost is what the paver sees of the host.
type bareHost struct {
	*host.Host

	of *rebooting
}

// Surroundings implements paver.Host.
func (b *bareHost) Surroundings(context.Context, journal.Journal) report.Surroundings {
	return report.Surroundings{
		Preflight: []*nstancev1.PreflightCheck{{Id: "root", Result: nstancev1.PreflightResult_PREFLIGHT_RESULT_PASSED}},
		Host:      &nstancev1.MachineHost{BootId: bareExecutor{b.of}.HostBootID(), Arch: "amd64", Cgroup: "v2"},
	}
}

// bareExecutor has the host reboot, and nothing else.
type bareExecutor struct{ *rebooting }

// Offers implements paver.Executor, as do the next ones.
func (b bareExecutor) Offers() []string { return []string{operation.Reboot} }

// Refusal implements paver.Executor.
func (b bareExecutor) Refusal(string) string { return "" }

// Unsupported implements paver.Executor.
func (b bareExecutor) Unsupported(operation.Record) string { return "" }

// HostBootID implements paver.Executor.
func (b bareExecutor) HostBootID() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("00000000-0000-4000-8000-%012d", b.boots)
}

// Unit implements paver.Executor.
func (b bareExecutor) Unit(context.Context, journal.Slot, string) (operation.Unit, error) {
	return operation.Unit{}, fs.ErrNotExist
}

// RestartUnit implements paver.Executor.
func (b bareExecutor) RestartUnit(context.Context, journal.Slot, string) error { return fs.ErrNotExist }

// StopMachine implements paver.Executor.
func (b bareExecutor) StopMachine(context.Context, journal.Slot) error { return nil }

// Collect implements paver.Executor: it is not offered.
func (b bareExecutor) Collect(context.Context, operation.Record, journal.Slot, []string) (paverlogs.Packed, error) {
	return paverlogs.Packed{}, fs.ErrNotExist
}

// SetKeys implements paver.Executor: it is not offered.
func (b bareExecutor) SetKeys(context.Context, journal.Slot, []*nstancev1.MachineSshUser) (operation.Keys, error) {
	return operation.Keys{}, fs.ErrNotExist
}

// Reset implements paver.Executor.
func (b bareExecutor) Reset(context.Context, journal.Journal, bool) error { return nil }

// GoDown implements paver.Executor: it returns before the host is down.
func (b bareExecutor) GoDown(context.Context, journal.Slot, time.Duration, bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.goes {
		b.goes = true
		b.downs++
		go b.reboot()
	}
	return nil
}

// M75, M79, M84: an object asks, the operator relays, the server puts the instance on hold and hands the operation on, the
// agent tells the paver, and the host reboots: once, although the server is killed meanwhile, and for longer than
// machines may be silent. The instance stays; without an operation, and so without a hold, the same silence has it
// replaced.
func TestM75M79M84_AHostReboots(t *testing.T) {
	h := newRebooting(t, 40*time.Second)
	s := startHostingOn(t, []shards.Option{shards.ReportInterval(2 * time.Second), shards.UserData(h.userData())})
	scheme := runtime.NewScheme()
	if err := hostsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(s.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w := &hostWorld{hostCourt: &hostCourt{cluster: s.Cluster}, admin: admin}
	s.shards.UpsertGroup("a", "metal", 1)
	id := w.awaitHost(t, "")
	w.awaitMachine(t, id, "its paver offers reboots", func(m *hostsv1.HostMachine) error {
		for _, e := range m.Status.Executors {
			if e.Name == hostsv1.ExecutorPaver {
				return nil
			}
		}
		return fmt.Errorf("executors %v", m.Status.Executors)
	})

	h.mu.Lock()
	h.server = func() {
		s.shards.Kill("a")
		s.shards.Start("a")
	}
	h.mu.Unlock()
	w.ask(t, "reboot", id, hostsv1.OperationReboot)
	w.awaitMachine(t, id, "it is on hold", func(m *hostsv1.HostMachine) error {
		if m.Status.Hold == nil || m.Status.Hold.Reason != hostsv1.HoldReboot {
			return fmt.Errorf("hold %+v", m.Status.Hold)
		}
		return nil
	})
	w.awaitEnd(t, "reboot", "Complete/Succeeded", "False/Cleared")
	h.mu.Lock()
	if h.downs != 1 || h.boots != 2 {
		t.Errorf("it went down %d times for one operation, and is in boot %d", h.downs, h.boots)
	}
	h.mu.Unlock()
	if is := w.awaitHost(t, ""); is != id {
		t.Errorf("%s was replaced by %s because it rebooted", id, is)
	}

	go h.reboot() // nobody has asked for it
	if is := w.awaitHost(t, id); is == id {
		t.Error("a host that is silent for so long is not replaced")
	}
	kube.Await(t, "the host is up again", func(context.Context) error {
		if _, err := os.Stat(h.down()); err == nil {
			return errors.New("it is down")
		}
		return nil
	})
}
