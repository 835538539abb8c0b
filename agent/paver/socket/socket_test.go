package socket_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/agent/hostlink/frame"
	"nstance.dev/agent/paver/pavertest"
	"nstance.dev/agent/paver/socket"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// paver notes what it is told, and reports the epoch of it.
type paver struct {
	mu      sync.Mutex
	status  *nstancev1.MachineStatus
	changed chan struct{}
	fault   error
	logs    *nstancev1.MachineLogs
}

func (p *paver) Take(_ context.Context, w *nstancev1.MachineWork) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fault != nil {
		return p.fault
	}
	p.status = &nstancev1.MachineStatus{Epoch: w.GetAssignment().GetEpoch()}
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

func (p *paver) Status() (*nstancev1.MachineStatus, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.changed
}

func (p *paver) Logs() *nstancev1.MachineLogs {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs
}

func serve(t *testing.T) (*paver, string) {
	t.Helper()
	p := &paver{status: &nstancev1.MachineStatus{}, changed: make(chan struct{})}
	path := filepath.Join(t.TempDir(), "paver.sock")
	if err := os.WriteFile(path, nil, 0o600); err != nil { // what a killed process has left
		t.Fatal(err)
	}
	s, err := socket.Listen(socket.Options{Path: path, Group: "no-such-group", Version: "1", Paver: p, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
	return p, path
}

func dial(t *testing.T, path string) *socket.Client {
	t.Helper()
	c, err := socket.Dial(t.Context(), path, "test")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func next(t *testing.T, c *socket.Client) *nstancev1.MachineStatus {
	t.Helper()
	s, err := c.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestWorkGoesInAndReportsComeOut(t *testing.T) {
	_, path := serve(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	a, b := dial(t, path), dial(t, path)
	if s := next(t, a); s.GetEpoch() != 0 {
		t.Errorf("%v", s)
	}
	next(t, b)
	if err := a.Take(t.Context(), pavertest.Work(pavertest.Assignment(7, nstancev1.MachineMode_MACHINE_MODE_PAVE, "1"))); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*socket.Client{a, b} {
		if s := next(t, c); s.GetEpoch() != 7 {
			t.Errorf("%v", s)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if s, err := a.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", s, err)
	}
}

// An empty report would say that the host runs nothing: before the host was looked at there is none.
func TestNothingIsReportedBeforeTheFirstLook(t *testing.T) {
	p, path := serve(t)
	p.mu.Lock()
	p.status = nil
	p.mu.Unlock()
	c := dial(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if s, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, %v", s, err)
	}
	c = dial(t, path)
	if err := c.Take(t.Context(), pavertest.Work(pavertest.Assignment(7, nstancev1.MachineMode_MACHINE_MODE_PAVE, "1"))); err != nil {
		t.Fatal(err)
	}
	if s := next(t, c); s.GetEpoch() != 7 {
		t.Errorf("%v", s)
	}
}

// What a peer says that is no message, or that is ignored, does not end the conversation.
func TestWhatIsIgnored(t *testing.T) {
	p, path := serve(t)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := frame.Write(conn, &nstancev1.AgentToPaver{Message: &nstancev1.AgentToPaver_Hello{}}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte{0, 0, 0, 2, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.fault = errors.New("ignored")
	p.mu.Unlock()
	work := &nstancev1.AgentToPaver{Message: &nstancev1.AgentToPaver_Work{Work: pavertest.Work(pavertest.Assignment(7, nstancev1.MachineMode_MACHINE_MODE_PAVE, "1"))}}
	if err := errors.Join(frame.Write(conn, work), frame.Write(conn, &nstancev1.AgentToPaver{})); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		var m nstancev1.PaverToAgent
		if err := frame.Read(conn, &m); err != nil {
			t.Fatalf("%v", err)
		}
	}
}

func TestWhoDoesNotGreetIsNotServed(t *testing.T) {
	_, path := serve(t)
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := frame.Write(conn, &nstancev1.AgentToPaver{Message: &nstancev1.AgentToPaver_Work{}}); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(conn); err != nil || len(rest) > 0 {
		t.Errorf("%d bytes, %v", len(rest), err)
	}
	if c, err := socket.Dial(t.Context(), path+"x", "test"); err == nil {
		t.Errorf("%v", c)
	}
}

// The number of conversations is bounded, and a place that is left is given away.
func TestTooManyConversations(t *testing.T) {
	_, path := serve(t)
	var all []*socket.Client
	for {
		c, err := socket.Dial(t.Context(), path, "test")
		if err != nil {
			break
		}
		next(t, c)
		if all = append(all, c); len(all) > 20 {
			t.Fatal("there is no limit")
		}
	}
	for _, c := range all {
		c.Close()
	}
	for {
		if c, err := socket.Dial(t.Context(), path, "test"); err == nil {
			c.Close()
			return
		}
	}
}
