package paver_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"nstance.dev/agent/paver/journal"
	"nstance.dev/agent/paver/pavertest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

const (
	isDone   = nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_DONE
	gaveUp   = nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FAILED
	fetching = nstancev1.MachinePrebuildState_MACHINE_PREBUILD_STATE_FETCH
	sealed   = nstancev1.MachineSlotState_MACHINE_SLOT_STATE_SEALED
	running  = nstancev1.MachineSlotState_MACHINE_SLOT_STATE_RUNNING
)

// prepared is whether the last prebuild is in a state.
func prepared(state nstancev1.MachinePrebuildState) func(*nstancev1.MachineStatus) bool {
	return func(s *nstancev1.MachineStatus) bool { return s.GetPrebuild().GetState() == state }
}

// TestM64_APrebuiltSlotIsSwitchedTo: the idle slot is built while the machine runs, nothing of which is touched, and a
// repave of the same content fetches and builds nothing more.
func TestM64_APrebuiltSlotIsSwitchedTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		boot := slotOf(w.status(), "a").GetBootId()
		w.take(pavertest.Prebuild("2", true))
		s := w.until("prepared", prepared(isDone))
		if a, b := slotOf(s, "a"), slotOf(s, "b"); a.GetState() != running || a.GetBootId() != boot || b.GetState() != sealed || b.GetConfiguration().GetHash() != pavertest.Hash("2") {
			t.Errorf("slots: %v", s.GetSlots())
		}
		if s.GetStage() != runs || !s.GetKubeletActive() || s.GetEpoch() != 1 {
			t.Errorf("the machine that runs: %v", s)
		}
		fetches, builds := len(w.images.fetched()), w.images.built()
		w.order(2, repave, "2")
		w.join(2)
		s = w.until("running", in(runs))
		if b := slotOf(s, "b"); b.GetState() != running || b.GetEpoch() != 2 || s.GetActiveSlot() != "b" || s.GetPrebuild() != nil {
			t.Errorf("after the switch: %v", s)
		}
		if len(w.images.fetched()) != fetches || w.images.built() != builds {
			t.Errorf("fetched %d and built %d times more", len(w.images.fetched())-fetches, w.images.built()-builds)
		}
	})
}

// TestM64_OnlyImages: what a machine is built from is fetched, and no slot is touched.
func TestM64_OnlyImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		builds := w.images.built()
		w.take(pavertest.Prebuild("2", false), pavertest.Prebuild("2", false))
		s := w.until("prepared", prepared(isDone))
		if !slices.Equal(w.images.fetched(), []string{pavertest.Hash("1"), pavertest.Hash("2")}) || w.images.built() != builds || slotOf(s, "b").GetConfiguration() != nil {
			t.Errorf("fetched %q, built %d: %v", w.images.fetched(), w.images.built()-builds, s)
		}
		w.take(pavertest.Prebuild("2", false)) // a replay
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := len(w.images.fetched()); n != 2 {
			t.Errorf("fetched %d times", n)
		}
	})
}

// TestM64_AFailedPrebuildChangesNothing: three attempts, and the machine runs on with what it could go back to.
func TestM64_AFailedPrebuildChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.order(2, repave, "2")
		w.join(2)
		before := w.until("running", in(runs))
		w.images.set(errors.New("digest is another one"), 0)
		w.take(pavertest.Prebuild("3", true))
		s := w.until("given up", prepared(gaveUp))
		if s.GetPrebuild().GetAttempts() != 3 || !strings.Contains(s.GetPrebuild().GetLastError(), "digest is another one") {
			t.Errorf("%v", s.GetPrebuild())
		}
		if s.GetStage() != runs || s.GetPrevious().GetHash() != before.GetPrevious().GetHash() || s.GetPrevious().GetHash() == "" {
			t.Errorf("before %v\nafter %v", before, s)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(w.images.fetched()); n != 5 {
			t.Errorf("fetched %d times, want 2 for the machines and 3 attempts", n)
		}
	})
}

// TestM64_APrebuildGivesWay: an assignment ends a download that hangs at once; a machine that ends is started beside
// it; and what is withdrawn, or replaced by a newer one, ends.
func TestM64_APrebuildGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		w.images.set(nil, 24*time.Hour)
		w.take(pavertest.Prebuild("2", true))
		w.until("fetching", prepared(fetching))
		w.runner.End(journal.A)
		w.until("started again beside it", func(s *nstancev1.MachineStatus) bool {
			return slotOf(s, "a").GetState() == running && s.GetPrebuild().GetState() == fetching
		})
		w.take(&nstancev1.MachinePrebuild{})
		w.until("withdrawn", func(s *nstancev1.MachineStatus) bool { return s.GetPrebuild() == nil })
		w.take(pavertest.Prebuild("2", true), pavertest.Prebuild("3", true))
		w.until("the newest", func(s *nstancev1.MachineStatus) bool {
			return s.GetPrebuild().GetConfiguration().GetHash() == pavertest.Hash("3")
		})
		w.images.set(nil, 0)
		w.order(2, repave, "4")
		w.join(2)
		if s := w.until("running", in(runs)); slotOf(s, "b").GetConfiguration().GetHash() != pavertest.Hash("4") || s.GetPrebuild() != nil {
			t.Errorf("%v", s)
		}
	})
}

// TestM64_APrebuildGoesOnAfterACrash: the journal has it; the pull secret, which nothing on the disk has, is waited for.
func TestM64_APrebuildGoesOnAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := paved(t)
		defer func() { w.stop() }()
		p := pavertest.Prebuild("2", true)
		p.Assignment.Template.Image.Source = &nstancev1.MachineImage_Oci{Oci: &nstancev1.MachineOciImage{
			Reference: "registry.example.com/node:1", Digest: pavertest.Hash("2"), PullSecret: "image",
		}}
		p.PullSecrets = map[string][]byte{"image": []byte(imageSecret)}
		w.images.set(nil, 24*time.Hour)
		w.take(p)
		w.until("fetching", prepared(fetching))
		if leaks := w.leaks(imageSecret); len(leaks) > 0 {
			t.Errorf("the pull secret is in %q", leaks)
		}
		w.stop()
		asked := len(w.images.fetched())
		w.images.set(nil, 0)
		w.start()
		w.until("looked at", in(runs))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if len(w.images.fetched()) != asked || w.status().GetPrebuild().GetState() != fetching {
			t.Errorf("without its pull secret: %v", w.status().GetPrebuild())
		}
		w.take(p)
		w.until("prepared", prepared(isDone))
		if leaks := w.leaks(imageSecret); len(leaks) > 0 {
			t.Errorf("the pull secret is in %q", leaks)
		}
	})
}
