package hostlink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/agent/hostlink/frame"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const marked = "marked-secret-19ad"

// host is a box on which a paver may run.
type host struct {
	t    *testing.T
	link *Link
	stop context.CancelCauseFunc
	done chan error

	mu    sync.Mutex
	paver *paver // nil: none runs
	dials int
	log   strings.Builder
}

// paver is one that the test speaks for.
type paver struct {
	capabilities []string      // that it has in its hello
	silent       bool          // it does not greet
	stuck        chan struct{} // it reads no more after hello until this is closed; nil: it reads

	mu    sync.Mutex
	conn  net.Conn
	heard []string
}

var errNobody = errors.New("nobody listens")

// onHost runs a test in a bubble, with the link of an agent.
func onHost(t *testing.T, test func(*testing.T, *host)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &host{t: t, done: make(chan error, 1)}
		h.link = New(Options{
			Socket: "/run/nstance/paver.sock", Version: "1.2.3", Dial: h.dial,
			Log: slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		ctx, stop := context.WithCancelCause(t.Context())
		h.stop = stop
		go func() { h.done <- h.link.Run(ctx) }()
		synctest.Wait()
		test(t, h)
		stop(errNobody)
		if err := <-h.done; !errors.Is(err, errNobody) {
			t.Errorf("Run() = %v, want the reason of its context", err)
		}
		if strings.Contains(h.log.String(), marked) {
			t.Error("the log holds a secret")
		}
	})
}

func (h *host) dial(context.Context, string) (net.Conn, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dials++
	if h.paver == nil {
		return nil, errNobody
	}
	agent, own := net.Pipe()
	go h.paver.serve(own)
	return agent, nil
}

// runs starts a paver, and waits until the link has had time to find it.
func (h *host) runs(p *paver) *paver {
	h.mu.Lock()
	h.paver = p
	h.mu.Unlock()
	time.Sleep(longestPause + time.Second)
	synctest.Wait()
	return p
}

// ends stops the paver.
func (h *host) ends() {
	h.mu.Lock()
	p := h.paver
	h.paver = nil
	h.mu.Unlock()
	p.mu.Lock()
	_ = p.conn.Close()
	p.mu.Unlock()
	synctest.Wait()
}

func (p *paver) serve(conn net.Conn) {
	defer conn.Close()
	p.mu.Lock()
	p.conn = conn
	p.mu.Unlock()
	for first := true; ; first = false {
		var m nstancev1.AgentToPaver
		if frame.Read(conn, &m) != nil {
			return
		}
		p.mu.Lock()
		p.heard = append(p.heard, describe(&m))
		p.mu.Unlock()
		if first && !p.silent {
			p.say(&nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Hello{Hello: &nstancev1.HostlinkHello{Version: "2", Capabilities: p.capabilities}}})
		}
		if p.stuck != nil {
			<-p.stuck
		}
	}
}

func describe(m *nstancev1.AgentToPaver) string {
	switch w := m.GetWork().GetWork().(type) {
	case *nstancev1.MachineWork_Assignment:
		return fmt.Sprint("assignment ", w.Assignment.Epoch)
	case *nstancev1.MachineWork_CredentialUpdate:
		return fmt.Sprintf("credential %d/%d", w.CredentialUpdate.Epoch, w.CredentialUpdate.Sequence)
	case *nstancev1.MachineWork_NodeConfirmed:
		return fmt.Sprint("confirmed ", w.NodeConfirmed.Epoch)
	case *nstancev1.MachineWork_Operation:
		return "operation " + w.Operation.Id
	case *nstancev1.MachineWork_CancelOperation:
		return "cancel " + w.CancelOperation.Id
	case *nstancev1.MachineWork_Prebuild:
		return "prebuild " + w.Prebuild.GetAssignment().GetConfiguration().GetHash()
	}
	return "hello " + m.GetHello().GetVersion()
}

func (p *paver) say(m *nstancev1.PaverToAgent) { _ = frame.Write(p.conn, m) }

func (p *paver) reports(epoch int64) {
	p.say(&nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Status{Status: &nstancev1.MachineStatus{Epoch: epoch}}})
	synctest.Wait()
}

func (p *paver) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(p.heard, want) {
		t.Errorf("%s: heard %q, want %q", what, p.heard, want)
	}
	p.heard = nil
}

func assigned(epoch int64) *nstancev1.MachineWork {
	return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: &nstancev1.MachineAssignment{Epoch: epoch}}}
}

