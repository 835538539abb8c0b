package interruption

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeAWS is the metadata service of one EC2 instance.
type fakeAWS struct {
	mu        sync.Mutex
	lifeCycle string
	action    string // body of the notice; empty: 404
	status    int    // of the notice; 0: as the body says
	tokens    int    // handed out so far
	refused   bool   // the token that is out is not good any more
}

func (f *fakeAWS) set(change func(*fakeAWS)) { f.mu.Lock(); defer f.mu.Unlock(); change(f) }

func (f *fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") == "21600" {
		f.tokens++
		f.refused = false
		fmt.Fprintf(w, "token-%d", f.tokens)
		return
	}
	if f.refused || r.Header.Get("X-aws-ec2-metadata-token") != fmt.Sprintf("token-%d", f.tokens) {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	switch r.URL.Path {
	case "/latest/meta-data/instance-life-cycle":
		fmt.Fprint(w, f.lifeCycle)
	case "/latest/meta-data/spot/instance-action":
		switch {
		case f.status != 0:
			w.WriteHeader(f.status)
		case f.action == "":
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, f.action)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func TestAWSNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeAWS{lifeCycle: "spot"}
		w := serve(t, cloud).watch(Options{})
		time.Sleep(time.Minute)
		w.told(t, Notice{})
		deadline := time.Now().Add(2 * time.Minute).UTC()
		cloud.set(func(f *fakeAWS) {
			f.action = fmt.Sprintf(`{"action": "stop", "time": %q}`, deadline.Format(time.RFC3339))
		})
		time.Sleep(2 * time.Second)
		w.told(t, Notice{Action: "stop", Deadline: deadline})
		if !w.over(t) {
			t.Error("the watcher goes on after the notice")
		}
	})
}

func TestAWSTokenIsKeptAndRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeAWS{lifeCycle: "spot"}
		server := serve(t, cloud)
		w := server.watch(Options{Provider: AWS, Interval: 10 * time.Second})
		time.Sleep(time.Hour)
		w.told(t, Notice{})
		cloud.set(func(f *fakeAWS) {
			if f.tokens != 1 {
				t.Errorf("%d tokens in the first hour, want 1", f.tokens)
			}
			f.refused = true
			f.action = `{"action": "terminate", "time": "2000-01-01T02:00:00Z"}`
		})
		time.Sleep(10 * time.Second)
		w.told(t, Notice{Action: "terminate", Deadline: time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC)})
		polls := 0
		for _, request := range server.requests() {
			if strings.HasSuffix(request, "/spot/instance-action") {
				polls++
			}
		}
		if polls < 360 || polls > 363 {
			t.Errorf("%d polls in an hour, want one each 10s", polls)
		}
	})
}

func TestAWSNonsenseIsNoNotice(t *testing.T) {
	for name, spoil := range map[string]func(*fakeAWS){
		"not JSON":          func(f *fakeAWS) { f.action = "soon" },
		"an unknown action": func(f *fakeAWS) { f.action = `{"action": "dance", "time": "2000-01-01T02:00:00Z"}` },
		"no time":           func(f *fakeAWS) { f.action = `{"action": "stop", "time": "tomorrow"}` },
		"another status":    func(f *fakeAWS) { f.status, f.action = http.StatusServiceUnavailable, `{"action": "stop"}` },
		"a redirection":     func(f *fakeAWS) { f.status = http.StatusFound },
		"a flood":           func(f *fakeAWS) { f.action = strings.Repeat(" ", 1<<20) + `{"action": "stop"}` },
		"tokens refused":    func(f *fakeAWS) { f.status = http.StatusUnauthorized },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := &fakeAWS{lifeCycle: "spot"}
				w := serve(t, cloud).watch(Options{})
				cloud.set(spoil)
				time.Sleep(time.Minute)
				w.told(t, Notice{})
				cloud.set(func(f *fakeAWS) { f.status, f.action = 0, `{"action": "hibernate", "time": "2000-01-01T00:03:00Z"}` })
				time.Sleep(2 * time.Second)
				w.told(t, Notice{Action: "hibernate", Deadline: time.Date(2000, 1, 1, 0, 3, 0, 0, time.UTC)})
			})
		})
	}
}

func TestMachinesThatStay(t *testing.T) {
	for name, c := range map[string]struct {
		handler  http.Handler
		provider Provider
		requests int
	}{
		"on-demand at AWS":     {&fakeAWS{lifeCycle: "on-demand"}, Auto, 2},
		"standard at Google":   {&fakeGoogle{preemptible: "FALSE"}, Google, 1},
		"Proxmox is not asked": {&fakeAWS{lifeCycle: "spot"}, Proxmox, 0},
		"nor is this box":      {&fakeAWS{lifeCycle: "spot"}, Local, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := serve(t, c.handler)
				w := server.watch(Options{Provider: c.provider})
				time.Sleep(time.Hour)
				w.told(t, Notice{})
				if !w.over(t) {
					t.Error("the watcher goes on")
				}
				if got := server.requests(); len(got) != c.requests {
					t.Errorf("asked %q, want %d requests", got, c.requests)
				}
			})
		})
	}
}

