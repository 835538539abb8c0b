package program

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers are what an API server answers, one after another; the last one for ever.
type answers struct {
	codes []int // 0: there is no connection
	asked int
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	code := a.codes[min(a.asked, len(a.codes)-1)]
	a.asked++
	if code == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("[-]etcd failed")), Header: http.Header{}, Request: r}, nil
}

func TestAwaitAPI(t *testing.T) {
	for name, test := range map[string]struct {
		codes []int
		waits time.Duration
		says  string
	}{
		"it is ready":             {codes: []int{200}},
		"it wants nobody to ask":  {codes: []int{403}},
		"it does not know readyz": {codes: []int{404}},
		"it is away":              {codes: []int{0, 0, 200}, waits: 3 * time.Second, says: "connection refused"},
		"it starts":               {codes: []int{0, 500, 500, 200}, waits: 7 * time.Second, says: "etcd failed"},
		"it has too much to do":   {codes: []int{429, 200}, waits: time.Second, says: "retry_in=1s"},
		"it is away for long":     {codes: []int{0, 0, 0, 0, 0, 0, 0, 200}, waits: (1 + 2 + 4 + 5 + 5 + 5 + 5) * time.Second, says: "retry_in=5s"},
		"it does not come at all": {codes: []int{0}, waits: 70 * time.Second, says: "https://cluster:6443"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 70*time.Second)
				defer cancel()
				var out bytes.Buffer
				began := time.Now()
				err := AwaitAPI(ctx, &rest.Config{Host: "https://cluster:6443", Transport: &answers{codes: test.codes}}, "0", slog.New(slog.NewTextHandler(&out, nil)))
				if waited := time.Since(began); waited != test.waits {
					t.Errorf("waited %v, want %v", waited, test.waits)
				}
				if comes := test.codes[len(test.codes)-1] != 0; comes != (err == nil) {
					t.Errorf("error %v", err)
				}
				if !strings.Contains(out.String(), test.says) || test.waits == 0 && out.Len() > 0 {
					t.Errorf("log:\n%s", out.String())
				}
			})
		})
	}
}

// A process that waits is alive and not ready, and leaves the address to what starts then.
func TestProbesOfAProcessThatWaits(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	stop := serveWaiting(t.Context(), address, "the API server", slog.New(slog.DiscardHandler))
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, answer.StatusCode, want)
		}
	}
	var out bytes.Buffer
	serveWaiting(t.Context(), address, "the API server", slog.New(slog.NewTextHandler(&out, nil)))()
	if !strings.Contains(out.String(), "address already in use") {
		t.Errorf("an address that is taken: %s", out.String())
	}
	stop()
	again, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	http.DefaultClient.CloseIdleConnections()
}

// kindless is an API server that serves a kind from the second question on.
type kindless struct {
	discovery.ServerResourcesInterface

	asked int
}

func (k *kindless) ServerResourcesForGroupVersion(version string) (*metav1.APIResourceList, error) {
	if k.asked++; k.asked == 1 {
		return nil, apierrors.NewNotFound(schema.GroupResource{}, version)
	}
	return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Kind: "Thing"}}}, nil
}

// A process that waits for kinds answers probes: it is not started again, each time later, for what it waits for.
func TestAwaitKindsAnswersProbes(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	ctx, end := context.WithCancel(t.Context())
	defer end()
	waits := make(chan struct{})
	log := slog.New(saying{slog.DiscardHandler, "kinds are missing", waits})
	done := make(chan error)
	things := []Kind{{Version: schema.GroupVersion{Group: "g", Version: "v1"}, Name: "Thing", Remedy: "install it"}}
	go func() { done <- AwaitKinds(ctx, things, &kindless{}, address, log) }()
	<-waits
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503} {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, answer.StatusCode, want)
		}
	}
	end()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := AwaitKinds(t.Context(), things, &kindless{}, "", slog.New(slog.DiscardHandler)); err != nil || time.Since(began) != kindsInterval {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// saying tells when a message is logged.
type saying struct {
	slog.Handler

	message string
	said    chan struct{}
}

func (s saying) Enabled(context.Context, slog.Level) bool { return true }

func (s saying) Handle(_ context.Context, r slog.Record) error {
	if r.Message == s.message {
		close(s.said)
	}
	return nil
}
