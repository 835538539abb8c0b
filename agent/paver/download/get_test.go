package download_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/agent/paver/digest"
	"nstance.dev/agent/paver/download"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var content = []byte(strings.Repeat("0123456789abcdef", 100_000))

// inMemory is a client whose requests a handler answers without a network: everything waits
// for the fake clock alone.
func inMemory(handler http.Handler) *http.Client {
	return download.Client(roundTripper(func(req *http.Request) (*http.Response, error) {
		server, client := net.Pipe()
		go serve(server, handler)
		resp, err := (&http.Transport{
			DialContext:       func(context.Context, string, string) (net.Conn, error) { return client, nil },
			DialTLSContext:    func(context.Context, string, string) (net.Conn, error) { return client, nil },
			DisableKeepAlives: true,
		}).RoundTrip(req)
		if err != nil {
			_ = client.Close()
		}
		return resp, err
	}))
}

// serve answers one connection.
func serve(conn net.Conn, handler http.Handler) {
	l := &oneConn{conn: conn, done: make(chan struct{})}
	server := &http.Server{Handler: handler, ConnState: func(_ net.Conn, s http.ConnState) {
		if s == http.StateClosed || s == http.StateHijacked {
			_ = l.Close()
		}
	}}
	_ = server.Serve(l)
}

type oneConn struct {
	conn   net.Conn
	done   chan struct{}
	closed atomic.Bool
}

func (l *oneConn) Accept() (net.Conn, error) {
	if c := l.conn; c != nil {
		l.conn = nil
		return c, nil
	}
	<-l.done
	return nil, io.EOF
}

func (l *oneConn) Close() error {
	if l.closed.CompareAndSwap(false, true) {
		close(l.done)
	}
	return nil
}

func (l *oneConn) Addr() net.Addr { return &net.TCPAddr{} }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// script answers one request after another; the last answer is repeated.
type script struct {
	answers  []http.HandlerFunc
	requests []*http.Request
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := min(len(s.requests), len(s.answers)-1)
	s.requests = append(s.requests, r)
	s.answers[n](w, r)
}

func whole(w http.ResponseWriter, r *http.Request) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// cutAfter breaks off after n bytes of what is asked for.
func cutAfter(n int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(&cut{w, n}, r, "", time.Time{}, bytes.NewReader(content))
		panic(http.ErrAbortHandler)
	}
}

type cut struct {
	http.ResponseWriter
	left int
}

func (c *cut) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if _, err := c.ResponseWriter.Write(p[:n]); err != nil || n < len(p) {
		return n, errors.New("cut")
	}
	return n, nil
}

func target(t testing.TB, before []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := f.Write(before); err != nil {
		t.Fatal(err)
	}
	return f
}

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestGet(t *testing.T) {
	resumed := content[:500_000]
	cases := []struct {
		name     string
		answers  []http.HandlerFunc
		before   []byte
		unknown  bool // the size is
		requests int
		err      error
		says     string
	}{
		{name: "one answer", answers: []http.HandlerFunc{whole}, requests: 1},
		{name: "of unknown size", answers: []http.HandlerFunc{whole}, unknown: true, requests: 1},
		{name: "the rest of what is there", answers: []http.HandlerFunc{whole}, before: resumed, requests: 1},
		{name: "all is there", answers: []http.HandlerFunc{status(500)}, before: content},
		{name: "all is there, of unknown size", answers: []http.HandlerFunc{status(500)}, before: content, unknown: true},
		{name: "what is there is wrong", answers: []http.HandlerFunc{whole}, before: bytes.Repeat([]byte("x"), 1000), requests: 2},
		{name: "what is there is wrong and too long", answers: []http.HandlerFunc{whole}, before: bytes.Repeat([]byte("x"), len(content)+1), requests: 1},
		{name: "broken off twice", answers: []http.HandlerFunc{cutAfter(300_000), cutAfter(900_000), whole}, requests: 3},
		{name: "broken off again and again, and never without progress", answers: repeat(cutAfter(100_000), 15, whole), requests: 16},
		{name: "errors that pass", answers: []http.HandlerFunc{status(503), status(429), status(408), status(502), status(500), whole}, requests: 6},
		{name: "a server that knows no ranges", answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			whole(w, r)
		}}, before: resumed, requests: 1},
		{name: "a server that answers another range", answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Range", "bytes=5-")
			whole(w, r)
		}, whole}, before: resumed, requests: 2},
		{name: "errors that do not pass", answers: []http.HandlerFunc{status(503)}, requests: 6, says: "answers 503"},
		{name: "refused", answers: []http.HandlerFunc{status(403)}, requests: 1, err: download.ErrUnavailable, says: "answers 403"},
		{name: "gone", answers: []http.HandlerFunc{status(404)}, requests: 1, err: download.ErrUnavailable},
		{name: "something else", answers: []http.HandlerFunc{other(content[1:], 'x')}, requests: 1, err: digest.ErrMismatch},
		{name: "something else, of unknown size", answers: []http.HandlerFunc{other(content[1:])}, unknown: true, requests: 1, err: digest.ErrMismatch},
		{name: "too much", answers: []http.HandlerFunc{other(content, 'x')}, requests: 1, err: digest.ErrMismatch, says: "more than 1600000 bytes"},
		{name: "too much, of unknown size", answers: []http.HandlerFunc{other(content, make([]byte, 1_000_000)...)}, unknown: true, requests: 1, err: digest.ErrMismatch, says: "more than 2000000 bytes"},
		{name: "too little", answers: []http.HandlerFunc{other(content[1:])}, requests: 1, err: digest.ErrMismatch},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			file := target(t, c.before)
			synctest.Test(t, func(t *testing.T) {
				s := &script{answers: c.answers}
				var last int64
				req := download.Request{
					URL: parse(t, "https://example.com/file"), Client: inMemory(s), Digest: digest.Of(content), Size: int64(len(content)), Limit: 2_000_000,
					Progress: func(done, _ int64) { last = done },
				}
				if c.unknown {
					req.Size = -1
				}
				err := download.Get(t.Context(), req, file)
				wantError := c.err != nil || c.says != ""
				if (err != nil) != wantError || c.err != nil && !errors.Is(err, c.err) || wantError && !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v, want %v with %q", err, c.err, c.says)
				}
				if len(s.requests) != c.requests {
					t.Errorf("%d requests, want %d", len(s.requests), c.requests)
				}
				if got, readErr := os.ReadFile(file.Name()); err == nil && !bytes.Equal(got, content) {
					t.Errorf("%d bytes, %v", len(got), readErr)
				}
				if err == nil && c.requests > 0 && last != int64(len(content)) {
					t.Errorf("the last progress is %d", last)
				}
			})
		})
	}
}