// TestServiceThatComesLate: nothing answers at first, as in a machine whose network is
// not up yet.
func TestServiceThatComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, &fakeAWS{lifeCycle: "spot", action: `{"action": "stop", "time": "2000-01-01T02:00:00Z"}`})
		server.setDown(true)
		w := server.watch(Options{})
		time.Sleep(time.Hour)
		w.told(t, Notice{})
		server.mu.Lock()
		if n := len(server.dials); n < 20 || n > 50 {
			t.Errorf("%d connections tried in an hour in which none was made, want one for each cloud every 5 minutes", n)
		}
		if got := slices.Compact(slices.Clone(server.dials)); !slices.Equal(got, []string{"169.254.169.254:80"}) {
			t.Errorf("dialled %q", got)
		}
		server.mu.Unlock()
		server.setDown(false)
		time.Sleep(6 * time.Minute)
		w.told(t, Notice{Action: "stop", Deadline: time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC)})
	})
}

func TestOtherPeoplesServiceIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "TRUE") }))
		w := server.watch(Options{Provider: Google})
		time.Sleep(time.Minute)
		w.told(t, Notice{})
		if w.over(t) {
			t.Error("a stranger's answer was taken for Google's")
		}
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, handler := range []http.Handler{&fakeAWS{lifeCycle: "spot"}, &fakeGoogle{preemptible: "TRUE"}, http.NotFoundHandler()} {
			w := serve(t, handler).watch(Options{})
			time.Sleep(10*time.Second + 500*time.Millisecond)
			w.stop()
			if err := <-w.ended; !errors.Is(err, context.Canceled) {
				t.Errorf("Run() = %v, want the error of its context", err)
			}
		}
	})
}

func TestOnlyLinkLocalAddresses(t *testing.T) {
	for addr, ok := range map[string]bool{
		"169.254.169.254:80": true, "[fe80::1]:80": true,
		"127.0.0.1:80": false, "10.0.0.1:80": false, "[::1]:80": false, "8.8.8.8:80": false, "[::ffff:10.0.0.1]:80": false, "metadata:80": false,
	} {
		if err := onlyLinkLocal("tcp", addr, nil); (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
	}
	// The same by the whole way, and past a proxy that the environment names.
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	c := newClient(Options{})
	defer c.close()
	transport := c.http.Transport.(*http.Transport)
	if transport.Proxy != nil {
		t.Error("requests go through a proxy")
	}
	if _, err := transport.DialContext(t.Context(), "tcp", net.JoinHostPort("127.0.0.1", "1")); err == nil || !strings.Contains(err.Error(), "not a link-local address") {
		t.Errorf("dial of the loopback: %v", err)
	}
}

func TestOnlyTheAddressThatIsGiven(t *testing.T) {
	for addr, ok := range map[string]bool{"127.0.0.1:8080": true, "127.0.0.1:80": false, "169.254.169.254:80": false, "metadata:8080": false} {
		if err := only(netip.MustParseAddrPort("127.0.0.1:8080"))("tcp", addr, nil); (err == nil) != ok {
			t.Errorf("%s: %v", addr, err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		server := serve(t, &fakeAWS{lifeCycle: "spot", action: `{"action": "stop", "time": "2000-01-01T02:00:00Z"}`})
		w := server.watch(Options{Addr: netip.MustParseAddrPort("127.0.0.1:8080")})
		time.Sleep(time.Minute)
		w.told(t, Notice{Action: "stop", Deadline: time.Date(2000, 1, 1, 2, 0, 0, 0, time.UTC)})
		server.mu.Lock()
		defer server.mu.Unlock()
		if got := slices.Compact(slices.Clone(server.dials)); !slices.Equal(got, []string{"127.0.0.1:8080"}) {
			t.Errorf("dialled %q", got)
		}
	})
}

func TestParseProvider(t *testing.T) {
	for name, want := range map[string]Provider{"": Auto, "aws": AWS, "google": Google, "gcp": Google, "proxmox": Proxmox, "local": Local} {
		if got, err := ParseProvider(name); got != want || err != nil {
			t.Errorf("%q: %q, %v", name, got, err)
		}
	}
	if _, err := ParseProvider("azure"); err == nil {
		t.Error("azure is accepted")
	}
}
