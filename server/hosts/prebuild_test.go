package hosts

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/refusal"
)

func prebuildOf(version int32) *nstancev1.MachinePrebuild {
	return &nstancev1.MachinePrebuild{
		Scope: nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT, PullSecrets: map[string][]byte{"pull": []byte("marked")},
		Assignment: &nstancev1.MachineAssignment{
			MachineName: "m", MachineUid: "u", Mode: nstancev1.MachineMode_MACHINE_MODE_PREBUILD, NodeName: "n",
			Configuration: &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: version, Hash: "sha256:" + strings.Repeat(string('0'+version), 64)},
			Template:      &nstancev1.MachineTemplate{}, ApiServer: &nstancev1.MachineApiServer{Endpoint: "https://api"},
		},
	}
}

// putPrebuild puts a prebuild, and returns the reason of a refusal.
func (l *leader) putPrebuild(id identity.ID, p *nstancev1.MachinePrebuild) string {
	l.w.t.Helper()
	err := l.Prebuild(l.w.t.Context(), l.row(id), &nstancev1.PutPrebuildRequest{InstanceId: id.String(), Prebuild: p})
	if refused := (*refusal.Error)(nil); errors.As(err, &refused) {
		return refused.Reason
	}
	return ""
}

// preparing is the report of a host that prepares machines.
func preparing(version int32, state nstancev1.MachinePrebuildState) *nstancev1.MachineStatus {
	return &nstancev1.MachineStatus{Prebuilds: true, Prebuild: &nstancev1.MachinePrebuildStatus{
		Configuration: prebuildOf(version).Assignment.Configuration, Scope: nstancev1.MachinePrebuildScope_MACHINE_PREBUILD_SCOPE_SLOT, State: state,
	}}
}

// M64: what a host is to prepare goes to it, again after a connect, until it says that this is over, or an assignment
// or a withdrawal ends it; never to a host that does not prepare machines.
func TestM64_WhatAHostIsToPrepare(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		expect := func(what string, p *nstancev1.MachinePrebuild, want string) {
			t.Helper()
			if got := l.putPrebuild(id, p); got != want {
				t.Errorf("%s: %q, want %q", what, got, want)
			}
		}
		hash := func() string { return l.find(id).view(l.opts.Now()).GetPrebuildHash() }
		expect("without an agent", prebuildOf(1), "NOT_CONNECTED")
		l.mustPut(id, paving(1), nil)
		l.connect(id)
		l.expectSent("what its machine is built from", "assignment 1 PAVE")
		expect("nothing was reported", prebuildOf(1), "PREBUILD_NOT_OFFERED")
		l.Status(id, &nstancev1.MachineStatus{})
		expect("a host of before", prebuildOf(1), "PREBUILD_NOT_OFFERED")
		l.expectSent("nothing yet")
		l.Status(id, &nstancev1.MachineStatus{Prebuilds: true})
		expect("put", prebuildOf(1), "")
		l.expectSent("put", "prebuild 1 marked")
		expect("the same again", prebuildOf(1), "")
		l.expectSent("the same again")
		if got := hash(); got != prebuildOf(1).Assignment.Configuration.Hash {
			t.Errorf("watchers are told %q", got)
		}
		l.disconnect(id)
		l.connect(id)
		l.expectSent("another stream", "assignment 1 PAVE", "prebuild 1 marked")
		l.Status(id, &nstancev1.MachineStatus{Prebuilds: true})
		l.Status(id, preparing(1, nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FETCH))
		expect("another one", prebuildOf(2), "")
		l.Status(id, preparing(1, nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE)) // which is late
		l.disconnect(id)
		l.connect(id)
		l.expectSent("the newest wins", "prebuild 2 marked", "assignment 1 PAVE", "prebuild 2 marked")
		l.Status(id, preparing(2, nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FAILED))
		l.disconnect(id)
		l.connect(id)
		l.expectSent("it is over", "assignment 1 PAVE")
		l.Status(id, &nstancev1.MachineStatus{Prebuilds: true})
		expect("put", prebuildOf(3), "")
		expect("withdrawn", nil, "")
		l.expectSent("withdrawn", "prebuild 3 marked", "no prebuild")
		expect("put", prebuildOf(3), "")
		l.disconnect(id)
		l.mustPut(id, paving(2), nil)
		l.agents.sent = nil
		l.connect(id)
		l.expectSent("an assignment ends it", "assignment 2 REPAVE")
		if got := hash(); got != "" {
			t.Errorf("watchers are told %q of an assignment that has ended it", got)
		}
	})
}

