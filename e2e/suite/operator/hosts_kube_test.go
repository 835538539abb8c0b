//go:build kube

package operator_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
)

// startWithHosts starts a cluster that serves the kinds of host machines, and nothing else of
// ours.
func startWithHosts(t *testing.T) *kube.Cluster {
	t.Helper()
	c := kube.Start(t, kube.Config{})
	all, err := crds.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	for _, crd := range all {
		apply(t, c, convert(t, crd))
	}
	return c
}

// M26, M101: an API server with nobody else there takes and refuses of host machines what the
// table of the schemas says.
func TestM26M101_HostSchemasOnARealServer(t *testing.T) {
	kube.Needs(t, kube.BeAlone)
	t.Parallel()
	c := startWithHosts(t)
	admin := clientOf(t, c.Admin(), nil)
	for _, test := range crdtest.HostCases() {
		t.Run(test.Name, func(t *testing.T) {
			sent := decoded(test.Sent)
			err := request(t, resourceOf(admin, sent, ""), test, sent)
			switch {
			case test.Refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case test.Refused != "" && err == nil:
				t.Errorf("accepted, want refused: %s", test.Refused)
			case test.Refused != "" && !strings.Contains(err.Error(), test.Refused):
				t.Errorf("refused with %v, want a part of it to be %q", err, test.Refused)
			}
		})
	}
	t.Run("what people see", func(t *testing.T) { seeHosts(t, c) })
}

// printedHosts is one object of each kind of host machines, with everything that is shown of it.
const printedHosts = `
apiVersion: hosts.nstance.dev/v1alpha1
kind: HostMachine
metadata: {name: knd01h455vb4pex5vsknk084sn020}
spec: {instance: {shard: a, tenant: default, group: web, id: knd01h455vb4pex5vsknk084sn020}, providerID: "nstance://a/x", paused: true}
status: {phase: Ready, nodeRef: {name: n1}, slots: [{name: a, state: Stopped}, {name: b, state: Running}], configuration: {desired: {name: gpu, version: 4}, applied: {name: gpu, version: 3}}}
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
	for _, tt := range []struct {
		command []string
		want    []string
	}{
		{[]string{"get", "hm"}, []string{"NAME NODE PROVISIONER CONFIG VERSION DESIRED PHASE AGE", "knd01h455vb4pex5vsknk084sn020 n1 nstance gpu 3 4 Ready"}},
		{[]string{"get", "hm", "-o", "wide"}, []string{
			"NAME NODE PROVISIONER CONFIG VERSION DESIRED PHASE AGE GROUP SHARD PROVIDER-ID SLOT PAUSED",
			"knd01h455vb4pex5vsknk084sn020 n1 nstance gpu 3 4 Ready web a nstance://a/x b true",
		}},
		{[]string{"get", "mcfg"}, []string{"NAME LATEST EDITABLE DEPLOYED MACHINES OUTDATED STRATEGY PRIORITY AGE", "gpu 4 4 3 2 1 OnDelete 7"}},
		{[]string{"get", "mcv"}, []string{"NAME CONFIG VERSION DEPLOYED MACHINES READY AGE", "gpu-v3 gpu 3 true 2 1"}},
		{[]string{"get", "mop"}, []string{"NAME MACHINE OPERATION STATE REASON EXECUTOR AGE", "one box reboot Failed Timeout paver"}},
	} {
		out, err := c.Kubectl(t.Context(), tt.command...)
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for i, line := range strings.Split(strings.TrimSpace(out), "\n") {
			cells := strings.Fields(line)
			if i > 0 {
				cells = withoutAge(t, cells, strings.Fields(tt.want[0]))
			}
			got = append(got, strings.Join(cells, " "))
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("kubectl %v, without ages (-want +got):\n%s", tt.command, diff)
		}
	}
}

// withoutAge removes the cell below AGE.
func withoutAge(t *testing.T, cells, heading []string) []string {
	t.Helper()
	for i, name := range heading {
		if name == "AGE" && i < len(cells) {
			return append(cells[:i:i], cells[i+1:]...)
		}
	}
	t.Fatalf("no AGE in %v", heading)
	return nil
}
