package session_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/hostlink"
	"nstance.dev/agent/hostlink/frame"
	"nstance.dev/agent/settings"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// paver is one that the test speaks for.
type paver struct {
	mu    sync.Mutex
	here  bool
	conn  net.Conn
	heard []int64 // epochs of assignments
}

var errNoPaver = errors.New("nobody listens")

// hosted gives a machine the link to a paver that does not run yet.
func (m *machine) hosted() *paver {
	p := &paver{}
	m.host = hostlink.New(hostlink.Options{Socket: "/run/nstance/paver.sock", Dial: p.dial, Log: slog.New(slog.DiscardHandler)})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { _ = m.host.Run(ctx); close(ended) }()
	m.t.Cleanup(func() { stop(); <-ended })
	return p
}

func (p *paver) dial(context.Context, string) (net.Conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.here {
		return nil, errNoPaver
	}
	agent, own := net.Pipe()
	p.conn = own
	go p.serve(own)
	return agent, nil
}

func (p *paver) serve(conn net.Conn) {
	for {
		var m nstancev1.AgentToPaver
		if frame.Read(conn, &m) != nil {
			return
		}
		if m.GetHello() != nil {
			_ = frame.Write(conn, &nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Hello{Hello: &nstancev1.HostlinkHello{Version: "2"}}})
			continue
		}
		p.mu.Lock()
		p.heard = append(p.heard, m.GetWork().GetAssignment().GetEpoch())
		p.mu.Unlock()
	}
}

// runs starts the paver, and waits until it is found.
func (p *paver) runs() {
	p.mu.Lock()
	p.here = true
	p.mu.Unlock()
	time.Sleep(35 * time.Second)
}

func (p *paver) reports(status *nstancev1.MachineStatus) {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	_ = frame.Write(conn, &nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Status{Status: status}})
	synctest.Wait()
}

func (p *paver) expect(t *testing.T, what string, want ...int64) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.heard, want) {
		t.Errorf("%s: the paver heard of epochs %v, want %v", what, p.heard, want)
	}
	p.heard = nil
}

// statuses are the epochs of the statuses that came since the last call.
func (s *shard) statuses() (epochs []int64) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	epochs, s.hosts = s.hosts, nil
	return epochs
}

func (s *shard) expectStatuses(t *testing.T, what string, want ...int64) {
	t.Helper()
	if got := s.statuses(); !slices.Equal(got, want) {
		t.Errorf("%s: statuses of epochs %v, want %v", what, got, want)
	}
}

// hands has the paver hand logs over.
func (p *paver) hands(operation string, size int) {
	_ = frame.Write(p.conn, &nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Logs{Logs: &nstancev1.MachineLogs{OperationId: operation, Content: make([]byte, size)}}})
}

// expectLogs compares the operations whose logs came since the last call.
func (s *shard) expectLogs(t *testing.T, what string, want ...string) {
	t.Helper()
	time.Sleep(2 * time.Second)
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.logs, want) {
		t.Errorf("%s: logs of %q, want %q", what, s.logs, want)
	}
	s.logs = nil
}

// TestAnInstanceWithoutANodeMachineCostsNothing: whatever its host has installed, nothing of it is said once the server has
// said so, and nothing is offered on the next stream. A server that wants to hear of it after all does.
func TestAnInstanceWithoutANodeMachineCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute, without: true}
		p := m.hosted()
		p.runs()
		cut := make(chan struct{})
		m.Serve(leader, agenttest.Script{Connect: func(stream agenttest.Stream, who identity.Peer) error {
			ended := make(chan error, 1)
			go func() { ended <- s.connect(stream, who) }()
			select {
			case err := <-ended:
				return err
			case <-cut:
				return status.Error(codes.Unavailable, "the stream is cut")
			}
		}})
		m.run(settings.Report{}, leader)
		time.Sleep(time.Second)
		p.reports(&nstancev1.MachineStatus{Epoch: 1})
		time.Sleep(time.Hour)
		s.expectStatuses(t, "the first stream")
		cut <- struct{}{}
		time.Sleep(time.Hour)
		streams, _ := s.seen()
		if len(streams) != 2 || len(streams[1].hello.GetCapabilities()) != 0 {
			t.Fatalf("%d streams, the last of them offers %q", len(streams), streams[len(streams)-1].hello.GetCapabilities())
		}
		p.reports(&nstancev1.MachineStatus{Epoch: 2})
		time.Sleep(time.Hour)
		s.expectStatuses(t, "the next stream")

		s.setWithout(false)
		s.send(t, welcome(time.Minute))
		time.Sleep(time.Minute)
		s.expectStatuses(t, "a server that wants to know", 2)
		if streams, _ := s.seen(); len(streams) != 3 || !slices.Equal(streams[2].hello.GetCapabilities(), []string{hostlink.Capability}) {
			t.Errorf("%d streams", len(streams))
		}
		m.quit()
	})
}

