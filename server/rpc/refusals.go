package rpc

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"nstance.dev/server/conns"
)

// Bounds of what strangers can write into the log.
const (
	refusalEvery   = time.Second // a line of one source
	refusalsAtOnce = 20          // lines of all sources in a second
)

// refusalLog says which refusals are logged: of each source one a second, and of all
// sources together a few. The others are counted, and the next line says how many they
// were. Sources are kept in two generations, as those of attempts are.
type refusalLog struct {
	now func() time.Time

	mu         sync.Mutex
	all        *rate.Limiter
	young, old map[netip.Prefix]*refused
	others     int // of sources that found all lines used up
}

type refused struct {
	logged time.Time
	missed int // since then
}

func newRefusalLog(now func() time.Time) *refusalLog {
	return &refusalLog{now: now, all: rate.NewLimiter(refusalsAtOnce, refusalsAtOnce), young: map[netip.Prefix]*refused{}}
}

// log reports whether a refusal of a source is to be logged, and how many were not
// logged since the last one that was: of this source, and of those that had no line.
func (r *refusalLog) log(source netip.Addr) (ok bool, missed int) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.of(conns.Source(source))
	switch {
	case now.Sub(of.logged) < refusalEvery:
		of.missed++
		return false, 0
	case !r.all.AllowN(now, 1):
		r.others++
		return false, 0
	}
	missed = of.missed + r.others
	of.logged, of.missed, r.others = now, 0, 0
	return true, missed
}

// of needs mu. What a forgotten source had missed goes to the others.
func (r *refusalLog) of(source netip.Prefix) *refused {
	if of, ok := r.young[source]; ok {
		return of
	}
	of, ok := r.old[source]
	if !ok {
		of = &refused{}
	}
	delete(r.old, source)
	if len(r.young) >= sourcesRemembered/2 {
		for _, gone := range r.old {
			r.others += gone.missed
		}
		r.young, r.old = map[netip.Prefix]*refused{}, r.young
	}
	r.young[source] = of
	return of
}
