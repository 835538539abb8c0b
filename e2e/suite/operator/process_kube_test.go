//go:build kube

package operator_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/operator/config"
	"nstance.dev/operator/manager"
	"nstance.dev/operator/shards/shardtest"
)

// process is the operator in this process, before a real API server, in a cluster of
// shards a and b that are in memory.
type process struct {
	*kube.Cluster

	shards    *shardtest.Cluster
	clients   *kubernetes.Clientset
	config    string // path of the configuration file
	kubeadmin string // path of a kubeconfig
	probes    string // host:port
	metrics   string // host:port
	log       *logs
}

// logs keeps what was logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

const processNamespace = "default"

func newProcess(t *testing.T, c *kube.Cluster) *process {
	t.Helper()
	p := &process{Cluster: c, shards: shardtest.NewCluster(t), config: filepath.Join(t.TempDir(), "config.yaml"), log: &logs{}}
	p.shards.Shard("a").AddGroup("default", shardtest.Group{Key: "web", Size: 2})
	p.shards.Shard("a").Serve("a:8993")
	p.shards.Shard("a").Serve("a:8992")
	p.shards.Shard("b").Serve("b:8993")
	var err error
	if p.clients, err = kubernetes.NewForConfig(c.Admin()); err != nil {
		t.Fatal(err)
	}
	if p.kubeadmin, err = c.KubeconfigFile(c.Admin()); err != nil {
		t.Fatal(err)
	}
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p.probes = fmt.Sprintf("127.0.0.1:%d", port)
	if port, err = kube.FreePort(); err != nil {
		t.Fatal(err)
	}
	p.metrics = fmt.Sprintf("127.0.0.1:%d", port)
	p.configure(t, "a: {operator_addr: \"a:8993\"}")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "nstance-capi-workload"}}
	if _, err := p.clients.CoreV1().ServiceAccounts(processNamespace).Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "nstance-cluster-ca"}, Data: map[string]string{"ca.crt": string(p.shards.CA())}}
	if _, err := p.clients.CoreV1().ConfigMaps(processNamespace).Create(t.Context(), ca, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	nonce := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "nstance-operator-nonce"},
		Data:       map[string][]byte{"nonce.jwt": []byte(p.shards.Nonce("default", time.Hour))},
	}
	if _, err := p.clients.CoreV1().Secrets(processNamespace).Create(t.Context(), nonce, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return p
}

// configure writes a configuration with these shards.
func (p *process) configure(t *testing.T, shards ...string) {
	t.Helper()
	text := "cluster_id: " + p.shards.ID + "\nshards:\n  " + strings.Join(shards, "\n  ") + "\n"
	if err := os.WriteFile(p.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start runs the operator; the function ends it and returns what it ended with.
func (p *process) start(t *testing.T) (stop func() error) {
	t.Helper()
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	s, err := config.ParseFlags([]string{
		"--config=" + p.config, "--namespace=" + processNamespace, "--kubeconfig=" + p.kubeadmin,
		"--health-probe-bind-address=" + p.probes, "--metrics-bind-address=" + p.metrics, "--metrics-secure=false", "--leader-elect", fmt.Sprintf("--webhook-port=%d", port),
	}, func(string) string { return "" }, "")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(p.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- manager.Run(ctx, s, manager.Options{Version: "test", Log: log, Dial: p.shards.DialContext})
	}()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		_ = stop()
		if t.Failed() {
			t.Log(p.log.String())
		}
	})
	return stop
}

// answers reports whether an address answers with a status, and with a text in it.
func answers(url string, status int, part string) func(context.Context) error {
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+url, nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			return err
		}
		if answer.StatusCode != status || !strings.Contains(string(text), part) {
			return fmt.Errorf("%s answers %s: %s", url, answer.Status, text)
		}
		return nil
	}
}

func (p *process) secret(name string, entries ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		s, err := p.clients.CoreV1().Secrets(processNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if len(s.Data[entry]) == 0 {
				return fmt.Errorf("secret %s has no %s", name, entry)
			}
		}
		return nil
	}
}

