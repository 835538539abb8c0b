package manager

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "nstance.dev/operator/api/infrastructure/v1beta1"
	"nstance.dev/operator/testworld"
)

// sink keeps the events that an API server would have.
type sink struct {
	mu    sync.Mutex
	notes []string
}

func (s *sink) Create(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, e.Note)
	return e, nil
}

func (s *sink) Update(_ context.Context, e *eventsv1.Event) (*eventsv1.Event, error) { return e, nil }

func (s *sink) Patch(_ context.Context, e *eventsv1.Event, _ []byte) (*eventsv1.Event, error) {
	return e, nil
}

// M43: of requests that are denied at one time each has its own event, though all are about the operator.
func TestM43_EachNoticeIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := &sink{}
		api := testworld.NewClientBuilder(t).WithObjects(&infrav1.NstanceCluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}}).Build()
		ctx, stop := context.WithCancel(t.Context())
		all := events.NewBroadcaster(seen)
		if err := all.StartRecordingToSinkWithContext(ctx); err != nil {
			t.Fatal(err)
		}
		n := notices{
			recorder: all.NewRecorder(api.Scheme(), "nstance-operator"), reader: api, key: client.ObjectKey{Namespace: "ns", Name: "c"}, log: slog.New(slog.DiscardHandler),
		}
		for _, name := range []string{"r1", "r2", "r3"} {
			c := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid"}}
			n.warnAbout(ctx, c, "CSRDenied", "Deny", "%s was denied", name)
			n.warn(ctx, "Other", "Other", "beside %s", name)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		seen.mu.Lock()
		notes := slices.Sorted(slices.Values(seen.notes))
		seen.mu.Unlock()
		denied := slices.DeleteFunc(slices.Clone(notes), func(note string) bool { return note[:1] == "b" })
		if !slices.Equal(denied, []string{"r1 was denied", "r2 was denied", "r3 was denied"}) || len(notes) != 4 {
			t.Errorf("seen are %q", notes)
		}
		all.Shutdown()
		stop()
	})
}
