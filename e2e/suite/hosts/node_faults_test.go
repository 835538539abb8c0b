//go:build hostnodes

package hosts_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
)

// TestM57M59M60_TheOldNodeComesBack: with an image whose digest is another one, with a disk that is full and with a
// kubelet that does not join, the Node of before is back, from the version of before.
func TestM57M59M60_TheOldNodeComesBack(t *testing.T) {
	w := newWorld(t)
	w.configure(w.template("1"))
	w.joined("", 1)
	boot := w.node().Status.NodeInfo.BootID

	template := w.template("2")
	template.Image.Archive.SHA256 = hostsv1.SHA256("sha256:" + strings.Repeat("2", 64))
	w.configure(template)
	w.knows(2)
	was := w.deleteNode()
	w.gaveUp("FetchFailed")
	w.back(was, 1)
	w.sameBoot(boot)

	full := w.box.path("machines/full")
	if out, err := w.onHost("sh", "-c", "fallocate --length $(($(df --output=avail --block-size=1 "+w.box.path("machines")+" | tail -1) - 50000000)) "+full).CombinedOutput(); err != nil {
		t.Fatalf("fill the disk: %v: %s", err, out)
	}
	w.configure(w.template("3"))
	w.knows(3)
	was = w.deleteNode()
	w.gaveUp("BuildFailed")
	w.back(was, 1)
	w.sameBoot(boot)
	if out, err := w.onHost("rm", full).CombinedOutput(); err != nil {
		t.Fatalf("free the disk: %v: %s", err, out)
	}

	template = w.template("4")
	template.Timeouts.Join = "20s"
	template.Machine.Files = append(template.Machine.Files, hostsv1.File{
		Path: "/etc/systemd/system/kubelet.service.d/60-hang.conf", Content: "[Service]\nExecStart=\nExecStart=/bin/sleep infinity\n", Mode: "0644",
	})
	w.configure(template)
	w.knows(4)
	was = w.deleteNode()
	w.gaveUp(hostsv1.ReasonReverted)
	w.back(was, 1)
	if now := w.node().Status.NodeInfo.BootID; now == boot {
		t.Errorf("the machine was not stopped: its boot is still %s", boot)
	}
	w.expectContent("1")
}

// TestM51M52_DeletedWhileEverybodyIsDown: while the API server is away nothing is touched, though a Node is deleted; that it
// is gone is seen when the API server says so again. One that is deleted while operator, server and agent do nothing is
// missed once they work again.
func TestM51M52_DeletedWhileEverybodyIsDown(t *testing.T) {
	w := newWorld(t)
	w.configure(w.template("1"))
	w.joined("", 1)
	boot := w.node().Status.NodeInfo.BootID

	// A Node that is deleted in the moment in which the API server goes is missed by one answer at most.
	was := w.deleteNode()
	w.untouchedWithoutAPIServer()
	w.joined(was, 1)
	if now := w.node().Status.NodeInfo.BootID; now == boot {
		t.Errorf("the Node came back without a repave: its boot is still %s", boot)
	}

	boot = w.node().Status.NodeInfo.BootID
	w.operator.Kill()
	w.shards.Kill(shard)
	w.signalAgent(syscall.SIGSTOP)
	was = w.deleteNode()
	w.shards.Start(shard)
	w.signalAgent(syscall.SIGCONT)
	w.startOperator()
	w.joined(was, 1)
	if now := w.node().Status.NodeInfo.BootID; now == boot {
		t.Errorf("the Node came back without a repave: its boot is still %s", boot)
	}
}

// away is how long the API server is away. What an hour brings beside two minutes, an operator that has lost its lease and
// begins again and again, is that credentials are over, of which none is in use here.
var away = flag.Duration("api-server-away", 2*time.Minute, "how long the API server is away while nothing may be touched")

// untouchedWithoutAPIServer kills the API server, and has it started again after a while. All the time the machine that runs
// goes on, whatever the operator does, which is started again when it ends, as a Deployment does.
func (w *nodeWorld) untouchedWithoutAPIServer() {
	w.t.Helper()
	ran := w.box.supervisors()
	if err := w.cluster.Kill(kube.APIServer); err != nil {
		w.t.Fatal(err)
	}
	began, restarts, looks := time.Now(), 0, 0
	for ; time.Since(began) < *away; looks++ {
		time.Sleep(time.Second)
		if runs := w.box.supervisors(); !maps.EqualFunc(ran, runs, slices.Equal) {
			w.t.Fatalf("after %v without an API server %v run, and ran before %v", time.Since(began).Round(time.Second), runs, ran)
		}
		if w.operator.Ended() {
			restarts++
			w.startOperator()
		}
	}
	w.t.Logf("%v without an API server: the machine of before ran at each of %d looks, the operator was started again %d times", *away, looks, restarts)
	if err := w.cluster.Start(w.t.Context(), kube.APIServer); err != nil {
		w.t.Fatal(err)
	}
	if w.operator.Ended() { // it was started for the last time before there was an API server
		w.startOperator()
	}
}

// back waits until the Node of a version is ready again, which is not the one that was assigned: the machine
// says so, and is not ready (M47).
func (w *world) back(was types.UID, version int32) {
	w.t.Helper()
	w.nodeReady(was, version)
	kube.Await(w.t, "the machine says that another version runs", func(context.Context) error {
		s := w.host().Status
		ready := meta.FindStatusCondition(s.Conditions, hostsv1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != hostsv1.ReasonNotAssignedVersion || s.Configuration.Applied.Version != version || s.NodeRef.UID != string(w.node().UID) {
			return fmt.Errorf("Ready %+v, configuration %+v, Node %+v", ready, s.Configuration, s.NodeRef)
		}
		return nil
	})
}

// gaveUp waits until a repave was given up, and a user can see why.
func (w *world) gaveUp(reason string) {
	w.t.Helper()
	kube.AwaitFor(w.t, 10*time.Minute, "the repave is given up: "+reason, func(context.Context) error {
		c := meta.FindStatusCondition(w.host().Status.Conditions, hostsv1.ConditionRepaveFailed)
		if c == nil || c.Status != metav1.ConditionTrue || c.Reason != reason {
			return fmt.Errorf("RepaveFailed is %+v", c)
		}
		w.t.Logf("RepaveFailed: %s: %s", c.Reason, c.Message)
		return nil
	})
}

func (w *world) sameBoot(boot string) {
	w.t.Helper()
	if now := w.node().Status.NodeInfo.BootID; now != boot {
		w.t.Errorf("the machine was stopped: its boot is %s, before %s", now, boot)
	}
}

// signalAgent sends a signal to the agent of the host.
func (w *world) signalAgent(signal syscall.Signal) {
	w.t.Helper()
	out, err := exec.Command("pgrep", "--ns", strconv.Itoa(os.Getpid()), "--nslist", "net", "--full", "--exact", ".*/nstance-agent").Output()
	pids := strings.Fields(string(out))
	if err != nil || len(pids) != 1 {
		w.t.Fatalf("agents: %q, %v", pids, err)
	}
	if err := syscall.Kill(atoi(w.t, pids[0]), signal); err != nil {
		w.t.Fatal(err)
	}
}
