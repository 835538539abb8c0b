package paver_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"nstance.dev/agent/paver/command"
	"nstance.dev/agent/paver/journal"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const (
	complete = nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_COMPLETE
	opFailed = nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_FAILED
	began    = nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_IN_PROGRESS
	accepted = nstancev1.MachineOperationState_MACHINE_OPERATION_STATE_ACCEPTED
)

// power is the systemd of a host, and its boot.
type power struct {
	mu     sync.Mutex
	boot   string
	asked  []string
	failed error // of systemctl
	unit   string
	shows  func() // is called while the systemd is asked for a unit
}

func (p *power) bootID() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.boot
}

func (p *power) systemctl(_ context.Context, args ...string) (command.Output, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if shows := p.shows; shows != nil && args[0] == "show" {
		p.mu.Unlock()
		shows()
		p.mu.Lock()
	}
	if p.failed != nil {
		return command.Output{}, p.failed
	}
	if args[0] == "show" {
		return command.Output{Text: []byte(p.unit)}, nil
	}
	p.asked = append(p.asked, strings.Join(args, " "))
	return command.Output{}, nil
}

func (p *power) calls() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// reboots has the host go down and come back, as far as it is not the paver.
func (w *world) reboots() {
	w.stop()
	w.power.mu.Lock()
	w.power.boot += "'"
	w.power.mu.Unlock()
	w.runner.Reboot()
}

// ask asks for an operation.
func (w *world) ask(id, name string, timeout time.Duration, parameters ...string) {
	w.t.Helper()
	o := &nstancev1.MachineOrder{Id: id, Name: name, Parameters: map[string]string{}, Deadline: timestamppb.New(time.Now().Add(timeout))}
	for i := 0; i+1 < len(parameters); i += 2 {
		o.Parameters[parameters[i]] = parameters[i+1]
	}
	if err := w.paver.Take(w.t.Context(), &nstancev1.MachineWork{Work: &nstancev1.MachineWork_Operation{Operation: o}}); err != nil {
		w.t.Errorf("Take(%s): %v", name, err)
	}
}

func operationOf(s *nstancev1.MachineStatus, id string) *nstancev1.MachineOperationReport {
	for _, o := range s.GetOperations() {
		if o.GetId() == id {
			return o
		}
	}
	return nil
}

func (w *world) untilState(id string, state nstancev1.MachineOperationState) *nstancev1.MachineOperationReport {
	w.t.Helper()
	return operationOf(w.until(id+" "+state.String(), func(s *nstancev1.MachineStatus) bool { return operationOf(s, id).GetState() == state }), id)
}

func (w *world) count(call string) (n int) {
	for _, c := range w.runner.Calls() {
		if strings.HasPrefix(c, call) {
			n++
		}
	}
	return n
}

// TestM75M79_RestartMachine: the machine is stopped in order once, however often the paver is killed, and what
// proves it is another boot.
func TestM75M79_RestartMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		before, stops := slotOf(w.status(), "a").GetBootId(), w.count("Stop a")
		w.ask("op-1", "restartMachine", 5*time.Minute)
		got := w.untilState("op-1", complete)
		boot := slotOf(w.until("running", in(runs)), "a").GetBootId()
		if got.GetResults()["bootID"] != boot || boot == before || w.count("Stop a") != stops+1 {
			t.Errorf("%v; boot %s, before %s; %d stops", got, boot, before, w.count("Stop a")-stops)
		}
		// The same one again is no other one, also for another process.
		w.ask("op-1", "restartMachine", 5*time.Minute)
		w.stop()
		w.start()
		w.ask("op-1", "restartMachine", 5*time.Minute)
		time.Sleep(time.Minute)
		synctest.Wait()
		if again := slotOf(w.status(), "a").GetBootId(); again != boot || operationOf(w.status(), "op-1").GetState() != complete {
			t.Errorf("asked for again the machine is at boot %s, was %s; %v", again, boot, w.status().GetOperations())
		}
	})
}

