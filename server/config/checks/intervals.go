package checks

import (
	"time"

	"nstance.dev/server/config/document"
	"nstance.dev/server/config/jsonc"
)

// shortest is the least interval that a loop may have: below it a server would
// do little else.
const shortest = 100 * time.Millisecond

func (c serverCheck) intervals(path jsonc.Path) {
	s := &c.cfg.Server
	c.between(path.Key("request_timeout"), s.RequestTimeout, shortest, time.Hour)
	c.between(path.Key("health_check_interval"), s.HealthCheckInterval, shortest, 24*time.Hour)
	c.between(path.Key("image_refresh_interval"), s.ImageRefreshInterval, time.Minute, 0)
	c.between(path.Key("shutdown_timeout"), s.ShutdownTimeout, shortest, time.Hour)
	gc := path.Key("garbage_collection")
	c.between(gc.Key("interval"), s.GarbageCollection.Interval, shortest, 24*time.Hour)
	c.between(gc.Key("registration_timeout"), s.GarbageCollection.RegistrationTimeout, time.Second, 24*time.Hour)
	if ttl := s.Registration.NonceTTL; ttl != 0 {
		c.between(path.Key("registration").Key("nonce_ttl"), ttl, s.GarbageCollection.RegistrationTimeout.Std(), 48*time.Hour)
	}
	e := s.Expiry
	if e.EligibleAge > 0 && e.ForcedAge > 0 && e.EligibleAge >= e.ForcedAge {
		c.add(path.Key("expiry").Key("forced_age"), e.ForcedAge.String()+" is not above eligible_age, "+e.EligibleAge.String(),
			"leave machines time between the two")
	}
	c.jitter(path.Key("error_exit_jitter"), s.ErrorExitJitter)
}

// longestJitter bounds the wait before a process ends: until then nothing is served.
const longestJitter = time.Hour

func (c serverCheck) jitter(path jsonc.Path, j document.Jitter) {
	low, high := path.Key("min_delay"), path.Key("max_delay")
	c.between(low, j.MinDelay, 0, longestJitter)
	c.between(high, j.MaxDelay, 0, longestJitter)
	if j.MinDelay <= j.MaxDelay || c.silent(low) || c.silent(high) {
		return
	}
	message := "min_delay " + j.MinDelay.String() + " is above max_delay " + j.MaxDelay.String()
	switch {
	case !c.doc.Has(high):
		c.add(low, message+", its default", "set max_delay too, or lower this")
	case !c.doc.Has(low):
		c.add(high, message+"; min_delay has its default", "set min_delay too, or raise this")
	default:
		c.add(path, message, "swap them")
	}
}

// The limits of a lease, as package lease has them; a test of package serve holds
// the two together.
const (
	minLease    = 5 * time.Second
	minLeaseGCS = 10 * time.Second // an object there takes about one write a second
	maxLease    = time.Hour
)

func (c serverCheck) election(path jsonc.Path, e document.Election) {
	least := minLease
	if c.opts.Storage == "gcs" {
		least = minLeaseGCS
	}
	at, lease := path.Key("leader_timeout"), e.LeaderTimeout.Std()
	switch down := lease.Truncate(time.Second); {
	case lease < least || lease > maxLease:
		c.between(at, e.LeaderTimeout, least, maxLease)
		return // the others go by it
	case lease != down:
		c.add(at, e.LeaderTimeout.String()+" is not a number of whole seconds", "write "+down.String()+" or "+(down+time.Second).String())
		return
	}
	c.between(path.Key("frequent_interval"), e.FrequentInterval, shortest, lease/3)
	c.between(path.Key("infrequent_interval"), e.InfrequentInterval, shortest, 0)
	c.between(path.Key("peer_interval"), e.PeerInterval, 10*time.Millisecond, lease/10)
}
