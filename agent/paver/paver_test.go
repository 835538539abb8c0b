package paver_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/agent/paver"
	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/pavertest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// TestM44M49_PaveAndRepave: the whole way of two assignments.
func TestM44M49_PaveAndRepave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		s := w.status()
		a := slotOf(s, "a")
		if s.GetActiveSlot() != "a" || s.GetEpoch() != 1 || s.GetMachineUid() != "uid-1" || !s.GetKubeletActive() || s.GetFailure() != nil ||
			a.GetState() != nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING || a.GetBootId() == "" || a.GetConfiguration().GetHash() != pavertest.Hash("1") {
			t.Errorf("%v", s)
		}
		if w.runner.Enabled() != journal.A {
			t.Error("the machine does not start with its host")
		}
		if w.exists("run/credential-1") {
			t.Error("the credential is left")
		}
		w.order(2, repave, "2")
		w.join(2)
		s = w.until("running", in(runs))
		if s.GetActiveSlot() != "b" || s.GetEpoch() != 2 || s.GetPrevious().GetHash() != pavertest.Hash("1") ||
			slotOf(s, "a").GetState() != nstancev1.MachineSlotState_MACHINE_SLOT_STATE_STOPPED {
			t.Errorf("%v", s)
		}
		if runs := w.runner.Runs(); len(runs) != 1 || !runs[journal.B] {
			t.Errorf("%v run", runs)
		}
		if text, err := os.ReadFile(filepath.Join(w.dir, "machines/node-b/etc/nstance/hash")); err != nil || !strings.Contains(string(text), pavertest.Hash("2")) {
			t.Errorf("the slot holds %q, %v", text, err)
		}
	})
}

// TestM54_TheKubeletIsStoppedWithinFiveSeconds: while an image is fetched that takes minutes.
func TestM54_TheKubeletIsStoppedWithinFiveSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.images.set(nil, 15*time.Minute)
		w.order(2, repave, "2")
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if kubelet, runs := w.runner.Runs()[journal.A]; !runs || kubelet {
			t.Errorf("after 5s the machine runs %v, its kubelet %v", runs, kubelet)
		}
		calls := w.runner.Calls()
		if at := slices.Index(calls, "Exec systemctl stop kubepods.slice a"); at < 0 && !slices.ContainsFunc(calls, func(c string) bool { return strings.HasPrefix(c, "Exec crictl pods") }) {
			t.Errorf("the pods were not stopped: %q", calls)
		}
		// A newer assignment does not wait for the old one's image.
		w.images.set(nil, 0)
		w.order(3, repave, "3")
		w.join(3)
		if s := w.until("running", in(runs)); s.GetEpoch() != 3 {
			t.Errorf("%v", s)
		}
	})
}

// TestM39_TheWayBackIsFast: content that the other slot holds is not built again.
func TestM39_TheWayBackIsFast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.order(2, repave, "2")
		w.join(2)
		w.until("running", in(runs))
		w.write("machines/node-a/var/lib/kubelet/pki/kubelet-client-current.pem", "of the first node")
		w.images.set(errors.New("the registry is away"), 0)
		built := w.images.built()
		w.order(3, repave, "1")
		w.join(3)
		s := w.until("running", in(runs))
		if s.GetActiveSlot() != "a" || w.images.built() != built || slotOf(s, "a").GetEpoch() != 3 {
			t.Errorf("%d builds: %v", w.images.built()-built, s)
		}
		if w.exists("machines/node-a/var/lib/kubelet/pki/kubelet-client-current.pem") {
			t.Error("the new node has the certificate of the old one")
		}
	})
}

// TestM59_AnImageThatCannotBeFetched: the old node runs on.
func TestM59_AnImageThatCannotBeFetched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		before := slotOf(w.status(), "a").GetBootId()
		w.images.set(errors.New("bad digest"), 0)
		began := time.Now()
		w.order(2, repave, "2")
		s := w.until("failed", func(s *nstancev1.MachineStatus) bool { return s.GetFailure() != nil })
		f := s.GetFailure()
		if f.GetReason() != "FetchFailed" || f.GetMessage() != "bad digest" || f.GetEpoch() != 2 || f.GetOutcome() != nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_KEPT {
			t.Errorf("%v", f)
		}
		if d := time.Since(began); d < 90*time.Second || d > 3*time.Minute {
			t.Errorf("given up after %v, want pauses of 30s and 1m", d)
		}
		if got := slotOf(s, "a").GetBootId(); got != before || !w.runner.Runs()[journal.A] {
			t.Errorf("the old machine is %q, was %q, its kubelet %v", got, before, w.runner.Runs())
		}
	})
}

