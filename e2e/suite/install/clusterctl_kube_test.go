//go:build kube

package install_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/e2e/repo/components"
	"nstance.dev/e2e/suite/install"
)

// certManager stands in for cert-manager, which is asked for nothing here: clusterctl wants
// to see its kinds, and makes objects of them for Cluster API.
const certManager = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Issuer, plural: issuers}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  scope: Namespaced
  names: {kind: Certificate, plural: certificates}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]
`

// coreVersion is what the core of Cluster API is called in the repository here.
const coreVersion = "v1.14.2"

const coreMetadata = `
apiVersion: clusterctl.cluster.x-k8s.io/v1alpha3
kind: Metadata
releaseSeries: [{major: 1, minor: 14, contract: v1beta2}]
`

// TestO18_ThePageByClusterctl: clusterctl takes our repository for that of a provider,
// installs what runs and registers, puts the next version in its place, and deletes all of it
// but the kinds and the namespace.
func TestO18_ThePageByClusterctl(t *testing.T) {
	t.Parallel()
	c := kube.Start(t, kube.Config{ControllerManager: true})
	definitions, err := kube.Objects([]byte(certManager))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), definitions...); err != nil {
		t.Fatal(err)
	}
	s := shards.New(t, map[string]shards.Groups{"us-west-2a": {}, "us-west-2b": {}})
	newStation(t, c)
	r := newReader(t, c,
		"STORAGE", s.StorageFlags(), "CLUSTER_ID=example", "CLUSTER_ID="+shards.ClusterID,
		`{us-west-2a: {operator_addr: "10.0.0.1:8993"}, us-west-2b: {operator_addr: "10.0.1.1:8993"}}`, oneLine(t, s),
	)
	r.has(t, "ca.crt", s.CA())
	r.hasRepositories(t)

	r.follows(t, page, "The servers' side")
	r.follows(t, page, "With clusterctl")
	kube.Await(t, "the operator is registered", secret(t, c, release+"-cert"))
	if found := refused(t, c, release); len(found) > 0 {
		t.Errorf("the operator may not: %q", found)
	}

	certificate, leader := r.prints(t, certificateOf), r.prints(t, leaderOf)
	r.hasNextVersion(t)
	r.types(t, variables(t)+"clusterctl upgrade apply --infrastructure nstance:v0.2.0")
	if image := r.prints(t, imageOf); !strings.HasSuffix(image, ":0.2.0") {
		t.Errorf("the image is %s", image)
	}
	kube.Await(t, "the next version leads", func(context.Context) error {
		if now := r.prints(t, leaderOf); now == leader || now == "" {
			return fmt.Errorf("there leads %q", now)
		}
		return nil
	})
	if r.prints(t, certificateOf) != certificate {
		t.Error("the certificate is another one")
	}
	// clusterctl takes the rights away before it ends the Pod, which may ask for its Lease in between. The next version
	// would not lead without them.
	ofLease := func(call string) bool {
		return strings.HasSuffix(call, "leases nstance nstance-operator-leader-election")
	}
	if found := slices.DeleteFunc(refused(t, c, release), ofLease); len(found) > 0 {
		t.Errorf("the next version may not: %q", found)
	}

	r.types(t, "clusterctl delete --infrastructure nstance")
	left := strings.Fields(r.prints(t, "kubectl get --all-namespaces --ignore-not-found -o name -l cluster.x-k8s.io/provider=infrastructure-nstance "+everything))
	if len(left) != 1 || left[0] != "namespace/nstance" {
		t.Errorf("left behind: %v", left)
	}
	if left := kindsLeft(t, c); left != 6 {
		t.Errorf("%d definitions are left, want 6", left)
	}
}

// What there is of the operator.
const (
	certificateOf = `kubectl -n nstance get secret nstance-operator-cert -o jsonpath='{.data.tls\.crt}'`
	leaderOf      = `kubectl -n nstance get lease nstance-operator-leader-election -o jsonpath='{.spec.holderIdentity}'`
	imageOf       = `kubectl -n nstance get deployment nstance-operator -o jsonpath='{.spec.template.spec.containers[0].image}'`
)

// everything is all kinds of objects that an installation makes, but for definitions.
const everything = "namespaces,deployments,serviceaccounts,roles,rolebindings,clusterroles,clusterrolebindings,services,configmaps," +
	"poddisruptionbudgets,validatingadmissionpolicies,validatingadmissionpolicybindings,validatingwebhookconfigurations,mutatingwebhookconfigurations"

// oneLine is the value of NSTANCE_SHARDS.
func oneLine(t *testing.T, s *shards.Cluster) string {
	t.Helper()
	all := map[string]map[string]string{}
	for _, name := range s.Shards() {
		all[name] = map[string]string{"operator_addr": s.OperatorAddr(name), "registration_addr": s.RegistrationAddr(name)}
	}
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// hasRepositories gives the reader our repository, where the page has it, and one with the
// core of Cluster API, which is otherwise fetched from its releases.
func (r *reader) hasRepositories(t *testing.T) {
	t.Helper()
	if _, err := components.Write("../../../operator", filepath.Join(r.dir, "dist/clusterctl")); err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile("../../../bin/tools/capi-core.yaml")
	if err != nil {
		t.Fatalf("%v: %v", err, kube.ErrNotBuilt)
	}
	core := filepath.Join("core/cluster-api", coreVersion)
	r.has(t, filepath.Join(core, "core-components.yaml"), manifest)
	r.has(t, filepath.Join(core, "metadata.yaml"), []byte(coreMetadata))
	section, err := install.Section(page, "With clusterctl")
	if err != nil {
		t.Fatal(err)
	}
	config := strings.ReplaceAll(install.Blocks(section, "yaml")[0], "/path/to/", r.dir+"/") +
		fmt.Sprintf("  - {name: cluster-api, type: CoreProvider, url: %s}\n", filepath.Join(r.dir, core, "core-components.yaml"))
	r.has(t, ".config/cluster-api/clusterctl.yaml", []byte(config))
}

// hasNextVersion puts into our repository what the next release will: the same chart with
// another number, and the line about it in metadata.yaml.
func (r *reader) hasNextVersion(t *testing.T) {
	t.Helper()
	next := filepath.Join(t.TempDir(), "operator")
	if err := os.CopyFS(next, os.DirFS("../../../operator")); err != nil {
		t.Fatal(err)
	}
	edit(t, filepath.Join(next, "charts", release, "Chart.yaml"), "ersion: 0.1.0", "ersion: 0.2.0")
	edit(t, filepath.Join(next, "metadata.yaml"), "releaseSeries:", "releaseSeries:\n  - {major: 0, minor: 2, contract: v1beta2}")
	if _, err := components.Write(next, filepath.Join(r.dir, "dist/clusterctl")); err != nil {
		t.Fatal(err)
	}
}

// edit replaces a text in a file, everywhere.
func edit(t *testing.T, path, old, text string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edited := strings.ReplaceAll(string(content), old, text)
	if edited == string(content) {
		t.Fatalf("%s does not have %q", path, old)
	}
	if err := os.WriteFile(path, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
}

// variables are the lines of the page that set those of clusterctl.
func variables(t *testing.T) string {
	t.Helper()
	section, err := install.Section(page, "With clusterctl")
	if err != nil {
		t.Fatal(err)
	}
	set := ""
	for line := range strings.Lines(strings.Join(install.Blocks(section, "sh"), "\n")) {
		if strings.HasPrefix(line, "export ") {
			set += line
		}
	}
	return set
}

// secret returns nil once there is a Secret.
func secret(t *testing.T, c *kube.Cluster, name string) func(context.Context) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context) error {
		_, err := client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
		return err
	}
}
