package agents

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/protos/binding"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/lease"
)

// bound notes what [Clusters] is told.
type bound struct{ *term }

func (b bound) Greeted(_ identity.ID, able bool) { b.noteCluster(fmt.Sprint("able ", able)) }

func (b bound) Binding(_ identity.ID, r binding.Report) {
	b.noteCluster(fmt.Sprintf("%q %s %s exit %d, %d bytes, %q", r.Binding, r.Action, r.State, r.ExitCode, len(r.Output), r.Error))
}

func (a *term) noteCluster(s string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.clusters = append(a.clusters, s)
}

func (a *term) expectCluster(what string, want ...string) {
	a.p.t.Helper()
	synctest.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.clusters, want) {
		a.p.t.Errorf("%s: told %q, want %q", what, a.clusters, want)
	}
	a.clusters = nil
}

// able connects an agent that can join clusters.
func (a *term) able(m *machine) *pipe {
	o := a.open(m)
	msg := hello(m.id)
	msg.GetHello().Capabilities = []string{"later/v7", binding.Capability}
	o.say(msg)
	o.heard() // welcome
	return o
}

func clusterReport(r *nstancev1.ClusterReport) *nstancev1.AgentMessage {
	return &nstancev1.AgentMessage{Message: &nstancev1.AgentMessage_Cluster{Cluster: r}}
}

const (
	join    = nstancev1.ClusterAction_CLUSTER_ACTION_JOIN
	leave   = nstancev1.ClusterAction_CLUSTER_ACTION_LEAVE
	running = nstancev1.ClusterState_CLUSTER_STATE_RUNNING
	done    = nstancev1.ClusterState_CLUSTER_STATE_DONE
	failed  = nstancev1.ClusterState_CLUSTER_STATE_FAILED
)

const marked = "marked-secret-5f2b"

func aJoin() binding.Join {
	return binding.Join{Binding: "b1", Blob: []byte("#!/bin/sh\n# " + marked + "\n"), Node: binding.Node{
		Labels:        map[string]string{"nstance.dev/group": "web"},
		Taints:        []binding.Taint{{Key: "a", Value: "b", Effect: "NoSchedule"}},
		StartupTaints: []binding.Taint{{Key: "c", Effect: "NoExecute"}},
	}}
}

func TestAMachineJoinsAndLeaves(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		o := a.able(m)
		a.expectCluster("hello", "able true")
		if err := a.JoinCluster(m.id, aJoin()); err != nil {
			t.Fatal(err)
		}
		sent := o.heard()
		if len(sent) != 1 {
			t.Fatalf("%d messages, want one", len(sent))
		}
		j := sent[0].GetClusterJoin()
		if j.GetBindingId() != "b1" || !strings.Contains(string(j.GetBlob()), marked) || j.GetLabels()["nstance.dev/group"] != "web" ||
			j.GetTaints()[0].GetEffect() != "NoSchedule" || j.GetStartupTaints()[0].GetKey() != "c" {
			t.Errorf("sent %v", j)
		}
		o.say(clusterReport(&nstancev1.ClusterReport{BindingId: "b1", Action: join, State: running}))
		o.say(clusterReport(&nstancev1.ClusterReport{BindingId: "b1", Action: join, State: failed, ExitCode: 3, Output: make([]byte, 9000), Error: "exit\nstatus 3" + strings.Repeat("x", 1000)}))
		a.expectCluster("reports", `"b1" join running exit 0, 0 bytes, ""`,
			`"b1" join failed exit 3, 4096 bytes, "exit?status 3`+strings.Repeat("x", 499)+`"`)
		if err := a.LeaveCluster(m.id, "b1"); err != nil {
			t.Fatal(err)
		}
		if sent = o.heard(); len(sent) != 1 || sent[0].GetClusterLeave().GetBindingId() != "b1" {
			t.Errorf("sent %v", sent)
		}
		time.Sleep(5 * time.Second) // that its next messages are dealt with at once
		o.say(clusterReport(&nstancev1.ClusterReport{BindingId: "b1", Action: leave, State: done}))
		o.say(clusterReport(&nstancev1.ClusterReport{Output: []byte("of a machine without a binding")}))
		a.expectCluster("reports", `"b1" leave done exit 0, 0 bytes, ""`, `""   exit 0, 0 bytes, ""`)
	})
}

