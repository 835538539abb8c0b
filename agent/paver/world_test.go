package paver_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/agent/paver"
	"nstance.dev/agent/paver/artifact"
	"nstance.dev/agent/paver/executor"
	"nstance.dev/agent/paver/facts"
	"nstance.dev/agent/paver/host"
	"nstance.dev/agent/paver/image"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/pavertest"
	"nstance.dev/agent/paver/policy"
	"nstance.dev/agent/paver/preflight"
	"nstance.dev/agent/paver/runner/fake"
	"nstance.dev/agent/paver/settings"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "marked-token-0123456789"

// world is a host on a real disk with machines in memory.
type world struct {
	t      *testing.T
	dir    string
	runner *fake.Runner
	images *images
	log    *lockedBuffer
	host   *host.Host
	power  *power
	// journals are read by operations.
	journals struct {
		mu     sync.Mutex
		failed error
		reads  int
	}
	policy atomic.Value // string: of the host
	fault  atomic.Value // func(op string, slot journal.Slot) error: of the runner
	look   atomic.Int64 // how long a look at the host takes
	paver  *paver.Paver
	stop   func()
}

// slowHost is a host that takes its time to be looked at.
type slowHost struct {
	*host.Host
	w *world
}

// setPolicy writes another policy.
func (w *world) setPolicy(text string) { w.policy.Store(text) }

// onFault has calls of the runner fail; nil: none does.
func (w *world) onFault(fault func(op string, slot journal.Slot) error) {
	if fault == nil {
		fault = func(string, journal.Slot) error { return nil }
	}
	w.fault.Store(fault)
}

func (h slowHost) Observe(ctx context.Context, markers bool) (map[journal.Slot]host.Seen, error) {
	time.Sleep(time.Duration(h.w.look.Load()))
	return h.Host.Observe(ctx, markers)
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, dir: t.TempDir(), runner: &fake.Runner{}, images: &images{dir: t.TempDir()}, log: &lockedBuffer{}, power: &power{boot: "host"}}
	w.onFault(nil)
	w.runner.Fault = func(op string, slot journal.Slot) error {
		return w.fault.Load().(func(string, journal.Slot) error)(op, slot)
	}
	w.setPolicy("allow: {pave: true, operations: [reboot, shutdown, restartService, restartMachine, resetHost, explode]}\nimages: {requireDigest: true}\n")
	for path, content := range map[string]string{
		"etc/resolv.conf": "nameserver 192.0.2.1\n", "proc/sys/kernel/panic": "0\n", "proc/sys/vm/overcommit_memory": "0\n",
	} {
		w.write(path, content)
	}
	w.images.t = t
	return w
}

func (w *world) write(path, content string) {
	path = filepath.Join(w.dir, path)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(w.dir, path))
	return err == nil
}

const state = "/var/lib/nstance-paver"

