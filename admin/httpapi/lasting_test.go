package httpapi_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"

	"nstance.dev/admin/gateway"
	"nstance.dev/admin/httpapi"
	"nstance.dev/admin/shardclient/shardtest"
	"nstance.dev/admin/tokens"
)

// silent is a shard whose streams say nothing and end with their context.
type silent struct{ grpc.ClientConnInterface }

func (silent) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	return silentStream{ctx: ctx}, nil
}

type silentStream struct {
	grpc.ClientStream
	ctx context.Context
}

func (silentStream) SendMsg(any) error   { return nil }
func (silentStream) CloseSend() error    { return nil }
func (s silentStream) RecvMsg(any) error { <-s.ctx.Done(); return context.Cause(s.ctx) }

func TestS13_AStreamEndsWhenItsCallerMayCallNoMore(t *testing.T) {
	cluster := shardtest.NewCluster(t)
	for name, test := range map[string]struct {
		end  func(t *testing.T, file *tokens.File, id string, later *atomic.Int64)
		cert bool
		want string
	}{
		"its token was revoked": {end: func(t *testing.T, file *tokens.File, id string, _ *atomic.Int64) {
			if err := file.Revoke(id); err != nil {
				t.Error(err)
			}
		}, want: "BAD_TOKEN"},
		"its token has expired": {end: func(*testing.T, *tokens.File, string, *atomic.Int64) { time.Sleep(time.Hour) }, want: "TOKEN_EXPIRED"},
		"its certificate has ended": {
			cert: true, want: "CERTIFICATE_EXPIRED",
			end: func(_ *testing.T, _ *tokens.File, _ string, later *atomic.Int64) {
				later.Store(int64(100 * 365 * 24 * time.Hour))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			chain := certificate(t, cluster, "red")
			path := filepath.Join(t.TempDir(), "tokens.json")
			synctest.Test(t, func(t *testing.T) {
				var later atomic.Int64
				file := tokens.Open(path, nil)
				token, made, err := file.Create(tokens.Token{Tenant: "red", Access: tokens.Read, Expires: time.Now().Add(time.Hour)})
				if err != nil {
					t.Fatal(err)
				}
				red, err := gateway.New([]gateway.Shard{{Name: "s1", Conn: silent{}}}, gateway.Options{})
				if err != nil {
					t.Fatal(err)
				}
				server := httpapi.New(httpapi.Options{
					Cluster: shardtest.ID, Gateways: map[string]*gateway.Gateway{"red": red}, Tokens: file.Check, Log: slog.New(slog.DiscardHandler),
					Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) },
				})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/shards/s1/watch/groups", nil)
				if test.cert {
					r.TLS = &tls.ConnectionState{PeerCertificates: chain, VerifiedChains: [][]*x509.Certificate{chain}}
				} else {
					r.Header.Set("Authorization", "Bearer "+token)
				}
				answer := httptest.NewRecorder()
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					server.ServeHTTP(answer, r)
				}()
				time.Sleep(30 * time.Minute)
				select {
				case <-ended:
					t.Fatalf("the stream has ended while its caller may call: %d %s", answer.Code, answer.Body)
				default:
				}
				test.end(t, file, made.ID, &later)
				time.Sleep(5 * time.Second)
				synctest.Wait()
				select {
				case <-ended:
				default:
					t.Fatal("the stream goes on")
				}
				if text := answer.Body.String(); !strings.Contains(text, "event: end") || !strings.Contains(text, test.want) {
					t.Errorf("the stream ends with %q, want %s", text, test.want)
				}
			})
		})
	}
}

// certificate is what an operator of a tenant shows.
func certificate(t *testing.T, cluster *shardtest.Cluster, tenant string) []*x509.Certificate {
	t.Helper()
	dir := cluster.Identity(t, tenant)
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "identity.crt"), filepath.Join(dir, "identity.key"))
	if err != nil {
		t.Fatal(err)
	}
	return []*x509.Certificate{pair.Leaf}
}

// pipes is a listener of connections in memory.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p pipes) Close() error   { close(p.closed); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// served runs Listen in a bubble, calls it once, and gives the connection to a test.
func served(t *testing.T, h http.HandlerFunc, test func(client net.Conn, stop func() error)) {
	t.Helper()
	l := pipes{make(chan net.Conn), make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- httpapi.Listen(ctx, l, nil, h, slog.New(slog.DiscardHandler)) }()
	client, server := net.Pipe()
	l.conns <- server
	defer func() { _ = client.Close() }()
	if _, err := client.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	test(client, func() error {
		cancel()
		return <-ended
	})
}

func TestF48_WhoTakesNoAnswerHoldsNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		done := make(chan struct{})
		served(t, func(w http.ResponseWriter, _ *http.Request) {
			defer close(done)
			_, _ = w.Write(make([]byte, 1<<20))
		}, func(client net.Conn, stop func() error) {
			time.Sleep(5 * time.Minute)
			select {
			case <-done:
			default:
				t.Error("the call is still being answered")
			}
			_ = client.Close()
			_ = stop()
		})
	})
}

func TestAReaderOfMuchHasMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const much = 1 << 20
		served(t, func(w http.ResponseWriter, _ *http.Request) {
			out := gateway.NewEvents(w, 30*time.Second)
			if err := out.Begin(); err != nil {
				t.Error(err)
			}
			if err := out.Send("x", []byte(strings.Repeat("x", much))); err != nil {
				t.Errorf("the reader was cut: %v", err)
			}
		}, func(client net.Conn, stop func() error) {
			got, part := 0, make([]byte, 32<<10)
			for got < much {
				n, err := client.Read(part)
				if err != nil {
					t.Errorf("after %d bytes: %v", got, err)
					break
				}
				if got += n; n > 16<<10 {
					time.Sleep(10 * time.Second) // slow, but it takes something
				}
			}
			go func() { _, _ = io.Copy(io.Discard, client) }()
			_ = stop()
		})
	})
}

func TestACallThatIsUnderWayMayEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var broken error
		done := make(chan struct{})
		served(t, func(_ http.ResponseWriter, r *http.Request) {
			defer close(done)
			select {
			case <-time.After(200 * time.Millisecond):
			case <-r.Context().Done():
				broken = context.Cause(r.Context())
			}
		}, func(client net.Conn, stop func() error) {
			synctest.Wait()
			go func() { _, _ = client.Read(make([]byte, 4096)) }()
			_ = stop()
			<-done
			if broken != nil {
				t.Errorf("the call was broken off: %v", broken)
			}
		})
	})
}

func TestAStreamDoesNotHoldTheEndUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, func(client net.Conn, stop func() error) {
			synctest.Wait()
			go func() { _, _ = client.Read(make([]byte, 4096)) }()
			began := time.Now()
			_ = stop()
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("the end takes %v", took)
			}
		})
	})
}