func machineWork(epoch int64) *nstancev1.ServerMessage {
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_MachineWork{MachineWork: &nstancev1.MachineWork{
		Work: &nstancev1.MachineWork_Assignment{Assignment: &nstancev1.MachineAssignment{Epoch: epoch}},
	}}}
}

// M40: an agent relays: assignments down, reports up, at least a second apart, the last one
// wins; and the next leader hears what the one before knew.
func TestM40_AnAgentRelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		p := m.hosted()
		p.runs()
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(time.Second)
		if streams, _ := s.seen(); !slices.Equal(streams[0].hello.GetCapabilities(), []string{hostlink.Capability}) {
			t.Errorf("capabilities %q", streams[0].hello.GetCapabilities())
		}
		s.send(t, machineWork(1))
		p.expect(t, "assignment", 1)
		p.reports(&nstancev1.MachineStatus{Epoch: 1})
		s.expectStatuses(t, "the first report", 1)
		for epoch := range int64(5) {
			p.reports(&nstancev1.MachineStatus{Epoch: 2 + epoch})
		}
		s.expectStatuses(t, "within the same second")
		time.Sleep(time.Second)
		s.expectStatuses(t, "a second later", 6)
		p.reports(&nstancev1.MachineStatus{Epoch: 7, LastError: string(make([]byte, 65<<10))})
		time.Sleep(time.Minute)
		s.expectStatuses(t, "a report that is too large")
		p.reports(&nstancev1.MachineStatus{Epoch: 8})
		time.Sleep(time.Second)
		s.expectStatuses(t, "the next", 8)
		s.send(t, welcome(time.Minute))
		s.expectStatuses(t, "welcome of the same leader")
		s.send(t, welcomeIn(8, time.Minute))
		s.expectStatuses(t, "the next leader", 8)
		p.hands("op-1", 1<<20)
		s.expectLogs(t, "logs", "op-1")
		p.reports(&nstancev1.MachineStatus{Epoch: 9})
		s.expectLogs(t, "the same logs")
		p.hands("op-2", 1<<20+2<<10)
		s.expectLogs(t, "logs that are too large")
		p.hands("op-3", 1)
		s.expectLogs(t, "other logs", "op-3")
		s.send(t, welcomeIn(9, time.Minute))
		s.expectLogs(t, "the next leader", "op-3")
		s.send(t, &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_MachineWork{MachineWork: &nstancev1.MachineWork{
			Work: &nstancev1.MachineWork_LogsStored{LogsStored: &nstancev1.MachineLogsStored{OperationId: "op-3", Key: "k"}},
		}}})
		s.send(t, welcomeIn(10, time.Minute))
		s.expectLogs(t, "the next leader, when they are stored")
		m.quit()
	})
}

// An agent whose host has no paver is as one of before: it offers nothing, and what a server
// says all the same is ignored. When the paver has come a new stream says so; a server that
// knows no node machines gets nothing else to hear.
func TestAnAgentWhoseHostHasNoPaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		p := m.hosted()
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(time.Minute)
		s.send(t, machineWork(1))
		if streams, _ := s.seen(); len(streams) != 1 || len(streams[0].hello.GetCapabilities()) != 0 {
			t.Errorf("%d streams, capabilities %q", len(streams), streams[0].hello.GetCapabilities())
		}
		s.expectStatuses(t, "without a paver")
		p.runs()
		time.Sleep(time.Second)
		if streams, _ := s.seen(); len(streams) != 2 || len(streams[1].hello.GetCapabilities()) != 1 || !streams[0].bye {
			t.Errorf("%d streams after a paver has come", len(streams))
		}
		p.expect(t, "what was said before", []int64{}...)
		s.send(t, machineWork(2))
		p.expect(t, "what is said now", 2)
		m.quit()
	})
}
