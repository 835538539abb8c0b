//go:build kube

package operator_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"nstance.dev/e2e/env/kube"
)

// placed is a Pod with a volume in the zone of shard b, that runs on Nodes of either of two
// pools. NAME is its namespace.
const placed = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: NAME}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: /nowhere}
  claimRef: {namespace: NAME, name: data}
  nodeAffinity: {required: {nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [b]}]}]}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, namespace: NAME}
spec: {storageClassName: "", volumeName: NAME, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: placed, namespace: NAME}
spec:
  terminationGracePeriodSeconds: 1
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: nstance.dev/group, operator: In, values: [zonal-a, zonal-b]}]}]}}}
  containers: [{name: work, image: none}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
`

// O17: of two empty pools of one shard each, what they say of their Nodes tells the autoscaler
// in which of them a Pod with a volume of one zone will run, and there it does.
func TestO17_APoolForTheZoneOfAVolume(t *testing.T) {
	s := startSystem(t)
	for _, shard := range []string{"a", "b"} {
		s.pool(t, "zonal-"+shard, `shards: [`+shard+`], nodeTemplate: {capacity: {cpu: "4", memory: 8Gi}}`, 0)
		s.limit(t, "zonal-"+shard, 0, 3)
	}
	a := s.autoscaler(t)
	fit := ""
	kube.Await(t, "one pool is in the zone of the volume", func(context.Context) error {
		var offers []string
		for name := range a.groups() {
			_, notes := a.offer(name)
			labels := notes["capacity.cluster-autoscaler.kubernetes.io/labels"]
			if strings.Contains(","+labels+",", ",topology.kubernetes.io/zone=b,") {
				fit = name
			}
			offers = append(offers, name+": "+labels)
		}
		if fit == "" {
			return fmt.Errorf("there are %q", offers)
		}
		return nil
	})
	s.namespaced(t, "zonal", placed)
	a.resize(fit, 1)
	kube.Await(t, "the Pod runs on the machine of that pool", func(ctx context.Context) error {
		running, err := s.runningPods(ctx, "zonal")
		if err != nil {
			return err
		}
		if names := s.names(t, fit); fit != "zonal-b" || len(names) != 1 || running["placed"] != names[0] {
			return fmt.Errorf("pool %s has %v, and there run %v", fit, names, running)
		}
		return nil
	})
}