// start starts a process of the paver.
func (w *world) start() {
	w.t.Helper()
	log := slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := host.New(host.Options{
		Dir: filepath.Join(w.dir, state), Machines: filepath.Join(w.dir, "machines"), Runner: w.runner, Images: w.images, Log: log,
		Policy: func() (policy.Policy, error) {
			return policy.Parse([]byte(w.policy.Load().(string)))
		},
		Settings: settings.Host{Root: w.dir, Load: func(context.Context, string) error { return nil }, Reload: func(context.Context) error { return nil }},
		Facts:    facts.Options{Root: w.dir, UserExists: func(string) bool { return false }},
		Network:  hostNetwork,
		Disk:     host.Disk{Free: func(string) (uint64, uint64, error) { return 100 << 30, 200 << 30, nil }},
		Probe:    func(context.Context, preflight.Targets) (preflight.Facts, error) { return pavertest.Facts(), nil },
		Mode:     preflight.Service,
	})
	does := executor.New(executor.Options{
		Machines: h, Runner: w.runner, Mode: preflight.Service, Power: executor.Power{BootID: w.power.bootID, Systemctl: w.power.systemctl}, Log: log,
		Journalctl: w.journalctl,
		Policy:     func() (policy.Policy, error) { return policy.Parse([]byte(w.policy.Load().(string))) },
	})
	p, err := paver.New(paver.Options{
		Host: slowHost{h, w}, Executor: does, Preparer: host.Background{Host: h}, Dir: filepath.Join(w.dir, state), RunDir: filepath.Join(w.dir, "run"), Version: "test", Log: log, Jitter: func() float64 { return 0 },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := p.Run(ctx); !errors.Is(err, context.Canceled) {
			w.t.Errorf("Run: %v", err)
		}
	}()
	w.host, w.paver, w.stop = h, p, func() { cancel(); <-done }
}

// hostNetwork has one interface.
func hostNetwork(_ context.Context, argv ...string) ([]byte, error) {
	if argv[0] == "nft" {
		return nil, exec.ErrNotFound
	}
	return []byte(`[{"ifname":"lo"}]`), nil
}

func (w *world) take(messages ...any) {
	w.t.Helper()
	for _, m := range messages {
		if err := w.paver.Take(w.t.Context(), pavertest.Work(m)); err != nil {
			w.t.Errorf("Take(%T): %v", m, err)
		}
	}
}

func (w *world) status() *nstancev1.MachineStatus {
	s, _ := w.paver.Status()
	return s
}

// until lets time pass until the report is as wanted.
func (w *world) until(what string, ok func(*nstancev1.MachineStatus) bool) *nstancev1.MachineStatus {
	w.t.Helper()
	for range 4000 {
		synctest.Wait()
		if s := w.status(); ok(s) {
			return s
		}
		time.Sleep(time.Second)
	}
	log := w.log.String()
	w.t.Fatalf("never %s: %v\n…%s", what, w.status(), log[max(0, len(log)-4000):])
	return nil
}

func in(stage nstancev1.MachineStage) func(*nstancev1.MachineStatus) bool {
	return func(s *nstancev1.MachineStatus) bool { return s.GetStage() == stage }
}

const (
	joining = nstancev1.MachineStage_MACHINE_STAGE_JOIN
	runs    = nstancev1.MachineStage_MACHINE_STAGE_RUNNING
	failed  = nstancev1.MachineStage_MACHINE_STAGE_FAILED
	isReset = nstancev1.MachineStage_MACHINE_STAGE_RESET

	pave   = nstancev1.MachineMode_MACHINE_MODE_PAVE
	repave = nstancev1.MachineMode_MACHINE_MODE_REPAVE
	adopt  = nstancev1.MachineMode_MACHINE_MODE_ADOPT
	reset  = nstancev1.MachineMode_MACHINE_MODE_RESET
)

// join waits until a machine is to join, and lets its Node be seen.
func (w *world) join(epoch int64) {
	w.t.Helper()
	s := w.until("joining", func(s *nstancev1.MachineStatus) bool { return s.GetStage() == joining && s.GetEpoch() == epoch })
	for _, slot := range s.GetSlots() {
		if slot.GetBootId() != "" {
			w.take(&nstancev1.NodeConfirmed{Epoch: epoch, NodeUid: "node-" + slot.GetBootId(), BootId: slot.GetBootId()})
		}
	}
}

// order gives an assignment with its credential.
func (w *world) order(epoch int64, mode nstancev1.MachineMode, digit string) {
	w.t.Helper()
	w.take(pavertest.Assignment(epoch, mode, digit), pavertest.Credential(epoch, 1, token, time.Now().Add(time.Hour)))
}

func slotOf(s *nstancev1.MachineStatus, name string) *nstancev1.MachineSlot {
	for _, slot := range s.GetSlots() {
		if slot.GetName() == name {
			return slot
		}
	}
	return nil
}

// paved is a host whose slot a runs content 1.
func paved(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.start()
	w.order(1, pave, "1")
	w.join(1)
	w.until("running", in(runs))
	return w
}

// images are trees in memory, of a file each.
type images struct {
	t   *testing.T
	dir string

	mu    sync.Mutex
	fault error         // of Fetch
	slow  time.Duration // of Fetch
	roots int
	hook  func()   // called by Root
	asked []string // contents that Fetch was asked for
}

func (i *images) onRoot(hook func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.hook = hook
}

func (i *images) set(fault error, slow time.Duration) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.fault, i.slow = fault, slow
}

func (i *images) Fetch(ctx context.Context, a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) error {
	i.mu.Lock()
	fault, slow := i.fault, i.slow
	i.asked = append(i.asked, a.GetConfiguration().GetHash())
	i.mu.Unlock()
	select {
	case <-time.After(slow):
		return fault
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *images) Root(_ context.Context, a *nstancev1.MachineAssignment, _ *nstancev1.MachineCredential) (string, func(), error) {
	i.mu.Lock()
	i.roots++
	hook := i.hook
	i.mu.Unlock()
	if hook != nil {
		hook()
	}
	dir := filepath.Join(i.dir, a.GetConfiguration().GetHash()[7:10])
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "usr/bin"), 0o755), os.WriteFile(filepath.Join(dir, "usr/bin/kubelet"), nil, 0o755))
	return dir, func() {}, err
}

func (i *images) Install(context.Context, *nstancev1.MachineAssignment, string) ([]artifact.File, error) {
	return nil, nil
}

func (i *images) Size(*nstancev1.MachineAssignment) (image.Size, error) { return image.Size{}, nil }

func (i *images) Trim(context.Context) error { return nil }
func (i *images) Clear() error               { return nil }

func (i *images) fetched() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.asked)
}

func (i *images) built() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.roots
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// holders are the files of the host that contain a text.
func (w *world) holders(text string) (paths []string) {
	err := filepath.WalkDir(w.dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), text) {
			paths = append(paths, strings.TrimPrefix(path, w.dir))
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return paths
}
