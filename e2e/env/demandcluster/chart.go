package demandcluster

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/env/kube/nodes"
	"nstance.dev/e2e/env/shards"
	"nstance.dev/e2e/repo/chart"
)

// Namespace is where the operator is installed, and Release as what.
const (
	Namespace = "nstance-system"
	Release   = "nstance-operator"
	chartDir  = "operator/charts/nstance-operator"
)

// Blob is the template of what makes a machine a Node of the cluster of a tenant: a script that
// the machine runs, whose Node says its shard's URI as provider id.
func Blob(tenant string) string {
	return nodes.JoinScript(`nstance://{{ index .NodeLabels "nstance.dev/shard" }}/{{ .MachineID }}`, tenantLabel+"="+tenant)
}

// values are those of an installation here: where the shards are, that demand is on, and that
// there is no Pod in which webhooks could be called.
func (c *Cluster) values() map[string]any {
	addresses := map[string]any{}
	for _, shard := range c.Shards.Shards() {
		addresses[shard] = map[string]any{
			"operator_addr": c.Shards.OperatorAddr(shard), "registration_addr": c.Shards.RegistrationAddr(shard),
			"zone": shard,
		}
	}
	return map[string]any{
		"config":          map[string]any{"clusterId": shards.ClusterID, "tenant": c.Tenant, "shards": addresses},
		"ca":              map[string]any{"create": true, "pem": string(c.Shards.CA())},
		"registration":    map[string]any{"jwt": c.Shards.Nonce(c.Tenant)},
		"capi":            map[string]any{"apiServer": c.APIServer()},
		"webhook":         map[string]any{"enabled": false},
		"onDemand":        map[string]any{"mode": "off"},
		"log":             map[string]any{"format": "text"},
		"healthProbeAddr": c.freeAddress(),
		"metrics":         map[string]any{"address": c.freeAddress()},
		"demand":          map[string]any{"enabled": true, "bootstrapTemplate": Blob(c.Tenant)},
	}
}

func (c *Cluster) freeAddress() string {
	c.t.Helper()
	port, err := kube.FreePort()
	if err != nil {
		c.t.Fatal(err)
	}
	return fmt.Sprintf("%s:%d", kube.Address(), port)
}

// install installs the chart, but for the Deployment: its program runs here, as its account.
func (c *Cluster) install(values map[string]any) {
	c.t.Helper()
	dir, err := root()
	if err != nil {
		c.t.Fatal(err)
	}
	c.installed = merge(c.values(), values)
	c.rendered, err = chart.Render(filepath.Join(dir, chartDir), chart.Release{Name: Release, Namespace: Namespace}, c.installed)
	if err != nil {
		c.t.Fatal(err)
	}
	kinds, err := kube.ClusterAPIDefinitions() // the operator's objects name them
	if err != nil {
		c.t.Fatal(err)
	}
	namespace, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: Namespace},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	objects := slices.Concat(kinds, []*unstructured.Unstructured{{Object: namespace}})
	var deployment appsv1.Deployment
	for _, object := range c.rendered.Objects {
		if object.GetKind() != "Deployment" {
			objects = append(objects, object)
		} else if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			c.t.Fatal(err)
		}
	}
	if err := c.Apply(c.t.Context(), objects...); err != nil {
		c.t.Fatal(err)
	}
	c.account = deployment.Spec.Template.Spec.ServiceAccountName
	c.program = c.asPod(deployment.Spec.Template.Spec)
}

// root is the directory with go.work above the test's.
func root() (string, error) {
	dir, err := os.Getwd()
	for err == nil {
		if _, err := os.Stat(filepath.Join(dir, "go.work")); err == nil || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir, err
}

// program is how the operator is started.
type program struct {
	path, log string
	args, env []string
	metrics   string // host:port
}

// asPod takes from a Pod how its program is started. The files of its ConfigMaps are in a
// directory here, and its arguments name them there.
func (c *Cluster) asPod(pod corev1.PodSpec) program {
	c.t.Helper()
	container := pod.Containers[0]
	p := program{
		path: box.Binary(c.t, "nstance-operator"), log: filepath.Join(c.t.ArtifactDir(), "nstance-operator-"+c.Tenant+".log"),
		args: slices.Clone(container.Args),
	}
	for _, mount := range container.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
		if i < 0 || pod.Volumes[i].ConfigMap == nil {
			continue
		}
		dir := c.files(pod.Volumes[i].ConfigMap)
		for n := range p.args {
			p.args[n] = replacePath(p.args[n], mount.MountPath, dir)
		}
	}
	p.args = append(p.args, "--kubeconfig="+c.kubeconfig())
	p.metrics = flagOf(p.args, "--metrics-bind-address")
	for _, e := range container.Env {
		if e.ValueFrom != nil { // the Pod's namespace
			e.Value = Namespace
		}
		p.env = append(p.env, e.Name+"="+e.Value)
	}
	return p
}

// files writes the entries of a ConfigMap into a directory, as a kubelet does.
func (c *Cluster) files(source *corev1.ConfigMapVolumeSource) string {
	c.t.Helper()
	config, err := c.Client.CoreV1().ConfigMaps(Namespace).Get(c.t.Context(), source.Name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	dir := c.t.TempDir()
	for key, text := range config.Data {
		for _, item := range source.Items {
			if item.Key == key {
				key = item.Path
			}
		}
		if err := os.WriteFile(filepath.Join(dir, key), []byte(text), 0o600); err != nil {
			c.t.Fatal(err)
		}
	}
	return dir
}

// kubeconfig returns a file that lets the program be its ServiceAccount, by a token of it.
func (c *Cluster) kubeconfig() string {
	c.t.Helper()
	seconds := int64(24 * time.Hour / time.Second)
	token, err := c.Client.CoreV1().ServiceAccounts(Namespace).CreateToken(c.t.Context(), c.account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	config := c.Admin()
	config.CertData, config.KeyData, config.BearerToken = nil, nil, token.Status.Token
	path, err := c.KubeconfigFile(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return path
}