// TestM59_AJournalThatCannotBeWritten: three attempts, then the kubelet of the old machine runs again,
// and the journal has it once it can be written.
func TestM59_AJournalThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		before, built := slotOf(w.status(), "a").GetBootId(), w.images.built()
		file := filepath.Join(w.dir, state, "journal.json")
		var text []byte
		w.images.onRoot(func() { // as if the disk were full from now on
			if text != nil {
				return
			}
			var err error
			if text, err = os.ReadFile(file); err != nil {
				t.Error(err)
			}
			if err := errors.Join(os.Remove(file), os.MkdirAll(filepath.Join(file, "x"), 0o700)); err != nil {
				t.Error(err)
			}
		})
		w.order(2, repave, "2")
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.images.built() - built; got != 3 {
			t.Errorf("built %d times", got)
		}
		s := w.status()
		if !w.runner.Runs()[journal.A] || slotOf(s, "a").GetBootId() != before || s.GetStage() != failed {
			t.Errorf("%v run; %v", w.runner.Runs(), s)
		}
		if !slices.ContainsFunc(s.GetProblems(), func(p *nstancev1.MachineProblem) bool { return p.GetReason() == "JournalNotWritten" }) {
			t.Errorf("problems: %v", s.GetProblems())
		}
		if err := errors.Join(os.RemoveAll(file), os.WriteFile(file, text, 0o600)); err != nil {
			t.Fatal(err)
		}
		s = w.until("written", func(s *nstancev1.MachineStatus) bool { return s.GetFailure() != nil })
		if f := s.GetFailure(); f.GetReason() != "BuildFailed" || f.GetOutcome() != nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_KEPT || len(s.GetProblems()) > 0 {
			t.Errorf("%v", s)
		}
	})
}

// TestM54_AnAssignmentThatComesDuringALook: the step that the look leads to does not keep it waiting.
func TestM54_AnAssignmentThatComesDuringALook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.images.set(nil, 15*time.Minute)
		w.order(2, repave, "2")
		w.until("stopped", func(*nstancev1.MachineStatus) bool { return !w.runner.Runs()[journal.A] })
		w.stop()
		before := len(w.images.fetched())
		w.look.Store(int64(20 * time.Second))
		w.start() // it looks, and would then go on fetching
		time.Sleep(10 * time.Second)
		w.order(3, repave, "3")
		w.look.Store(0)
		w.images.set(nil, 0)
		w.join(3)
		w.until("running", in(runs))
		if got := w.images.fetched()[before:]; !slices.Equal(got, []string{pavertest.Hash("3")}) {
			t.Errorf("fetched %q", got)
		}
	})
}

// TestM63_NothingIsWaitedForThatIsThere: what the paver itself adds to the time without a node. Only
// its own pauses let time pass here.
func TestM63_NothingIsWaitedForThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		var added []time.Duration
		for epoch := int64(2); epoch < 12; epoch++ {
			began := time.Now()
			w.order(epoch, repave, fmt.Sprint(epoch%8))
			for {
				synctest.Wait()
				if s := w.status(); s.GetStage() == runs && s.GetEpoch() == epoch {
					break
				}
				w.answer(epoch)
				time.Sleep(10 * time.Millisecond)
				if time.Since(began) > time.Minute {
					t.Fatalf("epoch %d: %v", epoch, w.status())
				}
			}
			added = append(added, time.Since(began))
		}
		slices.Sort(added)
		if median := added[len(added)/2]; median > time.Second || added[len(added)-1] > 5*time.Second {
			t.Errorf("median %v, at most %v", median, added[len(added)-1])
		}
	})
}

