//go:build hosts

package hosts_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/paver/journal"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// allow has the policy of the host list operations.
func (b *box) allow(operations ...string) {
	b.t.Helper()
	policy := fmt.Sprintf("allow: {pave: true, degraded: true, operations: [%s]}\nbinds: {allow: [%s]}\n", strings.Join(operations, ", "), b.path("sys"))
	if err := os.WriteFile(b.path("policy.yaml"), []byte(policy), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// asked is an operation that the host is asked for, as often as its agent connects.
type asked struct {
	b *box
	o *nstancev1.MachineOrder
}

func (b *box) ask(id, name string, timeout time.Duration, parameters map[string]string) asked {
	b.t.Helper()
	a := asked{b, &nstancev1.MachineOrder{Id: id, Name: name, Parameters: parameters, Deadline: timestamppb.New(time.Now().Add(timeout))}}
	a.again()
	return a
}

func (a asked) again() {
	a.b.t.Helper()
	a.b.take(&nstancev1.MachineWork{Work: &nstancev1.MachineWork_Operation{Operation: a.o}})
}

func reportOf(s *nstancev1.MachineStatus, id string) *nstancev1.MachineOperationReport {
	i := slices.IndexFunc(s.GetOperations(), func(o *nstancev1.MachineOperationReport) bool { return o.GetId() == id })
	if i < 0 {
		return nil
	}
	return s.GetOperations()[i]
}

// over waits until the operation has ended, and returns what became of it.
func (a asked) over(limit time.Duration) *nstancev1.MachineOperationReport {
	a.b.t.Helper()
	s := a.b.until(a.o.GetId()+" over", limit, func(s *nstancev1.MachineStatus) bool { return reportOf(s, a.o.GetId()).GetFinishedAt() != nil })
	return reportOf(s, a.o.GetId())
}

// complete waits until the operation is done, with the paver killed now and then meanwhile.
func (a asked) complete(limit time.Duration, kills ...time.Duration) *nstancev1.MachineOperationReport {
	a.b.t.Helper()
	for _, after := range kills {
		time.Sleep(after)
		a.b.kill()
		a.b.start()
		a.again()
	}
	r := a.over(limit)
	if r.GetState() != nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_COMPLETE {
		a.b.t.Fatalf("%v\n%s", r, a.b.logEnd())
	}
	return r
}

// inMachine runs a command in a machine, and returns what it says.
func (b *box) inMachine(slot journal.Slot, argv ...string) string {
	b.t.Helper()
	pids := b.supervisors()[slot]
	if len(pids) != 1 {
		b.t.Fatalf("%v run as %s", pids, slot.Machine())
	}
	leader, err := exec.Command("pgrep", "--parent", strconv.Itoa(pids[0])).Output()
	if err != nil {
		b.t.Fatal(err)
	}
	out, err := exec.Command("nsenter", append([]string{"--target", strings.Fields(string(leader))[0], "--all", "--"}, argv...)...).Output()
	if err != nil {
		b.t.Fatalf("%s: %v", argv, err)
	}
	return strings.TrimSpace(string(out))
}

// TestM75M79M86_OperationsOfAHost: a service and a machine are restarted, and everything is removed, with the paver killed
// at any moment. Each is done once, and what proves it is what it did.
func TestM75M79M86_OperationsOfAHost(t *testing.T) {
	b := paved(t, "")
	rng := rand.New(rand.NewPCG(3, 4))
	soon := func() time.Duration { return time.Duration(rng.IntN(600)) * time.Millisecond }

	r := b.ask("refused", "restartService", time.Minute, map[string]string{"service": "kubelet"}).over(time.Minute)
	if r.GetReason() != "RefusedByHost" {
		t.Errorf("M86: %v", r)
	}
	b.allow("restartService", "restartMachine", "resetHost", "reboot")
	if r := b.ask("no-systemd", "reboot", time.Minute, nil).over(time.Minute); r.GetReason() != "Unsupported" {
		t.Errorf("a host without systemd: %v", r)
	}
	if r := b.ask("no-unit", "restartService", time.Minute, map[string]string{"service": "no-such"}).over(time.Minute); r.GetReason() != "NotFound" {
		t.Errorf("a unit that does not exist: %v", r)
	}

	const service = "kubelet.service"
	invocation := func() string {
		return b.inMachine(journal.A, "systemctl", "show", "--property=InvocationID", "--value", service)
	}
	for i := range 6 {
		before := invocation()
		var kills []time.Duration
		for range i % 3 {
			kills = append(kills, soon())
		}
		began := time.Now()
		r := b.ask(fmt.Sprint("service-", i), "restartService", 2*time.Minute, map[string]string{"service": service}).complete(time.Minute, kills...)
		after := invocation()
		t.Logf("restartService with %d kills: %v", len(kills), time.Since(began).Round(time.Millisecond))
		if r.GetResults()["invocationID"] != after || after == before {
			t.Errorf("%v; the unit's invocation is %s, was %s", r, after, before)
		}
	}

	boots := 0
	for i := range 6 {
		before := slotOf(b.until("running", time.Minute, running(1)), "a").GetBootId()
		b.nodes.all()
		var kills []time.Duration
		for range i % 3 {
			kills = append(kills, soon())
		}
		began := time.Now()
		a := b.ask(fmt.Sprint("machine-", i), "restartMachine", 5*time.Minute, nil)
		r := a.complete(3*time.Minute, kills...)
		t.Logf("restartMachine with %d kills: %v", len(kills), time.Since(began).Round(time.Millisecond))
		boot := r.GetResults()["bootID"]
		a.again()
		time.Sleep(time.Second)
		s := b.until("running", time.Minute, running(1))
		b.expectOne(s)
		// One of before may have been heard of late; of another one but the new nothing is heard.
		heard := slices.DeleteFunc(b.nodes.all(), func(id string) bool { return id == before })
		if got := slotOf(s, "a").GetBootId(); got != boot || boot == before || len(heard) > 1 || len(heard) == 1 && heard[0] != boot {
			t.Errorf("%v: boot %s, before %s; heard of boots %v", r, got, before, heard)
		}
		boots += len(heard)
	}
	t.Logf("%d boots of 6 restarts were heard of", boots)

	before := slotOf(b.status, "a").GetBootId()
	a := b.ask("reset", "resetHost", 5*time.Minute, map[string]string{"confirm": "m1"})
	r = a.complete(3*time.Minute, soon(), soon())
	s := b.until("built again", 3*time.Minute, running(1))
	b.expectOne(s)
	if got := slotOf(s, s.GetActiveSlot()).GetBootId(); got == before || got == "" {
		t.Errorf("%v: boot %s, before %s", r, got, before)
	}
	out, err := b.command("status").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "operation: resetHost reset: complete") || !strings.Contains(string(out), "operation: restartService refused: failed: RefusedByHost") {
		t.Errorf("status: %v: %s", err, out)
	}
}
