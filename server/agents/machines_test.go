package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/lease"
	"nstance.dev/server/refusal"
)

// built notes what [Machines] is told of hosts that can build node machines.
type built struct{ *term }

func (b built) Greeted(_ identity.ID, able bool, version string) {
	if able {
		b.noteHost("able " + version)
	}
}

func (b built) Status(_ identity.ID, s *nstancev1.MachineStatus) {
	b.noteHost(fmt.Sprint("status ", s.Epoch))
}
func (b built) Logs(_ identity.ID, l *nstancev1.MachineLogs) {
	b.noteHost(fmt.Sprint("logs of ", l.OperationId))
}
func (b built) Disconnected(identity.ID) { b.noteHost("left") }
func (b built) Wake(identity.ID)         {}

func (a *term) noteHost(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts = append(a.hosts, s)
}

func (a *term) expectHost(what string, want ...string) {
	a.p.t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.hosts, want) {
		a.p.t.Errorf("%s: told %q, want %q", what, a.hosts, want)
	}
	a.hosts = nil
}

// builds connects an agent whose host has a paver.
func (a *term) builds(m *machine) *pipe {
	o := a.open(m)
	msg := hello(m.id)
	msg.GetHello().AgentVersion, msg.GetHello().Capabilities = "v9", []string{MachineCapability}
	o.say(msg)
	o.heard() // welcome
	return o
}

func hostStatus(epoch int64) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_MachineStatus{MachineStatus: &nstancev1.MachineStatus{Epoch: epoch}}}
}

func work(epoch int64) *nstancev1.MachineWork {
	return &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Assignment{Assignment: &nstancev1.MachineAssignment{Epoch: epoch}}}
}

// M40: work goes to the agent whose host has a paver, and its reports to who has asked for them.
func TestM40_AHostHearsOfItsAssignmentAndReports(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		if err := a.SendWork(m.id, work(1)); !errors.Is(err, ErrNotConnected) {
			t.Errorf("without a stream: %v", err)
		}
		o := a.builds(m)
		a.expectHost("hello", "able v9")
		if err := a.SendWork(m.id, work(1)); err != nil {
			t.Fatal(err)
		}
		if sent := o.heard(); len(sent) != 1 || sent[0].GetMachineWork().GetAssignment().GetEpoch() != 1 {
			t.Errorf("sent %v", sent)
		}
		start := time.Now()
		for n := range 10 {
			o.say(hostStatus(int64(n)))
		}
		time.Sleep(time.Minute)
		a.mu.Lock()
		if n := len(a.hosts); n != 10 || a.hosts[9] != "status 9" {
			t.Errorf("%d statuses since %v: %q", n, start, a.hosts)
		}
		a.hosts = nil
		a.mu.Unlock()
		o.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_MachineStatus{}})
		o.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_MachineLogs{}})
		a.expectHost("a status and logs without content")
		o.say(&nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_MachineLogs{MachineLogs: &nstancev1.MachineLogs{OperationId: "op-1"}}})
		a.expectHost("logs", "logs of op-1")
		newer := a.builds(m)
		a.expectHost("a newer stream", "able v9")
		o.expect(t, refusal.Aborted)
		a.expectHost("the older one ends")
		close(newer.bye)
		a.expectHost("goodbye", "left")
	})
}

// TestWelcomeSaysThatThereIsNoNodeMachine: an agent learns from it that nobody wants to hear of its host.
func TestWelcomeSaysThatThereIsNoNodeMachine(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		says := func() bool {
			t.Helper()
			o := a.open(m)
			o.say(hello(m.id))
			heard := o.heard()
			if len(heard) == 0 || heard[0].GetWelcome() == nil {
				t.Fatalf("heard %v", heard)
			}
			return heard[0].GetWelcome().GetNoNodeMachine()
		}
		if !says() {
			t.Error("an instance without a node machine is not told so")
		}
		if _, err := a.instances.Change(a.ctx, m.id, func(r *layout.InstanceRecord) error { r.Machine = true; return nil }); err != nil {
			t.Fatal(err)
		}
		if says() {
			t.Error("an instance with a node machine is told that it has none")
		}
	})
}

// An agent of before, or one without a paver, is sent nothing that it does not understand, and
// what it says of machines without having offered to is ignored. Nobody has to listen.
func TestAnAgentWithoutAPaver(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		o := a.greeted(m)
		o.heard()
		if err := a.SendWork(m.id, work(1)); !errors.Is(err, ErrNoPaver) {
			t.Errorf("SendWork() = %v", err)
		}
		o.say(hostStatus(1))
		a.expectHost("a status")
		if n := len(o.heard()); n != 0 {
			t.Errorf("%d messages were sent", n)
		}
		a.machines.told = nil
		o = a.builds(m)
		o.say(hostStatus(1))
		close(o.bye)
		a.expectHost("nobody listens")
	})
}

// The next leader hears of the stream that was parked.
func TestTheNextLeaderHearsOfHosts(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, first *term) {
		m := first.registered()
		o := first.builds(m)
		first.expectHost("hello", "able v9")
		first.stop(lease.ErrNotLeader)
		second := p.lead()
		defer second.stop(context.Canceled)
		second.Resume()
		second.expectHost("after the change of leader", "able v9")
		if err := second.SendWork(m.id, work(2)); err != nil {
			t.Error(err)
		}
		if sent := o.heard(); len(sent) != 2 || sent[1].GetMachineWork() == nil {
			t.Errorf("sent %v, want a welcome and work", sent)
		}
	})
}