// other sends something else.
func other(data []byte, more ...byte) http.HandlerFunc {
	data = append(bytes.Clone(data), more...)
	return func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}
}

func repeat(h http.HandlerFunc, n int, last http.HandlerFunc) (all []http.HandlerFunc) {
	for range n {
		all = append(all, h)
	}
	return append(all, last)
}

func get(t testing.TB, client *http.Client, address string) error {
	t.Helper()
	return download.Get(t.Context(), download.Request{
		URL: parse(t, address), Client: client, Digest: digest.Of(content), Size: int64(len(content)),
	}, target(t, nil))
}

func TestAServerThatStopsIsAskedAgain(t *testing.T) {
	file := target(t, nil)
	synctest.Test(t, func(t *testing.T) {
		s := &script{answers: []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			_, _ = w.Write(content[:1000])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}, whole}}
		begin := time.Now()
		err := download.Get(t.Context(), download.Request{
			URL: parse(t, "https://example.com/file"), Client: inMemory(s), Digest: digest.Of(content), Size: int64(len(content)),
		}, file)
		if took := time.Since(begin); err != nil || took < 30*time.Second || took > 32*time.Second {
			t.Errorf("%v after %v", err, took)
		}
		if r := s.requests[1].Header.Get("Range"); r != "bytes=1000-" {
			t.Errorf("the second request is for %q", r)
		}
	})
}

func TestTheServersPauseIsKept(t *testing.T) {
	file := target(t, nil)
	for header, want := range map[string]time.Duration{"20": 20 * time.Second, "100000": 2 * time.Minute, "soon": 0, "-1": 0} {
		synctest.Test(t, func(t *testing.T) {
			s := &script{answers: []http.HandlerFunc{func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", header)
				w.WriteHeader(http.StatusTooManyRequests)
			}, whole}}
			begin := time.Now()
			err := download.Get(t.Context(), download.Request{
				URL: parse(t, "https://example.com/file"), Client: inMemory(s), Digest: digest.Of(content), Size: int64(len(content)),
			}, file)
			if took := time.Since(begin); err != nil || took < want || took > want+time.Second {
				t.Errorf("Retry-After %s: %v after %v", header, err, took)
			}
		})
		if err := file.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestADownloadEndsWithItsContext(t *testing.T) {
	file := target(t, nil)
	synctest.Test(t, func(t *testing.T) {
		stop := errors.New("stop")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(stop) })
		err := download.Get(ctx, download.Request{
			URL: parse(t, "https://example.com/file"), Client: inMemory(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })),
			Digest: digest.Of(content), Size: int64(len(content)),
		}, file)
		if !errors.Is(err, stop) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.com/file?sig=marked", http.StatusFound)
		})
		mux.HandleFunc("/circle", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/circle?sig=marked", http.StatusFound)
		})
		mux.HandleFunc("/on", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://storage.example.com/file?sig=marked", http.StatusTemporaryRedirect)
		})
		mux.HandleFunc("/away", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://storage.example.com/gone?sig=marked", http.StatusTemporaryRedirect)
		})
		mux.HandleFunc("/file", whole)
		for address, says := range map[string]string{
			"https://example.com/on": "", "http://example.com/file": "", "https://example.com/down": "without TLS",
			"https://example.com/circle": "more than 5 times", "https://user:marked@example.com/away?q=marked": "answers 404",
		} {
			err := get(t, inMemory(mux), address)
			if (err != nil) != (says != "") || err != nil && (!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "marked")) {
				t.Errorf("%s: %v", address, err)
			}
		}
	})
}

func TestConnectionsSpeakTLS13(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(whole))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := download.Transport(roots)
	defer transport.CloseIdleConnections()
	if err := get(t, download.Client(transport), server.URL); err != nil {
		t.Error(err)
	}
	strange := download.Transport(x509.NewCertPool())
	defer strange.CloseIdleConnections()
	if err := get(t, download.Client(strange), server.URL); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server of an unknown CA: %v", err)
	}
	old := httptest.NewUnstartedServer(http.HandlerFunc(whole))
	old.Config.ErrorLog = log.New(io.Discard, "", 0)
	old.StartTLS()
	defer old.Close()
	old.TLS.MaxVersion = 0x0303 // 1.2
	transport.TLSClientConfig.RootCAs.AddCert(old.Certificate())
	err := download.Get(t.Context(), download.Request{
		URL: parse(t, old.URL), Client: download.Client(transport), Digest: digest.Of(content), Size: int64(len(content)), Attempts: 1,
	}, target(t, nil))
	if err == nil {
		t.Error("a server with TLS 1.2 alone is spoken to")
	}
}
