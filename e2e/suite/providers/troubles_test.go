//go:build providers

package providers_test

import (
	"slices"
	"testing"
	"time"

	"nstance.dev/e2e/suite/providers"
)

// TestS4S5F19F20F21F22F24F25F26F27F28F29F30F34_TroublesOfClouds has a shard on each cloud
// live through every kind of trouble that the cloud can have. After each one the cloud
// has exactly the machines that the records say, and as many as the group shall have.
func TestS4S5F19F20F21F22F24F25F26F27F28F29F30F34_TroublesOfClouds(t *testing.T) {
	clouds(t, troubles)
}

// handled are the kinds that take more than a change of size to get through.
var handled = map[string]func(*testing.T, *providers.World){
	"empty-listing": emptyListing,
	"slow-delete":   slowDelete,
	"by-hand":       byHand,
	"stranger":      stranger,
	"notice":        notice,
}

// usual is the size of the group between two troubles.
const usual = 6

// old are machines of which a listing that does not show them makes a leader suspicious,
// and oldEnough the age from which on it expects them there: the lag of the drivers.
const (
	old       = 4
	oldEnough = 3*time.Minute + 5*time.Second
)

func troubles(t *testing.T, w *providers.World) {
	begin(w, usual)
	for _, kind := range providers.Kinds {
		_, endured := w.Troubles[kind]
		handle := handled[kind]
		switch {
		case providers.Never[w.Name][kind] != "":
			if endured || kind == "notice" && w.Interrupt != nil {
				t.Errorf("%s has trouble of the kind %s, which it is said never to have", w.Name, kind)
			}
		case endured:
			w.Endure(kind)
		case handle != nil:
			t.Log(kind)
			handle(t, w)
		default:
			t.Errorf("%s: nobody has tried trouble of the kind %s", w.Name, kind)
		}
	}
	w.Settled(w.Size())
	w.StrangerIsHeld()
}

// emptyListing: while listings show nothing, nothing is deleted, not even what somebody
// wants to be gone, and nothing is made in place of what they do not show (F21, S8).
func emptyListing(t *testing.T, w *providers.World) {
	before := w.Settled(usual)
	w.AwaitAge(identityOf(before[old-1]), oldEnough)
	made, removed := w.Creates(), w.Deletes()
	w.Hide(true)
	w.AwaitListings(3)
	w.Scale(usual - 1)
	w.ListingIsDoubted()
	w.AwaitListings(3)
	if after := w.Identities(); !slices.Equal(after, before) || w.Creates() != made || w.Deletes() != removed {
		t.Errorf("while listings were empty %d machines were made and %d deleted: of %v there are %v",
			w.Creates()-made, w.Deletes()-removed, before, after)
	}
	w.Hide(false)
	for _, id := range w.Reached(usual - 1) {
		if !slices.Contains(before, id) {
			t.Errorf("%s has come in place of one that was there all the time", id)
		}
	}
}

// slowDelete: a machine that takes its time to go is not asked to again and again, and
// somebody else takes its place (F27).
func slowDelete(t *testing.T, w *providers.World) {
	w.Scale(usual)
	w.Settled(usual)
	removed := w.Deletes()
	w.SlowEnd(true)
	w.Scale(usual - 1)
	w.Await("a machine is being deleted", func() error { return w.HasDeleted(removed + 1) })
	made := w.Creates()
	w.Scale(usual)
	w.Await("another one is made meanwhile", func() error { return w.HasCreated(made + 1) })
	w.Settled(usual)
	// Some more come from a driver that waits for the end, and has less patience than it takes.
	if n := w.Deletes() - removed; n > 4 {
		t.Errorf("%d calls to delete one machine", n)
	}
	w.SlowEnd(false)
}

// byHand: somebody stops one machine, and removes another one; each is replaced once
// (F28).
func byHand(t *testing.T, w *providers.World) {
	before := w.Settled(w.Size())
	known := len(w.Known())
	w.Kill(identityOf(before[0]))
	w.Remove(identityOf(before[1]))
	replaced(t, w, before, before[:2]...)
	if n := len(w.Known()) - known; n != 2 {
		t.Errorf("%d machines were to be made in place of two", n)
	}
}

// stranger: a machine with our tags that nobody has asked for is left alone (F29). It
// stays until the end.
func stranger(_ *testing.T, w *providers.World) {
	w.PlantStranger()
	w.StrangerIsHeld()
}

// notice: the cloud says that it will take a machine away (F34).
func notice(t *testing.T, w *providers.World) {
	before := w.Reached(w.Size())
	victim := before[len(before)-1]
	if !w.Interrupt(identityOf(victim)) {
		t.Fatalf("%s cannot be interrupted", victim)
	}
	replaced(t, w, before, victim)
}
