package agents

import (
	"time"

	"golang.org/x/time/rate"

	nstancev1 "nstance.dev/protos/nstance/v1"
)

// What one agent may say on its stream (S22). A message that comes faster waits, and those
// behind it wait in the network, so nothing is lost. The shortest interval that an agent
// can be set to is half a second.
const (
	reportsPerSecond = 2 // and as many statuses of the host
	reportBurst      = 5
	othersPerSecond  = 1 // keys and renewals
	otherBurst       = 5
	renewalEvery     = time.Minute // a certificate; renewals beyond that are refused
	renewalBurst     = 2
)

// pace says when the next message of an agent is dealt with. Durations are those of the
// process's own clock.
type pace struct {
	reports, statuses, others, renewals *rate.Limiter
}

// newPace returns the pace of an agent that was told to report at an interval; unpaced:
// none at all.
func newPace(interval time.Duration, unpaced bool) pace {
	if unpaced {
		free := rate.NewLimiter(rate.Inf, 0)
		return pace{free, free, free, free}
	}
	reports := rate.Limit(reportsPerSecond)
	if interval > 0 {
		reports = max(reports, 2/rate.Limit(interval.Seconds()))
	}
	return pace{
		reports:  rate.NewLimiter(reports, reportBurst),
		statuses: rate.NewLimiter(reportsPerSecond, reportBurst),
		others:   rate.NewLimiter(othersPerSecond, otherBurst),
		renewals: rate.NewLimiter(rate.Every(renewalEvery), renewalBurst),
	}
}

// delay is how long a message has to wait, which is then taken to be dealt with.
func (p pace) delay(msg *nstancev1.AgentMessage) time.Duration {
	switch msg.Message.(type) {
	case *nstancev1.AgentMessage_Report:
		return p.reports.Reserve().Delay()
	case *nstancev1.AgentMessage_MachineStatus:
		return p.statuses.Reserve().Delay()
	}
	return p.others.Reserve().Delay()
}
