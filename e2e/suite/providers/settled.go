package providers

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/env/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/layout"
	"nstance.dev/server/objectstore"
)

// Scale sets the size of the group, as often as it takes: leaders come and go.
func (w *World) Scale(size int32) {
	w.t.Helper()
	w.Await(fmt.Sprintf("the group gets the size %d", size), func() error {
		_, err := call(w, w.operator.UpsertGroup, &nstancev1.UpsertGroupRequest{Key: group, Config: &nstancev1.GroupConfig{Size: &size}})
		return err
	})
	w.size = int(size)
}

// Size is the size that the group was given last.
func (w *World) Size() int { return w.size }

// PlantStranger brings a machine that says of itself that it is ours, with an identity
// that no server has given.
func (w *World) PlantStranger() {
	w.t.Helper()
	id, err := identity.NewID("web")
	if err != nil {
		w.t.Fatal(err)
	}
	w.stranger = string(id)
	w.Plant(map[string]string{
		identity.TagManaged: "true", identity.TagClusterID: box.Cluster, identity.TagShard: box.Shard,
		identity.TagInstanceID: w.stranger,
	})
}

// StrangerIsHeld waits until the stranger is reported, and checks that it is still there
// (S6, F29).
func (w *World) StrangerIsHeld() {
	w.t.Helper()
	w.Await("the stranger is reported", func() error {
		r, err := call(w, w.operator.ListHeldVMs, new(emptypb.Empty))
		if err != nil {
			return err
		}
		for _, vm := range r.GetVms() {
			if vm.GetInstanceId() == w.stranger {
				return nil
			}
		}
		return fmt.Errorf("held are %v", r.GetVms())
	})
	for _, m := range w.Machines() {
		if m.ID == w.stranger {
			return
		}
	}
	w.t.Error("the stranger was deleted")
}

// Instances asks the leader for the instances.
func (w *World) Instances() ([]*nstancev1.InstanceStatus, error) {
	r, err := call(w, w.operator.ListInstances, &nstancev1.ListInstancesRequest{PageSize: 1000})
	return r.GetInstances(), err
}

// Refresh tells the leader to read its configuration.
func (w *World) Refresh() {
	w.t.Helper()
	w.Await("the configuration is in force", func() error {
		_, err := call(w, w.operator.RefreshConfig, &emptypb.Empty{})
		return err
	})
}

// Creates and Deletes are how many calls to make a machine, and to delete one, the cloud
// has had.
func (w *World) Creates() int { return w.Gate.Count(w.calls.create) }

// Deletes is documented with [World.Creates].
func (w *World) Deletes() int { return w.Gate.Count(w.calls.remove) }

// HasCreated returns an error until there were so many calls to make a machine.
func (w *World) HasCreated(n int) error { return atLeast(w.Creates(), n) }

// HasDeleted returns an error until there were so many calls to delete a machine.
func (w *World) HasDeleted(n int) error { return atLeast(w.Deletes(), n) }

func atLeast(calls, n int) error {
	if calls < n {
		return fmt.Errorf("%d calls, not %d", calls, n)
	}
	return nil
}

// AwaitListings waits until the machines have been listed so many times more.
func (w *World) AwaitListings(n int) {
	w.t.Helper()
	until := w.Gate.Count(w.calls.list) + n
	w.Await("listings come again", func() error { return atLeast(w.Gate.Count(w.calls.list), until) })
}

// AwaitAge waits until an instance is so old.
func (w *World) AwaitAge(id identity.ID, age time.Duration) {
	w.t.Helper()
	w.Await(fmt.Sprintf("%s is %v old", id, age), func() error {
		if is := time.Since(id.CreatedAt()); is < age {
			return fmt.Errorf("it is %v old", is.Round(time.Second))
		}
		return nil
	})
}