// TestM44_HowFarAStageIs: told while a step takes long, and not afterwards.
func TestM44_HowFarAStageIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.paver.Progress("layer 1 of 2", 1, 2) // of nothing that is being done
		if p := w.status().GetProgress(); p != nil {
			t.Errorf("%v", p)
		}
		w.images.set(nil, 10*time.Minute)
		w.order(2, repave, "2")
		w.until("stopped", func(*nstancev1.MachineStatus) bool { return !w.runner.Runs()[journal.A] })
		time.Sleep(time.Minute)
		reports := 0
		_, changed := w.paver.Status()
		for i := range int64(600) { // a minute, ten times a second
			w.paver.Progress("layer 1 of 2", i<<20, 600<<20)
			select {
			case <-changed:
				reports++
				_, changed = w.paver.Status()
			default:
			}
			time.Sleep(100 * time.Millisecond)
		}
		s := w.status()
		if p := s.GetProgress(); p.GetWhat() != "layer 1 of 2" || p.GetDoneBytes() < 500<<20 || p.GetTotalBytes() != 600<<20 || s.GetStage() != nstancev1.MachineStage_MACHINE_STAGE_FETCH {
			t.Errorf("%v", s)
		}
		if reports < 20 || reports > 31 {
			t.Errorf("%d reports in a minute", reports)
		}
		w.join(2)
		if s := w.until("running", in(runs)); s.GetProgress() != nil {
			t.Errorf("%v", s)
		}
	})
}

// TestM60_AMachineThatDoesNotJoinIsReverted: the old one runs again, with its own content.
func TestM60_AMachineThatDoesNotJoinIsReverted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.order(2, repave, "2")
		for attempt := 1; ; attempt++ { // a credential lasts for an hour, and attempts take ten minutes each
			s := w.until("another attempt or a failure", func(s *nstancev1.MachineStatus) bool {
				return s.GetFailure() != nil || s.GetCredentialNeeded() || slotOf(s, "a").GetBootId() != "" && s.GetStage() == joining
			})
			if s.GetFailure() != nil {
				break
			}
			if boot := slotOf(s, "a").GetBootId(); boot != "" {
				w.take(&nstancev1.NodeConfirmed{Epoch: 2, NodeUid: "old again", BootId: boot})
			} else {
				w.take(pavertest.Credential(2, int32(attempt+1), token, time.Now().Add(time.Hour)))
			}
			time.Sleep(time.Second)
		}
		s := w.status()
		f := s.GetFailure()
		if f.GetOutcome() != nstancev1.MachineFailureOutcome_MACHINE_FAILURE_OUTCOME_REVERTED || f.GetReason() != "JoinFailed" || s.GetStage() != failed {
			t.Errorf("%v", s)
		}
		if s.GetActiveSlot() != "a" || slotOf(s, "b").GetState() != nstancev1.MachineSlotState_MACHINE_SLOT_STATE_BROKEN || s.GetPrevious() != nil {
			t.Errorf("%v", s)
		}
		if runs := w.runner.Runs(); len(runs) != 1 || !runs[journal.A] || w.runner.Enabled() != journal.A {
			t.Errorf("%v run, %s is enabled", runs, w.runner.Enabled())
		}
		w.order(3, repave, "3")
		w.join(3)
		if s := w.until("running", in(runs)); s.GetFailure() != nil || s.GetActiveSlot() != "b" {
			t.Errorf("%v", s)
		}
	})
}

func TestAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		m := pavertest.Assignment(2, reset, "1")
		m.Template = nil
		w.take(m)
		s := w.until("reset", in(isReset))
		if s.GetEpoch() != 2 || s.GetActiveSlot() != "" || len(w.runner.Runs()) > 0 || w.runner.Enabled() != journal.None {
			t.Errorf("%v; %v run", s, w.runner.Runs())
		}
		for _, path := range []string{"machines/node-a", state + "/journal.json", state + "/assignment.json", "etc/sysctl.d/90-nstance.conf", "etc/systemd/nspawn/node-a.nspawn"} {
			if w.exists(path) {
				t.Errorf("%s is left", path)
			}
		}
		if text, err := os.ReadFile(filepath.Join(w.dir, "proc/sys/kernel/panic")); err != nil || string(text) != "0\n" {
			t.Errorf("kernel.panic is %q, %v", text, err)
		}
		w.take(m) // it is in force still, and comes again after every connect
		time.Sleep(time.Minute)
		w.order(3, pave, "1")
		w.join(3)
		w.until("running", in(runs))
	})
}