func joinsWith(epoch int64, sequence int32) *nstancev1.MachineWork {
	return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_CredentialUpdate{
		CredentialUpdate: &nstancev1.MachineCredential{Epoch: epoch, Sequence: sequence, Token: marked},
	}}
}

func joined(epoch int64) *nstancev1.MachineWork {
	return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_NodeConfirmed{NodeConfirmed: &nstancev1.NodeConfirmed{Epoch: epoch}}}
}

// M40: what the server says reaches the paver, in order; a paver that was restarted hears
// again what is in force, and of nothing else.
func TestM40_APaverHearsWhatIsInForce(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		if h.link.Able() {
			t.Error("able without a paver")
		}
		h.link.Deliver(assigned(1))
		p := h.runs(&paver{})
		if !h.link.Able() {
			t.Error("not able with a paver")
		}
		p.expect(t, "what came before", "hello 1.2.3", "assignment 1")
		h.link.Deliver(joinsWith(1, 1))
		p.expect(t, "a credential", "credential 1/1")
		h.link.Deliver(joinsWith(2, 1)) // of an assignment that did not come
		h.link.Deliver(&nstancev1.MachineWork{})
		p.expect(t, "what belongs to nothing")
		h.link.Deliver(joinsWith(1, 2))
		p.expect(t, "the next credential", "credential 1/2")
		h.ends()
		if h.link.Able() {
			t.Error("able without a paver")
		}
		p = h.runs(&paver{})
		p.expect(t, "after a restart", "hello 1.2.3", "assignment 1", "credential 1/2")
		h.link.Deliver(joined(1))
		p.expect(t, "confirmation", "confirmed 1")
		h.ends()
		p = h.runs(&paver{})
		p.expect(t, "after another restart", "hello 1.2.3", "assignment 1", "confirmed 1")
		h.link.Deliver(assigned(1))
		p.expect(t, "a replay of the server", "assignment 1")
		h.link.Deliver(assigned(2))
		h.ends()
		p = h.runs(&paver{})
		p.expect(t, "of another assignment", "hello 1.2.3", "assignment 2")
	})
}

func ordered(id string) *nstancev1.MachineWork {
	return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Operation{Operation: &nstancev1.MachineOrder{Id: id}}}
}

func cancelled(id string) *nstancev1.MachineWork {
	return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_CancelOperation{CancelOperation: &nstancev1.MachineOrderCancel{Id: id}}}
}

// M75: a paver hears of the operations that are not over, after a restart of it too; what was cancelled
// before it heard of it is not begun.
func TestM75_APaverHearsOfOperations(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.link.Deliver(ordered("1"))
		p := h.runs(&paver{})
		h.link.Deliver(assigned(1))
		h.link.Deliver(ordered("2"))
		h.link.Deliver(ordered("3"))
		p.expect(t, "what came", "hello 1.2.3", "operation 1", "assignment 1", "operation 2", "operation 3")
		h.link.Deliver(cancelled("3"))
		p.expect(t, "a cancellation", "cancel 3")
		p.say(&nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Status{Status: &nstancev1.MachineStatus{Operations: []*nstancev1.MachineOperationReport{
			{Id: "1", State: nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_FAILED},
			{Id: "2", State: nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_IN_PROGRESS},
		}}}})
		synctest.Wait()
		h.ends()
		p = h.runs(&paver{})
		p.expect(t, "after a restart", "hello 1.2.3", "assignment 1", "operation 2", "cancel 3")
		for i := range 100 {
			h.link.Deliver(ordered(fmt.Sprint("n", i)))
		}
		if n := len(h.link.held.orders); n != mostOrders {
			t.Errorf("%d operations are held", n)
		}
	})
}

func prepared(hash string) *nstancev1.MachineWork {
	return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Prebuild{Prebuild: &nstancev1.MachinePrebuild{
		Scope:      nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT,
		Assignment: &nstancev1.MachineAssignment{Configuration: &nstancev1.MachineConfigurationVersion{Hash: hash}},
	}}}
}

