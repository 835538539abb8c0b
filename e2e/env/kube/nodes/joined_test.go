package nodes

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// run runs a script as the program of a machine that carries out what clusters ask for.
func run(t *testing.T, dir, binding, script string) {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = append(os.Environ(), "NSTANCE_MACHINE_DIR="+dir, "NSTANCE_BINDING_ID="+binding,
		"NSTANCE_NODE_LABELS=zone=a,pool=general", "NSTANCE_NODE_TAINTS=dedicated=db:NoSchedule,starting=:NoExecute")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// A machine is a Node from when it joins until it leaves, or its process ends.
func TestJoined(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "shard", "m1")
	if err := os.MkdirAll(filepath.Join(dir, "leave.d"), 0o700); err != nil {
		t.Fatal(err)
	}
	pid := func(n int) {
		if err := os.WriteFile(filepath.Join(dir, "pid"), []byte(strconv.Itoa(n)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pid(os.Getpid())
	joined := Joined(filepath.Join(root, "*", "*"), func(m *Machine) { m.Labels["added"] = m.Name })
	expect := func(what string, want ...Machine) {
		t.Helper()
		got, err := joined(t.Context())
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v, machines (-want +got):\n%s", what, err, diff)
		}
	}
	is := func(life string) Machine {
		return Machine{
			Name: "m1", Life: life, ProviderID: "nstance://a/m1", Labels: map[string]string{"zone": "a", "pool": "general", "of": "me", "added": "m1"},
			Taints: []corev1.Taint{
				{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}, {Key: "starting", Effect: corev1.TaintEffectNoExecute},
			},
		}
	}
	expect("before it joins")
	run(t, dir, "b1", JoinScript("nstance://a/m1", "of=me"))
	expect("it has joined", is("b1"))
	run(t, dir, "b1", filepath.Join(dir, "leave.d", "10-node"))
	expect("it has left")
	run(t, dir, "b2", JoinScript("nstance://a/m1", "of=me"))
	expect("it has joined again", is("b2"))
	pid(1 << 30)
	expect("its process has ended")
	pid(os.Getpid())
	if err := os.WriteFile(filepath.Join(dir, JoinFile), []byte(`{"labels": "odd"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if all, err := joined(t.Context()); err == nil {
		t.Errorf("a file that says nothing of use is read: %v", all)
	}
}
