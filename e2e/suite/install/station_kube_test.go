//go:build kube

package install_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"nstance.dev/e2e/env/box"
	"nstance.dev/e2e/env/kube"
)

// namespace and release are those of the pages.
const (
	namespace = "nstance"
	release   = "nstance-operator"
)

// mounted is where the Deployment mounts the configuration.
const mounted = "/etc/nstance/operator"

// station stands in for the kubelet that would run the operator: while there is a
// Deployment it keeps the program running, once and as that says. A change of the
// Deployment starts it anew, as does its end.
type station struct {
	cluster *kube.Cluster
	client  kubernetes.Interface
	binary  string
	dir     string // of the configuration, and of who the operator is
	log     string

	process *kube.Process // nil while there is none
	runs    revision      // that it runs
}

// revision is one text of one Deployment.
type revision struct {
	uid        types.UID
	generation int64
}

// newStation runs a station for as long as the test lasts.
func newStation(t *testing.T, c *kube.Cluster) *station {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	s := &station{
		cluster: c, client: client, binary: box.Binary(t, release),
		dir: t.TempDir(), log: filepath.Join(t.ArtifactDir(), release+".log"),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx, t.Logf)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		if t.Failed() {
			text, err := os.ReadFile(s.log)
			t.Logf("%s: %v\n%s", release, err, text)
		}
	})
	return s
}

// run looks at the Deployment again and again until ctx ends, and then ends the program.
func (s *station) run(ctx context.Context, logf func(string, ...any)) {
	said := ""
	for ctx.Err() == nil {
		if err := s.look(ctx); err != nil && ctx.Err() == nil && err.Error() != said {
			said = err.Error()
			logf("the Pod of the operator waits: %v", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
	s.stop()
}

// look makes what runs what the Deployment says. It waits as a kubelet does for what a Pod
// mounts.
func (s *station) look(ctx context.Context) error {
	deployment, err := s.client.AppsV1().Deployments(namespace).Get(ctx, release, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && *deployment.Spec.Replicas == 0 {
		s.stop()
		return nil
	}
	if err != nil {
		return err
	}
	now := revision{deployment.UID, deployment.Generation}
	if s.process != nil && !s.process.Ended() && s.runs == now {
		return nil
	}
	s.stop()
	if err := s.mount(ctx, deployment); err != nil {
		return err
	}
	args, env := s.command(deployment.Spec.Template.Spec.Containers[0])
	s.process, err = kube.Run(s.binary, args, env, s.log)
	s.runs = now
	return err
}

func (s *station) stop() {
	if s.process != nil {
		_ = s.process.Stop(kube.Patience) // it is killed then
		s.process = nil
	}
}

// mount writes down what the Pod would find in its file system: the ConfigMap, and a token
// of its ServiceAccount, here in a kubeconfig.
func (s *station) mount(ctx context.Context, deployment *appsv1.Deployment) error {
	pod := deployment.Spec.Template.Spec
	config, err := s.client.CoreV1().ConfigMaps(namespace).Get(ctx, pod.Volumes[0].ConfigMap.Name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for name, text := range config.Data {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	day := int64(24 * 60 * 60)
	token, err := s.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, pod.ServiceAccountName,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	admin := s.cluster.Admin()
	kubeconfig, err := kube.Kubeconfig(&rest.Config{
		Host: admin.Host, BearerToken: token.Status.Token, TLSClientConfig: rest.TLSClientConfig{CAData: admin.CAData},
	})
	if err != nil {
		return err
	}
	return os.WriteFile(s.kubeconfig(), kubeconfig, 0o600)
}

func (s *station) kubeconfig() string { return filepath.Join(s.dir, "kubeconfig") }

// command is what the container runs. Only a program that is not in a Pod needs to be told
// where the API server is.
func (s *station) command(container corev1.Container) (args, env []string) {
	for _, arg := range container.Args {
		args = append(args, strings.ReplaceAll(arg, mounted, s.dir))
	}
	for _, e := range container.Env {
		value := e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef.FieldPath == "metadata.namespace" {
			value = namespace
		}
		env = append(env, e.Name+"="+value)
	}
	return append(args, "--kubeconfig="+s.kubeconfig()), env
}

// refused are the requests of a ServiceAccount that RBAC did not allow.
func refused(t *testing.T, c *kube.Cluster, account string) []string {
	t.Helper()
	requests, err := c.Audit()
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, r := range requests {
		if r.User == "system:serviceaccount:"+namespace+":"+account && r.Code == 403 {
			found = append(found, fmt.Sprintf("%s %s/%s %s %s", r.Verb, r.Group, r.Resource, r.Namespace, r.Name))
		}
	}
	return found
}

// kindsLeft counts the definitions of ours.
func kindsLeft(t *testing.T, c *kube.Cluster) int {
	t.Helper()
	client, err := dynamic.NewForConfig(c.Admin())
	if err != nil {
		t.Fatal(err)
	}
	definitions := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	all, err := client.Resource(definitions).List(t.Context(), metav1.ListOptions{LabelSelector: "cluster.x-k8s.io/provider=infrastructure-nstance"})
	if err != nil {
		t.Fatal(err)
	}
	return len(all.Items)
}