// What a newer agent says, or a broken one, ends no stream and is told to nobody.
func TestF52_ReportsThatAreNotUnderstood(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		o := a.able(m)
		a.expectCluster("hello", "able true")
		for _, r := range []*nstancev1.ClusterReport{
			nil,
			{BindingId: "../b1", Action: join, State: done},
			{BindingId: strings.Repeat("b", 65), Action: join, State: done},
			{BindingId: "b1", Action: 17, State: done},
			{BindingId: "b1", Action: join, State: 17},
			{BindingId: "b1"},
		} {
			time.Sleep(time.Second)
			o.say(clusterReport(r))
		}
		a.expectCluster("reports", `""   exit 0, 0 bytes, ""`) // of the empty one
		if ended, err := o.ended(); ended {
			t.Errorf("the stream ended with %v", err)
		}
	})
}

// An older agent is sent nothing that it does not understand, and what it says without having
// offered the capability does not count.
func TestAnAgentWithoutTheCapability(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		o := a.greeted(m)
		o.heard()
		a.expectCluster("hello", "able false")
		if err := a.JoinCluster(m.id, aJoin()); !errors.Is(err, ErrNoCapability) {
			t.Errorf("JoinCluster() = %v", err)
		}
		if err := a.LeaveCluster(m.id, "b1"); !errors.Is(err, ErrNoCapability) {
			t.Errorf("LeaveCluster() = %v", err)
		}
		o.say(clusterReport(&nstancev1.ClusterReport{BindingId: "b1", Action: join, State: done}))
		a.expectCluster("a report")
		if n := len(o.heard()); n != 0 {
			t.Errorf("%d messages were sent", n)
		}
	})
}

func TestWhatCannotBeSent(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		if err := a.JoinCluster(m.id, aJoin()); !errors.Is(err, ErrNotConnected) {
			t.Errorf("without a stream: %v", err)
		}
		o := a.able(m)
		for name, change := range map[string]func(*binding.Join){
			"a path":      func(j *binding.Join) { j.Binding = "../b1" },
			"no blob":     func(j *binding.Join) { j.Blob = nil },
			"a program":   func(j *binding.Join) { j.Blob = []byte("\x7fELF" + marked) },
			"a big blob":  func(j *binding.Join) { j.Blob = append([]byte("#!/bin/sh\n"), make([]byte, binding.MaxBlob)...) },
			"a bad label": func(j *binding.Join) { j.Node.Labels = map[string]string{"a": "b c"} },
		} {
			j := aJoin()
			change(&j)
			if err := a.JoinCluster(m.id, j); err == nil || strings.Contains(err.Error(), marked) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := a.LeaveCluster(m.id, ""); err == nil {
			t.Error("a binding without a name can be left")
		}
		if n := len(o.heard()); n != 0 {
			t.Errorf("%d messages were sent", n)
		}
	})
}

// TestF48_AnAgentThatDoesNotRead: its queue is full, and says so.
func TestF48_AnAgentThatDoesNotRead(t *testing.T) {
	atPost(t, func(t *testing.T, _ *post, a *term) {
		m := a.registered()
		a.able(m)
		var err error
		for range 64 + 2*queueMessages {
			if err = a.LeaveCluster(m.id, "b1"); err != nil {
				break
			}
			synctest.Wait()
		}
		if !errors.Is(err, ErrStreamFull) {
			t.Errorf("LeaveCluster() = %v, want %v", err, ErrStreamFull)
		}
	})
}

// TestF1_TheNextTermIsToldOfBindings: a stream that was parked and goes on is greeted again,
// and only the newest stream of an instance counts.
func TestF1_TheNextTermIsToldOfBindings(t *testing.T) {
	atPost(t, func(t *testing.T, p *post, a *term) {
		m := a.registered()
		o := a.able(m)
		a.expectCluster("hello", "able true")
		a.stop(lease.ErrNotLeader)
		next := p.lead()
		defer next.stop(context.Canceled)
		if err := a.JoinCluster(m.id, aJoin()); err == nil {
			t.Error("the term before still tells agents to join")
		}
		next.Resume()
		next.expectCluster("after the change of leader", "able true")
		if err := next.JoinCluster(m.id, aJoin()); err != nil {
			t.Errorf("JoinCluster() = %v", err)
		}
		if sent := o.heard(); len(sent) != 2 || sent[1].GetClusterJoin() == nil {
			t.Errorf("sent %v, want a welcome and what to join", sent)
		}
		o.say(clusterReport(&nstancev1.ClusterReport{BindingId: "b1", Action: join, State: running}))
		next.expectCluster("a report", `"b1" join running exit 0, 0 bytes, ""`)
		a.expectCluster("the term before")
	})
}
