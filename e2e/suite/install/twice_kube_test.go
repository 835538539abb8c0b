//go:build kube

package install_test

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"

	"nstance.dev/e2e/env/kube"
)

// TestDemandModeIsOnOnce: of two releases in one cluster one may have demand mode on, as both would buy machines for the
// same Pods. The second is refused with the name of the first, unless its Pods are elsewhere; the first is upgraded as
// ever.
func TestDemandModeIsOnOnce(t *testing.T) {
	t.Parallel()
	c := kube.Start(t, kube.Config{})
	r := newReader(t, c)
	const first = ` operator/charts/nstance-operator --namespace one --set config.clusterId=example,config.tenant=one,demand.enabled=true ` +
		`--set-string config.shards.a.operator_addr=10.0.0.1:8993`
	const second = `helm install two operator/charts/nstance-operator --dry-run=server --namespace two --create-namespace ` +
		`--set crds.install=false,config.clusterId=example,config.tenant=two --set-string config.shards.a.operator_addr=10.0.0.1:8993 `
	r.types(t, `helm install one --create-namespace`+first)
	r.types(t, `helm upgrade one`+first+` --set demand.maxUserPriority=5`)
	for name, tt := range map[string]struct {
		values  string
		refused bool
	}{
		"the same Pods":   {"--set demand.enabled=true", true},
		"no demand mode":  {"", false},
		"another cluster": {"--set demand.enabled=true,capi.endpoint=https://other.example:6443", false},
	} {
		out, err := r.tries(t, second+tt.values)
		const reason = "demand.enabled: one-nstance-operator has demand mode on for the Pods of this cluster already"
		if (err != nil) != tt.refused || strings.Contains(out, reason) != tt.refused {
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
