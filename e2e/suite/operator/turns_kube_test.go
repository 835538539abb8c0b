//go:build kube

package operator_test

import (
	"flag"
	"sync"
	"testing"
	"time"

	"nstance.dev/e2e/env/kube"
)

// clusters is how many tests have a cluster of their own at the same time. Each is an etcd and a kube-apiserver, and two
// processors that start twenty of them let the calls of all others run out of time.
var clusters = flag.Int("clusters", 3, "tests that run beside each other in clusters of their own")

// turns are the places for such tests. They are made once the flags are read.
var turns = sync.OnceValue(func() chan struct{} { return make(chan struct{}, *clusters) })

// ownCluster lets a test run beside the others, and waits until it may start a cluster of its own. Its turn ends once that
// cluster has been stopped.
func ownCluster(t *testing.T, abilities ...kube.Ability) {
	t.Helper()
	kube.Needs(t, append(abilities, kube.BeAlone)...)
	t.Parallel()
	turns() <- struct{}{}
	began := time.Now()
	t.Cleanup(func() {
		t.Logf("measured: had a cluster for %v", time.Since(began).Round(100*time.Millisecond))
		<-turns()
	})
}