// TestM79_RestartMachineIsInterrupted: a paver that is killed after it has stopped the machine.
func TestM79_RestartMachineIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		stops := w.count("Stop a")
		ctx, dies := context.WithCancel(t.Context())
		w.onFault(func(op string, slot journal.Slot) error {
			if op == "Boot" && ctx.Err() == nil {
				dies()
			}
			if ctx.Err() != nil && op == "Boot" {
				return errors.New("killed")
			}
			return nil
		})
		w.ask("op-1", "restartMachine", 5*time.Minute)
		<-ctx.Done()
		w.stop()
		w.onFault(nil)
		w.start()
		if got := w.untilState("op-1", complete); w.count("Stop a") != stops+1 || got.GetStartedAt() == nil || got.GetFinishedAt() == nil {
			t.Errorf("%d stops: %v", w.count("Stop a")-stops, got)
		}
	})
}

// TestM79_Reboot: a reboot is asked for with the machine down, is proved by another boot of the host, and is not
// done twice whoever is killed when.
func TestM79_Reboot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.ask("op-1", "reboot", 10*time.Minute)
		w.until("asked for", func(*nstancev1.MachineStatus) bool { return len(w.power.calls()) == 1 })
		if got := w.power.calls(); got[0] != "reboot" || w.runner.Runs()[journal.A] || len(w.runner.Runs()) > 0 {
			t.Errorf("asked %q with %v running", got, w.runner.Runs())
		}
		time.Sleep(30 * time.Second) // the host takes its time, and nothing is started meanwhile
		synctest.Wait()
		if len(w.runner.Runs()) > 0 || operationOf(w.status(), "op-1").GetState() != began {
			t.Errorf("%v run: %v", w.runner.Runs(), operationOf(w.status(), "op-1"))
		}
		w.reboots()
		w.start()
		got := w.untilState("op-1", complete)
		w.until("running", in(runs))
		if got.GetResults()["bootID"] != "host'" || !slices.Equal(w.power.calls(), []string{"reboot"}) {
			t.Errorf("%v; %q", got, w.power.calls())
		}
		w.stop()
		w.start()
		w.ask("op-1", "reboot", 10*time.Minute)
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(w.power.calls()) != 1 {
			t.Errorf("asked %q", w.power.calls())
		}
	})
}

// TestM79_AKilledPaverReboots: with the record written and nothing asked for, the next process asks.
func TestM79_AKilledPaverReboots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.power.mu.Lock()
		w.power.failed = errors.New("killed")
		w.power.mu.Unlock()
		w.ask("op-1", "reboot", 10*time.Minute)
		w.until("tried", func(s *nstancev1.MachineStatus) bool {
			return strings.Contains(operationOf(s, "op-1").GetMessage(), "killed")
		})
		w.stop()
		w.power.mu.Lock()
		w.power.failed = nil
		w.power.mu.Unlock()
		w.start()
		w.until("asked for", func(*nstancev1.MachineStatus) bool { return len(w.power.calls()) == 1 })
		w.reboots()
		w.start()
		w.untilState("op-1", complete)
	})
}

// TestM79_Shutdown: it is reported before the host goes down; one that is back says so.
func TestM79_Shutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.ask("op-1", "shutdown", 5*time.Minute, "graceSeconds", "5")
		told := w.until("told", func(s *nstancev1.MachineStatus) bool { return operationOf(s, "op-1").GetReason() == "Halting" })
		if len(w.power.calls()) > 0 || told == nil {
			t.Errorf("asked %q before it was told", w.power.calls())
		}
		w.until("asked for", func(*nstancev1.MachineStatus) bool { return len(w.power.calls()) == 1 })
		if got := w.power.calls(); got[0] != "poweroff" || len(w.runner.Runs()) > 0 {
			t.Errorf("asked %q with %v running", got, w.runner.Runs())
		}
		w.reboots()
		w.start()
		w.untilState("op-1", complete)
		w.until("running", in(runs))
	})
}

// TestM86_ThePolicyBounds: what the policy of the host does not list is refused, and what it cannot do is not offered.
func TestM86_ThePolicyBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.setPolicy("allow: {pave: true, operations: [restartService]}\nimages: {requireDigest: true}\n")
		w.ask("op-1", "reboot", 10*time.Minute)
		w.ask("op-2", "explode", 10*time.Minute)
		for id, reason := range map[string]string{"op-1": "RefusedByHost", "op-2": "Unsupported"} {
			if got := w.untilState(id, opFailed); got.GetReason() != reason {
				t.Errorf("%v", got)
			}
		}
		w.setPolicy("allow: {}\nmisspelt: true\n")
		w.ask("op-3", "restartMachine", 10*time.Minute)
		if got := w.untilState("op-3", opFailed); got.GetReason() != "RefusedByHost" || !strings.Contains(got.GetMessage(), "misspelt") {
			t.Errorf("%v", got)
		}
		if len(w.power.calls()) > 0 {
			t.Errorf("asked %q", w.power.calls())
		}
	})
}

