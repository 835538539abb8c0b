package demand

const (
	coolFirst = 180_000
	coolMost  = 1_800_000
	coolQuota = 600_000
	joinSpan  = 1_800_000
	joinsMost = 3
	blobPause = 300_000
)

// fail notes that a machine will be of no use, and what follows for what is bought next.
func (w *world) fail(slot int32, why Failure) {
	m := w.fleet.at(slot)
	if m.cluster >= 0 {
		c := w.clusters[m.cluster]
		if why == NeverJoined || why == FailureOther {
			c.guard.loop.Failed(w.now)
		}
		c.flags.event = true
	}
	if m.offer != nil {
		m.offer.fail(why, w.now)
	}
	w.become(m, Failed)
	w.free(slot)
	m.times.failed = w.now
	w.fleet.watch(slot)
}

// fail lets an offer cool down after a failure of one of its machines.
func (o *offer) fail(why Failure, now instant) {
	switch why {
	case NoCapacity:
		if now < o.coolUntil {
			return // a create of the same try
		}
		o.coolFor = min(max(coolFirst, 2*o.coolFor), coolMost)
		o.coolUntil = now + o.coolFor
	case OverQuota:
		o.coolUntil = max(o.coolUntil, now+coolQuota)
	case Lost:
	default:
		o.joinFailures.Add(now, 1)
		if o.joinFailures.Sum(now, joinSpan) >= joinsMost {
			o.coolUntil = max(o.coolUntil, now+coolMost)
		}
	}
}

// succeed ends what a failure of the offer has caused.
func (o *offer) succeed() { o.coolFor, o.coolUntil = 0, 0 }
