package providers

import (
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/types/known/emptypb"

	"nstance.dev/e2e/box"
	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/bucket"
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

// Settled waits until the group has that size in every respect, and returns the ids of
// its instances: the leader says so, all run, and the cloud has exactly their machines
// and the bucket their records (S4, S5).
func (w *World) Settled(size int) []string {
	w.t.Helper()
	var found []string
	w.Await(fmt.Sprintf("%d machines and nothing else", size), func() error {
		var err error
		found, err = w.settled(size)
		return err
	})
	return found
}

func (w *World) settled(size int) ([]string, error) {
	running, err := w.running(size)
	if err != nil {
		return nil, err
	}
	records, err := w.records()
	if err != nil {
		return nil, err
	}
	machines, err := w.machines()
	if err == nil && !slices.Equal(machines, running) {
		err = fmt.Errorf("the cloud has the machines %v, and %v are instances", machines, running)
	}
	if !slices.Equal(records, running) {
		err = errors.Join(err, fmt.Errorf("%v have records, and %v are instances", records, running))
	}
	return running, err
}

// running returns the ids of the instances if there are so many and all of them run.
func (w *World) running(size int) ([]string, error) {
	instances, err := w.Instances()
	if err != nil {
		return nil, err
	}
	var running, others []string
	for _, i := range instances {
		switch i.Status {
		case "running":
			running = append(running, i.InstanceId)
		default:
			others = append(others, i.InstanceId+" "+i.Status)
		}
	}
	slices.Sort(running)
	if len(running) != size || len(others) > 0 {
		return nil, fmt.Errorf("%d run, not %d, and beside them %v", len(running), size, others)
	}
	return running, nil
}

// records returns the ids of the instances that have a record which is no tombstone.
func (w *World) records() ([]string, error) {
	var found []string
	for info, err := range objectstore.ListAll(w.t.Context(), w.store, bucket.InstancePrefix(box.Shard)) {
		if err != nil {
			return nil, err
		}
		o, err := w.store.Get(w.t.Context(), info.Key)
		if errors.Is(err, objectstore.ErrNotFound) {
			continue // it went while we were looking
		}
		if err != nil {
			return nil, err
		}
		r, err := bucket.DecodeInstanceRecord(info.Key, o.Data)
		if err != nil {
			return nil, err
		}
		if r.Deletion == nil || r.Deletion.GoneAt.IsZero() {
			found = append(found, string(r.ID))
		}
	}
	slices.Sort(found)
	return found, nil
}

// machines returns the identities of the machines that the cloud has, strangers left
// out. Two machines with one identity are an error that time does not mend.
func (w *World) machines() ([]string, error) {
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
	return found, nil
}
