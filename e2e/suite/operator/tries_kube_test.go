//go:build kube && operator

package operator_test

import (
	"fmt"
	"testing"

	"nstance.dev/e2e/env/kube"
	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
)

// O12: a Pod whose machines never join gets three of them, and then is told so. When it asks
// again it gets another one.
func TestO12_AfterThreeTriesItIsSaid(t *testing.T) {
	s := startKind(t, hasty)
	s.onDemand(t, "hopeless")
	s.ground.powerOff(t, func(string) bool { return true })
	s.holdPod(t, "hopeless")
	for try := range 3 { // a minute each
		kube.Await(t, "there is one try more", s.tried("hopeless", try+1))
	}
	kube.Await(t, "it has failed", s.phase("hopeless", infrav1.OnDemandFailed))
	kube.Await(t, "it is said", s.podEvent("hopeless", "OnDemandProvisioningFailed"))
	kube.Await(t, "no machine is left", s.unused)
	s.ground.set(nil)
	s.patchPod(t, "hopeless", fmt.Sprintf(`{"metadata":{"annotations":{%q:"again"}}}`, infrav1.OnDemandRetry))
	kube.Await(t, "it has a machine", s.phase("hopeless", infrav1.OnDemandJoined))
}
