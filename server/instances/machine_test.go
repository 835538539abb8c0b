package instances

import (
	"testing"

	"nstance.dev/server/cache"
	"nstance.dev/server/layout"
)

// What callers of the API are told of a node machine follows from the record: of one that demand mode made or has
// bound, whether it serves the cluster of its tenant; of all others, that there is one.
func TestRowsSayWhetherANodeMachineServesItsCluster(t *testing.T) {
	binding := func(state layout.BindingState, cluster string) *layout.Binding {
		return &layout.Binding{State: state, Cluster: cluster}
	}
	bought := &layout.Purchase{CapacityType: "spot"}
	for name, c := range map[string]struct {
		rec  layout.InstanceRecord
		want cache.Machine
	}{
		"no node machine":        {layout.InstanceRecord{Binding: binding(layout.BindingBound, "a"), Tenant: "a"}, cache.Machine{}},
		"of a group with a size": {layout.InstanceRecord{Machine: true}, cache.Machine{On: true}},
		"bought":                 {layout.InstanceRecord{Machine: true, Purchase: bought}, cache.Machine{On: true, Binding: "idle"}},
		"has served":             {layout.InstanceRecord{Machine: true, Served: "a"}, cache.Machine{On: true, Binding: "idle"}},
		"of no use":              {layout.InstanceRecord{Machine: true, Failed: &layout.Failure{}}, cache.Machine{On: true, Binding: "idle"}},
		"meant for the cluster":  {layout.InstanceRecord{Machine: true, Tenant: "a", Binding: binding(layout.BindingIntent, "a")}, cache.Machine{On: true, Binding: "idle"}},
		"is configured":          {layout.InstanceRecord{Machine: true, Tenant: "a", Binding: binding(layout.BindingConfiguring, "a")}, cache.Machine{On: true, Binding: "configuring"}},
		"is bound":               {layout.InstanceRecord{Machine: true, Tenant: "a", Binding: binding(layout.BindingBound, "a")}, cache.Machine{On: true, Binding: "bound"}},
		"drains":                 {layout.InstanceRecord{Machine: true, Tenant: "a", Binding: binding(layout.BindingDraining, "a")}, cache.Machine{On: true, Binding: "draining"}},
		"serves another tenant":  {layout.InstanceRecord{Machine: true, Tenant: "a", Binding: binding(layout.BindingBound, "b")}, cache.Machine{On: true, Binding: "idle"}},
	} {
		if got := RowOf(c.rec).Machine; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