func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		boot := slotOf(w.status(), "a").GetBootId()
		m := pavertest.Assignment(2, adopt, "1")
		m.MachineUid = "uid-2"
		w.take(m)
		s := w.until("adopted", func(s *nstancev1.MachineStatus) bool { return s.GetMachineUid() == "uid-2" })
		if s.GetEpoch() != 2 || slotOf(s, "a").GetBootId() != boot || s.GetFailure() != nil || slotOf(s, "a").GetEpoch() != 2 {
			t.Errorf("%v", s)
		}
		w.take(pavertest.Assignment(3, adopt, "7"))
		s = w.until("refused", func(s *nstancev1.MachineStatus) bool { return s.GetFailure() != nil })
		if s.GetFailure().GetReason() != "AdoptRefused" || slotOf(s, "a").GetBootId() != boot || !w.runner.Runs()[journal.A] {
			t.Errorf("%v", s)
		}
	})
}

// TestACorruptJournalTouchesNothing: neither what runs nor the file.
func TestACorruptJournalTouchesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		w.stop()
		w.write(state+"/journal.json", `{"sha256":"","payload":{"v":1}}`)
		calls := len(w.runner.Calls())
		w.start()
		defer func() { w.stop() }()
		s := w.until("reported", func(s *nstancev1.MachineStatus) bool { return len(s.GetProblems()) > 0 })
		if p := s.GetProblems()[0]; p.GetReason() != "JournalCorrupt" || !strings.Contains(p.GetMessage(), "nstance-paver reset") {
			t.Errorf("%v", p)
		}
		w.order(2, repave, "2")
		time.Sleep(time.Hour)
		if got := w.runner.Calls(); len(got) != calls || !w.runner.Runs()[journal.A] {
			t.Errorf("calls: %q", got[calls:])
		}
	})
}

// TestM41_WhatWasToldBeforeAReset: a word that was on its way builds nothing on a host that was reset; the first of the
// next machine, whose epoch follows from what the host reports, does.
func TestM41_WhatWasToldBeforeAReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		m := pavertest.Assignment(6, reset, "1")
		m.Template = nil
		w.take(m)
		w.until("reset", in(isReset))
		for _, epoch := range []int64{1, 5, 6} {
			if err := w.paver.Take(t.Context(), pavertest.Work(pavertest.Assignment(epoch, repave, "2"))); err == nil {
				t.Errorf("epoch %d was taken", epoch)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s := w.status()
		if s.GetStage() != isReset || s.GetEpoch() != 6 || len(w.runner.Runs()) > 0 || w.exists(state+"/assignment.json") {
			t.Fatalf("%v; %v run", s, w.runner.Runs())
		}
		w.order(s.GetEpoch()+1, pave, "2")
		w.join(7)
		w.until("running", in(runs))
	})
}

// TestM41_WhatComesDuringAReset: the assignment of the next machine, and its credential, are not lost with what the reset
// removes. They wait for it, also where the process that resets is killed and all is said again.
func TestM41_WhatComesDuringAReset(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%t", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := paved(t)
				defer func() { w.stop() }()
				stopping := make(chan struct{})
				var once sync.Once
				w.onFault(func(op string, _ journal.Slot) error {
					if op == "Stop" || op == "Kill" {
						once.Do(func() { close(stopping) })
						time.Sleep(time.Minute)
					}
					return nil
				})
				m := pavertest.Assignment(2, reset, "1")
				m.Template = nil
				w.take(m)
				<-stopping
				next := pavertest.Assignment(3, pave, "3")
				next.MachineUid = "uid-2"
				credential := pavertest.Credential(3, 1, token, time.Now().Add(time.Hour))
				w.take(next, credential)
				if err := w.paver.Take(t.Context(), pavertest.Work(pavertest.Assignment(2, repave, "2"))); err == nil {
					t.Error("an older assignment was taken")
				}
				if killed {
					w.stop()
					w.start()
					w.take(next, credential)
				}
				w.join(3)
				s := w.until("running", in(runs))
				if s.GetEpoch() != 3 || s.GetMachineUid() != "uid-2" || s.GetPrevious() != nil || slotOf(s, "a").GetConfiguration().GetHash() != pavertest.Hash("3") {
					t.Errorf("%v", s)
				}
			})
		})
	}
}

// TestWhatIsIgnoredIsSaid: the report has it.
func TestM41_WhatIsIgnoredIsSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		for _, m := range []*nstancev1.MachineAssignment{pavertest.Assignment(1, pave, "2"), {Epoch: 9}} {
			if err := w.paver.Take(t.Context(), pavertest.Work(m)); err == nil {
				t.Errorf("%v was taken", m)
			}
		}
		s := w.until("reported", func(s *nstancev1.MachineStatus) bool { return len(s.GetProblems()) == 2 })
		if s.GetProblems()[0].GetReason() != "AssignmentInvalid" || s.GetProblems()[1].GetReason() != "EpochConflict" || s.GetEpoch() != 1 {
			t.Errorf("%v", s)
		}
		if err := w.paver.Take(t.Context(), pavertest.Work(pavertest.Credential(7, 1, token, time.Now()))); err == nil || strings.Contains(err.Error(), token) {
			t.Errorf("%v", err)
		}
	})
}

