package wire_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"nstance.dev/server/driver"
	"nstance.dev/server/driver/drivertest/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// counter is a cloud with one verb, which counts how often it took effect.
type counter struct {
	*wire.Gate
	effects atomic.Int64
}

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	c.Serve(w, r, r.Method+" "+r.URL.Path, string(body),
		func(f wire.Fault) wire.Answer {
			return func(w http.ResponseWriter) { http.Error(w, string(f.Kind), http.StatusTeapot) }
		},
		func() wire.Answer {
			c.effects.Add(1)
			return func(w http.ResponseWriter) { _, _ = io.WriteString(w, "done") }
		})
}

// call makes one call and says what came of it in one line.
func call(ctx context.Context, rt http.RoundTripper, url, body string) string {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/make", strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	resp, err := rt.RoundTrip(req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "gave up"
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return "broken"
	case err != nil:
		return err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(resp.Status + ": " + string(text))
}

func TestFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		fault   wire.Fault
		want    string
		effects int64
		took    time.Duration
	}{
		"nothing goes wrong":          {wire.Fault{}, "200 OK: done", 1, 0},
		"a refusal has no effect":     {wire.Fault{Kind: driver.Capacity}, "418 I'm a teapot: capacity", 0, 0},
		"an error after the effect":   {wire.Fault{Kind: driver.Transient, After: true}, "418 I'm a teapot: transient", 1, 0},
		"an answer that is lost":      {wire.Fault{Lost: true}, "broken", 1, 0},
		"a slow call":                 {wire.Fault{Delay: time.Second}, "200 OK: done", 1, time.Second},
		"a call that comes too late":  {wire.Fault{Delay: time.Minute}, "gave up", 0, 10 * time.Second},
		"an answer that comes late":   {wire.Fault{Linger: time.Minute}, "gave up", 1, 10 * time.Second},
		"a refusal that takes a time": {wire.Fault{Delay: time.Second, Kind: driver.Auth}, "418 I'm a teapot: auth", 0, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &counter{Gate: wire.NewGate()}
				c.SetFaults(wire.Times(1, "POST /make", tt.fault))
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				began := time.Now()
				got := call(ctx, wire.RoundTripper(c), "http://cloud", "one")
				if got != tt.want || c.effects.Load() != tt.effects || time.Since(began) != tt.took {
					t.Errorf("%q with %d effects after %v; want %q, %d, %v",
						got, c.effects.Load(), time.Since(began), tt.want, tt.effects, tt.took)
				}
				if got := call(t.Context(), wire.RoundTripper(c), "http://cloud", "two"); got != "200 OK: done" {
					t.Errorf("the next call: %q", got)
				}
			})
		})
	}
}

// TestTransportIsLikeASocket compares what a handler sees and what its client gets
// with the real thing.
func TestTransportIsLikeASocket(t *testing.T) {
	seen := make(chan *http.Request, 1)
	echo := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		seen <- r
		w.Header().Set("X-Test", "1")
		w.WriteHeader(http.StatusAccepted)
		w.Header().Set("X-Late", "1")
		_, _ = w.Write(body)
	})
	socket := httptest.NewServer(echo)
	defer socket.Close()
	wired := &http.Transport{}
	defer wired.CloseIdleConnections()
	type sight struct {
		uri, host, length, body, status, header, answer string
		size                                            int64
	}
	look := func(rt http.RoundTripper) sight {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, socket.URL+"/a%2Fb?x=1", strings.NewReader("hello"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rt.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, _ := io.ReadAll(resp.Body)
		r := <-seen
		body, _ := io.ReadAll(r.Body)
		return sight{r.RequestURI, r.Host, r.Header.Get("Content-Length"), string(body), resp.Status,
			resp.Header.Get("X-Test") + resp.Header.Get("X-Late") + resp.Header.Get("Content-Type"), string(answer), resp.ContentLength}
	}
	if got, want := look(wire.RoundTripper(echo)), look(wired); got != want {
		t.Errorf("in process %+v\nby socket  %+v", got, want)
	}
}

func TestLostAnswerOverASocket(t *testing.T) {
	c := &counter{Gate: wire.NewGate()}
	socket := httptest.NewServer(c)
	defer socket.Close()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	c.SetFaults(wire.Times(1, "", wire.Fault{Lost: true}))
	if got := call(t.Context(), transport, socket.URL, ""); got != "broken" || c.effects.Load() != 1 {
		t.Errorf("%q with %d effects", got, c.effects.Load())
	}
}

