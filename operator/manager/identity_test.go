package manager

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"nstance.dev/operator/config"
	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/inventory"
	"nstance.dev/operator/metrics"
	"nstance.dev/operator/shards/shardtest"
	"nstance.dev/operator/testworld"
)

// A first start while something is missing is no reason to end: each reason is said, and the
// operator registers once it is mended, after however long. The addresses of the shards may be
// what is mended.
func TestO1_AFirstRegistrationIsTriedUntilItSucceeds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	synctest.Test(t, func(t *testing.T) {
		c := shardtest.NewCluster(t)
		c.Shard("a").Serve("a:1")
		write := func(address string) {
			text := "cluster_id: " + c.ID + "\nshards: {a: {operator_addr: \"" + address + "\", registration_addr: \"" + address + "\"}}\n"
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("nowhere:1")
		s := config.Settings{Config: path, Namespace: "ns"}
		s.ShardsConfigMap, s.CAConfigMap, s.NonceSecret, s.NonceKey = "shards", "ca", "nonce", "nonce.jwt"
		s.KeySecret, s.CertSecret = "key", "cert"
		live := testworld.NewClientBuilder(t).Build()
		p := &process{
			settings: s, opts: Options{Dial: c.DialContext, Log: slog.New(slog.DiscardHandler)}, live: live,
			store: secrets.NewStore("ns", live, live), metrics: metrics.New(prometheus.NewRegistry()), cluster: "c--default",
		}
		present, listed, err := load(t.Context(), s, live)
		if err != nil {
			t.Fatal(err)
		}
		p.liveConfig.set(present)
		p.liveConfig.listed = listed
		p.shardState.feed = inventory.NewFeed(present.Tenant, inventory.NewHub(), time.Now)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() { done <- p.identify(ctx) }()
		reason := func(want string) {
			t.Helper()
			time.Sleep(6 * time.Minute) // the longest pause
			synctest.Wait()
			if problem := p.progress.unregistered.Load(); problem == nil || problem.Reason != want {
				t.Fatalf("%+v, want reason %s", problem, want)
			}
		}
		create := func(name string, data map[string]string) {
			t.Helper()
			meta := metav1.ObjectMeta{Namespace: "ns", Name: name}
			if name == "ca" {
				err = live.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: meta, Data: data})
			} else {
				err = live.Create(t.Context(), &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"nonce.jwt": []byte(data["nonce.jwt"])}})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		reason("RegistrationFailed") // no CA bundle
		create("ca", map[string]string{"ca.crt": string(c.CA())})
		reason("NonceMissing")
		create("nonce", map[string]string{"nonce.jwt": c.Nonce(present.Tenant, 24*time.Hour)})
		reason("NoShardAnswers")
		time.Sleep(2 * time.Hour)
		reason("NoShardAnswers")
		write("a:1")
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
		default:
			t.Fatalf("not registered: %+v", p.progress.unregistered.Load())
		}
		if _, until := p.identity.Validity(); until.IsZero() {
			t.Error("there is no certificate")
		}
	})
}

// A nonce that is put into its Secret is used at once, however long the pause is by then.
func TestO1_ANewNonceEndsThePause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := testworld.NewClientBuilder(t).Build()
		s := config.Settings{Namespace: "ns"}
		s.NonceSecret, s.NonceKey = "nonce", "nonce.jwt"
		p := &process{settings: s, opts: Options{Log: slog.New(slog.DiscardHandler)}, live: live, store: secrets.NewStore("ns", live, live)}
		time.AfterFunc(12*time.Second, func() {
			if err := live.Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "nonce"}, Data: map[string][]byte{"nonce.jwt": []byte("new")},
			}); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		if err := p.awaitNonce(t.Context(), 5*time.Minute); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it takes %v", took)
		}
	})
}
