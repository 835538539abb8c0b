package providererror

import "time"

// How much is published: the same thing about the same object once in repeatAfter, and
// perShard events of one shard in each minute.
const (
	repeatAfter = 5 * time.Minute
	perShard    = 10
)

// Budget says what is published. The zero value is ready; it is not safe for concurrent
// use.
type Budget struct {
	said   map[saying]time.Time
	minute map[string]minute
}

type saying struct{ object, message string }

type minute struct {
	began time.Time
	count int
}

// Spend reports whether a message about an object is to be published, and if so counts it.
func (b *Budget) Spend(shard, object, message string, now time.Time) bool {
	if b.said == nil {
		b.said, b.minute = map[saying]time.Time{}, map[string]minute{}
	}
	for s, at := range b.said {
		if now.Sub(at) >= repeatAfter {
			delete(b.said, s)
		}
	}
	s := saying{object, message}
	if _, repeated := b.said[s]; repeated {
		return false
	}
	m := b.minute[shard]
	if now.Sub(m.began) >= time.Minute {
		m = minute{began: now}
	}
	if m.count >= perShard {
		return false
	}
	m.count++
	b.minute[shard], b.said[s] = m, now
	return true
}
