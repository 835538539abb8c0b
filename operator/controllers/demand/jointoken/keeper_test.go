package jointoken

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"nstance.dev/operator/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const life = 30 * time.Minute

// world is kube-system, and keepers that come and go.
type world struct {
	t      *testing.T
	api    client.Client
	failed atomic.Pointer[error] // what creates fail with
	log    bytes.Buffer
	idle   atomic.Bool // nothing wants tokens
	made   []error
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.api = testworld.NewClientBuilder(t).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := w.failed.Load(); err != nil {
				return *err
			}
			return api.Create(ctx, o, opts...)
		},
	}).Build()
	return w
}

// begin starts a keeper, the way a new leader does, and returns what ends it.
func (w *world) begin() (*Keeper, func()) {
	k := New(Options{
		Client: w.api, ClusterID: "example", Tenant: "red", Life: life, Groups: []string{"system:bootstrappers:a", "system:bootstrappers:b"},
		Wanted: func() bool { return !w.idle.Load() },
		Made:   func(_ time.Time, err error) { w.made = append(w.made, err) },
		Log:    slog.New(slog.NewTextHandler(&w.log, nil)),
	})
	ctx, cancel := context.WithCancel(w.t.Context())
	ended := make(chan error)
	go func() { ended <- k.Start(ctx) }()
	synctest.Wait()
	return k, func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("Start() = %v", err)
		}
	}
}

// secrets are those that stand in the cluster, by name.
func (w *world) secrets() map[string]corev1.Secret {
	w.t.Helper()
	var list corev1.SecretList
	if err := w.api.List(context.Background(), &list); err != nil {
		w.t.Fatal(err)
	}
	all := map[string]corev1.Secret{}
	for _, s := range list.Items {
		all[s.Name] = s
	}
	return all
}

// valid is the newest token of a keeper, which has to stand in the cluster for as long as said.
func (w *world) valid(k *Keeper) (string, time.Duration) {
	w.t.Helper()
	value, until, err := k.Token()
	if err != nil {
		w.t.Fatal(err)
	}
	id, secret, _ := strings.Cut(value, ".")
	s := w.secrets()["bootstrap-token-"+id]
	expiration, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
	if err != nil || string(s.Data["token-secret"]) != secret || !expiration.Equal(until) {
		w.t.Fatalf("the token is good until %v, and the Secret says %s, %v", until, s.Data["expiration"], err)
	}
	return value, time.Until(until)
}

