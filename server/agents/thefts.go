package agents

import (
	"maps"
	"sync"
	"time"

	"nstance.dev/protos/identity"
	"nstance.dev/server/cache"
)

// theft is a sign that somebody poses as an instance: two have what only one may have
// (F40). It is what the error event says.
type theft string

// The signs of theft.
const (
	alarmUsedNonce  theft = "the registration nonce of this instance was used a second time, with another key"
	alarmSuperseded theft = "a certificate of this instance was shown that has been superseded twice: two machines have its identity"
	alarmForeignKey theft = "a certificate of this instance was shown whose key is not the instance's"
	alarmNewKey     theft = "a renewal of this instance's certificate was asked for another key, and refused"
)

// label is the sign in the metric.
func (t theft) label() string {
	switch t {
	case alarmUsedNonce:
		return labelUsedNonce
	case alarmSuperseded:
		return labelSuperseded
	case alarmForeignKey:
		return labelForeignKey
	}
	return labelNewKey
}

const (
	// alarmEvery is how often one sign of one instance is told: whoever was refused comes
	// again and again.
	alarmEvery       = 10 * time.Minute
	alarmsRemembered = 4096
)

// thefts remembers which signs were told. The zero value is ready.
type thefts struct {
	mu   sync.Mutex
	told map[alarmKey]time.Time
}

type alarmKey struct {
	id   identity.ID
	sign theft
}

// due reports whether a sign is to be told now, and takes note of it.
func (t *thefts) due(k alarmKey, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Before(t.told[k].Add(alarmEvery)) {
		return false
	}
	if len(t.told) >= alarmsRemembered {
		maps.DeleteFunc(t.told, func(_ alarmKey, at time.Time) bool { return !now.Before(at.Add(alarmEvery)) })
	}
	if t.told == nil {
		t.told = map[alarmKey]time.Time{}
	}
	if len(t.told) < alarmsRemembered {
		t.told[k] = now
	}
	return true
}

// alarm tells of a sign of theft: in the log, as an error event that names the instance,
// and in a metric, which counts each one.
func (a *Service) alarm(row cache.Instance, sign theft, args ...any) {
	a.opts.Metrics.alarm(sign.label())
	if !a.thefts.due(alarmKey{row.ID, sign}, a.opts.Now()) {
		return
	}
	a.opts.Log.Error("instance identity may be in use twice", append([]any{
		"instance", row.ID, "tenant", row.Group.Tenant, "group", row.Group.Name, "reason", string(sign),
		"remedy", "find the second machine, such as a copy of the disk; if there is none, the key was stolen: nstance-admin instance delete " + row.ID.String(),
	}, args...)...)
	a.opts.Failed(row, "auth", string(sign))
}
