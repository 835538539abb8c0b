package hostlink_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"nstance.dev/agent/hostlink"
	"nstance.dev/agent/paver/socket"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// paving is a paver that notes what it is told, and reports the last epoch.
type paving struct {
	mu      sync.Mutex
	took    []int64
	all     chan struct{} // closed when three have come
	status  *nstancev1.MachineStatus
	changed chan struct{}
	logs    *nstancev1.MachineLogs
	keys    []string // of logs that are stored
}

// Take implements [socket.Paver].
func (p *paving) Take(_ context.Context, w *nstancev1.MachineWork) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := w.GetLogsStored(); s != nil {
		p.keys = append(p.keys, s.GetOperationId()+" "+s.GetKey())
	}
	epoch := max(w.GetAssignment().GetEpoch(), w.GetCredentialUpdate().GetEpoch(), w.GetNodeConfirmed().GetEpoch())
	if p.took = append(p.took, epoch); len(p.took) == 3 {
		close(p.all)
	}
	p.status = &nstancev1.MachineStatus{Epoch: epoch, Attempts: int32(len(p.took))} //nolint:gosec // a handful
	close(p.changed)
	p.changed = make(chan struct{})
	return nil
}

// Status implements [socket.Paver].
func (p *paving) Status() (*nstancev1.MachineStatus, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status, p.changed
}

// Logs implements [socket.Paver].
func (p *paving) Logs() *nstancev1.MachineLogs {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.logs
}

// M40: agent and paver understand each other over the real socket, with the kernel's word for who
// is at the other end, on both sides.
func TestM40_AgentAndPaverOverTheSocket(t *testing.T) {
	p := &paving{all: make(chan struct{}), changed: make(chan struct{}), status: &nstancev1.MachineStatus{}}
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "paver.sock")
	server, err := socket.Listen(socket.Options{Path: path, Version: "2", Paver: p, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	link := hostlink.New(hostlink.Options{Socket: path, Version: "1", Log: log})
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Run(ctx) })
	g.Go(func() error { return link.Run(ctx) })
	link.Deliver(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: &nstancev1.MachineAssignment{Epoch: 4}}})
	link.Deliver(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_CredentialUpdate{CredentialUpdate: &nstancev1.MachineCredential{Epoch: 4, Sequence: 1}}})
	for link.Status().GetAttempts() < 2 {
		<-link.News()
	}
	link.Deliver(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_NodeConfirmed{NodeConfirmed: &nstancev1.NodeConfirmed{Epoch: 4}}})
	<-p.all
	for link.Status().GetAttempts() < 3 {
		<-link.News()
	}
	stop()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if want := []int64{4, 4, 4}; !slices.Equal(p.took, want) || link.Able() {
		t.Errorf("took %v, want %v; able at the end: %v", p.took, want, link.Able())
	}
}

// TestLogsOverTheSocket: logs reach the agent, also one that connects later, and what becomes of them reaches the paver.
func TestLogsOverTheSocket(t *testing.T) {
	p := &paving{
		all: make(chan struct{}), changed: make(chan struct{}), status: &nstancev1.MachineStatus{},
		logs: &nstancev1.MachineLogs{OperationId: "op-1", Content: []byte("content")},
	}
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "paver.sock")
	server, err := socket.Listen(socket.Options{Path: path, Version: "2", Paver: p, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	link := hostlink.New(hostlink.Options{Socket: path, Version: "1", Log: log})
	ctx, stop := context.WithCancel(t.Context())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Run(ctx) })
	g.Go(func() error { return link.Run(ctx) })
	for link.Logs() == nil {
		<-link.News()
	}
	if logs := link.Logs(); logs.GetOperationId() != "op-1" || string(logs.GetContent()) != "content" {
		t.Errorf("logs %v", logs)
	}
	link.Deliver(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_LogsStored{LogsStored: &nstancev1.MachineLogsStored{OperationId: "op-1", Key: "k"}}})
	if link.Logs() != nil {
		t.Error("logs that are stored are still passed on")
	}
	for len(p.stored()) == 0 {
		<-link.News() // the paver reports when it has taken something
	}
	stop()
	if err := g.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if got := p.stored(); !slices.Equal(got, []string{"op-1 k"}) {
		t.Errorf("the paver was told %q", got)
	}
}

func (p *paving) stored() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.keys)
}
