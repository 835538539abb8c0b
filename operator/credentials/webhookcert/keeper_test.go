package webhookcert

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"nstance.dev/operator/credentials/secrets"
	"nstance.dev/operator/credentials/secrets/secretstest"
	"nstance.dev/operator/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var quiet = slog.New(slog.DiscardHandler)

// run runs something until the test ends.
func run(t *testing.T, loop func(context.Context) error) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- loop(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func replica(store secrets.Store) *Keeper {
	return &Keeper{Store: store, Secret: DefaultSecret, Names: names, Log: quiet, Now: time.Now}
}

// later is a replica's clock that can be set forward, without all the looks until then.
type later struct{ days atomic.Int64 }

func (l *later) now() time.Time { return time.Now().Add(time.Duration(l.days.Load()) * day) }

// served returns what a replica serves, "" for nothing.
func served(k *Keeper) string {
	if k.Ready(nil) != nil {
		return ""
	}
	c, _ := k.GetCertificate(nil)
	return string(c.Certificate[0])
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestReplicasServeTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := secretstest.NewStore()
		one, other := replica(store), replica(store)
		var clock later
		one.Now, other.Now = clock.now, clock.now
		if served(one) != "" {
			t.Error("ready before it began")
		}
		run(t, one.Run)
		run(t, other.Run)
		after(time.Second)
		first := served(one)
		if first == "" || served(other) != first {
			t.Error("they do not serve the same")
		}
		clock.days.Store(61)
		after(11 * time.Minute)
		if second := served(one); second == first || served(other) != second {
			t.Error("they do not both serve a new one")
		}
		store.Remove(DefaultSecret)
		after(11 * time.Minute)
		if third := served(one); third == "" || served(other) != third {
			t.Error("they do not serve the same after the Secret was removed")
		}
	})
}

func TestTheCertificateStaysWhileTheAPIServerIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := secretstest.NewStore()
		k := replica(store)
		store.Break(func(int, string) (before, after error) { return errors.New("away"), nil })
		run(t, k.Run)
		after(time.Minute)
		if served(k) != "" {
			t.Error("it serves something")
		}
		store.Break(nil)
		after(retryInterval)
		first := served(k)
		store.Break(func(int, string) (before, after error) { return errors.New("away"), nil })
		after(time.Hour)
		if first == "" || served(k) != first {
			t.Error("it does not serve what it had")
		}
	})
}

func TestTheAPIServerIsToldOfTheAuthority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data, _ := renew(t, nil, time.Now())
		store := secretstest.NewStore(secrets.Secret{Name: DefaultSecret, Data: data})
		meta := metav1.ObjectMeta{Name: "hooks"}
		c := testworld.NewClientBuilder(t).WithObjects(
			&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Name: "a"}, {Name: "b"}}},
			&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{Name: "c"}}},
		).Build()
		trust := &Trust{Store: store, Secret: DefaultSecret, Client: c, Configuration: "hooks", Log: quiet}
		run(t, trust.Run)
		told := func() []string {
			var v admissionregistrationv1.ValidatingWebhookConfiguration
			var m admissionregistrationv1.MutatingWebhookConfiguration
			key := client.ObjectKey{Name: "hooks"}
			if err := errors.Join(c.Get(t.Context(), key, &v), c.Get(t.Context(), key, &m)); err != nil {
				t.Fatal(err)
			}
			return []string{
				string(v.Webhooks[0].ClientConfig.CABundle), string(v.Webhooks[1].ClientConfig.CABundle), string(m.Webhooks[0].ClientConfig.CABundle),
			}
		}
		check := func() {
			t.Helper()
			stored, err := store.Get(t.Context(), DefaultSecret)
			if err != nil {
				t.Fatal(err)
			}
			for i, got := range told() {
				if got != string(stored.Data[authoritiesEntry]) {
					t.Errorf("webhook %d has another authority", i)
				}
			}
		}
		after(time.Second)
		check()
		next, _ := renew(t, data, time.Now().Add(300*day))
		store.Put(secrets.Secret{Name: DefaultSecret, Data: next})
		after(trustInterval)
		check()

		if err := c.Delete(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta}); err != nil {
			t.Fatal(err)
		}
		after(trustInterval)
		if err := trust.once(t.Context()); err != nil {
			t.Errorf("without one of the two: %v", err)
		}
	})
}
