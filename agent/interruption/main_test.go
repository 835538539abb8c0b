package interruption

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metadata is a metadata server in memory, on the clock of a bubble.
type metadata struct {
	t       *testing.T
	listens chan net.Conn
	done    chan struct{}

	mu    sync.Mutex
	asked []string // method and path of each request
	dials []string // addresses that were dialled
	down  bool     // nobody accepts a connection
}

// serve starts a metadata server. It ends with the test.
func serve(t *testing.T, handler http.Handler) *metadata {
	t.Helper()
	m := &metadata{t: t, listens: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.asked = append(m.asked, r.Method+" "+r.URL.RequestURI())
		m.mu.Unlock()
		handler.ServeHTTP(w, r)
	})}
	served := make(chan struct{})
	go func() { defer close(served); _ = server.Serve(m) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return m
}

// Accept, Close and Addr make it a listener.
func (m *metadata) Accept() (net.Conn, error) {
	select {
	case c := <-m.listens:
		return c, nil
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *metadata) Close() error   { close(m.done); return nil }
func (m *metadata) Addr() net.Addr { return &net.IPAddr{IP: net.IPv4(169, 254, 169, 254)} }

func (m *metadata) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	m.mu.Lock()
	m.dials = append(m.dials, addr)
	down := m.down
	m.mu.Unlock()
	if down {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ours, theirs := net.Pipe()
	select {
	case m.listens <- theirs:
		return ours, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-m.done:
		return nil, net.ErrClosed
	}
}

func (m *metadata) setDown(down bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.down = down
}

func (m *metadata) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.asked...)
}

// watching is a watcher at work.
type watching struct {
	*Watcher
	ended chan error
	stop  context.CancelFunc
}

// watch runs a watcher over m until the test ends.
func (m *metadata) watch(o Options) *watching {
	o.DialContext = m.dial
	ctx, stop := context.WithCancel(context.Background())
	w := &watching{Watcher: New(o, slog.New(slog.NewTextHandler(m.t.Output(), nil))), ended: make(chan error, 1), stop: stop}
	go func() { w.ended <- w.Run(ctx) }()
	m.t.Cleanup(stop)
	return w
}

// over reports whether Run has returned, and without an error.
func (w *watching) over(t *testing.T) bool {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-w.ended:
		if err != nil {
			t.Errorf("Run() = %v", err)
		}
		w.ended <- err
		return true
	default:
		return false
	}
}

// told checks what the watcher knows by now.
func (w *watching) told(t *testing.T, want Notice) {
	t.Helper()
	synctest.Wait()
	n, ok := w.Notice()
	if n.Action != want.Action || !n.Deadline.Equal(want.Deadline) || ok != (want.Action != "") {
		t.Errorf("Notice() = %+v, %t, want %+v", n, ok, want)
	}
	select {
	case <-w.News():
		if !ok {
			t.Error("news without a notice")
		}
	default:
		if ok {
			t.Error("a notice without news")
		}
	}
}
