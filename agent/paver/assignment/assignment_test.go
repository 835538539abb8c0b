package assignment_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"nstance.dev/agent/paver/assignment"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func message() *nstancev1.MachineAssignment {
	return &nstancev1.MachineAssignment{
		MachineName: "m1", MachineUid: "uid", Epoch: 3, NodeName: "n1.example.com", Mode: nstancev1.MachineMode_MACHINE_MODE_REPAVE,
		Configuration: &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: 2, Uid: "c", Hash: "sha256:" + strings.Repeat("a", 64)},
		FailurePolicy: nstancev1.MachineFailurePolicy_MACHINE_FAILURE_POLICY_HOLD, KeepPods: true,
		Template: &nstancev1.MachineTemplate{Timeouts: &nstancev1.MachineTimeouts{Join: durationpb.New(time.Minute)}},
	}
}

func TestFrom(t *testing.T) {
	a, err := assignment.From(message())
	if err != nil {
		t.Fatal(err)
	}
	if a.Mode != assignment.Repave || !a.Hold || !a.KeepPods || a.Wipe || a.Epoch != 3 || a.NodeName != "n1.example.com" || a.MachineUID != "uid" {
		t.Errorf("%+v", a)
	}
	if got := a.Configuration.String(); got != "gpu-v2" {
		t.Errorf("the version is %s", got)
	}
	if d := a.Timeouts.WithDefaults(); d.Join != time.Minute || d.Prepare != 20*time.Minute || d.Stop != 3*time.Minute || d.Boot != 2*time.Minute {
		t.Errorf("%+v", d)
	}
	back, err := a.Message()
	if err != nil || !proto.Equal(back, message()) {
		t.Errorf("%v, %v", back, err)
	}
	if !proto.Equal(a.Configuration.Message(), message().GetConfiguration()) || (assignment.Configuration{}).Message() != nil {
		t.Error("the configuration is another one")
	}
	again, err := assignment.Parse(a.Wire)
	if err != nil || again.Configuration != a.Configuration {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestWhatCannotBeDecidedAbout(t *testing.T) {
	for want, change := range map[string]func(*nstancev1.MachineAssignment){
		"epoch: 0":                 func(m *nstancev1.MachineAssignment) { m.Epoch = 0 },
		"mode: must be one of":     func(m *nstancev1.MachineAssignment) { m.Mode = 0 },
		"nodeName":                 func(m *nstancev1.MachineAssignment) { m.NodeName = "../n1" },
		"configuration.hash":       func(m *nstancev1.MachineAssignment) { m.Configuration.Hash = "sha256:x" },
		"template.timeouts.join: ": func(m *nstancev1.MachineAssignment) { m.Template.Timeouts.Join = durationpb.New(time.Second) },
		"longer than":              func(m *nstancev1.MachineAssignment) { m.MachineUid = strings.Repeat("x", 200) },
		"template: ": func(m *nstancev1.MachineAssignment) {
			m.Template.Kubernetes = &nstancev1.MachineKubernetes{KubeletConfig: strings.Repeat("x", assignment.MaxSize)}
		},
	} {
		m := message()
		change(m)
		if _, err := assignment.From(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
	reset := &nstancev1.MachineAssignment{Epoch: 4, Mode: nstancev1.MachineMode_MACHINE_MODE_RESET, WipePersistent: true}
	if a, err := assignment.From(reset); err != nil || a.Mode != assignment.Reset || !a.Wipe {
		t.Errorf("a reset has no template: %+v, %v", a, err)
	}
	if a, err := assignment.From(nil); err == nil {
		t.Errorf("nothing is an assignment: %+v", a)
	}
}

func FuzzParse(f *testing.F) {
	a, err := assignment.From(message())
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(a.Wire))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := assignment.Parse(text)
		if err != nil {
			return
		}
		if _, err := a.Message(); err != nil {
			t.Errorf("what was read cannot be read again: %v", err)
		}
	})
}