func (p *process) connected(shard string) func(context.Context) error {
	return func(context.Context) error {
		if p.shards.Shard(shard).Streams() == 0 {
			return errors.New("there are no streams")
		}
		return nil
	}
}

// object reports whether an object of a kind is there and has a value in a field.
func (p *process) object(client dynamic.Interface, kind schema.GroupVersionResource, name, want string, field ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		o, err := client.Resource(kind).Namespace(processNamespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		value, _, err := unstructured.NestedFieldNoCopy(o.Object, field...)
		if err == nil && fmt.Sprint(value) != want {
			err = fmt.Errorf("%s %s: %s is %v, want %s", kind.Resource, name, strings.Join(field, "."), value, want)
		}
		return err
	}
}

func TestO1_TheOperatorStartsBeforeARealAPIServer(t *testing.T) {
	ownCluster(t)
	c := kube.Start(t, kube.Config{})
	p := newProcess(t, c)
	stop := p.start(t)

	kube.Await(t, "alive", answers(p.probes+"/healthz", http.StatusOK, ""))
	kube.Await(t, "not ready without its kinds", answers(p.probes+"/readyz", http.StatusInternalServerError, ""))
	installDefinitions(t, c)
	core, err := kube.ClusterAPIDefinitions()
	if err != nil {
		t.Fatal(err)
	}
	apply(t, c, core...)

	kube.Await(t, "registered", p.secret("nstance-operator-cert", "tls.crt", "tls.key"))
	kube.Await(t, "webhook certificate", p.secret("nstance-operator-webhook-cert", "ca.crt", "tls.crt", "tls.key"))
	kube.Await(t, "ready", answers(p.probes+"/readyz", http.StatusOK, ""))
	kube.Await(t, "shard a connected", p.connected("a"))
	objects := clientOf(t, c.Admin(), nil)
	infra := schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta1"}
	capi := schema.GroupVersion{Group: "cluster.x-k8s.io", Version: "v1beta2"}
	kube.Await(t, "provisioned", p.object(objects, infra.WithResource("nstanceclusters"), "example--default", "true", "status", "ready"))
	kube.Await(t, "kubeconfig", p.secret("example--default-kubeconfig", "value"))
	kube.Await(t, "group imported", p.object(objects, capi.WithResource("machinepools"), "web", "2", "spec", "replicas"))
	kube.Await(t, "pool listed", p.object(objects, infra.WithResource("nstancemachinepools"), "web", "2", "status", "replicas"))
	kube.Await(t, "pool counted", answers(p.metrics+"/metrics", http.StatusOK, `nstance_operator_pool_replicas{kind="desired",pool="web"} 2`))

	listed := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "nstance-shards"}, Data: map[string]string{"a": "a:8993", "b": "b:8993"}}
	if _, err := p.clients.CoreV1().ConfigMaps(processNamespace).Create(t.Context(), listed, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kube.Await(t, "shard b connected", p.connected("b"))

	running := p.log.String()
	faults(t, running)
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	// What the end of the process cut short is no fault, nor that it gave its Lease back.
	faults(t, strings.TrimPrefix(p.log.String(), running), "context canceled", `err="leader election lost"`)
	t.Logf("measured: ended after %v", time.Since(began).Round(time.Millisecond))
	lease, err := p.clients.CoordinationV1().Leases(processNamespace).Get(t.Context(), electionLease, metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the Lease is not given back: %v", err)
	}
}

// faults fails the test for each error in a log that says nothing of what may be.
func faults(t *testing.T, log string, mayBe ...string) {
	t.Helper()
	for line := range strings.Lines(log) {
		says := func(text string) bool { return strings.Contains(line, text) }
		if says("level=ERROR") && !slices.ContainsFunc(mayBe, says) {
			t.Errorf("it logged: %s", line)
		}
	}
}