// TestM77_OneAtATime: operations are carried out in their order, and not beside the building of a machine.
func TestM77_OneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.order(2, repave, "2")
		s := w.until("joining", in(joining))
		w.ask("op-1", "restartMachine", time.Hour)
		w.ask("op-2", "restartMachine", time.Hour)
		w.until("waiting", func(s *nstancev1.MachineStatus) bool {
			return operationOf(s, "op-1").GetReason() == "Busy" && operationOf(s, "op-2").GetState() == accepted
		})
		w.take(&nstancev1.NodeConfirmed{Epoch: 2, NodeUid: "n", BootId: slotOf(s, "b").GetBootId()})
		one, two := w.untilState("op-1", complete), w.untilState("op-2", complete)
		if one.GetFinishedAt().AsTime().After(two.GetStartedAt().AsTime()) || one.GetResults()["bootID"] == two.GetResults()["bootID"] {
			t.Errorf("%v\n%v", one, two)
		}
	})
}

// TestM78_ItTimesOut: what waits until its deadline fails, with the reason, and so does what comes later.
func TestM78_ItTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.onFault(func(op string, _ journal.Slot) error {
			if op == "Stop" {
				return errors.New("it does not stop")
			}
			return nil
		})
		w.ask("op-1", "restartMachine", time.Minute)
		if got := w.untilState("op-1", opFailed); got.GetReason() != "Timeout" || !strings.Contains(got.GetMessage(), "it does not stop") {
			t.Errorf("%v", got)
		}
		w.onFault(nil)
		w.ask("op-2", "restartMachine", -time.Minute)
		if got := w.untilState("op-2", opFailed); got.GetReason() != "Timeout" {
			t.Errorf("%v", got)
		}
		w.ask("op-3", "restartService", time.Minute, "service", "none")
		if got := w.untilState("op-3", opFailed); got.GetReason() != "NotFound" {
			t.Errorf("%v", got)
		}
	})
}

// TestM79_WhatIsLost: a record that cannot be believed is no reason to do something a second time.
func TestM79_WhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.ask("op-1", "reboot", 10*time.Minute)
		w.until("asked for", func(*nstancev1.MachineStatus) bool { return len(w.power.calls()) == 1 })
		w.reboots()
		if err := os.WriteFile(filepath.Join(w.dir, state, "operations.json"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.start()
		w.until("running", in(runs))
		w.ask("op-1", "reboot", 10*time.Minute)
		if got := w.untilState("op-1", opFailed); got.GetReason() != "Interrupted" {
			t.Errorf("%v", got)
		}
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		if len(w.power.calls()) != 1 {
			t.Errorf("asked %q", w.power.calls())
		}
		// Once the file is deleted, as its message says, the next one is carried out, and the one before it still is not.
		if err := os.Remove(filepath.Join(w.dir, state, "operations.json")); err != nil {
			t.Fatal(err)
		}
		w.ask("op-2", "restartMachine", 5*time.Minute)
		w.untilState("op-2", complete)
		w.ask("op-1", "reboot", 10*time.Minute)
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := operationOf(w.status(), "op-1"); got.GetReason() != "Interrupted" || len(w.power.calls()) != 1 {
			t.Errorf("%v; asked %q", got, w.power.calls())
		}
	})
}

