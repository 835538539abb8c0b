package hub

import (
	"slices"
	"time"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// Sample is how large a group was from a moment on.
type Sample struct {
	Time      time.Time `json:"t"`
	Size      int32     `json:"size"`
	Running   int32     `json:"running"`
	Pending   int32     `json:"pending"`
	Unhealthy int32     `json:"unhealthy"`
	Draining  int32     `json:"draining"`
}

// sameCounts reports whether nothing but the time differs.
func (s Sample) sameCounts(other Sample) bool {
	s.Time = other.Time
	return s == other
}

// sample notes the size of a group, if it is another one than before.
func (h *Hub) sample(name string, g *nstancev1.GroupStatus) {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.states[name]
	st.histories[g.GetKey()] = extended(st.histories[g.GetKey()], Sample{
		h.opts.Now().UTC(), g.GetSize(), g.GetActualSize(), g.GetPending(), g.GetUnhealthy(), g.GetDraining(),
	})
}

// extended adds a sample to a history and forgets what is too old. The newest of those
// stays, for it says how large the group was when the time that is shown began.
func extended(history []Sample, s Sample) []Sample {
	if len(history) > 0 && history[len(history)-1].sameCounts(s) {
		return history
	}
	history = append(history, s)
	oldest := max(0, len(history)-maxSamples)
	for oldest+1 < len(history) && s.Time.Sub(history[oldest+1].Time) > samplesFor {
		oldest++
	}
	return slices.Delete(history, 0, oldest)
}

// forgetHistories removes those of groups that are gone, once all of it is too old.
func (st *state) forgetHistories(now time.Time) {
	for key, history := range st.histories {
		if _, there := st.tables[groups].rows[key]; !there && now.Sub(history[len(history)-1].Time) > samplesFor {
			delete(st.histories, key)
		}
	}
}

// History returns how large a group of a shard was, the oldest first; nothing of a group
// that is not known.
func (h *Hub) History(shard, group string) []Sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	st := h.states[shard]
	if st == nil {
		return nil
	}
	return slices.Clone(st.histories[group])
}
