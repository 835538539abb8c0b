//go:build kube

package install_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"nstance.dev/e2e/env/kube"
)

// TestOneReleaseHasDemandModeAndHosts: of two releases in one cluster one may have demand mode on, as both would buy
// machines for the same Pods, and one may have host machines on, as each would refuse the other's. The second is refused
// with the name of the first, unless the Pods of its demand mode are elsewhere; the first is upgraded as ever.
func TestOneReleaseHasDemandModeAndHosts(t *testing.T) {
	t.Parallel()
	c := kube.Start(t, kube.Config{})
	r := newReader(t, c)
	const first = ` operator/charts/nstance-operator --namespace one --set config.clusterId=example,config.tenant=one,demand.enabled=true,hosts.enabled=true ` +
		`--set-string config.shards.a.operator_addr=10.0.0.1:8993`
	const second = `helm install two operator/charts/nstance-operator --dry-run=server --namespace two --create-namespace ` +
		`--set crds.install=false,config.clusterId=example,config.tenant=two --set-string config.shards.a.operator_addr=10.0.0.1:8993 `
	r.types(t, `helm install one --create-namespace`+first)
	r.types(t, `helm upgrade one`+first+` --set demand.maxUserPriority=5`)
	const (
		demand = "demand.enabled: one-nstance-operator has demand mode on for the Pods of this cluster already"
		hosts  = "hosts.enabled: one-nstance-operator has host machines on in this cluster already"
	)
	for name, tt := range map[string]struct{ values, refusal string }{
		"neither":                         {"", ""},
		"demand mode for the same Pods":   {"--set demand.enabled=true", demand},
		"demand mode for another cluster": {"--set demand.enabled=true,capi.endpoint=https://other.example:6443", ""},
		"host machines":                   {"--set hosts.enabled=true", hosts},
	} {
		out, err := r.tries(t, second+tt.values)
		if (err != nil) != (tt.refusal != "") || !strings.Contains(out, tt.refusal) {
			t.Errorf("%s: %v, %s", name, err, out)
		}
	}
}

// tries has a shell run a command that may fail, and returns what it says of errors.
func (r *reader) tries(t *testing.T, command string) (string, error) {
	t.Helper()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
	cmd.Dir, cmd.Env, cmd.Stderr = r.dir, r.env, &said
	err := cmd.Run()
	return said.String(), err
}