// TestM79_ResetHost: everything is removed, also by a process that comes after a killed one, and what is assigned is
// built again.
func TestM79_ResetHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		before := slotOf(w.status(), "a").GetBootId()
		w.ask("op-0", "resetHost", 15*time.Minute, "confirm", "another")
		if got := w.untilState("op-0", opFailed); got.GetReason() != "InvalidParameters" {
			t.Errorf("%v", got)
		}
		fails := true
		w.onFault(func(op string, _ journal.Slot) error {
			if op == "Enable" && fails {
				return errors.New("killed")
			}
			return nil
		})
		w.ask("op-1", "resetHost", 15*time.Minute, "confirm", "m1", "wipe", "true")
		w.until("tried", func(s *nstancev1.MachineStatus) bool {
			return strings.Contains(operationOf(s, "op-1").GetMessage(), "killed")
		})
		w.stop()
		w.onFault(nil)
		w.start()
		w.untilState("op-1", complete)
		s := w.until("a credential is needed", func(s *nstancev1.MachineStatus) bool { return s.GetCredentialNeeded() })
		if s.GetEpoch() != 1 || s.GetActiveSlot() != "" {
			t.Errorf("%v", s)
		}
		w.order(2, repave, "2")
		w.join(2)
		if s = w.until("running", in(runs)); slotOf(s, s.GetActiveSlot()).GetBootId() == before || operationOf(s, "op-1").GetState() != complete {
			t.Errorf("%v", s)
		}
	})
}

// TestM78_Cancelled: what has not begun does not.
func TestM78_Cancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.order(2, repave, "2")
		w.until("joining", in(joining))
		w.ask("op-1", "reboot", time.Hour)
		w.take(&nstancev1.MachineOrderCancel{Id: "op-1"})
		if got := w.untilState("op-1", opFailed); got.GetReason() != "Cancelled" {
			t.Errorf("%v", got)
		}
		w.join(2)
		w.until("running", in(runs))
		if len(w.power.calls()) > 0 {
			t.Errorf("asked %q", w.power.calls())
		}
	})
}

// TestM78_CancelledWhileItIsLookedAt: a systemd that is slow does not have a cancellation forgotten, and what was decided
// before it is not done.
func TestM78_CancelledWhileItIsLookedAt(t *testing.T) {
	for _, failed := range []error{nil, errors.New("systemd does not answer")} {
		synctest.Test(t, func(t *testing.T) {
			w := paved(t)
			defer func() { w.stop() }()
			w.power.mu.Lock()
			w.power.unit = "LoadState=loaded\nActiveState=active\nResult=success\nType=notify\nInvocationID=one\n"
			w.power.shows = func() {
				w.take(&nstancev1.MachineOrderCancel{Id: "op-1"})
				w.power.mu.Lock()
				w.power.shows, w.power.failed = nil, failed
				w.power.mu.Unlock()
			}
			w.power.mu.Unlock()
			w.ask("op-1", "restartService", 2*time.Minute, "service", "sshd", "scope", "host")
			w.until("looked at", func(*nstancev1.MachineStatus) bool {
				w.power.mu.Lock()
				defer w.power.mu.Unlock()
				return w.power.shows == nil
			})
			time.Sleep(time.Second)
			synctest.Wait()
			w.power.mu.Lock()
			w.power.failed = nil
			w.power.mu.Unlock()
			if got := w.untilState("op-1", opFailed); got.GetReason() != "Cancelled" || len(w.power.calls()) > 0 {
				t.Errorf("%v; asked %q", got, w.power.calls())
			}
		})
	}
}

// TestM75_RestartService: of the host and of its machine, proved by another invocation.
func TestM75_RestartService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.power.mu.Lock()
		w.power.unit = "LoadState=loaded\nActiveState=active\nResult=success\nType=notify\nInvocationID=one\n"
		w.power.mu.Unlock()
		w.ask("op-1", "restartService", 2*time.Minute, "service", "sshd", "scope", "host")
		w.until("asked for", func(*nstancev1.MachineStatus) bool { return len(w.power.calls()) == 1 })
		if got := w.power.calls(); got[0] != "restart --no-block -- sshd.service" {
			t.Errorf("asked %q", got)
		}
		w.power.mu.Lock()
		w.power.unit = strings.ReplaceAll(w.power.unit, "=one", "=two")
		w.power.mu.Unlock()
		if got := w.untilState("op-1", complete); got.GetResults()["invocationID"] != "two" {
			t.Errorf("%v", got)
		}
		w.ask("op-2", "restartService", 2*time.Minute, "service", "kubelet")
		w.untilState("op-2", complete)
		if n := w.count("Exec systemctl restart --no-block -- kubelet.service"); n != 1 {
			t.Errorf("the kubelet was told %d times: %q", n, w.runner.Calls())
		}
	})
}