// ListingIsDoubted waits until the leader says that it does not believe what the cloud
// lists.
func (w *World) ListingIsDoubted() {
	w.t.Helper()
	w.Await("the listing is doubted", func() error {
		r, err := call(w, w.operator.Explain, &nstancev1.ExplainRequest{Target: &nstancev1.ExplainRequest_Group{Group: group}})
		if err != nil {
			return err
		}
		for _, c := range r.GetConditions() {
			if c.GetType() == "listing" {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %v", r.GetConditions())
	})
}

// Identities are those of the machines that the cloud has, in order, strangers left
// out. Two machines with one identity are an error that time does not mend (S5).
func (w *World) Identities() []string {
	var found []string
	for _, m := range w.Machines() {
		if m.ID != "" && m.ID != w.stranger {
			found = append(found, m.ID)
		}
	}
	slices.Sort(found)
	if unique := slices.Compact(slices.Clone(found)); len(unique) != len(found) {
		w.t.Errorf("an instance has two machines: %v", found)
	}
	return found
}

// Settled waits until the group has that size in every respect, and returns the ids of
// its instances: the leader says so, all run, and the cloud has exactly their machines
// and the bucket their records (S4, S5).
func (w *World) Settled(size int) []string {
	w.t.Helper()
	return w.awaitSize(fmt.Sprintf("%d machines and nothing else", size), size, func(leaving []string) error {
		if len(leaving) > 0 {
			return fmt.Errorf("%v are leaving", leaving)
		}
		return nil
	})
}

// Reached is Settled, except that there may be others which are on their way out. A
// server that does not know whether it has made a machine waits for minutes until it
// believes the cloud that there is none.
func (w *World) Reached(size int) []string {
	w.t.Helper()
	return w.awaitSize(fmt.Sprintf("%d machines", size), size, func([]string) error { return nil })
}

func (w *World) awaitSize(what string, size int, others func(leaving []string) error) []string {
	w.t.Helper()
	var running []string
	w.Await(what, func() (err error) {
		var leaving []string
		if running, leaving, err = w.instances(size); err != nil {
			return err
		}
		return errors.Join(others(leaving), w.audit(running, leaving))
	})
	return running
}

// audit checks that those who run have a machine that does, and a record, and that there
// are no more machines and records than those of instances.
func (w *World) audit(running, leaving []string) error {
	records, _, err := w.records()
	if err != nil {
		return err
	}
	all := slices.Concat(running, leaving)
	for what, found := range map[string][]string{"machines": w.Identities(), "records": records} {
		for _, id := range found {
			if !slices.Contains(all, id) {
				err = errors.Join(err, fmt.Errorf("there are the %s %v, and %v are instances", what, found, all))
			}
		}
	}
	for _, id := range running {
		if !slices.Contains(records, id) {
			err = errors.Join(err, fmt.Errorf("%s runs and has no record", id))
		}
		if !slices.ContainsFunc(w.Machines(), func(m Machine) bool { return m.ID == id && m.Runs }) {
			err = errors.Join(err, fmt.Errorf("%s runs, and its machine does not", id))
		}
	}
	return err
}

// instances returns the ids of the instances if so many run, and of those that are on
// their way out beside them.
func (w *World) instances(size int) (running, leaving []string, err error) {
	instances, err := w.Instances()
	if err != nil {
		return nil, nil, err
	}
	var others []string
	for _, i := range instances {
		switch i.Status {
		case "running":
			running = append(running, i.InstanceId)
		case "terminating":
			leaving = append(leaving, i.InstanceId)
		default:
			others = append(others, i.InstanceId+" "+i.Status)
		}
	}
	slices.Sort(running)
	if len(running) != size || len(others) > 0 {
		return nil, nil, fmt.Errorf("%d run, not %d, and beside them %v", len(running), size, others)
	}
	return running, leaving, nil
}

// Known are the ids of all instances that there have been for a while, those that have
// gone included: each stands for the decision to make a machine.
func (w *World) Known() []string {
	w.t.Helper()
	there, gone, err := w.records()
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.Concat(there, gone)
}

// records returns the ids of the instances that have a record, and of those whose record
// is a tombstone.
func (w *World) records() (there, gone []string, err error) {
	for info, err := range objectstore.ListAll(w.t.Context(), w.store, layout.InstancePrefix(box.Shard)) {
		if err != nil {
			return nil, nil, err
		}
		o, err := w.store.Get(w.t.Context(), info.Key)
		if errors.Is(err, objectstore.ErrNotFound) {
			continue // it went while we were looking
		}
		if err != nil {
			return nil, nil, err
		}
		r, err := layout.DecodeInstanceRecord(info.Key, o.Data)
		switch {
		case err != nil:
			return nil, nil, err
		case r.Deletion != nil && !r.Deletion.GoneAt.IsZero():
			gone = append(gone, string(r.ID))
		default:
			there = append(there, string(r.ID))
		}
	}
	slices.Sort(there)
	return there, gone, nil
}
