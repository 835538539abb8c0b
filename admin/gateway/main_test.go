package gateway_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"nstance.dev/admin/gateway"
	"nstance.dev/admin/shardclient"
	"nstance.dev/admin/shardclient/shardtest"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder notes which calls of the service are made.
type recorder struct {
	grpc.ClientConnInterface
	mu    sync.Mutex
	calls map[string]int
}

func (r *recorder) note(method string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[string]int{}
	}
	r.calls[method[strings.LastIndexByte(method, '/')+1:]]++
}

func (r *recorder) called(method string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.calls[method]
}

func (r *recorder) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	r.note(method)
	return r.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
}

func (r *recorder) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	r.note(method)
	return r.ClientConnInterface.NewStream(ctx, desc, method, opts...)
}

// world is a gateway to two shards, of which the second one nobody serves.
type world struct {
	t       *testing.T
	gateway *gateway.Gateway
	calls   *recorder
	shard   *shardtest.Shard
}

func newWorld(t *testing.T, opts gateway.Options) *world {
	t.Helper()
	c := shardtest.NewCluster(t)
	id, err := shardclient.LoadIdentity(c.Identity(t, "default"), shardtest.ID, "default", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, shard: &shardtest.Shard{Frozen: true}}
	w.shard.AddGroup(&nstancev1.GroupStatus{Key: "web", Size: 2, Template: "plain"})
	w.shard.SetDemand(&nstancev1.GetDemandResponse{Connected: true, Needs: []*nstancev1.DemandNeed{{Id: "ab12"}}})
	w.shard.Hold(&nstancev1.HeldVM{ProviderInstanceId: "i-1", Group: "web", InstanceId: "knc068a3cp3thz5z2mv1gejwftabc"})
	c.ListenAt(t, "s1", "a:1", w.shard)
	var shards []gateway.Shard
	for name, address := range map[string]string{"s1": "a:1", "s2": "b:1"} {
		conn := shardclient.Dial(shardclient.Target{Shard: name, Addresses: []string{address}}, id,
			shardclient.Options{DialContext: c.Dial, Patience: time.Millisecond})
		t.Cleanup(func() { _ = conn.Close() })
		to := gateway.Shard{Name: name, Conn: conn, Leader: conn.Leader}
		if name == "s1" {
			w.calls = &recorder{ClientConnInterface: conn}
			to.Conn = w.calls
		}
		shards = append(shards, to)
	}
	if w.gateway, err = gateway.New(shards, opts); err != nil {
		t.Fatal(err)
	}
	return w
}

// do makes a call that may write.
func (w *world) do(method, path, kind, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	return w.as(gateway.Access{Write: true}, method, path, kind, body)
}

func (w *world) as(access gateway.Access, method, path, kind, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	r := httptest.NewRequestWithContext(w.t.Context(), method, path, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	r.Header.Set("Authorization", "Bearer nst_marked")
	r.Header.Set("Cookie", "nstance-console=marked")
	answer := httptest.NewRecorder()
	w.gateway.For(access).ServeHTTP(answer, r)
	return answer
}

const asJSON = "application/json"

// instance is the first one of group web.
const instance = "knc068a3cp3thz5z2mv1gejwfta01"

func wantStatus(t *testing.T, name string, answer *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	if answer.Code != status {
		t.Errorf("%s: answer %d, want %d: %s", name, answer.Code, status, answer.Body)
	}
	for _, text := range texts {
		if !strings.Contains(answer.Body.String(), text) {
			t.Errorf("%s: %s does not say %s", name, answer.Body, text)
		}
	}
}