// TestM58_KilledAtAnyMoment: processes that end at any moment, faults of the runner, machines that
// end and hosts that reboot: in the end one machine runs, and its Node has joined.
func TestM58_KilledAtAnyMoment(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 8
	}
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) { killed(t, seed) })
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

func killed(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t)
	var faults atomic.Bool
	faults.Store(true)
	luck := rand.New(rand.NewPCG(seed, 8)) // of the runner, which asks under its lock
	w.runner.Fault = func(op string, _ journal.Slot) error {
		if faults.Load() && op != "State" && luck.IntN(12) == 0 {
			return errors.New("no luck")
		}
		return nil
	}
	w.start()
	defer func() { w.stop() }()
	epoch := int64(1)
	for epoch = range int64(3) {
		mode := repave
		if epoch == 0 {
			mode = pave
		}
		w.order(epoch+1, mode, fmt.Sprint(rng.IntN(3)))
		for range 6 {
			time.Sleep(time.Duration(rng.IntN(5000)) * time.Millisecond)
			synctest.Wait()
			switch rng.IntN(6) {
			case 0, 1:
				w.stop()
				w.start()
			case 2:
				w.runner.Orphan(journal.Slots()[rng.IntN(2)])
			case 3:
				w.runner.End(journal.Slots()[rng.IntN(2)])
			case 4:
				w.stop()
				w.runner.Reboot()
				_ = os.RemoveAll(filepath.Join(w.dir, "run"))
				w.start()
			}
			w.answer(epoch + 1)
		}
	}
	faults.Store(false)
	for range 600 {
		time.Sleep(5 * time.Second)
		synctest.Wait()
		w.answer(epoch + 1)
		s, all := w.status(), w.runner.Runs()
		if (s.GetStage() == runs || s.GetFailure() != nil) && len(all) == 1 && all[journal.Slot(s.GetActiveSlot())] {
			break
		}
	}
	s := w.status()
	all := w.runner.Runs()
	if s.GetStage() != runs && s.GetFailure() == nil || len(all) != 1 || !all[journal.Slot(s.GetActiveSlot())] {
		t.Errorf("%v run: %v", all, s)
	}
	entries, err := os.ReadDir(filepath.Join(w.dir, "machines"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() != "node-a" && entry.Name() != "node-b" {
			t.Errorf("%s is left", entry.Name())
		}
	}
}

// answer is what the operator does: it confirms a Node, makes a credential, and says everything
// again to a process that was restarted.
func (w *world) answer(epoch int64) {
	s := w.status()
	if s.GetCredentialNeeded() {
		_ = w.paver.Take(w.t.Context(), pavertest.Work(pavertest.Credential(s.GetEpoch(), int32(time.Now().Unix()%1e9), token, time.Now().Add(time.Hour))))
	}
	if s.GetStage() != joining {
		return
	}
	for _, slot := range s.GetSlots() {
		if slot.GetBootId() != "" {
			w.take(&nstancev1.NodeConfirmed{Epoch: min(epoch, s.GetEpoch()), NodeUid: "n", BootId: slot.GetBootId()})
		}
	}
}

// TestForget: after a reset by hand neither the assignment nor a credential is left.
func TestForget(t *testing.T) {
	dir, runDir := t.TempDir(), t.TempDir()
	if err := errors.Join(
		os.WriteFile(filepath.Join(dir, "assignment.json"), []byte("{}"), 0o600), os.WriteFile(filepath.Join(runDir, "credential-3"), []byte("secret"), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := paver.Forget(dir, runDir); err != nil {
			t.Fatal(err)
		}
	}
	if err := paver.Forget(dir, filepath.Join(runDir, "never made")); err != nil {
		t.Error(err)
	}
	for _, of := range []string{dir, runDir} {
		if entries, err := os.ReadDir(of); err != nil || len(entries) > 0 {
			t.Errorf("left: %v, %v", entries, err)
		}
	}
}
