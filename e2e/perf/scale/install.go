package scale

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"nstance.dev/e2e/repo/chart"
)

// Where the operator is installed, and as what.
const (
	namespace = "nstance-system"
	release   = "nstance-operator"
	chartDir  = "../../../operator/charts/nstance-operator"
	binary    = "../../../bin/nstance-operator"
)

// install installs the chart, but for what would run in the cluster, and gives the operator
// what it needs to register.
func (w *world) install() {
	w.t.Helper()
	rendered, err := chart.Render(chartDir, chart.Release{Name: release, Namespace: namespace}, w.values())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, name := range []string{namespace, workNamespace} {
		_, err := w.core.CoreV1().Namespaces().Create(w.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			w.t.Fatal(err)
		}
	}
	var objects []*unstructured.Unstructured
	for _, object := range rendered.Objects {
		switch object.GetKind() {
		case "Deployment":
			w.program = w.programOf(object)
		case "Service", "PodDisruptionBudget":
		default:
			objects = append(objects, object)
		}
	}
	if err := w.Apply(w.t.Context(), objects...); err != nil {
		w.t.Fatal(err)
	}
	w.introduce()
}

// values are those of the chart: the least, and where things are on this box. There is
// no Pod that webhooks could be called in.
func (w *world) values() map[string]any {
	addresses := map[string]any{}
	for name, port := range w.ports {
		addresses[name] = map[string]any{"operator_addr": port, "registration_addr": port}
	}
	return map[string]any{
		"config":  map[string]any{"clusterId": w.shards.ID, "shards": addresses},
		"capi":    map[string]any{"apiServer": w.Admin().Host},
		"webhook": map[string]any{"enabled": false},
	}
}

// introduce gives the operator the cluster's authorities and a nonce.
func (w *world) introduce() {
	w.t.Helper()
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "nstance-cluster-ca"}, Data: map[string]string{"ca.crt": string(w.shards.CA())}}
	if _, err := w.core.CoreV1().ConfigMaps(namespace).Create(w.t.Context(), ca, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	nonce := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "nstance-operator-nonce"},
		Data:       map[string][]byte{"nonce.jwt": []byte(w.shards.Nonce(tenant, time.Hour))},
	}
	if _, err := w.core.CoreV1().Secrets(namespace).Create(w.t.Context(), nonce, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
}

// program is how the chart runs the operator.
type program struct {
	path      string
	args, env []string
}

// programOf returns how a Deployment runs the operator, with the files that it finds in
// its Pod. What the Deployment's ConfigMap has, its arguments name by a path in the Pod.
func (w *world) programOf(object *unstructured.Unstructured) program {
	w.t.Helper()
	var deployment appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
		w.t.Fatal(err)
	}
	path, err := filepath.Abs(binary)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		w.t.Fatalf("%v; run: make build", err)
	}
	config := filepath.Join(w.t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "cluster_id: %s\ntenant: %s\n", w.shards.ID, tenant), 0o600); err != nil {
		w.t.Fatal(err)
	}
	account, err := w.ServiceAccount(namespace, release)
	if err != nil {
		w.t.Fatal(err)
	}
	kubeconfig, err := w.KubeconfigFile(account)
	if err != nil {
		w.t.Fatal(err)
	}
	container := deployment.Spec.Template.Spec.Containers[0]
	p := program{path: path, args: append(container.Args, "--config="+config, "--kubeconfig="+kubeconfig, "--namespace="+namespace)}
	for _, e := range container.Env {
		if e.ValueFrom == nil {
			p.env = append(p.env, e.Name+"="+e.Value)
		}
	}
	return p
}
