package session_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/agent/agenttest"
	"nstance.dev/agent/cluster"
	"nstance.dev/agent/cluster/handover"
	"nstance.dev/agent/settings"
	"nstance.dev/protos/binding"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// joinable gives a machine what it needs to join clusters but the program: its status is the
// test's.
func (m *machine) joinable() {
	m.cluster = handover.New(filepath.Join(m.dir, "cluster"), filepath.Join(m.dir, "status"))
}

func (m *machine) status(s cluster.Status) {
	m.t.Helper()
	data, err := s.Encode()
	if err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.dir, "status"), data, 0o600); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) requests() (names []string) {
	m.t.Helper()
	entries, err := os.ReadDir(filepath.Join(m.dir, "cluster"))
	if err != nil && !os.IsNotExist(err) {
		m.t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// take takes a request away, as the program does.
func (m *machine) take(name string) {
	m.t.Helper()
	if err := os.Remove(filepath.Join(m.dir, "cluster", name)); err != nil {
		m.t.Fatal(err)
	}
}

// told is what the server was told of bindings since the last call.
func (s *shard) told() (all []string) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.joined {
		all = append(all, fmt.Sprintf("%s %d %d %d", r.GetBindingId(), r.GetAction(), r.GetState(), r.GetExitCode()))
	}
	s.joined = nil
	return all
}

func (s *shard) expectTold(t *testing.T, what string, want ...string) {
	t.Helper()
	if got := s.told(); !slices.Equal(got, want) {
		t.Errorf("%s: told %q, want %q", what, got, want)
	}
}

func clusterJoin(id string) *nstancev1.ServerMessage {
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_ClusterJoin{ClusterJoin: &nstancev1.ClusterJoin{
		BindingId: id, Blob: []byte("#!/bin/sh\n"), Labels: map[string]string{"a": "b"},
		Taints:        []*nstancev1.ClusterTaint{{Key: "c", Value: "d", Effect: "NoSchedule"}},
		StartupTaints: []*nstancev1.ClusterTaint{{Key: "e", Effect: "NoExecute"}},
	}}}
}

func clusterLeave(id string) *nstancev1.ServerMessage {
	return &nstancev1.ServerMessage{Message: &nstancev1.ServerMessage_ClusterLeave{ClusterLeave: &nstancev1.ClusterLeave{BindingId: id}}}
}

func entry(id string, action binding.Action, state binding.State) cluster.Entry {
	return cluster.Entry{Binding: id, Action: action, State: state}
}

func TestAMachineJoinsAndLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.joinable()
		m.status(cluster.Status{})
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(time.Second)
		if streams, _ := s.seen(); !slices.Equal(streams[0].hello.GetCapabilities(), []string{binding.Capability}) {
			t.Errorf("capabilities %q", streams[0].hello.GetCapabilities())
		}
		s.expectTold(t, "a new machine", " 0 0 0")
		s.send(t, clusterJoin("b1"))
		s.expectTold(t, "join", "b1 1 1 0")
		data, err := os.ReadFile(filepath.Join(m.dir, "cluster", "b1.join.request"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := cluster.DecodeRequest(data)
		if err != nil || r.Node.TaintFlag() != "c=d:NoSchedule,e=:NoExecute" || r.Node.LabelFlag() != "a=b" {
			t.Errorf("handed over %v, %v", r.Node, err)
		}
		s.send(t, clusterJoin("b1"))
		s.expectTold(t, "join again", "b1 1 1 0")

		status := cluster.Status{}.With(entry("b1", binding.Joining, binding.Running))
		m.status(status)
		m.take("b1.join.request")
		time.Sleep(time.Second)
		s.expectTold(t, "it runs", "b1 1 2 0")
		time.Sleep(time.Minute)
		s.expectTold(t, "it runs for a minute")
		status = status.With(entry("b1", binding.Joining, binding.Done))
		m.status(status)
		time.Sleep(time.Second)
		s.expectTold(t, "it is done", "b1 1 3 0")
		time.Sleep(10 * time.Minute)
		s.expectTold(t, "nothing happens")

		s.send(t, clusterLeave("b1"))
		status = status.With(entry("b1", binding.Leaving, binding.Done))
		m.status(status)
		m.take("b1.leave.request")
		time.Sleep(time.Second)
		s.expectTold(t, "it leaves", "b1 2 1 0", "b1 2 3 0")
		m.quit()
	})
}

// What changes while there is no stream, or no agent, is told on the next one; and a leader that
// takes a stream over is told what the one before knew.
func TestABindingIsToldOnEachStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.joinable()
		m.status(cluster.Status{})
		stop := m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(time.Second)
		s.send(t, clusterJoin("b1"))
		s.expectTold(t, "join", " 0 0 0", "b1 1 1 0")
		stop()
		status := cluster.Status{}.With(cluster.Entry{
			Binding: "b1", Action: binding.Joining, State: binding.Failed, ExitCode: 3, Output: []byte("no route"), Error: "exit status 3",
		})
		m.status(status)
		m.take("b1.join.request")
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		time.Sleep(20 * time.Second)
		s.expectTold(t, "the next stream", "b1 1 4 3")
		s.send(t, welcome(2*time.Minute))
		s.expectTold(t, "welcome of the same leader")
		s.send(t, welcomeIn(8, time.Minute))
		s.expectTold(t, "the next leader", "b1 1 4 3")
		m.quit()
		m.joinable()
		m.run(settings.Report{}, leader)
		time.Sleep(time.Second)
		s.expectTold(t, "the next process", "b1 1 4 3")
		m.quit()
	})
}

// An agent without the program says nothing of clusters, as one of an earlier version, and does
// nothing that a server asks for all the same. Once the program is there a new stream says so.
func TestAMachineThatCannotJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.joinable()
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(time.Minute)
		s.send(t, clusterJoin("b1"), clusterLeave("b1"))
		s.expectTold(t, "not able")
		if streams, _ := s.seen(); len(streams) != 1 || len(streams[0].hello.GetCapabilities()) != 0 || len(m.requests()) != 0 {
			t.Errorf("%d streams, capabilities %q, requests %q", len(streams), streams[0].hello.GetCapabilities(), m.requests())
		}
		m.status(cluster.Status{})
		time.Sleep(40 * time.Second)
		if streams, _ := s.seen(); len(streams) != 2 || len(streams[1].hello.GetCapabilities()) != 1 || !streams[0].bye {
			t.Errorf("%d streams after the program was set up", len(streams))
		}
		s.expectTold(t, "able", " 0 0 0")
		s.send(t, clusterJoin("b1"))
		s.expectTold(t, "join", "b1 1 1 0")
		m.quit()
	})
}

// A machine that cannot hand over says why, and its stream stays.
func TestAHandoverThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, s := newMachine(t, life(month)), &shard{interval: time.Minute}
		m.joinable()
		m.status(cluster.Status{})
		if err := os.WriteFile(filepath.Join(m.dir, "cluster"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		m.Serve(leader, agenttest.Script{Connect: s.connect})
		m.run(settings.Report{}, leader)
		time.Sleep(time.Second)
		s.told()
		s.send(t, clusterJoin("b1"))
		s.expectTold(t, "join", "b1 1 4 -1")
		if streams, _ := s.seen(); len(streams) != 1 {
			t.Errorf("%d streams", len(streams))
		}
		m.quit()
	})
}
