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

	"nstance.dev/e2e/box"
	"nstance.dev/e2e/chart"
	"nstance.dev/e2e/kube"
	"nstance.dev/e2e/shards"
)

// chartDir is the chart that people install.
const chartDir = "../../operator/charts/nstance-operator"

// installation is the chart, installed, and the operator's program beside it: nobody
// runs its Pods, so the program runs here, with their arguments and as their account.
type installation struct {
	*core
	shards  *shards.Cluster
	tenant  string
	objects chart.Rendered

	binary, log string
	account     string // the operator's ServiceAccount
	args, env   []string
	operator    *kube.Process
}

// install installs a release for a tenant, and starts its operator. The values are those
// which are not given anyway.
func install(t testing.TB, c *core, s *shards.Cluster, tenant string, values map[string]any) *installation {
	t.Helper()
	i := &installation{core: c, shards: s, tenant: tenant, binary: box.Binary(t, "nstance-operator")}
	i.log = filepath.Join(t.ArtifactDir(), c.namespace+".log")
	all := i.values(t)
	maps.Copy(all, values)
	var err error
	if i.objects, err = chart.Render(chartDir, chart.Release{Name: c.namespace, Namespace: c.namespace}, all); err != nil {
		t.Fatal(err)
	}
	apply(t, c.Cluster, convert(t, &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: c.namespace},
	}))
	var deployment appsv1.Deployment
	for _, object := range i.objects.Objects {
		if object.GetKind() != "Deployment" {
			apply(t, c.Cluster, object)
			continue
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			t.Fatal(err)
		}
	}
	i.asPod(t, deployment.Spec.Template.Spec)
	i.start(t)
	t.Cleanup(func() { i.operator.Kill() })
	common.add(i)
	return i
}

// values are what an administrator writes down, and where a Pod has ports of its own,
// ports that are free here.
func (i *installation) values(t testing.TB) map[string]any {
	t.Helper()
	addresses := map[string]any{}
	for _, shard := range i.shards.Shards() {
		addresses[shard] = map[string]any{
			"operator_addr": i.shards.OperatorAddr(shard), "registration_addr": i.shards.RegistrationAddr(shard),
		}
	}
	return map[string]any{
		"config":          map[string]any{"clusterId": shards.ClusterID, "tenant": i.tenant, "shards": addresses},
		"ca":              map[string]any{"create": true, "pem": string(i.shards.CA())},
		"registration":    map[string]any{"jwt": i.shards.Nonce(i.tenant)},
		"capi":            map[string]any{"apiServer": i.Admin().Host},
		"healthProbeAddr": freeAddress(t),
		"metrics":         map[string]any{"address": freeAddress(t)},
		"log":             map[string]any{"format": "text"},
	}
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
func (i *installation) asPod(t testing.TB, pod corev1.PodSpec) {
	t.Helper()
	config, err := i.client.CoreV1().ConfigMaps(i.namespace).Get(t.Context(), "nstance-operator-config", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(config.Data["config.yaml"]), 0o600); err != nil {
		t.Fatal(err)
	}
	i.account = pod.ServiceAccountName
	container := pod.Containers[0]
	i.args = append(slices.Clone(container.Args), "--config="+path, "--kubeconfig="+i.kubeconfig(t, i.account))
	for _, e := range container.Env {
		if e.ValueFrom != nil { // the Pod's namespace
			e.Value = i.namespace
		}
		i.env = append(i.env, e.Name+"="+e.Value)
	}
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
	var err error
	if i.operator, err = kube.Run(i.binary, i.args, i.env, i.log); err != nil {
		t.Fatal(err)
	}
}

// restart kills the operator and starts it again. The new one waits until the Lease of
// the old one is over.
func (i *installation) restart(t testing.TB) {
	t.Helper()
	i.operator.Kill()
	i.start(t)
}

// holder returns which process leads, or led last.
func (i *installation) holder(ctx context.Context) (string, error) {
	lease, err := i.client.CoordinationV1().Leases(i.namespace).Get(ctx, "nstance-operator-leader-election", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity == nil {
		return "", err
	}
	return *lease.Spec.HolderIdentity, nil
}

// succeed starts the operator, which has ended, and waits until the new process leads.
func (i *installation) succeed(t *testing.T) {
	t.Helper()
	before, err := i.holder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	i.start(t)
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
