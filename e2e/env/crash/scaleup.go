package crash

import (
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"
)

// crowd is how many machines are made while servers die.
const crowd = 50

// KilledInTheMiddleOfAScaleUp kills the leader while it makes fifty machines, at
// another moment in each round, has the storage away before it starts again, and
// wants exactly fifty machines and records in the end, and never more (F12, S4, S5).
func KilledInTheMiddleOfAScaleUp(t *testing.T, storage Storage, rounds int) {
	w := begin(t, storage, 0)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for round := range rounds {
		at := random.IntN(crowd)
		t.Logf("round %d: the leader dies when %d instances have a record", round, at)
		w.scaleUpThroughCrash(at)
		w.Resize(0)
		w.Settle(0, time.Time{})
	}
}

func (w *World) scaleUpThroughCrash(at int) {
	w.t.Helper()
	seen := w.Watch()
	leader := w.LeaderID()
	var call sync.WaitGroup
	call.Go(func() { _ = w.Scale(Group, crowd) }) // the answer may die with the server
	w.recorded(at)
	w.KillServer(leader)
	call.Wait()
	w.t.Logf("killed with %d processes", len(w.Machines()))

	w.Interrupt(time.Second)
	again := w.StartServer(leader)
	w.Resize(crowd)
	w.Settle(crowd, again.Started)
	w.Audited(2)
	if err := w.Settled(Group, crowd, again.Started); err != nil {
		w.t.Errorf("it did not last: %v", err)
	}
	w.sound(crowd, seen())
}

// ScaledUpAndBack makes that many machines and takes them away again, with the
// storage away for a moment in the middle of both, and wants nothing left (S4).
func ScaledUpAndBack(t *testing.T, storage Storage, size int) {
	w := begin(t, storage, 0)
	seen := w.Watch()
	w.Resize(size)
	w.recorded(size / 4)
	w.Interrupt(time.Second)
	w.scaleAndWait(size)

	w.Resize(0)
	w.Interrupt(time.Second)
	w.scaleAndWait(0)
	if left := w.Machines(); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
	w.Audited(2)
	w.sound(size, seen())
	if err := w.OneToOne(0); err != nil {
		t.Error(err)
	}
}

// scaleAndWait does what a person does. When the command comes back, the group has
// its size; a record may outlive its machine by a moment.
func (w *World) scaleAndWait(size int) {
	w.t.Helper()
	w.AdminOK("group", "scale", Group, strconv.Itoa(size), "--wait", "--timeout", "2m")
	if n := len(w.Machines()); n != size {
		w.t.Errorf("scale --wait came back with %d processes, not %d", n, size)
	}
	w.Settle(size, time.Time{})
}
