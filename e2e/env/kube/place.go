package kube

import (
	"os"
	"testing"
)

// Place is where the clusters of tests run. `make e2e` has them run here, `make e2e-kind`
// elsewhere; tests are the same for all.
type Place string

// The places.
const (
	// Here: each cluster is processes of this box, and there are no kubelets.
	Here Place = ""

	// Kind: each is a cluster of kind of its own, of one Node, which runs Pods.
	Kind Place = "kind"

	// Given: there is one cluster, that of KUBECONFIG, which the tests have to themselves
	// for as long as they run. It runs Pods.
	Given Place = "given"
)

// The environment of tests that run elsewhere.
const (
	// envPlace is the [Place].
	envPlace = "NSTANCE_TEST_PLACE"

	// envNodeImage is the node image of clusters of kind.
	envNodeImage = "NSTANCE_TEST_NODE_IMAGE"

	// envImages is a folder with folders of archives, *.tar, of the images that Nodes of
	// kind get.
	envImages = "NSTANCE_TEST_IMAGES"

	// envAddress is the address of this box, as Pods reach it.
	envAddress = "NSTANCE_TEST_ADDRESS"

	// envAudit is the audit log of a given cluster, if it can be read here.
	envAudit = "NSTANCE_TEST_AUDIT_LOG"
)

// Where returns where the clusters of this run are.
func Where() Place { return Place(os.Getenv(envPlace)) }

// RunsPods reports whether clusters of a place run the containers of Pods.
func (p Place) RunsPods() bool { return p != Here }

// Address returns an address of this box at which the Pods of a cluster reach what
// listens there, and where there are none, everybody else.
func Address() string {
	if address := os.Getenv(envAddress); address != "" {
		return address
	}
	return "127.0.0.1"
}

// Ability is what a test has to be able to do to its cluster, and cannot do everywhere.
type Ability string

// The abilities. Here and in clusters of kind tests have all of them.
const (
	// BeAlone is to have a cluster that nobody has used before, and that nobody else uses.
	BeAlone Ability = "have a cluster of its own"

	// ReadAudit is to read the audit log.
	ReadAudit Ability = "read the API server's audit log"

	// StopComponents is to stop the components of a cluster and start them again.
	StopComponents Ability = "stop the API server"
)

// can reports whether tests at a place have an ability.
func (p Place) can(a Ability) bool {
	return p != Given || a == ReadAudit && os.Getenv(envAudit) != ""
}

// Needs skips a test that has to be able to do what it cannot do to the clusters of this
// run, and prints why.
func Needs(t testing.TB, abilities ...Ability) {
	t.Helper()
	for _, a := range abilities {
		if !Where().can(a) {
			t.Skipf("this test has to %s, which it cannot with the cluster of KUBECONFIG", a)
		}
	}
}
