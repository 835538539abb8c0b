package interruption

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeGoogle is the metadata server of one Compute Engine instance.
type fakeGoogle struct {
	preemptible string

	mu        sync.Mutex
	preempted bool
	etag      int
	changed   chan struct{} // closed at the next change; nil: none awaited
	broken    bool          // answers with an error
	hasty     bool          // does not hold a question
}

func (f *fakeGoogle) set(change func(*fakeGoogle)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
	f.etag++
	if f.changed != nil {
		close(f.changed)
		f.changed = nil
	}
}

func (f *fakeGoogle) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Metadata-Flavor") != "Google" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	w.Header().Set("Metadata-Flavor", "Google")
	switch r.URL.Path {
	case "/computeMetadata/v1/":
		fmt.Fprint(w, "instance/\n")
	case "/computeMetadata/v1/instance/scheduling/preemptible":
		fmt.Fprint(w, f.preemptible)
	case "/computeMetadata/v1/instance/preempted":
		f.answer(w, r)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *fakeGoogle) answer(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f.mu.Lock()
	if q.Get("wait_for_change") == "true" && q.Get("last_etag") == fmt.Sprint("e", f.etag) && !f.hasty {
		if f.changed == nil {
			f.changed = make(chan struct{})
		}
		changed := f.changed
		f.mu.Unlock()
		hold, _ := time.ParseDuration(q.Get("timeout_sec") + "s")
		select {
		case <-changed:
		case <-time.After(hold):
		case <-r.Context().Done():
			return
		}
		f.mu.Lock()
	}
	defer f.mu.Unlock()
	w.Header().Set("ETag", fmt.Sprint("e", f.etag))
	if f.broken {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(w, map[bool]string{true: "TRUE", false: "FALSE"}[f.preempted])
}

func TestGoogleNoticeArrivesAtOnce(t *testing.T) {
	for _, provider := range []Provider{Google, Auto} {
		synctest.Test(t, func(t *testing.T) {
			cloud := &fakeGoogle{preemptible: "TRUE"}
			server := serve(t, cloud)
			w := server.watch(Options{Provider: provider})
			time.Sleep(10*time.Minute + 30*time.Second)
			w.told(t, Notice{})
			if n := len(server.requests()); n > 16 {
				t.Errorf("%d requests in ten minutes, want one a minute: %q", n, slices.Compact(server.requests()))
			}
			cloud.set(func(f *fakeGoogle) { f.preempted = true })
			w.told(t, Notice{Action: "terminate"}) // no time has passed
			if !w.over(t) {
				t.Error("the watcher goes on after the notice")
			}
		})
	}
}

// TestGoogleNoticeBetweenTwoQuestions: the value changes while nobody asks, and the next
// question is answered at once, because it names what was known.
func TestGoogleNoticeBetweenTwoQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := &fakeGoogle{preemptible: "TRUE"}
		w := serve(t, cloud).watch(Options{})
		time.Sleep(time.Second) // it has asked once, and pauses
		cloud.set(func(f *fakeGoogle) { f.preempted = true })
		time.Sleep(time.Second)
		w.told(t, Notice{Action: "terminate"})
	})
}

func TestGoogleServerThatFailsOrIsHastyIsNotAskedInALoop(t *testing.T) {
	for name, spoil := range map[string]func(*fakeGoogle){
		"broken": func(f *fakeGoogle) { f.broken = true },
		"hasty":  func(f *fakeGoogle) { f.hasty = true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := &fakeGoogle{preemptible: "TRUE"}
				server := serve(t, cloud)
				w := server.watch(Options{})
				cloud.set(spoil)
				time.Sleep(time.Minute)
				w.told(t, Notice{})
				if n := len(server.requests()); n > 35 {
					t.Errorf("%d requests in a minute, want one in two seconds", n)
				}
				cloud.set(func(f *fakeGoogle) { f.broken, f.hasty, f.preempted = false, false, true })
				time.Sleep(2 * time.Second)
				w.told(t, Notice{Action: "terminate"})
			})
		})
	}
}
