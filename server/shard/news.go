package shard

import (
	"time"

	"nstance.dev/protos/identity"
	nstancev1 "nstance.dev/protos/nstance/v1"
	"nstance.dev/server/cache"
	"nstance.dev/server/fleet"
)

// newsPause is how long a group waits to be planned after one of its agents has
// first reported: after a change of leader all of them come at once, and make one
// plan a second, not one each.
const newsPause = time.Second

// heardOf adds to instances, in place, what this leader heard of their agents, and whether
// it has asked for their VMs yet. It is lost with the leader: the agents tell it anew, and
// any that is pending may have been asked for.
func (h *health) heardOf(ins []fleet.Instance) []fleet.Instance {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range ins {
		if s := h.signs[ins[i].ID]; s != nil {
			ins[i].Proved, ins[i].Notice, ins[i].Said = s.reported, s.notice, s.said
			if ins[i].State == fleet.Pending && s.waiting && s.sent.IsZero() {
				ins[i].Power = fleet.Unasked
			}
		}
	}
	return ins
}

// firstReport has the group of an instance planned that this leader had no report of
// before: somebody may wait for that.
func (h *health) firstReport(id identity.ID) {
	if row, ok := h.r.instances.Known(id); ok {
		h.r.queue.AddAfter(row.Group, newsPause)
	}
}

// noticed takes note that the provider takes the VM back. The group is planned at
// once: the replacement has little time (F34). An agent repeats the notice in each
// report; only the first one is news, and one with an earlier deadline.
func (h *health) noticed(id identity.ID, notice fleet.Notice) {
	h.mu.Lock()
	s := h.of(id)
	news := !s.notice.Given() || notice.Sooner(s.notice)
	if news {
		s.notice = notice
	}
	h.mu.Unlock()
	row, ok := h.r.instances.Known(id)
	if !news || !ok {
		return
	}
	h.r.log.Warn("the provider takes a machine back", "instance", id, "tenant", row.Group.Tenant, "group", row.Group.Name,
		"action", notice.Action, "deadline", notice.Deadline)
	h.r.Enqueue(row.Group)
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
