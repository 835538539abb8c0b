package instances

import (
	"nstance.dev/protos/identity"
	"nstance.dev/providers/gcp/api"
	"nstance.dev/server/driver"
)

// here is where the tests' machines are.
var here = api.Place{Project: "nstance-fake", Region: "europe-west1", Zone: "europe-west1-b"}

// id makes one instance id for all tests of pure functions: equal requests are
// equal.
const testID = identity.ID("knc068a3cp3thz5z2mv1gejwftabc")

// request is a request for a machine that is fine.
func request(change ...func(*driver.CreateRequest)) driver.CreateRequest {
	req := driver.CreateRequest{
		InstanceID: testID, Owner: driver.Owner{Cluster: "suite", Shard: "one"},
		Tenant: "default", Group: "web", Template: "Worker_1", Kind: "knc", Arch: "amd64",
		InstanceType: "e2-medium", SubnetID: "nstance",
		Args:      map[string]any{"SourceImage": "projects/debian-cloud/global/images/family/debian-12"},
		CreatedAt: testID.CreatedAt(),
	}
	for _, c := range change {
		c(&req)
	}
	return req
}
