package agents

import (
	"strings"
	"unique"

	"google.golang.org/protobuf/proto"

	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
	"nstance.dev/server/refusal"
)

// report takes a health report: the path that all agents are on all the time.
func (a *Service) report(s *stream, rep *nstancev1.HealthReport) error {
	if err := s.checkOwner(rep.InstanceId); err != nil {
		return err
	}
	if rep.Count != 0 && rep.Count <= s.heard.count {
		return nil // it was sent before one that has arrived
	}
	s.heard.count = rep.Count
	metrics, err := proto.Marshal(rep.Metrics)
	if err != nil {
		return refusal.New(refusal.InvalidArgument, "INVALID_REPORT", "metrics: they are not valid")
	}
	a.opts.Metrics.reports.Inc()
	s.heard.hash = unique.Make(rep.ConfigHash)
	rep.ConfigHash = s.heard.hash.Value()
	heard, notice := cache.Health{
		ReceivedAt: a.opts.Now(), Count: rep.Count, AgentVersion: printable(rep.Version), Uptime: printable(rep.Uptime),
		ConfigHash: printable(rep.ConfigHash), Metrics: metrics, Connected: true,
	}, noticeOf(rep.TerminationNotice)
	a.opts.Cache.UpdateHealth(s.id, func(h *cache.Health) {
		keepNotice(&heard, *h, notice)
		*h = heard
	})
	if notice.Given() {
		a.opts.Liveness.Notice(s.id, notice)
	}
	a.opts.Liveness.Reported(s.id, rep.Count == 0)
	a.opts.Files.Heard(s.id, rep)
	return nil
}

// printable cuts text of an agent down to what may stand in a log or a status.
func printable(s string) string {
	const most = 64
	return strings.Map(func(c rune) rune { // no copy of what is clean, as it nearly always is
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}, s[:min(len(s), most)])
}

// noticeOf reads the notice in a report, if there is one.
func noticeOf(n *nstancev1.TerminationNotice) fleet.Notice {
	if n.GetAction() == "" {
		return fleet.Notice{}
	}
	notice := fleet.Notice{Action: printable(n.Action)}
	if n.Deadline.IsValid() {
		notice.Deadline = n.Deadline.AsTime()
	}
	return notice
}

// keepNotice notes what a report says of an interruption.
func keepNotice(to *cache.Health, before cache.Health, notice fleet.Notice) {
	if !notice.Given() {
		return
	}
	to.TerminationAction, to.TerminationDeadline = notice.Action, notice.Deadline
	if to.FirstNoticeAt = before.FirstNoticeAt; to.FirstNoticeAt.IsZero() {
		to.FirstNoticeAt = to.ReceivedAt
	}
}
