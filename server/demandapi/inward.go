package demandapi

import (
	"fmt"
	"time"

	"nstance.dev/protos/needs"
	demandpb "nstance.dev/protos/nstance/demand/v1alpha1"
	"nstance.dev/protos/rollup"
	"nstance.dev/server/demand"
	"nstance.dev/server/demand/match"
	"nstance.dev/server/demand/vector"
	"nstance.dev/server/demandloop"
)

// Bounds of messages; what is beyond them is dropped whole.
const (
	mostReports    = 200
	mostRefusals   = 1000
	longestName    = 253
	longestText    = 4096
	longestReason  = 256 // that a Node is not ready
	mostBlob       = 1 << 20
	longestTTL     = 10 * time.Minute
	mostAllocation = 64 // resources of a Node
)

// received is a roll-up that was joined and checked, in the terms of the loop.
func received(tenant string, r *rollup.Rollup, rows []*needs.Row, overheads []needs.Overhead) demandloop.RollupReceived {
	m := demandloop.RollupReceived{Sequence: r.Sequence, Generated: moment(r.GeneratedUnixMs), SameAs: r.SameAs != 0}
	for _, row := range rows {
		p := &row.Profile
		out := demand.Row{
			Key: demand.Key(row.Key(tenant)), Fingerprint: row.Fingerprint, Terms: terms(p.Requirements, p.Alternatives, p.Tolerations),
			Priority: p.Priority, Interruption: demand.Bucket(p.Interruption), Reclamation: demand.Bucket(p.Reclamation),
			Group: row.Group, Stuck: row.Stuck, AllOrNothing: row.AllOrNothing, Aggregate: amounts(row.Aggregate), MinUnit: amounts(row.MinUnit),
		}
		for _, s := range p.Spread {
			out.Spread = append(out.Spread, demand.Spread{TopologyKey: s.TopologyKey, MaxSkew: int64(s.MaxSkew)})
		}
		m.Rows = append(m.Rows, out)
	}
	for _, o := range overheads {
		m.Overheads = append(m.Overheads, demand.Overhead{Terms: terms(o.Requirements, o.Alternatives, o.Tolerations), Resources: amounts(o.Resources)})
	}
	return m
}

func amounts(list []needs.Amount) (all []vector.Amount) {
	for _, a := range list {
		all = append(all, vector.Amount(a))
	}
	return all
}

// terms are those of a profile. Packages needs and match number operators and effects alike.
func terms(all []needs.Requirement, alternatives [][]needs.Requirement, tolerations []needs.Toleration) match.Terms {
	t := match.Terms{Requirements: requirements(all)}
	for _, a := range alternatives {
		t.Alternatives = append(t.Alternatives, requirements(a))
	}
	for _, o := range tolerations {
		t.Tolerations = append(t.Tolerations, match.Toleration{Key: o.Key, Exists: o.Exists, Value: o.Value, Effect: match.Effect(o.Effect)})
	}
	return t
}

func requirements(list []needs.Requirement) (all []match.Requirement) {
	for _, r := range list {
		all = append(all, match.Requirement{Key: r.Key, Op: match.Operator(r.Operator), Values: r.Values})
	}
	return all
}

// blob is an answer to a request. An error says which rule it breaks, and nothing of its data (S14).
func blob(m *demandpb.BootstrapBlobResponse) (demandloop.Blob, error) {
	ttl := time.Duration(m.GetTtlSeconds()) * time.Second
	switch data := len(m.GetUserData()); {
	case !short(m.GetRequestId(), longestName):
		return demandloop.Blob{}, fmt.Errorf("request_id: must be 1 to %d characters", longestName)
	case (data == 0) == (m.GetError() == ""):
		return demandloop.Blob{}, fmt.Errorf("user_data and error: exactly one must be set")
	case data > mostBlob:
		return demandloop.Blob{}, fmt.Errorf("user_data: must be at most %d bytes, and has %d", mostBlob, data)
	case ttl < 0 || ttl > longestTTL:
		return demandloop.Blob{}, fmt.Errorf("ttl_seconds: must be 0 to %d", int(longestTTL.Seconds()))
	case len(m.GetError()) > longestText:
		return demandloop.Blob{}, fmt.Errorf("error: must be at most %d characters", longestText)
	}
	return demandloop.Blob{Request: m.GetRequestId(), Error: m.GetError(), UserData: m.GetUserData(), TTL: ttl}, nil
}

