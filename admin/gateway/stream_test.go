package gateway_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"nstance.dev/admin/gateway"
	nstancev1 "nstance.dev/protos/nstance/v1"
)

// listen opens a stream over a real connection, and returns its lines.
func (w *world) listen(path string) (lines func() string, answer *http.Response, closing func()) {
	w.t.Helper()
	server := httptest.NewServer(w.gateway.For(gateway.Access{}))
	ctx, cancel := context.WithCancel(w.t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	answer, err = server.Client().Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	scanner := bufio.NewScanner(answer.Body)
	return func() string {
			for scanner.Scan() {
				if scanner.Text() != "" {
					return scanner.Text()
				}
			}
			return ""
		}, answer, func() {
			cancel()
			_ = answer.Body.Close()
			server.Close()
		}
}

func TestAStreamOfEvents(t *testing.T) {
	w := newWorld(t, gateway.Options{Heartbeat: 50 * time.Millisecond})
	next, answer, stop := w.listen("/v1/shards/s1/watch/groups")
	defer stop()
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" || answer.StatusCode != http.StatusOK {
		t.Fatalf("answer %d of type %s", answer.StatusCode, kind)
	}
	for _, want := range []string{"retry: 1000", "id: 1", "event: group", `"key":"web"`, ": heartbeat"} {
		if got := next(); !strings.Contains(got, want) {
			t.Fatalf("line is %q, want %q", got, want)
		}
	}
	w.shard.AddGroup(&nstancev1.GroupStatus{Key: "new"})
	for {
		line := next()
		if strings.Contains(line, `"key":"new"`) {
			break
		}
		if line == "" {
			t.Fatal("the stream has ended")
		}
	}
	w.shard.BreakStreams()
	var last string
	for line := next(); line != ""; line = next() {
		last += line
	}
	if !strings.Contains(last, `event: end`) || !strings.Contains(last, `"status":"UNAVAILABLE"`) {
		t.Errorf("it ends with %q", last)
	}
	if n := w.calls.called("WatchGroups"); n != 1 {
		t.Errorf("%d streams of the shard", n)
	}
}

func TestAStreamThatCannotBegin(t *testing.T) {
	w := newWorld(t, gateway.Options{})
	wantStatus(t, "a shard that nobody serves", w.do("GET", "/v1/shards/s2/watch/groups", "", ""), 503, "UNAVAILABLE")
}

func TestStreamsAreBounded(t *testing.T) {
	w := newWorld(t, gateway.Options{Streams: 1})
	next, _, stop := w.listen("/v1/shards/s1/watch/groups")
	next()
	wantStatus(t, "one more", w.do("GET", "/v1/shards/s1/watch/errors", "", ""), 429, "TOO_MANY_STREAMS")
	stop() // waits until its handler has ended
	_, answer, stop := w.listen("/v1/shards/s1/watch/groups")
	defer stop()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("after that one more is answered %d: the place of a stream that was closed is not free", answer.StatusCode)
	}
}

// stuck is a connection whose reader takes nothing more.
type stuck struct {
	*httptest.ResponseRecorder
	deadline time.Time
}

func (s *stuck) SetWriteDeadline(t time.Time) error {
	s.deadline = t
	return nil
}

func TestASlowReaderIsCut(t *testing.T) {
	s := &stuck{ResponseRecorder: httptest.NewRecorder()}
	e := gateway.NewEvents(s, time.Minute)
	before := time.Now()
	if err := e.Begin(); err != nil {
		t.Fatal(err)
	}
	if d := s.deadline.Sub(before); d < 59*time.Second || d > 61*time.Second {
		t.Errorf("what is written may take %v", d)
	}
	if err := e.Send("x", []byte("{\n\"a\":1}")); err != nil || !strings.HasSuffix(s.Body.String(), "id: 1\nevent: x\ndata: {\"a\":1}\n\n") {
		t.Errorf("%v, %q", err, s.Body)
	}
}