func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// The Secret is one that the API server and kubeadm take for a token.
func TestSecret(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k, end := w.begin()
		defer end()
		value, _ := w.valid(k)
		if !regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`).MatchString(value) {
			t.Errorf("the token is %q", value)
		}
		id, secret, _ := strings.Cut(value, ".")
		want := map[string]string{
			"token-id": id, "token-secret": secret, "expiration": time.Now().Add(life).UTC().Format(time.RFC3339),
			"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "true", "auth-extra-groups": "system:bootstrappers:a,system:bootstrappers:b",
			"description": "nstance-operator: machines of cluster example, tenant red, join with it",
		}
		s := w.secrets()["bootstrap-token-"+id]
		got := map[string]string{}
		for key, v := range s.Data {
			got[key] = string(v)
		}
		if diff := cmp.Diff(want, got); diff != "" || s.Namespace != metav1.NamespaceSystem || s.Type != "bootstrap.kubernetes.io/token" {
			t.Errorf("%s of type %s: -want +got:\n%s", client.ObjectKeyFromObject(&s), s.Type, diff)
		}
		if strings.Contains(w.log.String(), secret) || !strings.Contains(w.log.String(), "join token made") {
			t.Errorf("the log says %s", w.log.String())
		}
	})
}

// At any time the newest is good for half its life at least, the one before works until its
// end, and nothing is left after that.
func TestRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		k, end := w.begin()
		seen := map[string]time.Time{} // end of each token
		begin := time.Now()
		for time.Since(begin) < 12*time.Hour {
			value, left := w.valid(k)
			if left < life/2-2*time.Second {
				t.Fatalf("after %v the newest is good for %v", time.Since(begin), left)
			}
			id, _, _ := strings.Cut(value, ".")
			seen[value] = time.Now().Add(left)
			standing := w.secrets()
			if len(standing) > periods {
				t.Fatalf("after %v there are %d Secrets", time.Since(begin), len(standing))
			}
			for other, until := range seen {
				otherID, otherSecret, _ := strings.Cut(other, ".")
				s, exists := standing["bootstrap-token-"+otherID]
				same := exists && string(s.Data["token-secret"]) == otherSecret
				if time.Now().Before(until) && !same {
					t.Fatalf("after %v token %s is gone %v before its end", time.Since(begin), otherID, time.Until(until))
				}
				if same && time.Since(until) > life {
					t.Fatalf("after %v token %s is there %v after its end", time.Since(begin), otherID, time.Since(until))
				}
			}
			if !slices.Contains(Names("example", "red"), "bootstrap-token-"+id) {
				t.Fatalf("%s is no name of it", id)
			}
			after(time.Minute)
		}
		end()
		if len(seen) < 40 || len(seen) > 60 {
			t.Errorf("%d tokens in 12 hours", len(seen))
		}
	})
}

// Another leader makes a token of its own. Those of the leaders before go on working: machines
// are joining by them.
func TestALeaderLeavesTheTokensOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var values []string
		for range attempts {
			k, end := w.begin()
			value, _ := w.valid(k)
			values = append(values, value)
			end()
			after(10 * time.Second)
		}
		if got := w.secrets(); len(got) != attempts || len(slices.Compact(values)) != attempts {
			t.Errorf("tokens %v, Secrets %v", values, slices.Sorted(maps.Keys(got)))
		}
		// One that comes too often takes the place of the last.
		k, end := w.begin()
		w.valid(k)
		if got := w.secrets(); len(got) != attempts {
			t.Errorf("Secrets %v", slices.Sorted(maps.Keys(got)))
		}
		// What the leaders before have left goes in time.
		after(3 * life)
		if got := w.secrets(); len(got) > 3 {
			t.Errorf("left are %v", slices.Sorted(maps.Keys(got)))
		}
		end()
	})
}

// What fails is tried again, first after a second and then ever more seldom, and is said.
func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		away := errors.New("the API server is away")
		w.failed.Store(&away)
		k, end := w.begin()
		defer end()
		if _, _, err := k.Token(); !errors.Is(err, ErrNone) {
			t.Errorf("Token() = %v", err)
		}
		after(10 * time.Minute)
		if n := len(w.made); n < 10 || n > 25 || !errors.Is(w.made[0], away) {
			t.Errorf("%d failures in ten minutes: %v", n, w.made)
		}
		if !strings.Contains(w.log.String(), `msg="join token not renewed" error="create join token: the API server is away"`) {
			t.Errorf("the log says %s", w.log.String())
		}
		w.failed.Store(nil)
		after(80 * time.Second)
		first, _ := w.valid(k)
		// While it has one, a failure costs nothing until the end of that.
		w.failed.Store(&away)
		after(life / 2)
		if second, left := w.valid(k); second != first || left <= 0 {
			t.Errorf("the token is good for %v", left)
		}
	})
}

// No token is made while none is wanted, and one that is wanted no longer goes at its end.
func TestNoneIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.idle.Store(true)
		k, end := w.begin()
		defer end()
		after(time.Hour)
		if len(w.secrets()) != 0 || len(w.made) != 0 {
			t.Error("a token is made for nothing")
		}
		w.idle.Store(false)
		after(2 * time.Second)
		w.valid(k)
		w.idle.Store(true)
		after(life - 10*time.Second)
		w.valid(k)
		after(15 * time.Second)
		if _, _, err := k.Token(); !errors.Is(err, ErrNone) || len(w.secrets()) != 0 {
			t.Errorf("Token() = %v, Secrets %v", err, w.secrets())
		}
		if len(w.made) != 2 { // one was made, and then there was none
			t.Errorf("heard is %v", w.made)
		}
	})
}

// The chart grants the right to delete by these names, so they follow from cluster and tenant,
// and differ between those.
func TestNames(t *testing.T) {
	names := Names("example", "red")
	for _, name := range names {
		if !regexp.MustCompile(`^bootstrap-token-[a-z0-9]{6}$`).MatchString(name) {
			t.Errorf("%s is no name of a token", name)
		}
	}
	all := slices.Concat(names, Names("example", "blue"), Names("other", "red"))
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 3*periods*attempts {
		t.Errorf("%d names differ", n)
	}
	if fmt.Sprint(names) != fmt.Sprint(Names("example", "red")) {
		t.Error("they are others each time")
	}
}