// answer is what an operator says of an instruction.
func answer(m *demandpb.ReclaimAck) (demandloop.ReclaimAnswer, error) {
	a := demandloop.ReclaimAnswer{Instruction: m.GetInstructionId(), Started: int(m.GetNodesStarted())}
	if !short(a.Instruction, longestName) || a.Started < 0 || len(m.GetNodesRefused()) > mostRefusals {
		return a, fmt.Errorf("instruction_id must be 1 to %d characters, nodes_started at least 0, nodes_refused at most %d", longestName, mostRefusals)
	}
	for i, r := range m.GetNodesRefused() {
		if !short(r.GetMachineId(), longestName) || len(r.GetReason()) > longestText || r.GetRetryAfterSeconds() < 0 {
			return a, fmt.Errorf("nodes_refused[%d]: machine_id, reason or retry_after_seconds is not valid", i)
		}
		a.Refused = append(a.Refused, demandloop.Refusal{
			Machine: r.GetMachineId(), Reason: r.GetReason(), RetryAfter: time.Duration(r.GetRetryAfterSeconds()) * time.Second,
		})
	}
	return a, nil
}

// reports are what an operator says of Nodes. Of a machine that is named twice, the last one counts.
func reports(m *demandpb.NodeReportBatch) (demandloop.NodeReports, error) {
	if len(m.GetReports()) > mostReports {
		return nil, fmt.Errorf("reports: must be at most %d, and are %d", mostReports, len(m.GetReports()))
	}
	at := make(map[string]int, len(m.GetReports()))
	all := make(demandloop.NodeReports, 0, len(m.GetReports()))
	for i, r := range m.GetReports() {
		out, err := report(r)
		if err != nil {
			return nil, fmt.Errorf("reports[%d]: %w", i, err)
		}
		if before, twice := at[out.Machine]; twice {
			all[before] = out
			continue
		}
		at[out.Machine] = len(all)
		all = append(all, out)
	}
	return all, nil
}

func report(r *demandpb.NodeReport) (demandloop.NodeReport, error) {
	out := demandloop.NodeReport{
		Machine: r.GetMachineId(), Node: r.GetNodeName(), NodeUID: r.GetNodeUid(), Ready: r.GetReady(), Observed: moment(r.GetObservedUnixMs()),
		NotReady: r.GetNotReadyReason(), Drained: r.GetDrained(), Instruction: r.GetInstructionId(), Error: r.GetError(), RemainingPods: int(r.GetRemainingPods()),
	}
	switch {
	case !short(out.Machine, longestName):
		return out, fmt.Errorf("machine_id: must be 1 to %d characters", longestName)
	case len(out.Node) > longestName || len(out.NodeUID) > longestName || len(out.Instruction) > longestName || len(out.Error) > longestText || len(out.NotReady) > longestReason:
		return out, fmt.Errorf("node_name, node_uid, instruction_id, error or not_ready_reason is too long")
	case out.RemainingPods < 0 || r.EvictablePods != nil && r.GetEvictablePods() < 0:
		return out, fmt.Errorf("remaining_pods and evictable_pods: must be at least 0")
	case len(r.GetAllocatable()) > mostAllocation:
		return out, fmt.Errorf("allocatable: must be at most %d", mostAllocation)
	}
	for i, a := range r.GetAllocatable() {
		if !short(a.GetName(), longestName) || a.GetAmount() <= 0 {
			return out, fmt.Errorf("allocatable[%d]: must have a name and an amount above 0", i)
		}
		out.Allocatable = append(out.Allocatable, vector.Amount{Name: a.GetName(), Amount: a.GetAmount()})
	}
	if r.EvictablePods != nil {
		pods := int(r.GetEvictablePods())
		out.EvictablePods = &pods
	}
	return out, nil
}

func short(s string, most int) bool { return s != "" && len(s) <= most }

// moment reads milliseconds since 1970; zero: not said.
func moment(ms int64) time.Time {
	if ms <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}