// M64: a paver hears of what it is to prepare, after a restart of it too, until it says that this is over or an
// assignment ends it. That a host prepares machines the agent says, and only of a paver that has said so in its hello.
func TestM64_APaverHearsOfWhatItIsToPrepare(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.link.Deliver(prepared("1"))
		p := h.runs(&paver{})
		p.say(&nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Status{Status: &nstancev1.MachineStatus{Prebuilds: true}}})
		synctest.Wait()
		if h.link.Status().GetPrebuilds() {
			t.Error("a paver without the capability is said to prepare machines")
		}
		h.ends()
		p = h.runs(&paver{capabilities: []string{"other", Prebuild}})
		p.expect(t, "after a restart", "hello 1.2.3", "prebuild 1")
		h.link.Deliver(prepared("2"))
		p.expect(t, "another one", "prebuild 2")
		over := func(hash string) {
			p.say(&nstancev1.PaverToAgent{Message: &nstancev1.PaverToAgent_Status{Status: &nstancev1.MachineStatus{Prebuild: &nstancev1.MachinePrebuildStatus{
				Configuration: &nstancev1.MachineConfigurationVersion{Hash: hash}, Scope: nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT,
				State: nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE,
			}}}})
			synctest.Wait()
		}
		over("1")
		if !h.link.Status().GetPrebuilds() {
			t.Error("a paver with the capability is not said to prepare machines")
		}
		h.ends()
		p = h.runs(&paver{})
		p.expect(t, "one of before is over", "hello 1.2.3", "prebuild 2")
		over("2")
		h.ends()
		p = h.runs(&paver{})
		p.expect(t, "it is over", "hello 1.2.3")
		h.link.Deliver(prepared("3"))
		h.link.Deliver(assigned(1))
		h.ends()
		p = h.runs(&paver{})
		p.expect(t, "an assignment ends it", "hello 1.2.3", "assignment 1")
	})
}

func TestTheLastReportCounts(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		p := h.runs(&paver{})
		<-h.link.News()
		if h.link.Status() != nil {
			t.Error("a status that was not reported")
		}
		p.reports(1)
		p.reports(2)
		<-h.link.News()
		if s := h.link.Status(); s.GetEpoch() != 2 {
			t.Errorf("status %v", s)
		}
		select {
		case <-h.link.News():
			t.Error("news twice")
		default:
		}
		h.ends()
		<-h.link.News()
		if h.link.Able() || h.link.Status() != nil {
			t.Error("the report of a paver that is gone counts")
		}
	})
}

// Who says nonsense, nothing or something else first ends the connection at most.
func TestF52_APaverThatIsNone(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		h.runs(&paver{silent: true})
		if h.link.Able() {
			t.Error("able with somebody who does not greet")
		}
		h.ends()
		p := h.runs(&paver{silent: true})
		p.reports(1)
		if h.link.Able() || h.link.Status() != nil {
			t.Error("able with somebody who does not greet first")
		}
		h.ends()
		p = h.runs(&paver{})
		_, _ = p.conn.Write([]byte{0, 0, 0, 2, 0xff, 0xff})
		p.reports(3)
		if h.link.Status().GetEpoch() != 3 {
			t.Error("a message that makes no sense ends the connection")
		}
		go p.conn.Write([]byte{0xff, 0xff, 0xff, 0xff})
		synctest.Wait()
		if h.link.Able() {
			t.Error("a message that is too long does not end the connection")
		}
	})
}

// On a host without a paver the link is all but idle.
func TestAHostWithoutAPaver(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		time.Sleep(time.Hour)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.dials > 130 {
			t.Errorf("%d attempts to connect in an hour", h.dials)
		}
	})
}

// A paver that does not read is given up, and the next one hears everything.
func TestAPaverThatDoesNotRead(t *testing.T) {
	onHost(t, func(t *testing.T, h *host) {
		p := h.runs(&paver{stuck: make(chan struct{})})
		for epoch := range int64(3) {
			h.link.Deliver(assigned(epoch + 1))
			time.Sleep(time.Second)
		}
		next := &paver{}
		h.mu.Lock()
		h.paver = next
		h.mu.Unlock()
		time.Sleep(writeTimeout + longestPause)
		close(p.stuck)
		next.expect(t, "the next one", "hello 1.2.3", "assignment 3")
	})
}

// The real socket: whoever listens is believed as the agent's own user or root.
func TestTheSocketOfAPaver(t *testing.T) {
	path := filepath.Join(t.TempDir(), "paver.sock")
	if _, err := dial(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a socket: %v", err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := dial(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
	for peer, want := range map[int]bool{0: true, 990: true, 1000: false} {
		if err := believe(peer, 990); (err == nil) != want {
			t.Errorf("user %d is believed by user 990: %v", peer, err)
		}
	}
}
