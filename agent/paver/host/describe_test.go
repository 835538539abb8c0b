package host

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"nstance.dev/agent/paver/assignment"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/pavertest"
	"nstance.dev/agent/paver/transition"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// TestM44_WhatTheHostIsIsTold: enough for somebody else to say what is written for a machine, and no
// more than a report has room for.
func TestM44_WhatTheHostIsIsTold(t *testing.T) {
	f := newFixture(t)
	f.policy = "allow: {pave: true}\nbinds: {allow: [/srv]}\nssh: {users: [admin]}\n"
	f.host.opts.Facts.UserExists = func(string) bool { return true }
	f.write("etc/resolv.conf", "nameserver 127.0.0.53\n")
	f.write("run/systemd/resolve/resolv.conf", strings.Repeat("nameserver 192.0.2.1\n", 400))
	m := pavertest.Assignment(1, nstancev1.MachineMode_MACHINE_MODE_PAVE, "1")
	m.Template.Host = &nstancev1.MachineHostSettings{SshKeys: []*nstancev1.MachineSshUser{{User: "admin"}, {User: "root"}}}
	for i := range 64 {
		path := fmt.Sprintf("/srv/%02d%s", i, strings.Repeat("x", 200))
		f.write(path, "")
		m.Template.Machine.Binds = append(m.Template.Machine.Binds, &nstancev1.MachineBind{Source: path, Target: path, ReadOnly: true})
	}
	a, err := assignment.From(m)
	if err != nil {
		t.Fatal(err)
	}
	w := f.work(transition.BuildSlot, journal.Build, journal.None, journal.A)
	w.Journal.Transition.Assignment, w.Assignment = a, &a
	f.do(w)
	j := journal.Journal{V: 1, Epoch: 1, Active: journal.A, Contents: map[journal.Slot]journal.Content{journal.A: {Epoch: 1}}}
	f.host.Surroundings(t.Context(), j)
	f.host.look(t.Context())
	h := f.host.Surroundings(t.Context(), j).Host
	if h.GetOs() == "" || h.GetCpus() < 1 || h.GetMemoryBytes() < 64<<20 || h.GetKernel() == "" || h.GetArch() == "" || h.GetSystemdVersion() != 255 {
		t.Errorf("%v", h)
	}
	facts := h.GetFacts()
	if facts.GetStateDir() != filepath.Join(f.dir, "state") || strings.Join(facts.GetMachines(), " ") != "node-a node-b" || strings.Join(facts.GetSshUsers(), " ") != "admin" {
		t.Errorf("%v", facts)
	}
	if facts.GetResolvConf() != "nameserver 127.0.0.53\n" || !strings.HasSuffix(facts.GetPodResolvConf(), "192.0.2.1\n") {
		t.Errorf("name servers %q and %q", facts.GetResolvConf(), facts.GetPodResolvConf())
	}
	if !facts.GetPathsCut() || len(facts.GetPaths()) < 30 || proto.Size(h) > 32<<10 {
		t.Errorf("%d paths, cut %v, %d bytes", len(facts.GetPaths()), facts.GetPathsCut(), proto.Size(h))
	}
}
