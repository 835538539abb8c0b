//go:build kube

package operator_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/crds/crdtest"
)

// M26, M101: an API server with nobody else there takes and refuses of host machines what the
// table of the schemas says.
func TestM26M101_HostSchemasOnARealServer(t *testing.T) {
	c := startJudge(t)
	t.Parallel()
	admin := clientOf(t, c.Admin(), nil)
	checkSchemas(t, crdtest.HostCases(), func(object *unstructured.Unstructured) dynamic.ResourceInterface {
		return resourceOf(admin, object, "")
	})
	t.Run("what people see", func(t *testing.T) { seeHosts(t, c) })
}

// printedHosts is one object of each kind of host machines, with everything that is shown of it.
const printedHosts = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: knd01h455vb4pex5vsknk084sn020}
spec: {instance: {shard: a, tenant: default, group: web, id: knd01h455vb4pex5vsknk084sn020}, providerID: "nstance://a/x", paused: true}
status: {phase: Ready, nodeRef: {name: n1}, repave: {epoch: 3, stage: Running}, slots: [{name: a, state: Stopped}, {name: b, state: Running}], configuration: {desired: {name: gpu, version: 4}, applied: {name: gpu, version: 3}}}
---
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfiguration
metadata: {name: gpu}
spec: {priority: 7, template: {image: {type: OCI, oci: {reference: "node:1"}}, kubernetes: {version: v1.36.3}}}
status: {latestVersion: 4, editableVersion: 4, latestDeployedVersion: 3, machines: {selected: 2, outdated: 1}}
---
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineConfigurationVersion
metadata: {name: gpu-v3}
spec: {configurationName: gpu, version: 3, template: {image: {type: OCI, oci: {reference: "node:1"}}, kubernetes: {version: v1.36.3}}}
status: {deployed: true, machines: 2, readyMachines: 1}
---
apiVersion: hosts.nstance.dev/v1alpha1
kind: MachineOperation
metadata: {name: one, labels: {hosts.nstance.dev/machine: box}}
spec: {machineRef: {name: box}, operationName: reboot}
status: {state: Failed, reason: Timeout, executor: paver}
`

func seeHosts(t *testing.T, c *kube.Cluster) {
	admin := clientOf(t, c.Admin(), nil)
	for _, object := range objects(t, printedHosts) {
		store(t, resourceOf(admin, object, ""), object)
	}
	see(t, c, []seen{
		{[]string{"get", "hm"}, []string{"NAME NODE PROVISIONER CONFIG VERSION DESIRED PHASE AGE", "knd01h455vb4pex5vsknk084sn020 n1 nstance gpu 3 4 Ready"}},
		{[]string{"get", "hm", "-o", "wide"}, []string{
			"NAME NODE PROVISIONER CONFIG VERSION DESIRED PHASE AGE GROUP SHARD PROVIDER-ID SLOT STAGE PAUSED",
			"knd01h455vb4pex5vsknk084sn020 n1 nstance gpu 3 4 Ready web a nstance://a/x b Running true",
		}},
		{[]string{"get", "mcfg"}, []string{"NAME LATEST EDITABLE DEPLOYED MACHINES OUTDATED STRATEGY PRIORITY AGE", "gpu 4 4 3 2 1 OnDelete 7"}},
		{[]string{"get", "mcv"}, []string{"NAME CONFIG VERSION DEPLOYED MACHINES READY AGE", "gpu-v3 gpu 3 true 2 1"}},
		{[]string{"get", "mop"}, []string{"NAME MACHINE OPERATION STATE REASON EXECUTOR AGE", "one box reboot Failed Timeout paver"}},
	})
}
