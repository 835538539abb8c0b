package peers

import (
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"nstance.dev/server/lease"
)

// HandlerOptions are what a server answers with. All but the locks may be nil.
type HandlerOptions struct {
	// Shard and Cluster return the document under which this server leads at
	// this moment; false while it does not. A nil one never leads.
	Shard, Cluster func() (lease.Document, bool)

	// ETags are those that the shard's answer to a standby carries. They change with
	// what any tenant does, so nobody else is told (S12).
	ETags func() ETags

	// Standby reports whether a caller is another server of the shard. Only such a
	// one is told the etags, and only what it says of the provider reaches Witness.
	Standby func(r *http.Request) bool
	Witness *Witness

	// Now dates what a standby says; time.Now.
	Now func() time.Time
}

// workedHeader says how long ago the caller's own probe of the provider worked,
// as a duration such as 12s. It is absent if the last probe did not.
const workedHeader = "Nstance-Provider-Worked"

// Handler answers GET and HEAD for both locks: 200 with an [Answer] where this
// server holds the lock, else 503.
func Handler(o HandlerOptions) http.Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+ShardPath, func(w http.ResponseWriter, r *http.Request) {
		if o.Standby == nil || !o.Standby(r) {
			o.answer(w, o.Shard, nil)
			return
		}
		o.listen(r)
		o.answer(w, o.Shard, o.ETags)
	})
	mux.HandleFunc("GET "+ClusterPath, func(w http.ResponseWriter, _ *http.Request) {
		o.answer(w, o.Cluster, nil)
	})
	return mux
}

// listen takes note of what a standby says of the provider.
func (o *HandlerOptions) listen(r *http.Request) {
	if o.Witness == nil {
		return
	}
	ago, err := time.ParseDuration(r.Header.Get(workedHeader))
	if err != nil || ago < 0 {
		return
	}
	o.Witness.note(o.Now().Add(-ago))
}

func (o *HandlerOptions) answer(w http.ResponseWriter, held func() (lease.Document, bool), etags func() ETags) {
	var doc lease.Document
	var leads bool
	if held != nil {
		doc, leads = held()
	}
	w.Header().Set("Cache-Control", "no-store")
	if !leads {
		http.Error(w, "not leader", http.StatusServiceUnavailable)
		return
	}
	answer := Answer{Document: doc}
	if etags != nil {
		answer.ETags = etags()
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the caller may have gone
}

// Witness remembers when a standby last said that it can reach the provider. The
// zero Witness has heard nothing. It is safe for concurrent use.
type Witness struct {
	mu     sync.Mutex
	worked time.Time
}

func (w *Witness) note(at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if at.After(w.worked) {
		w.worked = at
	}
}

// Worked is when a standby's probe last worked, by this server's clock; zero if
// none ever did.
func (w *Witness) Worked() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.worked
}
