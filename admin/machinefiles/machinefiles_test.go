package machinefiles

import (
	"strings"
	"testing"

	"nstance.dev/agent/paver/render"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// A version is built in the slot that has it, and else beside the machine that runs.
func TestSlot(t *testing.T) {
	v := &nstancev1.MachineConfigurationVersion{Name: "gpu", Version: 2}
	for want, slots := range map[string][]hostsv1.Slot{
		"a": nil,
		"b": {{Name: "a", State: hostsv1.SlotRunning, Version: "gpu-v1"}, {Name: "b"}},
	} {
		m := &hostsv1.HostMachine{}
		m.Status.Slots = slots
		if got := slot(m, v); got != want {
			t.Errorf("slots %v: %s, want %s", slots, got, want)
		}
	}
	m := &hostsv1.HostMachine{}
	m.Status.Slots = []hostsv1.Slot{{Name: "a", State: hostsv1.SlotRunning, Version: "gpu-v1"}, {Name: "b", Version: "gpu-v2"}}
	if got := slot(m, v); got != "b" {
		t.Errorf("the slot that has it is b, not %s", got)
	}
}

// What the group sets of a Node is known as far as the HostMachine has it.
func TestSettings(t *testing.T) {
	m := &hostsv1.HostMachine{}
	if settings(m) != nil {
		t.Error("nothing is known, and something is set")
	}
	m.Labels = map[string]string{"pool": "gpu", "rack": "1"}
	m.Annotations = map[string]string{hostsv1.AnnotationNodeLabels: "pool,gone"}
	if got := settings(m).GetLabels(); len(got) != 1 || got["pool"] != "gpu" {
		t.Errorf("labels %v", got)
	}
}

func TestDiff(t *testing.T) {
	from := render.Plan{
		Files: []render.File{{Place: render.Slot, Path: "/a", Mode: 0o644, Content: "x\n"}, {Place: render.Slot, Path: "/b", Link: "/a"}, {Place: render.OnHost, Path: "/c", Mode: 0o644, Content: "y\n"}},
	}
	to := render.Plan{
		Files:   []render.File{{Place: render.Slot, Path: "/a", Mode: 0o600, Content: "x\n"}, {Place: render.Slot, Path: "/d", Mode: 0o644, Content: "z\n"}, {Place: render.OnHost, Path: "/c", Mode: 0o644, Content: "y\n"}},
		Modules: []string{"overlay"}, Sysctls: []render.Setting{{Name: "net.ipv4.ip_forward", Value: "1"}}, Persist: []render.Directory{{Path: "/var/data", Wipe: true}},
	}
	var got []string
	for _, d := range Diff(from, to) {
		got = append(got, d.Place+":"+d.Path+" "+d.Kind+" "+strings.Join(d.Lines, "|"))
	}
	want := []string{
		"slot:/a changed +mode 0600| x", "slot:/b removed --> /a", "slot:/d added +z",
		"host:(directories that survive a repave) added +/var/data (emptied by a repave)", "host:(kernel modules) added +overlay", "host:(kernel parameters) added +net.ipv4.ip_forward = 1",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("differences\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
