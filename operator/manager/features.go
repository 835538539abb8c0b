package manager

import (
	"context"
	"errors"
	"slices"
	"strings"

	"nstance.dev/operator/config"
)

// features are all of them, in the order in which they start. The drain engine comes before those that wake it.
var features = []feature{
	processFeature, leaderFeature, secureMetricsFeature, webhookCertFeature,
	drainFeature, hostFeature, hostNodeFeature,
	clusterFeature, importFeature, poolFeature, templateFeature, errorFeature, kubeconfigFeature, ownKubeconfigFeature,
	metricsFeature, machineFeature, nodeFeature, onDemandFeature, gatedFeature,
	bootstrapFeature, joinTokenFeature,
	podRequestFeature, demandPodsFeature, demandNodeFeature, demandFeature, podEventFeature,
}

// featuresOf are those of an operator with these settings.
func featuresOf(s config.Settings) []feature {
	return slices.DeleteFunc(slices.Clone(features), func(f feature) bool { return f.on != nil && !f.on(s) })
}

// start sets features up in one of the three stages.
func start(ctx context.Context, w wiring, stage func(feature) func(context.Context, wiring) error) error {
	var errs []error
	for _, f := range featuresOf(w.settings) {
		if setup := stage(f); setup != nil {
			errs = append(errs, setup(ctx, w))
		}
	}
	return errors.Join(errs...)
}

// Rights returns all that an operator with these settings needs to be allowed, and no more:
// each place, group and resource once, sorted, with its verbs sorted.
func Rights(s config.Settings) []Right { return rightsOf(featuresOf(s)) }

// PodDemandRights returns all that nstance-pod-demand needs to be allowed, as Rights does; secure: it asks the
// API server who may read its metrics.
func PodDemandRights(secure bool) []Right {
	events := feature{rights: []Right{to("create patch", ManagementCluster, "events.k8s.io", "events")}}
	some := []feature{podRequestFeature, leaderFeature, events}
	if secure {
		some = append(some, secureMetricsFeature)
	}
	return rightsOf(some)
}

func rightsOf(some []feature) []Right {
	type at struct {
		where           Where
		group, resource string
	}
	verbs := map[at][]string{}
	for _, f := range some {
		for _, r := range f.rights {
			key := at{r.Where, r.Group, r.Resource}
			verbs[key] = append(verbs[key], r.Verbs...)
		}
	}
	var all []Right
	for key, v := range verbs {
		slices.Sort(v)
		all = append(all, Right{key.where, key.group, key.resource, slices.Compact(v)})
	}
	slices.SortFunc(all, func(a, b Right) int {
		return strings.Compare(string(a.Where)+" "+a.Group+" "+a.Resource, string(b.Where)+" "+b.Group+" "+b.Resource)
	})
	return all
}
