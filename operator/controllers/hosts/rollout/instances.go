package rollout

import (
	"fmt"

	hostsv1 "nstance.dev/operator/api/hosts/v1alpha1"
	"nstance.dev/operator/inventory"
)

// Reasons for which a shard replaces instances in its own time.
var rotates = map[string]bool{"expired": true, "config-drift": true}

// instances returns what the shards say of the instances of machines. A group in which an instance is
// replaced in the shard's own time has its disruption already, and no other one is begun in it.
func (r *Reconciler) instances() func(*hostsv1.HostMachine) (leaves, waits string) {
	type group struct{ shard, key string }
	rotating := map[group]string{}
	known := map[string]bool{}
	for _, shard := range r.opts.Inventory.Names() {
		r.opts.Inventory.Read(shard, func(all *inventory.Shard) {
			known[shard] = all.State().Synced()
			for _, in := range all.Instances("") {
				if c := in.GetCondemned(); c != nil && rotates[c.GetReason()] {
					rotating[group{shard, in.GetGroup()}] = fmt.Sprintf("its group is replacing instance %s (%s)", in.GetInstanceId(), c.GetReason())
				}
			}
		})
	}
	return func(m *hostsv1.HostMachine) (leaves, waits string) {
		of := m.Spec.Instance
		if of == nil {
			return "", "its host is no instance of a shard, and could not be built again"
		}
		shard := string(of.Shard)
		if !known[shard] {
			return "", fmt.Sprintf("shard %s has not said all that it knows", shard)
		}
		group := group{shard, string(of.Group)}
		r.opts.Inventory.Read(shard, func(all *inventory.Shard) {
			in := all.Instance(string(of.ID))
			switch st := in.GetStatus(); {
			case in.GetCondemned() != nil:
				leaves = "its instance is condemned: " + in.GetCondemned().GetReason()
			case st == inventory.StatusDraining, st == inventory.StatusTerminating, st == inventory.StatusTerminated:
				leaves = "its instance is " + st
			case in == nil:
				waits = fmt.Sprintf("shard %s does not know its instance", shard)
			case st != inventory.StatusRunning:
				waits = "its instance is " + st
			case in.GetHold().GetReason() != hostsv1.HoldRollout && !inventory.HeldUntil(in, r.opts.Now()).IsZero(): // that is a rollout's own
				waits = fmt.Sprintf("its instance is on hold (%s)", in.GetHold().GetReason())
			}
		})
		if waits == "" {
			waits = rotating[group]
		}
		return leaves, waits
	}
}
