//go:build providers

package providers_test

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

	"nstance.dev/e2e/env/storage"
	"nstance.dev/e2e/suite/providers"
	"nstance.dev/protos/identity"
)

// Both tests run a shard on each cloud at the same time: they wait more than they work.
func TestS7L2F28F34_LifeOfAShardOnClouds(t *testing.T) { clouds(t, story) }

// clouds runs a test in a new shard on each cloud.
func clouds(t *testing.T, test func(*testing.T, *providers.World)) {
	s3 := storage.S3(t)
	s3.Setenv(t)
	for name, cloud := range map[string]func(testing.TB) *providers.Cloud{
		"AWS": providers.AWS, "Google": providers.Google, "Proxmox": providers.Proxmox,
	} {
		t.Run(name, func(t *testing.T) {
			w := providers.NewWorld(t, cloud(t), s3)
			t.Parallel()
			test(t, w)
		})
	}
}

// begin starts the first server, and makes machines.
func begin(w *providers.World, size int32) {
	w.Start(providers.Servers[0])
	leads(w, providers.Servers[0])
	w.Enrol()
	w.Scale(size)
}

func identityOf(id string) identity.ID { return identity.ID(id) }

// story is the life of a shard: it grows, loses machines, gets others, changes leaders,
// and shrinks while everything goes wrong.
func story(t *testing.T, w *providers.World) {
	begin(w, 3)
	w.Start(providers.Servers[1])
	before := w.Settled(3)

	// F28: a machine ends without a word.
	w.Kill(identityOf(before[0]))
	before = replaced(t, w, before, before[0])

	// F34: the cloud says that it will take a machine away.
	if w.Interrupt != nil {
		notice(t, w)
		before = w.Settled(3)
	}

	before = rotated(t, w, before)

	// The leader stops in order, and then another one does not.
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		changesLeader(t, w, sig)
		if after := w.Settled(3); !slices.Equal(after, before) {
			t.Errorf("after another leader the machines are %v, before it they were %v", after, before)
		}
	}
	underFaults(t, w)
}

// leads waits until a server leads, and the address that moves is its.
func leads(w *providers.World, id string) {
	w.Await(id+" leads", func() error {
		if leader := w.LeaderID(); leader != id {
			return fmt.Errorf("the leader is %q", leader)
		}
		if w.Holder != nil && w.Holder() != id {
			return fmt.Errorf("%q has the leader's address", w.Holder())
		}
		return nil
	})
}

// replaced waits until machines have gone and others have come, and checks that the
// rest are those that there were.
func replaced(t *testing.T, w *providers.World, before []string, victims ...string) []string {
	t.Helper()
	w.Await(fmt.Sprintf("%v are no instances any more", victims), func() error {
		for _, m := range w.Machines() {
			if slices.Contains(victims, m.ID) {
				return fmt.Errorf("the machine of %s is there", m.ID)
			}
		}
		return nil
	})
	after := w.Reached(len(before))
	for _, id := range before {
		if slices.Contains(after, id) == slices.Contains(victims, id) {
			t.Errorf("%v were to be replaced; of %v there are now %v", victims, before, after)
		}
	}
	return after
}

// rotated changes the configuration and waits until every machine is another one. All
// the while no fewer run than should (S7).
func rotated(t *testing.T, w *providers.World, before []string) []string {
	t.Helper()
	w.Configure("machines of another kind")
	w.Refresh()
	fewest := len(before)
	w.Await("all machines are other ones", func() error {
		var runs, old int
		for _, m := range w.Machines() {
			if m.Runs && m.ID != "" {
				runs++
			}
			if slices.Contains(before, m.ID) {
				old++
			}
		}
		fewest = min(fewest, runs)
		if old > 0 {
			return fmt.Errorf("%d are still there", old)
		}
		return nil
	})
	if fewest < len(before) {
		t.Errorf("only %d machines ran at a time, and %d should", fewest, len(before))
	}
	return w.Settled(len(before))
}

// changesLeader ends the leader. The other server leads then, the agents of all machines
// that run come back to it, and the first one stands by.
func changesLeader(t *testing.T, w *providers.World, sig syscall.Signal) {
	t.Helper()
	old := w.LeaderID()
	next := providers.Servers[0]
	if old == next {
		next = providers.Servers[1]
	}
	w.End(old, sig)
	moved := time.Now()
	leads(w, next)
	w.Start(old)
	w.Await("every agent reports to "+next, func() error {
		instances, err := w.Instances()
		if err != nil {
			return err
		}
		for _, i := range instances {
			if i.Status == "running" && i.GetLastSeen().AsTime().Before(moved) {
				return fmt.Errorf("%s was last seen %v before", i.InstanceId, moved.Sub(i.GetLastSeen().AsTime()))
			}
		}
		return nil
	})
}

// underFaults has the shard grow and shrink while calls go wrong at random (F19, F22,
// F24, F25), its leader is killed, a machine dies (F26, F28) and somebody brings a
// machine with our tags (F29). When that is over there is nothing too much and nothing
// too little.
func underFaults(t *testing.T, w *providers.World) {
	t.Helper()
	w.PlantStranger()
	for _, step := range []struct {
		seed uint64
		size int
	}{{1, 6}, {2, 2}} {
		before := w.Settled(w.Size())
		w.Gate.SetFaults(w.Faults(step.seed))
		w.Kill(identityOf(before[0]))
		w.Scale(int32(step.size))
		time.Sleep(3 * time.Second) // for the faults, not for anything to come true
		changesLeader(t, w, syscall.SIGKILL)
		w.Gate.SetFaults(nil)
		w.Settled(step.size)
	}
	w.StrangerIsHeld()
}
