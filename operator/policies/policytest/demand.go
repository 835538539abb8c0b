package policytest

import "nstance.dev/operator/policies"

// DemandParams are those that the cases of demand mode are written for.
var DemandParams = policies.DemandParams{
	Name: "nstance", Controller: "system:serviceaccount:nstance-system:nstance-pod-demand", MaxUserPriority: 100,
}

// Editor may edit CapacityRequests, and Scheduler, a workload API of its own, may prioritize them too.
const (
	Editor    = "editor"
	Scheduler = "system:serviceaccount:kueue-system:kueue"
)

// Prioritize is what Scheduler may and Editor may not.
const Prioritize = "prioritize capacityrequests.demand.nstance.dev in nstance-system"

const (
	ofPod = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: web-0-0f3c9a51, labels: {nstance.dev/owned-by-pod: 0f3c9a51-0000-4000-8000-000000000001}}
spec: {priority: 1000000, resources: {requests: {cpu: "1"}}}
`
	ofOtherPod = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: web-0-0f3c9a51, labels: {nstance.dev/owned-by-pod: 9b000000-0000-4000-8000-000000000002}}
spec: {priority: 1000000, resources: {requests: {cpu: "1"}}}
`
	largerOfPod = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: web-0-0f3c9a51, labels: {nstance.dev/owned-by-pod: 0f3c9a51-0000-4000-8000-000000000001}}
spec: {priority: 1000000, resources: {requests: {cpu: "64"}}}
`
	ofNoPod = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: web-0-0f3c9a51, labels: {team: a}}
spec: {priority: 1000000, resources: {requests: {cpu: "1"}}}
`
	atLimit = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: batch}
spec: {priority: 100, resources: {requests: {cpu: "1"}}}
`
	aboveLimit = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: batch}
spec: {priority: 101, resources: {requests: {cpu: "1"}}}
`
	farAbove = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: batch}
spec: {priority: 1000, resources: {requests: {cpu: "1"}}}
`
	withoutPriority = `
apiVersion: demand.nstance.dev/v1alpha1
kind: CapacityRequest
metadata: {name: batch}
spec: {resources: {requests: {cpu: "1"}}}
`
)

const (
	refusedLabelOfPod = "label nstance.dev/owned-by-pod of CapacityRequest web-0-0f3c9a51 says which Pod it was made for; only the controller of Pods may set or remove it"
	refusedSpecOfPod  = "spec of CapacityRequest web-0-0f3c9a51 follows from its Pod; change the Pod"
	refusedPriority   = "spec.priority of CapacityRequest batch is 101; above 100 it takes the verb prioritize on capacityrequests"
	refusedFarAbove   = "spec.priority of CapacityRequest batch is 1000; above 100 it takes the verb prioritize on capacityrequests"
)

// DemandCases are the requests about the kinds of demand mode.
func DemandCases() []Case {
	may := []string{Prioritize}
	return []Case{
		{Name: "the controller makes the request of a Pod", User: DemandParams.Controller, Operation: "CREATE", New: parse(ofPod)},
		{Name: "and changes it", User: DemandParams.Controller, Operation: "UPDATE", Old: parse(ofPod), New: parse(largerOfPod)},
		{Name: "another forges the request of a Pod", User: Editor, Operation: "CREATE", New: parse(ofPod), Refused: refusedLabelOfPod},
		{Name: "nor may one who prioritizes", User: Scheduler, May: may, Operation: "CREATE", New: parse(ofPod), Refused: refusedLabelOfPod},
		{Name: "nor may the operator where it is not the controller", User: Params.User, Operation: "CREATE", New: parse(ofPod), Refused: refusedLabelOfPod},
		{Name: "a request becomes that of a Pod", User: Scheduler, May: may, Operation: "UPDATE", Old: parse(ofNoPod), New: parse(ofPod), Refused: refusedLabelOfPod},
		{Name: "a request becomes that of another Pod", User: Editor, Operation: "UPDATE", Old: parse(ofPod), New: parse(ofOtherPod), Refused: refusedLabelOfPod},
		{Name: "the request of a Pod loses it", User: Editor, Operation: "UPDATE", Old: parse(ofPod), New: parse(ofNoPod), Refused: refusedLabelOfPod},
		{Name: "the request of a Pod grows", User: Editor, Operation: "UPDATE", Old: parse(ofPod), New: parse(largerOfPod), Refused: refusedSpecOfPod},
		{Name: "nor by one who prioritizes", User: Scheduler, May: may, Operation: "UPDATE", Old: parse(ofPod), New: parse(largerOfPod), Refused: refusedSpecOfPod},
		{Name: "the request of a Pod may be annotated", User: Editor, Operation: "UPDATE", Old: parse(ofPod), New: annotated(ofPod, "a", "b")},
		{Name: "a request of any user", User: Editor, Operation: "CREATE", New: parse(withoutPriority)},
		{Name: "one at the limit", User: Editor, Operation: "CREATE", New: parse(atLimit)},
		{Name: "one above it", User: Editor, Operation: "CREATE", New: parse(aboveLimit), Refused: refusedPriority},
		{Name: "one above it by who prioritizes", User: Scheduler, May: may, Operation: "CREATE", New: parse(aboveLimit)},
		{
			Name: "who prioritizes elsewhere does not here", User: Editor, May: []string{"prioritize capacityrequests.demand.nstance.dev in shop"},
			Operation: "CREATE", New: parse(aboveLimit), Refused: refusedPriority,
		},
		{Name: "one is raised above it", User: Editor, Operation: "UPDATE", Old: parse(withoutPriority), New: parse(aboveLimit), Refused: refusedPriority},
		{Name: "one above it is raised further", User: Editor, Operation: "UPDATE", Old: parse(aboveLimit), New: parse(farAbove), Refused: refusedFarAbove},
		{Name: "one above it is lowered", User: Editor, Operation: "UPDATE", Old: parse(farAbove), New: parse(aboveLimit)},
		{Name: "one above it is annotated", User: Editor, Operation: "UPDATE", Old: parse(aboveLimit), New: annotated(aboveLimit, "a", "b")},
		{Name: "one is raised by who prioritizes", User: Scheduler, May: may, Operation: "UPDATE", Old: parse(withoutPriority), New: parse(aboveLimit)},
	}
}
