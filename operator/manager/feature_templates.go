package manager

import (
	"context"
	"time"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/controllers/machinetemplate"
)

// templateFeature says what the Nodes of NstanceMachineTemplates will have.
var templateFeature = feature{
	name:  "machine templates",
	kinds: []kind{{version: infrav1.GroupVersion, object: &infrav1.NstanceMachineTemplate{}}},
	rights: []Right{
		to("list watch", InNamespace, infrastructure, "nstancemachinetemplates"),
		to("patch", InNamespace, infrastructure, "nstancemachinetemplates/status"),
		to("get list watch", InNamespace, clusterAPI, "clusters"),
	},
	objects: func(_ context.Context, w wiring) error {
		r := &machinetemplate.Reconciler{
			Client: w.mgr.GetClient(), Shards: func() []string { return w.config().Names() }, Inventory: w.shardState.feed.Inventory(),
			MemoryShare: w.settings.MemoryFactor, Now: time.Now,
		}
		return r.SetupWithManager(w.mgr, w.shardState.hub, w.controllerOptions())
	},
}