// M64, S14: what a host is to prepare is in the memory of the leader alone, with the pull secret of its image. The next
// leader tells watchers that it knows of none, sends none, and takes it again once the host has reported.
func TestM64_S14_AnotherLeaderIsAskedAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		first := w.lead(1, id)
		first.mustPut(id, paving(1), nil)
		first.connect(id)
		first.Status(id, &nstancev1.MachineStatus{Prebuilds: true})
		if got := first.putPrebuild(id, prebuildOf(2)); got != "" {
			t.Fatalf("put: %s", got)
		}
		first.expectSent("the first leader", "assignment 1 PAVE", "prebuild 2 marked")
		first.end()
		second := w.lead(2, id)
		defer second.end()
		second.connect(id)
		second.expectSent("the next leader", "assignment 1 PAVE")
		second.Status(id, &nstancev1.MachineStatus{Prebuilds: true})
		if got := second.event(id).GetMachine(); got.GetPrebuildHash() != "" || got.GetStatus() == nil {
			t.Errorf("watchers of the next leader are told %v", got)
		}
		if got := second.putPrebuild(id, prebuildOf(2)); got != "" {
			t.Errorf("put again: %s", got)
		}
		second.expectSent("put again", "prebuild 2 marked")
		if got := second.event(id).GetMachine().GetPrebuildHash(); got != prebuildOf(2).Assignment.Configuration.Hash {
			t.Errorf("watchers are told %q", got)
		}
		if strings.Contains(w.logs.String(), "marked") || strings.Contains(fmt.Sprintf("%+v", *w.stored(id)), "marked") {
			t.Error("the pull secret is in a log or in storage")
		}
	})
}

// M64: what is no prebuild is refused, and no refusal quotes a secret.
func TestM64_S14_WhatIsNoPrebuild(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		id := w.newID()
		l := w.lead(1, id)
		defer l.end()
		l.connect(id)
		l.Status(id, &nstancev1.MachineStatus{Prebuilds: true})
		for name, change := range map[string]func(*nstancev1.MachinePrebuild){
			"no assignment":       func(p *nstancev1.MachinePrebuild) { p.Assignment = nil },
			"no scope":            func(p *nstancev1.MachinePrebuild) { p.Scope = 0 },
			"a scope of tomorrow": func(p *nstancev1.MachinePrebuild) { p.Scope = 9 },
			"another mode":        func(p *nstancev1.MachinePrebuild) { p.Assignment.Mode = nstancev1.MachineMode_MACHINE_MODE_PAVE },
			"an epoch":            func(p *nstancev1.MachinePrebuild) { p.Assignment.Epoch = 1 },
			"no machine":          func(p *nstancev1.MachinePrebuild) { p.Assignment.MachineName = "" },
			"no UID":              func(p *nstancev1.MachinePrebuild) { p.Assignment.MachineUid = "" },
			"no template":         func(p *nstancev1.MachinePrebuild) { p.Assignment.Template = nil },
			"no hash":             func(p *nstancev1.MachinePrebuild) { p.Assignment.Configuration.Hash = "" },
			"too large": func(p *nstancev1.MachinePrebuild) {
				p.Assignment.Template.Kubernetes = &nstancev1.MachineKubernetes{KubeletConfig: strings.Repeat("x", MaxPayload)}
			},
			"secrets that are too large": func(p *nstancev1.MachinePrebuild) {
				p.PullSecrets["pull"] = []byte(strings.Repeat("marked", MaxCredential))
			},
		} {
			p := proto.CloneOf(prebuildOf(1))
			change(p)
			err := l.Prebuild(t.Context(), l.row(id), &nstancev1.PutPrebuildRequest{Prebuild: p})
			if code(err) != refusal.InvalidArgument || strings.Contains(err.Error(), "marked") {
				t.Errorf("%s: %v", name, err)
			}
		}
		a := prebuildOf(1).Assignment
		a.Epoch = 1
		if err := l.Put(t.Context(), l.row(id), &nstancev1.PutAssignmentRequest{InstanceId: id.String(), Assignment: a}); code(err) != refusal.InvalidArgument {
			t.Errorf("as an assignment: %v", err)
		}
		l.expectSent("nothing of it is sent")
	})
}