// TestS21_Buckets spends two buckets of which one op takes from both, as EC2's
// RunInstances does.
func TestS21_Buckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := wire.NewGate()
		g.SetLimits(wire.Limits{
			Buckets: map[string]driver.Bucket{"requests": {Rate: 2, Burst: 5}, "machines": {Rate: 1, Burst: 2}, "free": {}},
			Of:      map[string][]string{"make": {"requests", "machines"}, "free": {"free"}},
			Default: []string{"requests"},
		}.Faster(50))
		enter := func(op string, n int) (passed int) {
			for range n {
				if f, ok := g.Enter(t.Context(), op, ""); ok && f.Kind == "" {
					passed++
				}
			}
			return passed
		}
		got := []int{enter("make", 10), enter("look", 10), enter("free", 10)}
		f, _ := g.Enter(t.Context(), "make", "")
		if want := (wire.Fault{Kind: driver.Throttled, RetryAfter: 20 * time.Millisecond}); f != want {
			t.Errorf("beyond the limits: %+v, want %+v", f, want)
		}
		time.Sleep(20 * time.Millisecond)
		got = append(got, enter("make", 10))
		time.Sleep(time.Second)
		got = append(got, enter("make", 10), enter("look", 10))
		if want := []int{2, 3, 10, 1, 2, 3}; !slices.Equal(got, want) {
			t.Errorf("passed %v, want %v", got, want)
		}
		throttled := 0
		for _, c := range g.Calls() {
			if c.Throttled {
				throttled++
			}
		}
		if n := g.Count(""); n != 61 || throttled != 61-21 || len(g.Calls()) != n {
			t.Errorf("%d calls, %d of them throttled", n, throttled)
		}
	})
}

func TestCombinators(t *testing.T) {
	lost, slow := wire.Fault{Lost: true}, wire.Fault{Delay: time.Second}
	calls := []wire.Call{{N: 1, Op: "a"}, {N: 2, Op: "b", Key: "x"}, {N: 3, Op: "a"}, {N: 4, Op: "a", Key: "x"}}
	for name, tt := range map[string]struct {
		faults wire.Faults
		want   []wire.Fault
	}{
		"always one op":       {wire.Always("a", lost), []wire.Fault{lost, {}, lost, lost}},
		"always every op":     {wire.Always("", slow), []wire.Fault{slow, slow, slow, slow}},
		"twice":               {wire.Times(2, "a", lost), []wire.Fault{lost, {}, lost, {}}},
		"the first that has":  {wire.Any(wire.Times(1, "a", lost), wire.Always("", slow)), []wire.Fault{lost, slow, slow, slow}},
		"only some":           {wire.Only(func(c wire.Call) bool { return c.Key == "x" }, wire.Always("", lost)), []wire.Fault{{}, lost, {}, lost}},
		"a random share of 0": {wire.Random(1, 0, lost), make([]wire.Fault, 4)},
		"a random share of 1": {wire.Random(1, 1, lost), []wire.Fault{lost, lost, lost, lost}},
		"nothing to choose":   {wire.Random(1, 1), make([]wire.Fault, 4)},
	} {
		var got []wire.Fault
		for _, c := range calls {
			got = append(got, tt.faults(c))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
}

func TestRandomKeepsItsShare(t *testing.T) {
	faults := wire.Random(7, 0.25, wire.Fault{Lost: true}, wire.Fault{After: true})
	var hits, lost int
	for n := range 4000 {
		c := wire.Call{N: n + 1}
		f := faults(c)
		if f != faults(c) {
			t.Fatalf("call %d gets another fault when it is asked about again", c.N)
		}
		if f != (wire.Fault{}) {
			hits++
		}
		if f.Lost {
			lost++
		}
	}
	if hits < 900 || hits > 1100 || lost < 400 || lost > 600 {
		t.Errorf("%d of 4000 calls, %d of them lost; want about 1000 and 500", hits, lost)
	}
}

func TestOpsAreAList(t *testing.T) {
	g := wire.NewGate()
	for _, op := range []string{"list", "create", "list"} {
		g.Enter(t.Context(), op, "")
	}
	if got, want := g.Ops(), []string{"create", "list"}; !slices.Equal(got, want) || g.Count("list") != 2 {
		t.Errorf("%v, want %v; list %d times", got, want, g.Count("list"))
	}
}
