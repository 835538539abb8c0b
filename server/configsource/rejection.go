package configsource

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// rejection is the stored version of the configuration that is not in force, and why.
// The zero value is none. It is safe for concurrent use.
type rejection struct {
	mu        sync.Mutex
	etag, why string
}

func (r *rejection) set(etag, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.etag, r.why = etag, why
}

func (r *rejection) get() (etag, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.etag, r.why
}

// metric is 1 while there is one.
func (r *rejection) metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "nstance_config_rejected",
		Help: "1 while the stored configuration is invalid or not applicable, and the last good one is in force.",
	}, func() float64 {
		if etag, _ := r.get(); etag != "" {
			return 1
		}
		return 0
	})
}
