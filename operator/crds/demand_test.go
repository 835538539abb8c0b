package crds_test

import (
	"maps"
	"testing"

	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// An API server takes the definitions of demand mode: the schema is structural and no rule
// can cost more than it allows.
func TestDemandDefinitionsAreValid(t *testing.T) {
	all := byKind(t, crds.Demand)
	checkValid(t, all)
	want := map[string]string{
		"creq": "Namespaced capacityrequests.demand.nstance.dev",
		"un":   "Cluster upcomingnodes.demand.nstance.dev",
		"ac":   "Cluster availablecapacities.demand.nstance.dev",
	}
	if short := shortNames(all); !maps.Equal(short, want) {
		t.Errorf("short names %v, want %v", short, want)
	}
}

// What the schemas and their rules refuse, they refuse with nobody else there.
func TestDemandObjectsAreTakenAndRefused(t *testing.T) {
	checkCases(t, byKind(t, crds.Demand), crdtest.DemandCases())
}

// Objects of a phase can be asked for.
func TestRequestsAreSelectedByPhase(t *testing.T) {
	for _, crd := range byKind(t, crds.Demand) {
		fields := crd.Spec.Versions[0].SelectableFields
		if want := crd.Spec.Names.Kind == "CapacityRequest"; want != (len(fields) == 1 && fields[0].JSONPath == ".status.phase") {
			t.Errorf("%s: selectable fields %v", crd.Name, fields)
		}
	}
}
