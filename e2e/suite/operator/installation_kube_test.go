//go:build kube

package operator_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/e2e/repo/chart"
)

// installation is the chart, installed. Where nobody runs its Pods, the operator's program
// runs here, with their arguments and as their account.
type installation struct {
	*core
	shards   *shards.Cluster
	tenant   string
	objects  chart.Rendered
	account  string // the operator's ServiceAccount
	operator operator
}

// install installs a release for a tenant, and starts its operator. The values are those
// which are not given anyway.
func install(t testing.TB, c *core, s *shards.Cluster, tenant string, values map[string]any) *installation {
	t.Helper()
	i := &installation{core: c, shards: s, tenant: tenant}
	all := i.values(t)
	maps.Copy(all, values)
	known(all)
	var err error
	if i.objects, err = chart.Render(chartDir(), chart.Release{Name: c.namespace, Namespace: c.namespace}, all); err != nil {
		t.Fatal(err)
	}
	apply(t, c.Cluster, convert(t, &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: c.namespace},
	}))
	var deployment appsv1.Deployment
	for _, object := range i.objects.Objects {
		if object.GetKind() != "Deployment" || kube.Where().RunsPods() {
			apply(t, c.Cluster, object)
		}
		if object.GetKind() != "Deployment" {
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			t.Fatal(err)
		}
	}
	i.account = deployment.Spec.Template.Spec.ServiceAccountName
	if kube.Where().RunsPods() {
		i.operator = &deployed{cluster: c.Cluster, client: c.client, namespace: c.namespace, name: deployment.Name}
	} else {
		i.operator = i.asPod(t, deployment.Spec.Template.Spec)
	}
	i.start(t)
	t.Cleanup(func() { i.operator.Kill(t) })
	common.add(i)
	return i
}

// values are what an administrator writes down. Where Pods run, that is on which Nodes they
// do; elsewhere they would have ports of their own, and these are free here.
func (i *installation) values(t testing.TB) map[string]any {
	t.Helper()
	addresses := map[string]any{}
	for _, shard := range i.shards.Shards() {
		addresses[shard] = map[string]any{
			"operator_addr": i.shards.OperatorAddr(shard), "registration_addr": i.shards.RegistrationAddr(shard),
		}
	}
	values := map[string]any{
		"config":       map[string]any{"clusterId": shards.ClusterID, "tenant": i.tenant, "shards": addresses},
		"ca":           map[string]any{"create": true, "pem": string(i.shards.CA())},
		"registration": map[string]any{"jwt": i.shards.Nonce(i.tenant)},
		"capi":         map[string]any{"apiServer": i.APIServer()},
		"log":          map[string]any{"format": "text"},
	}
	if kube.Where().RunsPods() {
		values["replicaCount"] = 1
		values["podDisruptionBudget"] = map[string]any{"minAvailable": 0}
		values["nodeSelector"] = map[string]any{kube.RealNode: "true"}
		return values
	}
	values["healthProbeAddr"] = freeAddress(t)
	values["metrics"] = map[string]any{"address": freeAddress(t)}
	values["webhook"] = map[string]any{"port": 443} // of its Service: see package kube
	return values
}

func freeAddress(t testing.TB) string {
	t.Helper()
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// asPod takes from a Pod what its program is started with. What a kubelet would give to
// it is in files here.
func (i *installation) asPod(t testing.TB, pod corev1.PodSpec) *program {
	t.Helper()
	config, err := i.client.CoreV1().ConfigMaps(i.namespace).Get(t.Context(), "nstance-operator-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(config.Data["config.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	container := pod.Containers[0]
	p := &program{
		binary: operatorBinary(t), log: filepath.Join(t.ArtifactDir(), i.namespace+".log"),
		args: append(slices.Clone(container.Args), "--config="+path, "--kubeconfig="+i.kubeconfig(t, i.account)),
	}
	p.metrics = flagOf(p.args, "--metrics-bind-address")
	for _, e := range container.Env {
		if e.ValueFrom != nil { // the Pod's namespace
			e.Value = i.namespace
		}
		p.env = append(p.env, e.Name+"="+e.Value)
	}
	return p
}

// kubeconfig returns a file that lets the program be a ServiceAccount, by a token of it.
func (i *installation) kubeconfig(t testing.TB, account string) string {
	t.Helper()
	seconds := int64(24 * time.Hour / time.Second)
	token, err := i.client.CoreV1().ServiceAccounts(i.namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	config := i.Admin()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token.Status.Token
	path, err := i.KubeconfigFile(config)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start starts the operator, which has ended or was not there before.
func (i *installation) start(t testing.TB) {
	t.Helper()
	if err := i.operator.Start(); err != nil {
		t.Fatal(err)
	}
}

// restart kills the operator and starts it again. The new one waits until the Lease of
// the old one is over.
func (i *installation) restart(t testing.TB) {
	t.Helper()
	i.operator.Kill(t)
	i.start(t)
}

// crash kills the operator, and has its Lease be over at once, as if it were for long that
// nobody runs it.
func (i *installation) crash(t *testing.T) {
	t.Helper()
	i.operator.Kill(t)
	_, err := i.client.CoordinationV1().Leases(i.namespace).Patch(t.Context(), electionLease, types.MergePatchType,
		[]byte(`{"spec":{"holderIdentity":""}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// electionLease is the Lease of the operator that leads.
const electionLease = "nstance-operator-leader-election"

// holder returns which process leads, or led last.
func (i *installation) holder(ctx context.Context) (string, error) {
	lease, err := i.client.CoordinationV1().Leases(i.namespace).Get(ctx, electionLease, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

// leader is holder for a test.
func (i *installation) leader(t *testing.T) string {
	t.Helper()
	holder, err := i.holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return holder
}

// succeed starts the operator, if it has ended and nobody else does, and waits until another
// process leads than the one that led before.
func (i *installation) succeed(t *testing.T, before string) {
	t.Helper()
	if i.operator.Ended() {
		i.start(t)
	}
	kube.Await(t, "the new operator leads", func(ctx context.Context) error {
		now, err := i.holder(ctx)
		if err == nil && (now == before || now == "") {
			err = errors.New("it does not")
		}
		return err
	})
}

// enter has a test use the installation: whatever it does, all is well again afterwards, and
// if it fails, the operator has the word.
func (i *installation) enter(t *testing.T) {
	t.Helper()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("nstance-operator:\n%s", i.operator.Log(80))
		}
		i.heal(t)
	})
}

// heal has the shards answer and the operator run.
func (i *installation) heal(t testing.TB) {
	t.Helper()
	for _, shard := range i.shards.Shards() {
		i.shards.Mend(shard)
		if !i.shards.Runs(shard) {
			i.shards.Start(shard)
		}
	}
	if i.operator.Ended() {
		i.start(t)
	}
}

// user is the operator, as the API server calls it.
func (i *installation) user() string { return "system:serviceaccount:" + i.namespace + ":" + i.account }

// cluster is the name of the Cluster that the operator makes.
func (i *installation) cluster() string { return shards.ClusterID + "--" + i.tenant }

// connected returns nil once the operator says that it has heard of all shards.
func (i *installation) connected(ctx context.Context) error {
	cluster, err := i.get(ctx, "NstanceCluster", i.cluster())
	if err != nil {
		return err
	}
	if status := conditionOf(cluster, "ShardsReachable"); status != "True" {
		return fmt.Errorf("ShardsReachable is %q", status)
	}
	return nil
}
