package demandapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"nstance.dev/protos/identity"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/server/demandloop"
	"nstance.dev/server/refusal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	tenant  = "acme"
	cluster = "nstance-test"
)

// link is a loop that notes what it is told.
type link struct {
	snapshot demandloop.Snapshot
	room     chan struct{} // nil: there is always room
	posts    chan demandloop.Inbound
	gone     chan demandloop.Session
	over     chan struct{}

	mu      sync.Mutex
	current demandloop.Session
	hello   demandloop.Hello
}

func newLink() *link {
	return &link{
		snapshot: demandloop.Snapshot{ID: 7, Epoch: 3}, posts: make(chan demandloop.Inbound, 100), gone: make(chan demandloop.Session, 10), over: make(chan struct{}),
	}
}

func (l *link) Connect(_ context.Context, cluster string, h demandloop.Hello, s demandloop.Session) (demandloop.Snapshot, error) {
	if cluster != tenant {
		return demandloop.Snapshot{}, errors.New("another tenant")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.hello = s, h
	return l.snapshot, nil
}

func (l *link) Disconnect(_ string, s demandloop.Session) { l.gone <- s }

func (l *link) Post(ctx context.Context, _ string, _ demandloop.Session, m demandloop.Inbound) error {
	if l.room != nil {
		select {
		case <-l.room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	l.posts <- m
	return nil
}

func (l *link) Done() <-chan struct{} { return l.over }

// session is the one that the loop has.
func (l *link) session() demandloop.Session {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.current
}

// world is a service behind a connection.
type world struct {
	t       *testing.T
	link    *link
	revoked chan struct{}
	expires time.Time
	without bool // no group is of demand mode
	waits   bool // one is, and the mode has not begun
	client  demandpb.ShardServiceClient
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, link: newLink(), revoked: make(chan struct{}), expires: time.Now().Add(time.Hour)}
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		err := next(srv, stream) // the guard of package rpc puts reasons on the wire in another way
		if refused, ok := errors.AsType[*refusal.Error](err); ok {
			return fmt.Errorf("%s: %w", refused.Reason, err)
		}
		return err
	}))
	demandpb.RegisterShardServiceServer(server, New(Options{
		Caller: func(context.Context) Caller {
			c := Caller{Peer: identity.Peer{Tenant: tenant, Cluster: cluster, ID: "op1", NotAfter: w.expires}, Waits: w.waits}
			if !w.without {
				c.Link = w.link
			}
			return c
		},
		Attend: func(context.Context, identity.ID) <-chan struct{} { return w.revoked }, Metrics: NewMetrics(nil), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}))
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:test", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	w.client = demandpb.NewShardServiceClient(conn)
	return w
}

// operator is one end of a session.
type operator struct {
	w      *world
	stream demandpb.ShardService_SessionClient
}

// open opens a stream and sends hello.
func (w *world) open(hello *demandpb.Hello) *operator {
	w.t.Helper()
	stream, err := w.client.Session(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	o := &operator{w, stream}
	if hello != nil {
		o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Hello{Hello: hello}})
	}
	return o
}

func hello() *demandpb.Hello {
	return &demandpb.Hello{ClusterId: cluster, Tenant: tenant, ProtocolVersion: Version, OperatorInstance: "one", Capabilities: []string{"node-reports", "telepathy"}}
}

// connected is a session that stands; its snapshot is not read.
func (w *world) connected() *operator {
	w.t.Helper()
	o := w.open(hello())
	if a := o.ack(); a.GetKind() != demandpb.Acknowledgement_KIND_HELLO {
		w.t.Fatalf("hello is answered by %v", a)
	}
	return o
}

// send sends a message. That the server has ended the stream already says the next receive, with the reason.
func (o *operator) send(m *demandpb.OperatorMessage) {
	o.w.t.Helper()
	if err := o.stream.Send(m); err != nil && !errors.Is(err, io.EOF) {
		o.w.t.Fatal(err)
	}
}

func (o *operator) rollup(m *demandpb.ClusterCapacityNeeds) {
	o.w.t.Helper()
	o.send(&demandpb.OperatorMessage{Kind: &demandpb.OperatorMessage_Rollup{Rollup: m}})
}

func (o *operator) next() *demandpb.ShardMessage {
	o.w.t.Helper()
	m, err := o.stream.Recv()
	if err != nil {
		o.w.t.Fatal(err)
	}
	return m
}

func (o *operator) ack() *demandpb.Acknowledgement {
	o.w.t.Helper()
	m := o.next()
	if m.GetAck() == nil {
		o.w.t.Fatalf("%v, want an acknowledgement", m)
	}
	return m.GetAck()
}

// err reads until the stream ends, and returns why.
func (o *operator) err() error {
	for {
		if _, err := o.stream.Recv(); err != nil {
			return err
		}
	}
}
